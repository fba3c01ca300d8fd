"""A core small enough to test partition handlers on: real topics and logs in memory, answers kept in a list."""

import itertools
from typing import Any

from kafka_offsets.broker.answers import Answers
from kafka_offsets.broker.api import fetch, log_offsets, produce, transactions
from kafka_offsets.broker.api.fetch_sessions import FetchSessions
from kafka_offsets.broker.api.table import SERVED
from kafka_offsets.broker.config.group import GroupConfigs
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.context import Context
from kafka_offsets.broker.coordination.transactions import TransactionCoordinator
from kafka_offsets.broker.durability import Durability
from kafka_offsets.broker.growth import Growth
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.broker.response_budget import ResponseBudget
from kafka_offsets.broker.scheduler import Scheduler
from kafka_offsets.broker.workers import Workers
from kafka_offsets.clock import ManualClock, Now
from kafka_offsets.coordinator.result import RequestContext
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import Parts
from kafka_offsets.protocol.records import NewRecord, encode_batch, read_records
from kafka_offsets.storage.data_directory import DataDirectory
from kafka_offsets.storage.files import Files, MemoryFiles

KNOWN_EPOCH = 1_700_000_000_000
"""What the wall clock of a new ManualClock shows."""

HANDLERS = {
    "ProduceRequest": produce.produce,
    "InitProducerIdRequest": transactions.init_producer_id,
    "FetchRequest": fetch.fetch,
    "ListOffsetsRequest": log_offsets.list_offsets,
    "OffsetForLeaderEpochRequest": log_offsets.offset_for_leader_epoch,
    "DeleteRecordsRequest": log_offsets.delete_records,
}


class KeptAnswers(Answers):
    """Keeps the answers, as their clients read them, and what is to be closed. Nothing is released."""

    def __init__(self, responses: ResponseBudget) -> None:
        super().__init__(responses, SERVED.by_key.__getitem__)
        self.kept: list[tuple[RequestContext, Any]] = []
        self.closed: list[Any] = []
        self.silent = 0

    def reply(self, context: RequestContext, response: Any) -> None:
        """Keep an answer, after making sure that it can be encoded."""
        messages.encode(response, context.api_version)
        self.kept.append((context, response))

    def reply_encoded(self, context: RequestContext, answer: Parts | bytes) -> None:
        """Keep an answer as its client reads it, or count a request without one."""
        if isinstance(answer, bytes):
            self.silent += 1
            return
        frame, tagged = b"".join(answer.pieces), context.codecs.has_tagged_response_header
        response = messages.find("FetchResponse")
        self.kept.append((context, messages.decode(response, frame, context.api_version, 8 + tagged)[0]))

    def close_connection(self, connection: Any) -> None:
        """Keep what was to be closed."""
        self.closed.append(connection)


class _AtOnce(Durability):
    """Nothing is synced."""

    def reply_when_durable(self, context: RequestContext, response: Any, logs: Any) -> None:
        """Answer at once."""
        self._answers.reply(context, response)


class PartitionCore:
    """The parts of a broker that partition handlers use. `turn` ends a turn; `answers` holds (context, response)."""

    def __init__(self, files: Files | None = None, clock: ManualClock | None = None, **config: Any) -> None:
        self.config = Config.load({name.replace("_", "."): value for name, value in config.items()})
        self.clock = clock if clock is not None else ManualClock()
        self.scheduler = Scheduler(self.clock)
        self.files = files if files is not None else MemoryFiles()
        self.directory = DataDirectory(self.files)
        self.topics = Topics(self.directory, self.config)
        self.kept = KeptAnswers(ResponseBudget(self.config.queued_max_response_bytes))
        self.growth = Growth()
        self._numbers = itertools.count()
        no_groups: Any = None
        durability = _AtOnce(
            self.config, self.scheduler, Workers(), self.kept, self.growth, lambda logs: None
        )
        self.context = Context(
            config=self.config,
            clock=self.clock,
            scheduler=self.scheduler,
            apis=SERVED,
            answers=self.kept,
            directory=self.directory,
            topics=self.topics,
            growth=self.growth,
            durability=durability,
            group_configs=GroupConfigs(self.directory, self.config),
            fetch_sessions=FetchSessions(self.config.max_incremental_fetch_session_cache_slots),
            runtime=no_groups,
            shards=no_groups,
            loader=no_groups,
            transactions=TransactionCoordinator(
                self.config, self.topics, self.scheduler, self.growth, durability, no_groups
            ),
            on_topic_deleted=lambda name: None,
            node_id=self.directory.node_id,
            cluster_id=self.directory.cluster_id,
            broker_ids=(self.directory.node_id,),
        )

    @property
    def answers(self) -> list[tuple[RequestContext, Any]]:
        """The answers, in the order in which they came."""
        return self.kept.kept

    def turn(self) -> None:
        """End a turn of the loop."""
        grown = dict(self.growth.partitions)
        self.growth.partitions.clear()
        fetch.wake(self.context, grown, self.clock.now())

    def advance(self, ms: int) -> None:
        """Let time pass and carry out what is due."""
        self.scheduler.run_due(self.clock.advance(ms))

    @property
    def waiting_deadlines(self) -> int:
        """How many deadlines have not been cancelled."""
        return sum(deadline.callback is not None for _, _, deadline in self.scheduler._heap)

    def send(self, request: Any, version: int, connection: object = "connection") -> Any:
        """Hand a request to its handler; return the answer that came at once, or None.

        The request takes the way over its encoding, so that it is what a version can carry.
        """
        decoded, _ = messages.decode(type(request), messages.encode(request, version), version)
        codecs = SERVED.by_key[type(request).SCHEMA.number].codecs(version)
        number = next(self._numbers)
        context = RequestContext(connection, 0, version, number, "client", "host", decoded, codecs)
        before = len(self.answers)
        handle: Any = HANDLERS[type(request).__name__]
        response = handle(self.context, decoded, context, self.now)
        if response is not None:
            self.kept.reply(context, response)
        return self.answers[-1][1] if len(self.answers) > before else None

    @property
    def now(self) -> Now:
        """The time."""
        return self.clock.now()

    def restart(self, *, clean: bool = True) -> "PartitionCore":
        """Return a new core on the same files."""
        if clean:
            self.directory.close()
        else:
            self.directory._lock.release()
        return PartitionCore(self.files, self.clock)

    # -- requests in few words

    def produce(
        self,
        topic: str,
        records: bytes | bytearray | None,
        *,
        index: int = 0,
        version: int = 9,
        **fields: Any,
    ) -> Any:
        """Produce to one partition; return its part of the answer, None when there is no answer."""
        request = messages.ProduceRequest
        id_ = fields.pop("topic_id", self.topics.id_and_partition_count(topic)[0])
        data = request.PartitionProduceData(index, None if records is None else bytes(records))
        fields = {"acks": -1, "timeout_ms": 1000} | fields
        response = self.send(
            request(topic_data=[request.TopicProduceData(topic, id_, [data])], **fields), version
        )
        return None if response is None else response.responses[0].partition_responses[0]

    def fetch(
        self, *asked: tuple[Any, ...], version: int = 11, connection: object = "connection", **fields: Any
    ) -> Any:
        """Fetch from (topic, partition, offset[, max bytes[, leader epoch[, last fetched epoch]]]).

        Returns the answer or None.

        Without `max_wait_ms` the answer comes at once.
        """
        request = messages.FetchRequest
        topics = []
        for topic, index, offset, *rest in asked:
            max_bytes = rest[0] if rest else 1 << 20
            epoch = rest[1] if len(rest) > 1 else -1
            partition = request.FetchPartition(
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=max_bytes,
                current_leader_epoch=epoch,
                last_fetched_epoch=rest[2] if len(rest) > 2 else -1,
            )
            topics.append(
                request.FetchTopic(topic, self.topics.id_and_partition_count(topic)[0], [partition])
            )
        fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 25} | fields
        return self.send(request(topics=topics, **fields), version, connection)

    def fetch_one(self, *asked: Any, **fields: Any) -> Any:
        """Fetch from one partition; return its part of the answer, or None when the request waits."""
        response = self.fetch(asked, **fields)
        return None if response is None else response.responses[0].partitions[0]

    def values(self, topic: str, offset: int = 0, index: int = 0) -> list[tuple[int, bytes | None]]:
        """Return (offset, value) of all records that a consumer reads from `offset` on."""
        found: list[tuple[int, bytes | None]] = []
        while True:
            data = self.fetch_one(topic, index, offset).records
            if not data:
                return found
            for batch in whole_batches(data):
                found += [
                    (record.offset, record.value) for record in read_records(batch) if record.offset >= offset
                ]
            offset = found[-1][0] + 1


def whole_batches(data: bytes) -> list[bytes]:
    """Split what a fetch returned into batches."""
    found = []
    while data:
        size = int.from_bytes(data[8:12], "big") + 12
        assert size <= len(data)
        found.append(data[:size])
        data = data[size:]
    return found


def batch(
    *values: bytes | None, key: bytes | None = b"k", timestamp: int = KNOWN_EPOCH, **fields: Any
) -> bytearray:
    """Return a batch with these values, b"v" when there are none."""
    records: list[NewRecord] = [(key, value, (), timestamp) for value in values or (b"v",)]
    return encode_batch(records, **fields)
