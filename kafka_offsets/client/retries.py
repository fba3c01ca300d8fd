"""Retries: which failures pass by themselves, and how long a client waits for that.

Kafka's clients retry what Kafka calls retriable until default.api.timeout.ms, and connect again in the meantime.
Source: Errors, RetriableException, CoordinatorStrategy and PartitionLeaderStrategy of Kafka 4.3.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kafka_offsets.client.connection import Address, Connection, connect_to_any
from kafka_offsets.client.security import ClientSecurity
from kafka_offsets.clock import monotonic_s
from kafka_offsets.errors import (
    CommitRefusedError,
    ConnectionLostError,
    ErrorCode,
    KafkaOffsetsError,
    ListenerError,
    RefusedError,
    SilentBrokerError,
    UnansweredError,
    UnknownHostError,
)
from kafka_offsets.logs import new_logger

OF_COORDINATOR = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""Errors after which a client looks for the coordinator again."""

_LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,)

OF_LEADER = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""Errors after which a client gets new metadata and asks the leader again."""

_LASTING = frozenset((ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR))
"""They are retriable too, but may last until a broker or its disk is repaired: a command says so at once."""

RETRIABLE = (
    OF_COORDINATOR
    | OF_LEADER
    | {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
) - _LASTING
"""Errors of a request that `Retries` repeats. A topic that does not exist is not one of them: its name may be wrong."""

_PAUSE_S = 0.1
"""Kafka's retry.backoff.ms."""

T = TypeVar("T")

_logger = new_logger(__name__)


def is_retriable(error: KafkaOffsetsError) -> bool:
    """Whether the cause of an error passes by itself: by its code, or because a connection can be made again."""
    if isinstance(error, CommitRefusedError):
        return not RETRIABLE.isdisjoint(error.errors.values())
    if isinstance(error, RefusedError):
        return error.error_code in RETRIABLE
    lasts = ListenerError, SilentBrokerError, UnknownHostError
    return isinstance(error, ConnectionLostError) and not isinstance(error, lasts)


def _warn(line: str) -> None:
    _logger.warning("%s", line)


class Retries:
    """Repeats calls that fail, and limits how long a trouble lasts. Several connections may share them.

    timeout_s  from the first call that fails on. The trouble ends when a repeated call succeeds, or when no call has
               failed for as long: calls that fail one after the other share the limit
    on_wait    called with a line that says for what the client waits, once for each reason
    reconnects  whether a lost connection is such a trouble
    patience_s  once one broker of several has answered, see `note_answer`, a shorter limit: for tables that show what
                the others know. It is not for a coordinator that loads its groups, which answers in a while. It is
                also the limit of each answer; a broker that is silent for so long is not waited for again
    """

    def __init__(
        self,
        timeout_s: float,
        on_wait: Callable[[str], None] = _warn,
        *,
        reconnects: bool = True,
        clock: Callable[[], float] = monotonic_s,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.timeout_s = timeout_s
        self._on_wait, self._reconnects = on_wait, reconnects
        self._clock, self._pause = clock, pause
        self.patience_s: float | None = None
        self._since_s: float | None = None
        self._failed_s = -math.inf
        self._limit_now_s = timeout_s
        self._reasons: set[str] = set()
        self._is_accepted = self._is_reached = False
        self._silent: set[Address] = set()
        self._asked: list[Address] = []
        self._known: list[Address] = []

    def note_answer(self) -> None:
        """A broker of several has answered: what fails from now on is another one, for `patience_s`."""
        self._is_reached = True

    def note_brokers(self, addresses: Iterable[Address]) -> None:
        """A broker has told which brokers its cluster has: each of them may be asked in place of those named."""
        brokers = list(addresses)
        self._is_accepted = True
        if len(brokers) > 1:  # the only one may be known by another name than it was asked by
            self._known = brokers
            self.note_answer()

    def connection(self, address: Address, timeout_s: float, security: ClientSecurity) -> Connection:
        """Connect to a broker, with the limits of this moment; the errors are those of `Connection`."""
        if self.patience_s is None:
            return Connection(*address, timeout_s, security)
        if self._is_reached:
            timeout_s = min(self.patience_s, timeout_s)
        return Connection(*address, timeout_s, security, self._silent)

    def connection_to_any(
        self, addresses: Sequence[Address], timeout_s: float, security: ClientSecurity
    ) -> Connection:
        """Connect to the first broker that answers, of those that are not silent. If all are, each is waited for.

        Those that a broker has told of are asked after the named ones.
        """
        self._asked = list(dict.fromkeys((*addresses, *self._known)))
        candidates = [address for address in self._asked if address not in self._silent]
        if not candidates:
            self._silent.clear()
            candidates = self._asked
        if self.patience_s is not None and (self._is_reached or len(candidates) > 1):
            timeout_s = min(self.patience_s, timeout_s)

        def connect(address: Address, first_s: float | None) -> Connection:
            has_whole_limit = first_s is None and self.patience_s is None
            return Connection(
                *address, timeout_s, security, None if has_whole_limit else self._silent, first_s
            )

        return connect_to_any(candidates, connect)

    def renew(self) -> None:
        """Begin again, after something that has failed: with the whole limit, and with every reason said once more."""
        self._since_s = None
        self._reasons.clear()
        self._silent.clear()
        self._is_reached = False

    def call(
        self,
        attempt: Callable[[], T],
        recover: Callable[[KafkaOffsetsError], None] = lambda error: None,
        *,
        passes: Callable[[KafkaOffsetsError], bool] = is_retriable,
        is_answered: bool = True,
    ) -> T:
        """Return the result of `attempt`; raise its error if that does not pass, or not in time.

        recover  called after an error, before the next attempt
        passes   whether the cause of an error passes
        is_answered  whether a broker has answered a request when `attempt` succeeds: it may only connect
        """
        is_again = False
        while True:
            began_s = self._clock()
            try:
                result = attempt()
            except KafkaOffsetsError as error:
                if not passes(self._cause(error)):
                    raise
                if isinstance(error, ConnectionLostError) and not self._reconnects:
                    raise
                if self._since_s is None or began_s - self._failed_s > self.timeout_s:
                    self._since_s = began_s
                self._failed_s = self._clock()
                self._limit_now_s = self._limit_s(error)
                left_s = self._since_s + self._limit_now_s - self._failed_s
                if left_s <= 0:
                    raise
                if not self._goes_on(error):
                    self._tell(str(error))
                recover(error)
            else:
                self._is_accepted |= is_answered
                if is_again:
                    self._since_s = None
                return result
            is_again = True
            self._pause(min(_PAUSE_S, left_s))

    def _cause(self, error: KafkaOffsetsError) -> KafkaOffsetsError:
        """Return the error, as a lost connection if a listener that has accepted this client has not answered it.

        Its broker stops or starts.
        """
        if self._is_accepted and isinstance(error, ListenerError):
            return ConnectionLostError(str(error))
        return error

    def _goes_on(self, error: KafkaOffsetsError) -> bool:
        """Whether the next attempt asks other brokers at once, and does not wait for the one that has failed."""
        is_silent = isinstance(error, UnansweredError) and self.patience_s is not None
        return is_silent and not self._silent.issuperset(self._asked)

    def _limit_s(self, error: KafkaOffsetsError) -> float:
        is_loading = isinstance(error, RefusedError) and error.error_code in _LOADING
        if self.patience_s is None or not self._is_reached or is_loading:
            return self.timeout_s
        return min(self.patience_s, self.timeout_s)

    def _tell(self, reason: str) -> None:
        if reason not in self._reasons:
            self._reasons.add(reason)
            self._on_wait(f"{reason}; trying again for up to {self._limit_now_s:g} s")
