"""Reply aggregator: one request is decided in parts, and answered after the last part."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafka_offsets.broker.wire.api import Response
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode

P = TypeVar("P")


class ReplyAggregator(Generic[P]):
    """Collects the parts of a response.

    reply    sends the response
    context  of the whole request
    count    how many parts there are
    build    all parts, in order -> the response
    refuse   (index, error) -> the part with this error
    """

    def __init__(
        self,
        reply: Callable[[RequestContext, Response], None],
        context: RequestContext,
        count: int,
        build: Callable[[list[P]], Response],
        refuse: Callable[[int, ErrorCode], P],
    ) -> None:
        self.context = context
        self._reply = reply
        self._parts: dict[int, P] = {}
        self._count = count
        self._build = build
        self.refused = refuse

    def part(self, index: int) -> RequestContext:
        """Return the context with which the part at `index` is decided and answered."""
        part = Part(self, index)
        return self.context.held(self.context.request, part.take, part.refuse)

    def put(self, index: int, part: P) -> None:
        """Add one part; send the response after the last part."""
        self._parts[index] = part
        if len(self._parts) == self._count:
            self._reply(self.context, self._build([self._parts[each] for each in range(self._count)]))


@dataclass(frozen=True)
class Part(Generic[P]):
    """One part of a request."""

    aggregator: ReplyAggregator[P]
    index: int

    def take(self, part: P) -> None:
        """Add what was decided."""
        self.aggregator.put(self.index, part)

    def refuse(self, error: ErrorCode) -> None:
        """Add the error."""
        self.take(self.aggregator.refused(self.index, error))
