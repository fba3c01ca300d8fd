"""Log directory: gives up what this broker leads while its disk refuses writes, and takes part again afterwards.

A follower that cannot append keeps every record with `acks=all` waiting, and a leader that cannot append stops its
partitions and groups. So the first refusal makes the directory offline: this broker resigns, which leaves to others
what they have in sync, and fetches nothing. Where no other replica is in sync it leads on, and responses errors as a
broker that is alone. The disk is tried again and again; once it takes writes, this broker follows, and joins each ISR
when it has caught up. A log that has failed for good keeps the directory offline until the broker is started again.

Source: LogDirFailureChannel and ReplicaManager.handleLogDirFailure of Kafka 4.4. Kafka gives a directory up until the
next start, and a broker ends when it has no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_offsets.clock import Now
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.replication.elections import may_resign

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.broker.turn.workers import Workers
    from kafka_offsets.metadata.image import Delta
    from kafka_offsets.metadata.membership import ClusterMembership

_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 1000, 30_000

logger = new_logger(__name__)


class LogDirectory:
    """The log directory of one broker of a cluster.

    membership   returns the metadata as this broker knows them
    may_return   whether everything is done that the disk has refused before
    on_return    called when the disk takes writes again
    """

    def __init__(
        self,
        broker: Context,
        workers: Workers,
        membership: Callable[[], ClusterMembership],
        may_return: Callable[[], bool],
        on_return: Callable[[], None],
    ) -> None:
        self._broker, self._workers, self._membership = broker, workers, membership
        self._may_return, self._on_return = may_return, on_return
        self._is_resigning = self._is_stopped = False
        self._pause_ms, self._returned_ms = _FIRST_PAUSE_MS, -_LONGEST_PAUSE_MS
        self._is_waiting = False
        broker.directory.on_refusal = self._refused

    def _refused(self, error: StorageError) -> None:
        """Record in any thread that the disk has refused a write; the end of the turn acts on it."""
        directory = self._broker.directory
        if not directory.is_offline:
            directory.is_offline = self._is_resigning = True
            logger.error(
                "the data directory takes no writes, so other brokers lead what they have in sync: %s", error
            )

    def changed(self, delta: Delta) -> None:
        """Resign again if a change has given this broker something to lead, or a place in an ISR."""
        if self._broker.directory.is_offline and (delta.created or delta.partitions):
            self._is_resigning = True

    def end_turn(self, now: Now) -> None:
        """Resign if the disk has refused a write, and try it again after a pause."""
        if not self._is_resigning:
            return
        self._is_resigning = False
        self._resign()
        if not self._is_waiting:
            is_new = now.mono_ms - self._returned_ms >= _LONGEST_PAUSE_MS
            self._pause_ms = _FIRST_PAUSE_MS if is_new else min(2 * self._pause_ms, _LONGEST_PAUSE_MS)
            self._try_later()

    def stop(self) -> None:
        """Try the disk no more."""
        self._is_stopped = True

    def _resign(self) -> None:
        membership, node_id = self._membership(), self._broker.node.id
        live = membership.image.live
        if any(may_resign(placed.state, node_id, live) for placed in membership.image.placed()):
            membership.resign()

    def _try_later(self) -> None:
        self._is_waiting = True
        self._broker.scheduler.client_timeout(self._pause_ms, self._try)

    def _try(self, now: Now) -> None:
        """Write to the disk; the controller may not have received, or not have kept, that this broker resigns."""
        self._resign()
        self._workers.background(self._broker.directory.check_writable, self._tried)

    def _tried(self, error: StorageError | None) -> None:
        if self._is_stopped:
            return
        if error is not None or not self._may_return():
            self._try_later()
            return
        self._is_waiting = self._broker.directory.is_offline = False
        self._returned_ms = self._broker.clock.now().mono_ms
        logger.warning("the data directory takes writes again")
        self._on_return()
