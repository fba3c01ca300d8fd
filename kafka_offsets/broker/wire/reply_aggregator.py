"""Reply aggregator: one request is decided in parts, and answered after the last part."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode


class ReplyAggregator:
    """Collects the parts of an answer.

    context  of the whole request
    count    how many parts there are
    build    all parts, in order -> the response
    refuse   (index, error) -> the part with this error
    """

    def __init__(
        self,
        context: RequestContext,
        count: int,
        build: Callable[[list[Any]], Any],
        refuse: Callable[[int, ErrorCode], Any],
    ) -> None:
        self.context = context
        self._parts: list[Any] = [None] * count
        self._missing = count
        self._build = build
        self.refuse = refuse

    def part(self, index: int) -> "Part":
        """Return the context with which the part at `index` is decided and answered."""
        whole = self.context
        return Part(
            whole.connection,
            whole.api_key,
            whole.api_version,
            whole.correlation_id,
            whole.client_id,
            whole.client_host,
            whole.request,
            aggregator=self,
            index=index,
        )

    def put(self, index: int, part: Any) -> Any:
        """Add one part; return the complete response after the last part, otherwise None."""
        self._parts[index] = part
        self._missing -= 1
        return None if self._missing else self._build(self._parts)


@dataclass(slots=True, eq=False)
class Part(RequestContext):
    """The context of one part of a request."""

    aggregator: ReplyAggregator | None = None
    index: int = 0
