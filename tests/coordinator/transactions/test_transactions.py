"""Decisions about transactions, one by one, and beside a model that knows only who may do what."""

import itertools

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.transactions import decisions as transactions
from kafka_offsets.coordinator.transactions import records as transaction_records
from kafka_offsets.coordinator.transactions.decisions import (
    LAST_EPOCH,
    NO_EPOCH,
    Decision,
    Transaction,
    TransactionState,
    add_partitions,
    complete,
    end,
    init_producer_id,
    verify_partitions,
)
from kafka_offsets.errors import ErrorCode, ProtocolError

NOW = Now(1_700_000_000_000, 5)
PLACE = ("t", 0)


def ids(first: int = 7) -> transactions.NewProducerId:
    """Producer ids from one on."""
    numbers = itertools.count(first)
    return lambda: next(numbers)


def begun(**fields: object) -> Transaction:
    """A producer that has its id, with its transaction in some state."""
    found = Transaction(7, 3, 60_000, TransactionState.EMPTY, NOW.wall_ms, previous_producer_id=7)
    return found._replace(**fields)  # type: ignore[arg-type]


def ended(
    found: Transaction | None, epoch: int, *, commit: bool = True, version: int = 2, id_: int = 7
) -> Decision:
    return end(found, id_, epoch, commit=commit, client_version=version, new_producer_id=ids(100), now=NOW)


def test_a_new_id_has_epoch_0() -> None:
    error, made = init_producer_id(None, 1000, None, ids(), NOW)
    assert error is ErrorCode.NONE
    assert made is not None
    assert (made.producer_id, made.producer_epoch, made.previous_producer_id) == (7, 0, 7)
    assert (made.state, made.timeout_ms, made.start_ms) == (TransactionState.EMPTY, 1000, -1)


def test_init_in_the_middle_of_a_transaction_aborts_it_and_asks_to_come_again() -> None:
    error, following = init_producer_id(
        begun(state=TransactionState.ONGOING, partitions=(PLACE,)), 1000, None, ids(), NOW
    )
    assert error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert following is not None
    assert (following.state, following.producer_epoch, following.partitions) == (
        TransactionState.PREPARE_ABORT,
        4,
        (PLACE,),
    )


@pytest.mark.parametrize("state", [TransactionState.PREPARE_ABORT, TransactionState.PREPARE_COMMIT])
def test_nothing_is_decided_while_markers_are_written(state: TransactionState) -> None:
    found = begun(state=state, producer_epoch=4, partitions=(PLACE,))
    concurrent = Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert init_producer_id(found, 1000, None, ids(), NOW) == concurrent
    assert add_partitions(found, 7, 4, [PLACE], 2, NOW) == concurrent
    assert verify_partitions(found, 7, 4, [PLACE]) == {PLACE: ErrorCode.CONCURRENT_TRANSACTIONS}


@pytest.mark.parametrize(
    ("expected", "error", "epoch"),
    [
        ((7, 3), ErrorCode.NONE, 4),
        ((7, 2), ErrorCode.NONE, 3),
        ((7, 1), ErrorCode.PRODUCER_FENCED, None),
        ((7, 4), ErrorCode.PRODUCER_FENCED, None),
        ((6, 3), ErrorCode.PRODUCER_FENCED, None),
    ],
)
def test_a_recovery_needs_the_present_epoch_or_the_one_whose_answer_was_lost(
    expected: tuple[int, int], error: ErrorCode, epoch: int | None
) -> None:
    decided = init_producer_id(begun(last_producer_epoch=2), 1000, expected, ids(), NOW)
    assert decided.error is error
    assert (decided.transaction and decided.transaction.producer_epoch) == epoch


def test_a_producer_that_has_recovered_before_does_not_recover_after_another_one_has_fenced_it() -> None:
    # The epoch before its recovery is the one whose answer was lost, until another producer begins.
    found = None
    for expected, epoch in ((None, 0), ((7, 0), 1), ((7, 0), 1), (None, 2)):
        error, found = init_producer_id(found, 1000, expected, ids(), NOW)
        assert error is ErrorCode.NONE and found is not None and found.producer_epoch == epoch
    for epoch in (0, 1):
        fenced = init_producer_id(found, 1000, (7, epoch), ids(), NOW)
        assert fenced == Decision(ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize(("expected", "last"), [(None, NO_EPOCH), ((7, LAST_EPOCH), LAST_EPOCH)])
def test_a_producer_whose_epochs_are_used_up_gets_another_id(
    expected: tuple[int, int] | None, last: int
) -> None:
    error, made = init_producer_id(begun(producer_epoch=LAST_EPOCH), 1000, expected, ids(9), NOW)
    assert (error, made and made.producer_id, made and made.producer_epoch) == (ErrorCode.NONE, 9, 0)
    assert made is not None
    assert (made.last_producer_epoch, made.previous_producer_id) == (last, 7)


def test_partitions_that_are_there_already_change_nothing() -> None:
    found = begun(state=TransactionState.ONGOING, partitions=(PLACE,), start_ms=5)
    assert add_partitions(found, 7, 3, [PLACE], 2, NOW) == Decision(ErrorCode.NONE)
    grown = add_partitions(found, 7, 3, [("t", 1), PLACE], 2, NOW).transaction
    assert grown is not None
    assert (grown.partitions, grown.start_ms) == ((PLACE, ("t", 1)), 5)


@pytest.mark.parametrize("version", [0, 2])
def test_the_epoch_grows_with_the_end_for_clients_of_version_2(version: int) -> None:
    prepared = ended(
        begun(state=TransactionState.ONGOING, partitions=(PLACE,)), 3, version=version
    ).transaction
    assert prepared is not None
    assert (prepared.state, prepared.producer_epoch) == (TransactionState.PREPARE_COMMIT, 4 if version else 3)
    done = complete(prepared, NOW)
    assert (done.state, done.partitions, done.producer_epoch) == (
        TransactionState.COMPLETE_COMMIT,
        (),
        prepared.producer_epoch,
    )


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_a_client_that_has_not_received_the_end_may_ask_again(commit: bool, asked: bool) -> None:
    prepared = ended(begun(state=TransactionState.ONGOING, partitions=(PLACE,)), 3, commit=commit).transaction
    assert prepared is not None
    right = asked == commit
    waiting = ErrorCode.CONCURRENT_TRANSACTIONS if right else ErrorCode.INVALID_TXN_STATE
    assert ended(prepared, 3, commit=asked) == Decision(waiting)
    done = ErrorCode.NONE if right else ErrorCode.INVALID_TXN_STATE
    assert ended(complete(prepared, NOW), 3, commit=asked) == Decision(done)


def test_the_last_epoch_ends_with_another_producer_id() -> None:
    found = begun(state=TransactionState.ONGOING, partitions=(PLACE,), producer_epoch=LAST_EPOCH)
    prepared = ended(found, LAST_EPOCH).transaction
    assert prepared is not None
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (7, 32767, 100)
    done = complete(prepared, NOW)
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (100, 0, 7)
    assert ended(done, LAST_EPOCH) == Decision(ErrorCode.NONE)
    assert ended(done, LAST_EPOCH, id_=6).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_transaction_times_out_after_its_time_out_and_not_at_it() -> None:
    found = {"x": begun(state=TransactionState.ONGOING, start_ms=NOW.wall_ms - 60_000)}
    assert transactions.timed_out(found, NOW) == []
    assert transactions.timed_out(found, Now(NOW.wall_ms + 1, 5)) == ["x"]


def test_only_ids_without_an_open_transaction_expire() -> None:
    old = {state.name: begun(state=state, updated_ms=NOW.wall_ms - 100) for state in TransactionState}
    assert transactions.expired(old, 100, NOW) == ["EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"]
    assert transactions.expired(old, 101, NOW) == []


def test_states_are_named_as_kafka_names_them() -> None:
    assert [state.title for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


# -- records

_TRANSACTIONS = st.builds(
    Transaction,
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(-1, 32767),
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from(TransactionState).filter(lambda state: state is not TransactionState.EMPTY),
    updated_ms=st.integers(0, 2**62),
    start_ms=st.integers(-1, 2**62),
    partitions=st.lists(st.tuples(st.sampled_from(("a", "b")), st.integers(0, 99)), unique=True).map(
        lambda found: tuple(sorted(found))
    ),
    previous_producer_id=st.integers(-1, 2**63 - 1),
    next_producer_id=st.integers(-1, 2**63 - 1),
    client_version=st.integers(0, 2),
    last_producer_epoch=st.just(-1),
)


@given(_TRANSACTIONS)
def test_what_is_written_of_a_transaction_is_read_again(transaction: Transaction) -> None:
    assert transaction_records.parse_value(transaction_records.encode_value(transaction)) == transaction


@given(st.binary(max_size=80))
def test_any_bytes_are_a_transaction_or_none(data: bytes) -> None:
    for parse in (transaction_records.parse_key, transaction_records.parse_value):
        try:
            parse(data)
        except ProtocolError:
            pass


def test_records_of_later_versions_are_distinguished_from_damage() -> None:
    unknown = transaction_records.UnknownRecord
    assert transaction_records.parse_key(b"\0\1junk") == unknown("a key of type 1")
    assert transaction_records.parse_value(b"\0\2junk") == unknown("a value of version 2")


# -- beside a model

_STEPS = st.tuples(
    st.sampled_from(("init", "add", "commit", "abort", "complete", "time out", "again")),
    st.sampled_from((0, 2)),
    st.integers(0, 2),
)


class Client:
    """A producer as it knows itself, and the end that it asked for last."""

    def __init__(self) -> None:
        self.id = self.epoch = -1
        self.last: tuple[int, int, bool] | None = None


@pytest.mark.slow
@seed(1)
@settings(max_examples=300, deadline=None)
@given(st.lists(_STEPS, max_size=40))
def test_one_client_at_a_time_continues_and_decisions_remain(steps: list[tuple[str, int, int]]) -> None:
    """The model: one client owns the id, the last that has initialised; whatever others ask changes nothing.

    Epochs of a producer id never fall; a transaction that is prepared becomes complete with the same outcome and
    nothing else; an end that is asked for again is never answered with the other outcome.
    """
    clients = [Client() for _ in range(3)]
    owner: int | None = None
    state: Transaction | None = None
    outcome: bool | None = None
    new_id = ids()
    for at, (step, version, number) in enumerate(steps):
        now = Now(NOW.wall_ms + at, at)
        client, before = clients[number], state
        decision = Decision(ErrorCode.NONE)
        if step == "init":
            decision = init_producer_id(state, 1000, None, new_id, now)
            if not decision.error:
                assert decision.transaction is not None
                client.id, client.epoch = (
                    decision.transaction.producer_id,
                    decision.transaction.producer_epoch,
                )
                owner = number
            elif decision.transaction is not None:
                owner, outcome = None, False
        elif step == "add":
            decision = add_partitions(state, client.id, client.epoch, [("t", at)], version, now)
        elif step in ("commit", "abort"):
            commits = step == "commit"
            decision = end(
                state,
                client.id,
                client.epoch,
                commit=commits,
                client_version=version,
                new_producer_id=new_id,
                now=now,
            )
            if not decision.error and decision.transaction is not None:
                client.last, outcome = (client.id, client.epoch, commits), commits
                after = complete(decision.transaction, now)
                client.id, client.epoch = after.producer_id, after.producer_epoch
        elif step == "again" and client.last is not None and owner == number:
            last_id, epoch, commits = client.last
            opposite = end(
                state,
                last_id,
                epoch,
                commit=not commits,
                client_version=2,
                new_producer_id=new_id,
                now=now,
            )
            if epoch != client.epoch:
                assert opposite.error
        elif step == "complete" and state is not None and state.is_prepared:
            decision = Decision(ErrorCode.NONE, complete(state, now))
            assert decision.transaction is not None
            assert decision.transaction.commits == outcome
        elif step == "time out" and state is not None and state.state is TransactionState.ONGOING:
            decision = Decision(ErrorCode.NONE, transactions.fence(state, new_id, now))
            owner, outcome = None, False
        if step in ("add", "commit", "abort") and number != owner:
            assert decision.transaction is None, "a client that is fenced has changed something"
        if decision.transaction is None:
            continue
        state = decision.transaction
        if before is not None:
            assert before.producer_id != state.producer_id or before.producer_epoch <= state.producer_epoch
            if before.is_prepared:
                assert state.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
