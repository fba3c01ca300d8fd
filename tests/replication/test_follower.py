"""A follower of a partition, as AbstractFetcherThread and ReplicaFetcherThread of Kafka 4.3.1 decide."""

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.divergence import EpochEnd
from kafka_offsets.replication.follower import (
    Append,
    Fenced,
    FetchAnswer,
    FetchOf,
    FollowerReplica,
    OffsetsAnswer,
    OffsetsOf,
    SetHighWatermark,
    SetLogStart,
    StartOver,
    Truncate,
    Wait,
)
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState
from tests.replication.pure_log import PureLog, log_of

STATE = PartitionState(replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=5, partition_epoch=8)
BATCH = b"records"


def following(log: PureLog, *, high_watermark: int = 0) -> FollowerReplica:
    follower = FollowerReplica(2, STATE)
    follower.start(log.log_end_offset, high_watermark, log.latest_epoch)
    return follower


def fetch(follower: FollowerReplica, log: PureLog) -> FetchOf:
    found = follower.next_fetch(log.log_end_offset, log.log_start_offset, log.latest_epoch)
    assert found is not None
    return found


# --- what it asks


def test_a_follower_fetches_at_the_end_of_its_log() -> None:
    log = log_of((3, 4), (4, 2))
    assert fetch(following(log), log) == FetchOf(6, 5, 4, 0)


def test_a_follower_of_an_empty_log_has_no_last_epoch() -> None:
    log = PureLog()
    assert fetch(following(log), log) == FetchOf(0, 5, -1, 0)


@pytest.mark.parametrize("leader", [NO_LEADER, 2])
def test_without_another_leader_no_broker_is_asked(leader: int) -> None:
    follower = FollowerReplica(2, STATE._replace(leader=leader))
    assert follower.next_fetch(0, 0, -1) is None
    assert follower.next_question(0, 0, -1) is None


def test_a_log_without_epochs_is_truncated_to_its_high_watermark() -> None:
    follower = FollowerReplica(2, STATE)
    assert follower.start(6, 4, -1) == (Truncate(4),)
    assert follower.start(4, 4, -1) == ()


# --- records


def test_a_follower_appends_and_then_sets_the_high_watermark() -> None:
    log = log_of((4, 6))
    follower = following(log, high_watermark=6)
    answer = FetchAnswer(fetch(follower, log), records=BATCH, next_offset=9, high_watermark=8)
    assert follower.on_answer(answer, log) == (Append(BATCH), SetHighWatermark(8))


def test_the_high_watermark_does_not_exceed_the_own_log_end() -> None:
    log = log_of((4, 6))
    follower = following(log)
    answer = FetchAnswer(fetch(follower, log), records=BATCH, next_offset=9, high_watermark=50)
    assert follower.on_answer(answer, log) == (Append(BATCH), SetHighWatermark(9))


def test_the_high_watermark_is_not_below_the_own_log_start() -> None:
    """After an unclean election a leader may be below it; UnifiedLog.updateHighWatermark does the same."""
    log = log_of((4, 6))
    log.delete_before(5)
    follower = following(log, high_watermark=6)
    answer = FetchAnswer(fetch(follower, log), next_offset=6, high_watermark=3)
    assert follower.on_answer(answer, log) == (SetHighWatermark(5),)


def test_an_answer_without_records_may_move_the_high_watermark() -> None:
    log = log_of((4, 6))
    follower = following(log, high_watermark=5)
    answer = FetchAnswer(fetch(follower, log), next_offset=6, high_watermark=6)
    assert follower.on_answer(answer, log) == (SetHighWatermark(6),)


def test_the_high_watermark_may_fall_with_a_new_leader() -> None:
    log = log_of((4, 6))
    follower = following(log, high_watermark=6)
    answer = FetchAnswer(fetch(follower, log), next_offset=6, high_watermark=5)
    assert follower.on_answer(answer, log) == (SetHighWatermark(5),)


def test_an_unchanged_high_watermark_is_not_set_again() -> None:
    log = log_of((4, 6))
    follower = following(log, high_watermark=6)
    assert follower.on_answer(FetchAnswer(fetch(follower, log), next_offset=6, high_watermark=6), log) == ()


def test_a_high_watermark_that_was_set_is_not_set_again() -> None:
    log = log_of((4, 6))
    follower = following(log)
    for decisions in ((SetHighWatermark(6),), ()):
        answer = FetchAnswer(fetch(follower, log), next_offset=6, high_watermark=6, log_start_offset=0)
        assert follower.on_answer(answer, log) == decisions


def test_a_truncation_lowers_the_high_watermark_too() -> None:
    log = log_of((3, 4), (4, 2))
    follower = following(log, high_watermark=5)
    follower.on_answer(FetchAnswer(fetch(follower, log), diverging=EpochEnd(3, 3)), log)
    log.truncate(3)
    answer = FetchAnswer(fetch(follower, log), next_offset=3, high_watermark=5)
    assert follower.on_answer(answer, log) == ()


def test_the_log_start_follows_the_leader() -> None:
    log = log_of((4, 6))
    follower = following(log, high_watermark=6)
    answer = FetchAnswer(fetch(follower, log), next_offset=6, high_watermark=6, log_start_offset=3)
    assert follower.on_answer(answer, log) == (SetLogStart(3),)


# --- answers that come too late


def test_an_answer_is_used_once() -> None:
    log = log_of((4, 6))
    follower = following(log)
    answer = FetchAnswer(fetch(follower, log), records=BATCH, next_offset=9, high_watermark=8)
    follower.on_answer(answer, log)
    assert follower.on_answer(answer, log) == ()


def test_the_answer_to_an_earlier_fetch_is_ignored() -> None:
    log = log_of((4, 6))
    follower = following(log)
    earlier = FetchAnswer(fetch(follower, log), records=BATCH, next_offset=9, high_watermark=8)
    log.truncate(5)
    fetch(follower, log)
    assert follower.on_answer(earlier, log) == ()


def test_the_answer_of_an_earlier_leader_is_ignored() -> None:
    log = log_of((4, 6))
    follower = following(log)
    earlier = FetchAnswer(fetch(follower, log), records=BATCH, next_offset=9, high_watermark=8)
    assert follower.on_state(STATE._replace(leader=3, leader_epoch=6, partition_epoch=9))
    assert follower.on_answer(earlier, log) == ()


def test_a_change_of_the_isr_does_not_disturb_a_fetch() -> None:
    log = log_of((4, 6))
    follower = following(log)
    answer = FetchAnswer(fetch(follower, log), records=BATCH, next_offset=9, high_watermark=8)
    assert not follower.on_state(STATE._replace(isr=(1,), partition_epoch=9))
    assert follower.on_answer(answer, log) != ()


def test_an_older_state_is_ignored() -> None:
    follower = FollowerReplica(2, STATE)
    assert not follower.on_state(STATE._replace(leader_epoch=9, partition_epoch=7))
    assert follower.state == STATE


# --- errors


def test_a_fenced_follower_waits_for_a_new_state() -> None:
    log = log_of((4, 6))
    follower = following(log)
    answer = FetchAnswer(fetch(follower, log), ErrorCode.FENCED_LEADER_EPOCH)
    assert follower.on_answer(answer, log) == (Fenced(),)
    assert follower.next_fetch(6, 0, 4) is None
    follower.on_state(STATE._replace(isr=(1,), partition_epoch=9))
    assert follower.next_fetch(6, 0, 4) is None
    follower.on_state(STATE._replace(leader_epoch=6, partition_epoch=10))
    assert follower.next_fetch(6, 0, 4) == FetchOf(6, 6, 4, 0)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_other_errors_are_tried_again_after_a_pause(error: ErrorCode) -> None:
    """A leader that answers UNKNOWN_LEADER_EPOCH does not have the state yet which this follower has already."""
    log = log_of((4, 6))
    follower = following(log)
    assert follower.on_answer(FetchAnswer(fetch(follower, log), error), log) == (Wait(),)
    assert fetch(follower, log) == FetchOf(6, 5, 4, 0)


# --- truncation


def test_a_follower_truncates_to_where_the_leader_diverges() -> None:
    log = log_of((3, 4), (4, 2))
    follower = following(log, high_watermark=5)
    answer = FetchAnswer(fetch(follower, log), diverging=EpochEnd(3, 3))
    assert follower.on_answer(answer, log) == (Truncate(3),)


def test_the_high_watermark_is_unknown_until_the_next_fetch_after_a_truncation() -> None:
    log = log_of((3, 4), (4, 2))
    follower = following(log, high_watermark=2)
    answer = FetchAnswer(fetch(follower, log), diverging=EpochEnd(3, 3), high_watermark=3)
    assert follower.on_answer(answer, log) == (Truncate(3),)


def test_an_epoch_without_records_is_truncated_too() -> None:
    """This node led in epoch 4 and appended nothing; the leader does not know that epoch."""
    log = log_of((3, 4))
    log.start_epoch(4)
    follower = following(log)
    answer = FetchAnswer(fetch(follower, log), diverging=EpochEnd(3, 4))
    assert follower.on_answer(answer, log) == (Truncate(4),)
    log.truncate(4)
    assert fetch(follower, log) == FetchOf(4, 5, 3, 0)


def test_a_follower_asks_again_with_the_next_smaller_epoch() -> None:
    """KIP-279: epoch 3 of this log is unknown to the leader, and epoch 2 of the leader is unknown here."""
    log = log_of((1, 4), (3, 2))
    follower = following(log)
    assert follower.on_answer(FetchAnswer(fetch(follower, log), diverging=EpochEnd(2, 9)), log) == (
        Truncate(4),
    )
    log.truncate(4)
    again = fetch(follower, log)
    assert again == FetchOf(4, 5, 1, 0)
    assert follower.on_answer(FetchAnswer(again, diverging=EpochEnd(1, 3)), log) == (Truncate(3),)
    log.truncate(3)
    assert fetch(follower, log) == FetchOf(3, 5, 1, 0)


# --- out of range


def out_of_range(follower: FollowerReplica, log: PureLog) -> None:
    answer = FetchAnswer(fetch(follower, log), ErrorCode.OFFSET_OUT_OF_RANGE)
    assert follower.on_answer(answer, log) == ()
    assert follower.next_fetch(log.log_end_offset, log.log_start_offset, log.latest_epoch) is None
    question = follower.next_question(log.log_end_offset, log.log_start_offset, log.latest_epoch)
    assert question == OffsetsOf(5)


@pytest.mark.parametrize(
    ("start", "end", "decision"),
    [
        (8, 20, StartOver(8)),
        (0, 4, Truncate(4)),
        (4, 4, StartOver(4)),
        (6, 6, Wait()),
        (0, 20, Wait()),
    ],
)
def test_a_follower_returns_to_the_leaders_range(
    start: int, end: int, decision: StartOver | Truncate | Wait
) -> None:
    log = log_of((4, 6))
    follower = following(log)
    out_of_range(follower, log)
    assert follower.on_answer(OffsetsAnswer(OffsetsOf(5), ErrorCode.NONE, start, end), log) == (decision,)
    assert follower.next_fetch(6, 0, 4) is not None


def test_a_log_that_starts_after_the_end_of_the_leaders_begins_again_there() -> None:
    """After an unclean election; UnifiedLog.truncateTo does the same."""
    log = log_of((3, 4), (4, 2))
    log.delete_before(5)
    follower = following(log)
    answer = FetchAnswer(fetch(follower, log), diverging=EpochEnd(3, 4))
    assert follower.on_answer(answer, log) == (StartOver(4),)


def test_records_before_the_leaders_log_start_are_not_kept_when_the_log_is_cut_there() -> None:
    # They are of another epoch, and the leader has nothing to compare them with. This replica could lead with them.
    log = log_of((3, 4), (4, 2))
    follower = following(log)
    question = fetch(follower, log)
    answer = FetchAnswer(question, log_start_offset=4, diverging=EpochEnd(3, 4))
    assert follower.on_answer(answer, log) == (StartOver(4),)


def test_the_leaders_range_is_asked_again_after_an_error() -> None:
    log = log_of((4, 6))
    follower = following(log)
    out_of_range(follower, log)
    answer = OffsetsAnswer(OffsetsOf(5), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert follower.on_answer(answer, log) == (Wait(),)
    assert follower.next_question(6, 0, 4) == OffsetsOf(5)
