"""A long request in short steps: what others ask for meanwhile waits for one step, not for the whole.

Between two steps a millisecond passes in which sockets are read and other requests are decided, so a handler that
works this way says what of its answer belongs together. Requests that take one step are decided at once, as all others.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, TypeVar

from kafka_offsets.coordinator.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger

if TYPE_CHECKING:
    from kafka_offsets.broker.context import Context

_PAUSE_MS = 1

Response = TypeVar("Response")
Steps = Generator[None, None, Response | None]
"""Yields behind each step; returns the response, or None when it comes by other ways."""

logger = new_logger(__name__)


def run_incrementally(
    broker: Context, context: RequestContext, steps: Steps[Response], *, goes_on: bool = False
) -> Response | None:
    """Take the first step now and the others by and by; return the response if that was all of them.

    goes_on  whether the steps are taken to their end though nobody waits for the answer any more
    Raises what the first step raises; what a later one raises fails the request.
    """
    try:
        next(steps)
    except StopIteration as ended:
        response: Response | None = ended.value
        return response
    broker.scheduler.pause(_PAUSE_MS, lambda now: _go_on(broker, context, steps, goes_on))
    return None


def _go_on(broker: Context, context: RequestContext, steps: Steps[Response], goes_on: bool) -> None:
    if context.connection.closing and not goes_on:
        steps.close()
        return
    try:
        response = run_incrementally(broker, context, steps, goes_on=goes_on)
    except StorageError as error:
        logger.error("a request of API %d: %s", context.api_key, error)
        broker.answers.fail(context, ErrorCode.KAFKA_STORAGE_ERROR)
    except Exception:  # as in the turn of the request itself: it is answered, and all others live
        logger.exception("a request of API %d failed", context.api_key)
        broker.answers.fail(context, ErrorCode.UNKNOWN_SERVER_ERROR)
    else:
        if response is not None:
            broker.answers.reply(context, response)


class Budget:
    """What may be spent on one step.

    most   of a step; what is spent is counted in the same unit, by whoever spends it
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def spend(self, cost: int) -> bool:
        """Return whether the step is to end, after which the next one may cost as much again."""
        self._left -= cost
        if self._left > 0:
            return False
        self._left = self._most
        return True
