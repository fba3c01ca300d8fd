"""Transactions: decisions about requests that begin, extend or end one, and the records that store them.

A transactional id has one producer id and epoch at a time, and at most one transaction. Every decision reads the
latest state of the id in the log and returns the next one; the caller writes it before it answers. Nothing changes
here. The end of a transaction is written twice: first as prepared, then its markers are written to all of its
partitions, then as complete.

::

    EMPTY --> ONGOING --> PREPARE_COMMIT --> COMPLETE_COMMIT --.
      ^          |  `---> PREPARE_ABORT ---> COMPLETE_ABORT ---+--> ONGOING, EMPTY
      `----------------------------------------- InitProducerId'

Clients of transaction version 2 (KIP-890) get a new epoch at the end of each transaction, may end an empty one, and
may retry an end whose response was lost. Older clients keep their epoch until InitProducerId.

Sources: KIP-98, KIP-360 (recovery), KIP-890; TransactionCoordinator and TransactionMetadata of Kafka 4.3.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.topic_partition import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
LAST_EPOCH = 32766
"""A producer id with this epoch is exhausted: the next epoch is 0 of another id."""

GREATEST_EPOCH = 32767
"""The epoch of the last markers of a producer id; no client gets it."""


class TransactionState(IntEnum):
    """State of a transactional id; the numbers are those in the log.

    EMPTY                 the producer has its id and no transaction yet
    ONGOING               has partitions; ends with EndTxn, its timeout or another InitProducerId
    PREPARE_COMMIT/ABORT  decided for good: markers are being written; clients must retry
    COMPLETE_COMMIT/ABORT all markers are written; the next transaction may begin
    DEAD                  the transactional id is removed
    PREPARE_EPOCH_FENCE   never written to a log
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name in Kafka's admin tools: PrepareCommit for PREPARE_COMMIT."""
        return self.name.title().replace("_", "")


_BY_TITLE = {state.title: state for state in TransactionState}
_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_SETTLED = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class Transaction(NamedTuple):
    """One transactional id.

    previous_producer_id  the id before the last change
    next_producer_id      used after the markers are written; -1 unless the epochs of the current id are exhausted
    producer_epoch        epoch of the client; in a prepared transaction the epoch of its markers
    last_producer_epoch   the previous epoch, for a client that missed the new one; -1: none, or after a restart
    partitions            of the transaction, in the order in which they were added
    start_ms, updated_ms  wall time of its first partition, -1 before, and of the last change
    client_version        of the transaction protocol: 2 since KIP-890, 0 before
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    start_ms: int = -1
    partitions: tuple[TopicPartition, ...] = ()
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left for a client."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def is_prepared(self) -> bool:
        """Whether its end is decided and its markers are not all written."""
        return self.state in _PREPARED

    @property
    def commits(self) -> bool:
        """Whether the transaction is prepared to commit, or committed."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


class Decision(NamedTuple):
    """The answer to a request, and the next state of its id; None when nothing changes."""

    error: ErrorCode
    transaction: Transaction | None = None


NewProducerId = Callable[[], int]
"""Returns a new unique producer id."""


def _refuse(error: ErrorCode) -> Decision:
    return Decision(error)


def _moved(transaction: Transaction, state: TransactionState, now: Now) -> Transaction:
    """Return the transaction in another state; the current producer id becomes the previous one."""
    return transaction._replace(
        state=state, updated_ms=now.wall_ms, previous_producer_id=transaction.producer_id
    )


# -- InitProducerId


def init_producer_id(
    found: Transaction | None,
    timeout_ms: int,
    expected: tuple[int, int] | None,
    new_producer_id: NewProducerId,
    now: Now,
) -> Decision:
    """Give a transactional id its producer id and the next epoch, which fences producers with an earlier one.

    expected  the current id and epoch of a producer that recovers from an error (KIP-360)
    An open transaction is aborted first: the answer is CONCURRENT_TRANSACTIONS, the next state a prepared transaction,
    and the client retries.
    """
    if found is None:
        producer_id = new_producer_id()
        found = Transaction(producer_id, NO_EPOCH, timeout_ms, TransactionState.EMPTY, now.wall_ms)
    if expected is not None and not _may_recover(found, *expected):
        return _refuse(ErrorCode.PRODUCER_FENCED)
    if found.is_prepared:
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    if found.state is TransactionState.ONGOING:
        return Decision(ErrorCode.CONCURRENT_TRANSACTIONS, fence(found, new_producer_id, now))
    fresh = _moved(found, TransactionState.EMPTY, now)._replace(
        timeout_ms=timeout_ms, partitions=(), start_ms=-1
    )
    if found.is_exhausted and (expected is None or expected[1] == found.producer_epoch):
        last = NO_EPOCH if expected is None else found.producer_epoch
        fresh = fresh._replace(producer_id=new_producer_id(), producer_epoch=0, last_producer_epoch=last)
        return Decision(ErrorCode.NONE, fresh)
    if found.is_exhausted:
        return _refuse(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka, which fails here
    bumped = fresh._replace(producer_epoch=found.producer_epoch + 1)
    if expected is None:
        return Decision(ErrorCode.NONE, bumped._replace(last_producer_epoch=NO_EPOCH))
    if expected[1] == found.producer_epoch or found.producer_epoch == NO_EPOCH:
        return Decision(ErrorCode.NONE, bumped._replace(last_producer_epoch=found.producer_epoch))
    if expected[1] == found.last_producer_epoch:  # a retry: the response with the new epoch was lost
        return Decision(ErrorCode.NONE, fresh)
    return _refuse(ErrorCode.PRODUCER_FENCED)


def _may_recover(transaction: Transaction, producer_id: int, epoch: int) -> bool:
    """Whether a client's producer id is the current one, or was until its epochs were exhausted."""
    return (
        transaction.producer_epoch == NO_EPOCH
        or producer_id == transaction.producer_id
        or (producer_id == transaction.previous_producer_id and epoch >= LAST_EPOCH)
    )


def fence(transaction: Transaction, new_producer_id: NewProducerId, now: Now) -> Transaction:
    """Abort an open transaction and fence its producer."""
    return _prepare(transaction, TransactionState.PREPARE_ABORT, 2, new_producer_id, now)


# -- partitions


def _error_of(transaction: Transaction | None, producer_id: int, epoch: int) -> ErrorCode:
    """Check that this is the producer of a transactional id, and that no transaction of it is ending."""
    if transaction is None or transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.is_prepared else ErrorCode.NONE


def add_partitions(
    found: Transaction | None,
    producer_id: int,
    epoch: int,
    partitions: Iterable[TopicPartition],
    client_version: int,
    now: Now,
) -> Decision:
    """Add partitions to the open transaction, or begin one with them."""
    error = _error_of(found, producer_id, epoch)
    if error:
        return _refuse(error)
    assert found is not None
    is_open = found.state is TransactionState.ONGOING
    grown = tuple(dict.fromkeys((*found.partitions, *partitions)))
    if is_open and len(grown) == len(found.partitions):
        return Decision(ErrorCode.NONE)
    ongoing = _moved(found, TransactionState.ONGOING, now)._replace(
        partitions=grown,
        start_ms=found.start_ms if is_open else now.wall_ms,
        client_version=client_version,
    )
    return Decision(ErrorCode.NONE, ongoing)


def verify_partitions(
    found: Transaction | None, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Check for each partition that it is in the open transaction; TRANSACTION_ABORTABLE when it is not."""
    error = _error_of(found, producer_id, epoch)
    if error:
        return dict.fromkeys(partitions, error)
    assert found is not None
    absent = ErrorCode.TRANSACTION_ABORTABLE
    return {
        partition: ErrorCode.NONE if partition in found.partitions else absent for partition in partitions
    }


# -- the end


def end(
    found: Transaction | None,
    producer_id: int,
    epoch: int,
    *,
    commit: bool,
    client_version: int,
    new_producer_id: NewProducerId,
    now: Now,
) -> Decision:
    """Commit or abort the open transaction of a producer: the next state is prepared, and `complete` ends it."""
    if found is None:
        return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if client_version < 2:
        return _end_of_old_client(found, producer_id, epoch, commit, now)
    asks_again = found.producer_epoch == epoch + 1
    if found.previous_producer_id == producer_id and epoch == LAST_EPOCH and found.producer_epoch == 0:
        asks_again = True
    elif found.producer_id != producer_id:
        return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not _is_valid_epoch(found, epoch, asks_again):
        return _refuse(ErrorCode.PRODUCER_FENCED)
    state = found.state
    target = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    if state is TransactionState.ONGOING:
        return Decision(ErrorCode.NONE, _prepare(found, target, client_version, new_producer_id, now))
    if found.is_prepared:
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS if state is target else ErrorCode.INVALID_TXN_STATE)
    if asks_again and state is not TransactionState.EMPTY:
        return _refuse(ErrorCode.NONE if found.commits == commit else ErrorCode.INVALID_TXN_STATE)
    if commit:
        return _refuse(ErrorCode.INVALID_TXN_STATE)
    # An abort without a transaction still raises the epoch: the transaction begins and ends now.
    empty = _prepare(found, target, client_version, new_producer_id, now)
    return Decision(ErrorCode.NONE, empty._replace(start_ms=now.wall_ms))


def _is_valid_epoch(transaction: Transaction, epoch: int, asks_again: bool) -> bool:
    if transaction.is_prepared:
        return asks_again
    if transaction.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        return asks_again or epoch == transaction.producer_epoch
    return epoch == transaction.producer_epoch


def _end_of_old_client(
    transaction: Transaction, producer_id: int, epoch: int, commit: bool, now: Now
) -> Decision:
    """Decide about a client that keeps its epoch: ending a transaction is idempotent."""
    if transaction.producer_id != producer_id:
        return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != epoch:
        return _refuse(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TransactionState.ONGOING:
        target = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        prepared = _moved(transaction, target, now)._replace(
            next_producer_id=NO_PRODUCER_ID, client_version=0
        )
        return Decision(ErrorCode.NONE, prepared)
    if transaction.state is TransactionState.EMPTY or transaction.commits != commit:
        return _refuse(ErrorCode.INVALID_TXN_STATE)
    return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS if transaction.is_prepared else ErrorCode.NONE)


def _prepare(
    transaction: Transaction,
    target: TransactionState,
    client_version: int,
    new_producer_id: NewProducerId,
    now: Now,
) -> Transaction:
    """Return the prepared transaction, with the next epoch."""
    next_id = new_producer_id() if transaction.is_exhausted else NO_PRODUCER_ID
    return _moved(transaction, target, now)._replace(
        producer_epoch=min(transaction.producer_epoch + 1, GREATEST_EPOCH),
        last_producer_epoch=transaction.producer_epoch,
        next_producer_id=next_id,
        client_version=client_version,
    )


def complete(prepared: Transaction, now: Now) -> Transaction:
    """Return the state after a prepared transaction, when all of its markers are written."""
    state = TransactionState.COMPLETE_COMMIT if prepared.commits else TransactionState.COMPLETE_ABORT
    done = _moved(prepared, state, now)._replace(partitions=(), next_producer_id=NO_PRODUCER_ID)
    if prepared.client_version >= 2 and prepared.next_producer_id != NO_PRODUCER_ID:
        return done._replace(producer_id=prepared.next_producer_id, producer_epoch=0)
    return done


# -- time


def timed_out(transactions: Mapping[str, Transaction], now: Now) -> list[str]:
    """Return the ids whose transaction has been open for longer than its timeout."""
    return [
        name
        for name, transaction in transactions.items()
        if transaction.state is TransactionState.ONGOING
        and transaction.start_ms + transaction.timeout_ms < now.wall_ms
    ]


def expired(transactions: Mapping[str, Transaction], expiration_ms: int, now: Now) -> list[str]:
    """Return the ids that have not been used for `expiration_ms` and have no open transaction."""
    return [
        name
        for name, transaction in transactions.items()
        if transaction.state in _SETTLED and transaction.updated_ms <= now.wall_ms - expiration_ms
    ]


# -- lists


def known_states(titles: Iterable[str]) -> tuple[frozenset[TransactionState], list[str]]:
    """Return the states with these names, and the names that are unknown."""
    named = list(titles)
    states = frozenset(_BY_TITLE[title] for title in named if title in _BY_TITLE)
    return states, [title for title in dict.fromkeys(named) if title not in _BY_TITLE]


def is_listed(
    found: Transaction,
    states: Collection[TransactionState] | None,
    producer_ids: Collection[int],
    duration_ms: int,
    now: Now,
) -> bool:
    """Whether ListTransactions names an id.

    states        None for any
    producer_ids  empty for any
    duration_ms   only transactions that began longer ago; negative for any
    """
    if producer_ids and found.producer_id not in producer_ids:
        return False
    if states is not None and found.state not in states:
        return False
    return duration_ms < 0 or now.wall_ms - found.start_ms > duration_ms
