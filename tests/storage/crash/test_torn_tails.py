"""The short form of `make torn-tails`."""

import random

import pytest

from kafka_offsets.storage.segments.segment import Recovery, Segment
from tests.storage.crash.torn_tails import FILLINGS, SEED, Torn, check_all


@pytest.fixture(scope="module")
def torn() -> Torn:
    return Torn(SEED, 1 << 14)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILLINGS)
def test_a_torn_tail_loses_no_whole_commit_and_none_that_follows(
    torn: Torn, kind: str, rng: random.Random
) -> None:
    cuts = sorted({*rng.sample(torn.tail, 30), torn.tail.start, torn.tail.stop - 1})
    assert check_all(torn, cuts, [kind]) == len(cuts)


def test_a_broker_that_leaves_the_torn_tail_is_convicted(torn: Torn, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave_it(segment: Segment, file: object, damage: object, *_: object) -> Recovery:
        return Recovery(segment.path, segment.size, 1, "left")

    monkeypatch.setattr(Segment, "_cut_torn_tail", leave_it)
    with pytest.raises(AssertionError):
        torn.check(torn.tail.stop - 5, "zeros")
