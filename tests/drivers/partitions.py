"""Producing and fetching on `core`: clients by name, and the answers of all of them in a list."""

from typing import Any

from kafka_offsets.broker.api import fetch
from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.clock import ManualClock, Now
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import NewRecord, encode_batch, read_records
from kafka_offsets.storage.files.files import Files, MemoryFiles
from tests.drivers.core import CoreClient, make_core

KNOWN_EPOCH = 1_700_000_000_000
"""What the wall clock of a new ManualClock shows."""


class PartitionCore:
    """A core and its clients by name. `turn` ends a turn; `answers` holds (client, response)."""

    def __init__(
        self, files: Files | None = None, clock: ManualClock | None = None, **config: object
    ) -> None:
        self.files = files if files is not None else MemoryFiles()
        self.clock = clock if clock is not None else ManualClock()
        self.core = make_core(self.files, clock=self.clock, **config)
        self._config = config
        self.clients: dict[object, CoreClient] = {}
        self.answers: list[tuple[object, Any]] = []

    @property
    def broker(self) -> Context:
        """What the handlers are given."""
        return self.core.broker

    @property
    def topics(self) -> Topics:
        """The topics."""
        return self.core.topics

    @property
    def now(self) -> Now:
        """The time."""
        return self.clock.now()

    @property
    def closed(self) -> list[object]:
        """The clients whose connections are to be closed."""
        return [name for name, client in self.clients.items() if client.connection.closing]

    @property
    def waiting_deadlines(self) -> int:
        """How many deadlines of fetches have not been cancelled."""
        callbacks = [deadline.callback for _, _, deadline in self.core.scheduler._heap]
        return sum(getattr(callback, "__module__", "") == fetch.__name__ for callback in callbacks)

    def client(self, name: object) -> CoreClient:
        """Return a client; its connection is made when it is first named."""
        if name not in self.clients:
            self.clients[name] = CoreClient(self.core)
        return self.clients[name]

    def turn(self) -> None:
        """End a turn of the loop."""
        self.core.end_turn()
        self._take()

    def advance(self, ms: int) -> None:
        """Let time pass and carry out what is due."""
        self.clock.advance(ms)
        self.core.run_due()
        self._take()

    def _take(self) -> None:
        """Take the answers that there are, without ending the turn."""
        self.core.responses.release()
        for name, client in self.clients.items():
            self.answers += [(name, answer) for answer in client.take()]

    def send(self, request: Any, version: int, connection: object = "connection") -> Any:
        """Send a request; return the answer that came at once, or None."""
        before = len(self.answers)
        self.client(connection).send((request, version))
        self._take()
        return self.answers[-1][1] if len(self.answers) > before else None

    def restart(self, *, clean: bool = True) -> "PartitionCore":
        """Return a new core on the same files."""
        if clean:
            self.core.close()
        else:
            self.core.directory._lock.release()
        return PartitionCore(self.files, self.clock, **self._config)

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
            request(topic_data=[request.TopicProduceData(topic, id_, [data])], **fields), version, "producer"
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
            data = self.fetch_one(topic, index, offset, connection="reader").records
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
