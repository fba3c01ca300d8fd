"""The short form of `make flipped-bits`."""

import random

import pytest

from tests.storage.flipped_bits import Campaign, run


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_flipped_bit_is_found_or_harmless_and_never_makes_an_offset(
    clean: bool, rng: random.Random
) -> None:
    campaign = Campaign(20_000, clean=clean, seed=rng.randrange(1 << 32))
    numbers = rng.sample(range(campaign.size), 120)
    assert run(campaign, numbers) > 10
