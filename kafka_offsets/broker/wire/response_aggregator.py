"""Response aggregator: one request is decided in parts; its response is sent after the last part."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafka_offsets.broker.wire.api import Response
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode

P = TypeVar("P")


class ResponseAggregator(Generic[P]):
    """Collects the parts of a response.

    respond  sends the response
    context  of the whole request
    count    how many parts there are
    build    all parts, in order -> the response
    refuse   (index, error) -> the part with this error
    """

    def __init__(
        self,
        respond: Callable[[RequestContext, Response], None],
        context: RequestContext,
        count: int,
        build: Callable[[list[P]], Response],
        refuse: Callable[[int, ErrorCode], P],
    ) -> None:
        self.context = context
        self._respond = respond
        self._parts: dict[int, P] = {}
        self._count = count
        self._build = build
        self.refused = refuse

    def part(self, index: int) -> RequestContext:
        """Return the context with which the part at `index` is decided."""
        part = Part(self, index)
        return self.context.received_by(self.context.request, part.accept, part.refuse)

    def put(self, index: int, part: P) -> None:
        """Add one part; send the response after the last part."""
        self._parts[index] = part
        if len(self._parts) == self._count:
            self._respond(self.context, self._build([self._parts[number] for number in range(self._count)]))


@dataclass(frozen=True)
class Part(Generic[P]):
    """One part of a request."""

    aggregator: ResponseAggregator[P]
    index: int

    def accept(self, part: P) -> None:
        """Add what was decided."""
        self.aggregator.put(self.index, part)

    def refuse(self, error: ErrorCode) -> None:
        """Add the error."""
        self.accept(self.aggregator.refused(self.index, error))
