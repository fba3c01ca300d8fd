"""The short form of `make flipped-bits`."""

import random

import pytest

from kafka_offsets.storage.segments import stored_batches
from tests.storage.crash.flipped_bits import Campaign, run
from tests.storage.crash.flipped_segments import FULL_EACH


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_flipped_bit_is_found_or_harmless_and_never_makes_an_offset(
    clean: bool, rng: random.Random
) -> None:
    campaign = Campaign(20_000, clean=clean, seed=rng.randrange(1 << 32))
    numbers = rng.sample(range(campaign.size), 120)
    assert run(campaign, numbers) > 10


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_judged_by_what_it_affects_a_flip_is_found_or_harmless_too(clean: bool, rng: random.Random) -> None:
    campaign = Campaign(100_000, clean=clean, seed=rng.randrange(1 << 32))
    segments = [number for number in rng.sample(range(campaign.size), 400) if is_of_a_log(campaign, number)]
    assert run(campaign, segments, affected=True) > 100


def is_of_a_log(campaign: Campaign, number: int) -> bool:
    path, _ = campaign.place(number)
    return path.endswith((".log", "index")) and number % FULL_EACH != 0


def test_a_log_that_checks_no_checksum_is_convicted_by_it(
    monkeypatch: pytest.MonkeyPatch, rng: random.Random
) -> None:
    campaign = Campaign(100_000, clean=True, seed=rng.randrange(1 << 32))
    numbers = [number for number in rng.sample(range(campaign.size), 200) if is_of_a_log(campaign, number)]
    monkeypatch.setattr(stored_batches, "verify_crc", lambda *_: None)
    with pytest.raises(AssertionError, match="another batch"):
        run(campaign, numbers, affected=True)
