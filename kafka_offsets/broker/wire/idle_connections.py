"""Idle connections: closed when no request has completed on them for `connections.max.idle.ms`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kafka_offsets.clock import Now
from kafka_offsets.logs import new_logger

if TYPE_CHECKING:
    from kafka_offsets.broker.turn.scheduler import Deadline, Scheduler
    from kafka_offsets.broker.wire.connection import ClientConnection
    from kafka_offsets.broker.wire.responses import Responses

_CHECK_MS = 1000
"""Minimum interval between two searches for idle connections."""

logger = new_logger(__name__)


class IdleConnections:
    """Closes the idle connections of one broker."""

    def __init__(
        self,
        limit_ms: int,
        scheduler: Scheduler,
        responses: Responses,
        connections: Collection[ClientConnection],
    ) -> None:
        self._limit_ms = limit_ms
        self._scheduler = scheduler
        self._responses = responses
        self._connections = connections
        self._deadline: Deadline | None = None

    def watch(self, now: Now) -> None:
        """Set the deadline at which the first connection may be idle for too long.

        A connection that is closing does not count: its peer may take long to read, and over days of virtual time it
        would be looked at every second.
        """
        if self._limit_ms < 0 or self._deadline is not None:
            return
        earliest = min(
            (
                now.mono_ms if connection.unanswered else connection.last_used_ms
                for connection in self._connections
                if not connection.closing
            ),
            default=None,
        )
        if earliest is not None:
            due_ms = max(earliest + self._limit_ms, now.mono_ms + _CHECK_MS)
            self._deadline = self._scheduler.at(due_ms, self._close)

    def _close(self, now: Now) -> None:
        self._deadline = None
        oldest = now.mono_ms - self._limit_ms
        for connection in self._connections:
            if connection.last_used_ms <= oldest and not connection.unanswered and not connection.closing:
                logger.info("%s: connection closed, idle for too long", connection.peer)
                self._responses.close_connection(connection)
        self.watch(now)
