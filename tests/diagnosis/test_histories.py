"""Nothing is found in healthy histories; and a history with a member that falls silent is not one."""

import random

import pytest

from tests.conftest import IN_CI, LONG
from tests.diagnosis.histories import Reader, history

SEEDS = 200 if LONG else 20


@pytest.mark.slow
def test_nothing_is_found_in_healthy_histories(rng: random.Random) -> None:
    first = 0 if IN_CI else rng.randrange(10**9)
    for seed in range(first, first + SEEDS):
        assert not history(seed), f"seed {seed}"


def test_a_member_that_falls_silent_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "beat", lambda self: None)
    assert set() < {each.name for each in history(0)} <= {"rebalance-waits", "not-fetched"}
