"""A core small enough to test partition handlers on: real topics and logs in memory, answers kept in a list."""

import itertools
from typing import Any

from kafka_offsets.broker.api import fetch, log_offsets, produce, transactions
from kafka_offsets.broker.api.fetch_sessions import FetchSessions
from kafka_offsets.broker.api.table import SERVED
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.coordination.transactions import TransactionCoordinator
from kafka_offsets.broker.partition.partitions import Partition, Topics
from kafka_offsets.broker.response_budget import ResponseBudget
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


class Deadline:
    """A callback that waits for its time."""

    def __init__(self, due_ms: int, callback: Any) -> None:
        self.due_ms = due_ms
        self.callback = callback

    def cancel(self) -> None:
        """Forget the callback."""
        self.callback = None


class PartitionCore:
    """What handlers see of a BrokerCore. `turn` ends a turn; `answers` holds (context, response) in order."""

    def __init__(self, files: Files | None = None, **config: Any) -> None:
        self.config = Config.load({name.replace("_", "."): value for name, value in config.items()})
        self.clock = ManualClock()
        self.files = files if files is not None else MemoryFiles()
        self.directory = DataDirectory(self.files)
        self.topics = Topics(self.directory, self.config)
        self.fetch_sessions = FetchSessions(self.config.max_incremental_fetch_session_cache_slots)
        self.responses = ResponseBudget(self.config.queued_max_response_bytes)
        self.answers: list[tuple[RequestContext, Any]] = []
        self.closed: list[Any] = []
        self.silent = 0
        self._deadlines: list[Deadline] = []
        self._appended: dict[Partition, None] = {}
        self.transactions = TransactionCoordinator(self)  # type: ignore[arg-type]
        self._numbers = itertools.count()

    def at(self, due_ms: int, callback: Any) -> Deadline:
        """Call back at a monotonic time."""
        self._deadlines.append(Deadline(due_ms, callback))
        return self._deadlines[-1]

    def client_timeout(self, ms: int, callback: Any) -> Deadline:
        """Call back after `ms`."""
        return self.at(self.clock.now().mono_ms + ms, callback)

    def reply(self, context: RequestContext, response: Any) -> None:
        """Keep an answer, after making sure that it can be encoded."""
        messages.encode(response, context.api_version)
        self.answers.append((context, response))

    def reply_when_durable(self, context: RequestContext, response: Any, logs: Any) -> None:
        """Answer at once: nothing is synced here."""
        self.reply(context, response)

    def reply_encoded(self, context: RequestContext, answer: Parts | bytes) -> None:
        """Keep an answer as its client reads it, or count a request without one."""
        if isinstance(answer, bytes):
            self.silent += 1
            return
        frame, tagged = b"".join(answer.pieces), context.codecs.has_tagged_response_header
        response = messages.find("FetchResponse")
        self.answers.append((context, messages.decode(response, frame, context.api_version, 8 + tagged)[0]))

    def close_connection(self, connection: Any) -> None:
        """Keep what was to be closed."""
        self.closed.append(connection)

    def on_append(self, partition: Partition) -> None:
        """Note that a partition has grown."""
        self._appended[partition] = None

    def turn(self) -> None:
        """End a turn of the loop."""
        appended, self._appended = self._appended, {}
        fetch.wake(self, appended, self.clock.now())  # type: ignore[arg-type]

    def advance(self, ms: int) -> None:
        """Let time pass and carry out what is due."""
        now = self.clock.advance(ms)
        for deadline in sorted(self._deadlines, key=lambda deadline: deadline.due_ms):
            if deadline.callback is not None and deadline.due_ms <= now.mono_ms:
                callback, deadline.callback = deadline.callback, None
                callback(now)
        self._deadlines = [deadline for deadline in self._deadlines if deadline.callback is not None]

    @property
    def waiting_deadlines(self) -> int:
        """How many deadlines have not been cancelled."""
        return sum(deadline.callback is not None for deadline in self._deadlines)

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
        response = handle(self, decoded, context, self.now)
        if response is not None:
            self.reply(context, response)
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
        core = PartitionCore(self.files)
        core.clock = self.clock
        return core

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
