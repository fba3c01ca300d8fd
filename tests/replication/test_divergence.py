"""Where two logs part: KIP-101, KIP-279 and KIP-595, as Partition.readRecords and AbstractFetcherThread decide."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.replication.divergence import EpochEnd, OutOfRange, divergence, truncation_offset
from tests.replication.pure_log import PureLog, log_of

LEADER = log_of((0, 5), (2, 5), (4, 5))


@pytest.mark.parametrize(
    ("fetch_offset", "last_fetched_epoch"), [(0, -1), (3, 0), (5, 0), (7, 2), (10, 2), (10, 4), (15, 4)]
)
def test_a_position_that_the_leader_has_does_not_diverge(fetch_offset: int, last_fetched_epoch: int) -> None:
    assert divergence(LEADER, 0, fetch_offset, last_fetched_epoch) is None


@pytest.mark.parametrize(
    ("fetch_offset", "last_fetched_epoch", "end"),
    [
        (6, 0, EpochEnd(0, 5)),
        (7, 1, EpochEnd(0, 5)),
        (12, 2, EpochEnd(2, 10)),
        (12, 3, EpochEnd(2, 10)),
        (16, 4, EpochEnd(4, 15)),
    ],
)
def test_the_leader_answers_with_its_largest_epoch_that_is_not_later(
    fetch_offset: int, last_fetched_epoch: int, end: EpochEnd
) -> None:
    assert divergence(LEADER, 0, fetch_offset, last_fetched_epoch) == end


@pytest.mark.parametrize(("fetch_offset", "last_fetched_epoch"), [(16, -1), (2, -1), (2, 0), (12, 5)])
def test_a_position_outside_the_log_or_of_an_unknown_epoch_is_out_of_range(
    fetch_offset: int, last_fetched_epoch: int
) -> None:
    log = log_of((0, 5), (2, 5), (4, 5))
    log.delete_before(3)
    assert divergence(log, 3, fetch_offset, last_fetched_epoch) == OutOfRange()


def test_a_follower_may_begin_where_the_leaders_log_starts() -> None:
    log = log_of((0, 5))
    log.delete_before(3)
    assert divergence(log, 3, 3, 0) is None


@pytest.mark.parametrize(
    ("answer", "truncation"),
    [
        (EpochEnd(2, 10), 8),
        (EpochEnd(2, 7), 7),
        (EpochEnd(1, 6), 5),
        (EpochEnd(-1, 6), 6),
        (EpochEnd(9, 6), 6),
        (EpochEnd(9, 99), 12),
    ],
)
def test_a_follower_truncates_to_the_end_of_the_largest_common_epoch(
    answer: EpochEnd, truncation: int
) -> None:
    assert truncation_offset(log_of((0, 5), (2, 3), (3, 4)), answer) == truncation


def common(one: PureLog, other: PureLog) -> int:
    """Return how many records two logs share from their start."""
    pairs = zip(one.records, other.records, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one.records), len(other.records)))


@st.composite
def histories(draw: st.DrawFn) -> tuple[PureLog, PureLog]:
    """Return the logs of a leader and of a follower after elections in which either or another node led.

    In each epoch one of three nodes leads. A node that leads again continues its own log; before that, another one may
    have copied a part of it.
    """
    logs = [PureLog() for _ in range(3)]
    for epoch in range(draw(st.integers(1, 8))):
        leader, follower = draw(st.permutations(range(3)))[:2]
        logs[leader].start_epoch(epoch)
        logs[leader].append((epoch, "") for _ in range(draw(st.integers(0, 3))))
        if draw(st.booleans()):
            for _ in range(20):
                if step(logs[leader], logs[follower], draw(st.integers(1, 4))):
                    break
    leader = draw(st.integers(0, 2))
    logs[leader].start_epoch(99)
    return logs[leader], logs[(leader + 1) % 3]


def step(leader: PureLog, follower: PureLog, count: int = 100) -> bool:
    """Fetch once; return whether the follower has appended."""
    found = divergence(leader, 0, follower.log_end_offset, follower.latest_epoch)
    assert not isinstance(found, OutOfRange)
    if found is not None:
        follower.truncate(truncation_offset(follower, found))
        return False
    follower.append(leader.read(follower.log_end_offset, count))
    return True


@given(histories())
def test_a_follower_keeps_what_both_logs_have_and_nothing_else(logs: tuple[PureLog, PureLog]) -> None:
    leader, follower = logs
    shared = common(leader, follower)
    smallest = follower.log_end_offset
    for _ in range(20):
        if step(leader, follower):
            break
        smallest = min(smallest, follower.log_end_offset)
    assert smallest == shared
    assert follower.records == leader.records
