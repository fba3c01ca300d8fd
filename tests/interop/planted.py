"""A broker with a bug of its own, by which a campaign shows that it would find it.

python -m tests.interop.planted BUG serve …    the options are those of `kafka-offsets serve`
"""

import itertools
import sys
from collections.abc import Callable, Iterable
from typing import Any

from kafka_offsets import cli
from kafka_offsets.broker.groups.durability import Durability
from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.broker.partition.producers import AppendedBatch, Producers
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import BatchHeader
from kafka_offsets.storage.log.log import Log

LOST = 5
"""The answer to one in so many Produce requests is lost."""


def no_marker() -> None:
    """The first partition of a topic gets no marker, so that its transactions stay open."""
    append = Partition.append_marker

    def append_elsewhere(self: Partition, *arguments: Any, is_commit: bool) -> None:
        if self.index != 0:
            append(self, *arguments, is_commit=is_commit)

    Partition.append_marker = append_elsewhere  # type: ignore[method-assign]


def wrong_marker() -> None:
    """What was aborted counts as committed."""
    append = Partition.append_marker

    def commit(self: Partition, *arguments: Any, is_commit: bool) -> None:
        append(self, *arguments, is_commit=True)

    Partition.append_marker = commit  # type: ignore[method-assign]


def lost_answers() -> None:
    """No bug, but what idempotence is for: answers to Produce are lost with their connections."""
    reply = Durability.respond_when_on_disk
    number = itertools.count(1)

    def lose(self: Durability, context: RequestContext, response: Any, logs: Iterable[Log]) -> None:
        if isinstance(response, messages.ProduceResponse) and next(number) % LOST == 0:
            self._responses.respond_encoded(context, b"")
            self._responses.close_connection(context.connection)
        else:
            reply(self, context, response, logs)

    Durability.respond_when_on_disk = lose  # type: ignore[method-assign]


def repeated_batches() -> None:
    """A batch that is sent again, since its answer was lost, is appended again."""
    lost_answers()
    check = Producers.check

    def forget(self: Producers, header: BatchHeader) -> AppendedBatch | ErrorCode:
        found = check(self, header)
        return ErrorCode.NONE if isinstance(found, AppendedBatch) else found

    Producers.check = forget  # type: ignore[method-assign]


PLANTS: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (no_marker, wrong_marker, lost_answers, repeated_batches)
}

if __name__ == "__main__":
    PLANTS[sys.argv.pop(1)]()
    sys.exit(cli.main())
