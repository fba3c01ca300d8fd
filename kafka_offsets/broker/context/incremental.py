"""Long requests in short steps: other requests wait for one step, not for all of them.

Between two steps there is a millisecond in which sockets are read and other requests are decided. So each handler of
this kind documents which parts of its response are consistent. A request that needs one step is decided at once.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_offsets.broker.turn.background_task import BackgroundTask, Pacing, WaitsFor
from kafka_offsets.broker.wire.api import LATER, Later
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

_PACING = Pacing(fixed_ms=1)

R = TypeVar("R")
Steps = Generator[WaitsFor, Any, R]
"""Yields after each step, as the steps of a background task; returns the response."""

logger = new_logger(__name__)


def run_incrementally(
    broker: Context, context: RequestContext, steps: Steps[R], *, finishes: bool = False
) -> R | Later:
    """Take the first step now and the others in the background; return the response if one step was enough.

    finishes  whether all steps are taken even when the client closes its connection
    Raises what the first step raises; what a later one raises fails the request.
    """
    try:
        waits_for = next(steps)
    except StopIteration as end:
        response: R = end.value
        return response

    def ended(error: Exception | None) -> None:
        """Send the response, or the error that the exception becomes."""
        if isinstance(error, StorageError):
            logger.error("%s: %s", task.name, error)
            broker.responses.fail(context, ErrorCode.KAFKA_STORAGE_ERROR)
        elif error is not None:
            broker.responses.fail(context, ErrorCode.UNKNOWN_SERVER_ERROR)
        elif task.result is not LATER:
            broker.responses.respond(context, task.result)

    task = BackgroundTask(
        f"a request of API {context.api_key}",
        broker.scheduler,
        steps,
        ended,
        pacing=_PACING,
        may_continue=lambda: finishes or not context.connection.closing,
    )
    task.go_on(waits_for)
    return LATER


class Budget:
    """The cost limit of one step.

    most   the limit; the caller of `spend` defines the unit
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def spend(self, cost: int) -> bool:
        """Add a cost; return whether the step must end. The next step then has the whole limit again."""
        self._left -= cost
        if self._left > 0:
            return False
        self._left = self._most
        return True
