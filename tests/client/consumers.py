"""Consumers for tests: on one embedded broker, all in one thread, in turn."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from kafka_offsets.client import Consumer, ConsumerRecord
from kafka_offsets.protocol.topic_partition import TopicPartition

DEADLINE_S = 30.0


class Watched(Consumer):
    """A consumer that notes its callbacks, each of which does what it does by default."""

    def __init__(self, properties: dict[str, object]) -> None:
        super().__init__(properties)
        self.calls: list[tuple[str, list[TopicPartition]]] = []

    def on_partition_assigned(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("assigned", partitions))
        super().on_partition_assigned(partitions)

    def on_partition_deassigned(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("deassigned", partitions))
        super().on_partition_deassigned(partitions)

    @property
    def owned(self) -> list[TopicPartition]:
        """The partitions by the callbacks alone."""
        found: set[TopicPartition] = set()
        for what, partitions in self.calls:
            found = found | {*partitions} if what == "assigned" else found - {*partitions}
        return sorted(found)


def properties(bootstrap: str, **more: object) -> dict[str, object]:
    """The properties of a consumer that does not linger."""
    given = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    given |= {"retry.backoff.ms": 10, "reconnect.backoff.ms": 10, "fetch.max.wait.ms": 50}
    if more.get("group_protocol") != "consumer":
        given |= {"heartbeat.interval.ms": 50, "session.timeout.ms": 10_000}
    given |= {key.replace("_", "."): value for key, value in more.items()}
    return {key: value for key, value in given.items() if value is not None}


@contextmanager
def consumers(bootstrap: str) -> Iterator[Callable[..., Any]]:
    """Make consumers that are closed at the end."""
    with ExitStack() as stack:

        def made(*subscribed: Any, kind: type[Consumer] = Watched, **more: object) -> Any:
            consumer = stack.enter_context(kind(properties(bootstrap, **more)))
            if subscribed:
                consumer.subscribe(*subscribed)
            return consumer

        yield made


def poll_until(
    polled: Iterable[Consumer], condition: Callable[[], object], what: str = "the condition"
) -> list[ConsumerRecord]:
    """Poll in turn until a condition holds; return the records."""
    polled = list(polled)
    found: list[ConsumerRecord] = []
    until = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until, f"not within {DEADLINE_S:g} s: {what}"
        for consumer in polled:
            found += consumer.poll(5)
    return found


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Poll until so many records have come, and no more."""
    found: list[ConsumerRecord] = []
    until = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < until, f"{len(found)} of {count} records"
        found += consumer.poll(100)
    assert len(found) == count
    return found


def values(records: Iterable[ConsumerRecord]) -> list[bytes | None]:
    """The values of records, sorted."""
    return sorted((record.value for record in records), key=lambda value: value or b"")
