"""Members of groups that are real clients: they read the topic, commit what they have read, and never rebalance."""

import contextlib
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import KafkaError

from tests.processes.clients import TOPIC, Client, Offsets, ViolationError

SESSION_MS = 240_000
POLL_S, COMMIT_S = 0.2, 5.0


class Member(Client):
    """Reads its partitions from their beginnings; the record at offset n has the value n.

    offsets     what it has committed, by partition
    partitions  how many it has
    is_settled  a rebalance is a violation from then on
    """

    def __init__(self, name: str, group: str, addresses: list[str], seed: int, folder: Path) -> None:
        super().__init__(name, addresses, seed, folder)
        self.group = group
        self.offsets: dict[int, Offsets] = {}
        self.is_settled = self.is_closing = False
        self._positions: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self.partitions = 0

    def given(self, partitions: list[int], why: str) -> None:
        """Note an assignment, or the end of one."""
        if self.is_closing:
            return
        self.note(f"{why} {sorted(partitions)}", why)
        if self.is_settled:
            raise ViolationError(f"{self.name}: {why} {sorted(partitions)}: {self.group} rebalances")
        self.partitions = len(partitions) if why == "assigned" else 0
        self._positions, self._committed, self.offsets = {}, {}, {}

    def read(self, partition: int, offset: int, value: bytes) -> None:
        """Check a record."""
        expected = self._positions.get(partition, offset)
        if offset != expected:
            raise ViolationError(f"{self.name}: {TOPIC}-{partition}: offset {offset} after {expected - 1}")
        if value != b"%d" % offset:
            raise ViolationError(f"{self.name}: {TOPIC}-{partition}: {value!r} at offset {offset}")
        self._positions[partition] = offset + 1

    def step(self) -> None:
        self.poll()
        wanted = {key: value for key, value in self._positions.items() if self._committed.get(key) != value}
        if not wanted:
            return
        done = self.commit(wanted)
        self.note(f"commit {wanted}", "NONE" if done else "unknown")
        for partition, offset in wanted.items():
            known = self.offsets.setdefault(partition, Offsets())
            if done:
                known.acknowledge(offset)
                self._committed[partition] = offset
            else:
                known.unknown.add(offset)
        self.acknowledged += done

    def poll(self) -> None:
        """Receive records."""
        raise NotImplementedError

    def commit(self, positions: dict[int, int]) -> bool:
        """Commit; return whether it was acknowledged."""
        raise NotImplementedError


class ConfluentMember(Member):
    """A member by confluent-kafka."""

    def __init__(
        self, name: str, group: str, addresses: list[str], seed: int, folder: Path, protocol: str = "classic"
    ) -> None:
        super().__init__(name, group, addresses, seed, folder)
        settings = {
            "bootstrap.servers": ",".join(addresses),
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "socket.timeout.ms": 4000,
            "topic.metadata.refresh.interval.ms": 2000,
            "log_level": 0,
        }
        if protocol == "classic":
            settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 300}
        self._consumer = Consumer(settings)
        self._raised: ViolationError | None = None

        def note(why: str):  # type: ignore[no-untyped-def]
            def noted(_consumer: Consumer, places: list[TopicPartition]) -> None:
                try:
                    self.given([each.partition for each in places], why)
                except ViolationError as error:  # librdkafka would drop it
                    self._raised = error

            return noted

        self._consumer.subscribe(
            [TOPIC], on_assign=note("assigned"), on_revoke=note("revoked"), on_lost=note("lost")
        )

    def poll(self) -> None:
        for message in self._consumer.consume(500, POLL_S):
            if message.error() is None:
                self.read(message.partition(), message.offset(), message.value())
        if self._raised is not None:
            raise self._raised

    def commit(self, positions: dict[int, int]) -> bool:
        wanted = [TopicPartition(TOPIC, partition, offset) for partition, offset in positions.items()]
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            self.codes[error.args[0].name()] += 1
            return False
        return all(each.error is None for each in done)

    def close(self) -> None:
        self.is_closing = True
        super().close()
        self._consumer.close()


class KafkaPythonMember(Member):
    """A member by kafka-python."""

    def __init__(self, name: str, group: str, addresses: list[str], seed: int, folder: Path) -> None:
        super().__init__(name, group, addresses, seed, folder)
        self._generation = 0
        self._consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=addresses,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            request_timeout_ms=SESSION_MS + 60_000,
            fetch_max_wait_ms=100,
            retry_backoff_ms=20,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
            metadata_max_age_ms=2000,
        )

    def poll(self) -> None:
        try:
            records = self._consumer.poll(int(POLL_S * 1000))
        except KafkaError as error:  # a broker that refuses connections
            self.codes[type(error).__name__] += 1
            return
        generation = self._consumer._coordinator._generation.generation_id
        if generation > 0 and generation != self._generation:
            self._generation = generation
            self.given([], "assigned")
        self.partitions = len(self._consumer.assignment())
        for place, found in records.items():
            for record in found:
                self.read(place.partition, record.offset, record.value)

    def commit(self, positions: dict[int, int]) -> bool:
        wanted = {
            KafkaPythonPartition(TOPIC, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in positions.items()
        }
        try:
            self._consumer.commit(wanted, timeout_ms=int(COMMIT_S * 1000))
        except KafkaError as error:
            self.codes[type(error).__name__] += 1
            return False
        return True

    def close(self) -> None:
        self.is_closing = True
        super().close()
        with contextlib.suppress(KafkaError):
            self._consumer.close(timeout_ms=2000)
