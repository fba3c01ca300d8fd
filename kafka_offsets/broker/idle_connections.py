"""Idle connections: closed when no request has completed on them for `connections.max.idle.ms`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_offsets.clock import Now
from kafka_offsets.logs import new_logger

if TYPE_CHECKING:
    from kafka_offsets.broker.core import BrokerCore
    from kafka_offsets.broker.scheduler import Deadline

_CHECK_MS = 1000
"""Idle connections are looked for at most this often."""

logger = new_logger(__name__)


class IdleConnections:
    """Closes the idle connections of one broker."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._deadline: Deadline | None = None

    def watch(self, now: Now) -> None:
        """Set the deadline at which the first connection may be idle for too long."""
        core = self._core
        limit = core.config.connections_max_idle_ms
        if limit < 0 or self._deadline is not None or not core.connections:
            return
        earliest = min(connection.last_used_ms for connection in core.connections) + limit
        self._deadline = core.at(max(earliest, now.mono_ms + _CHECK_MS), self._close)

    def _close(self, now: Now) -> None:
        self._deadline = None
        oldest = now.mono_ms - self._core.config.connections_max_idle_ms
        for connection in self._core.connections:
            if connection.last_used_ms <= oldest and not connection.unanswered and not connection.closing:
                logger.info("%s: connection closed, idle for too long", connection.peer)
                self._core.close_connection(connection)
        self.watch(now)
