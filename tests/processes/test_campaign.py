"""The short form of `make processes`: three faults of a cluster of processes, under clients with histories."""

from pathlib import Path

import pytest

from tests.conftest import SEED
from tests.interop.broker_process import OVERRIDE
from tests.processes.campaign import Campaign
from tests.processes.clients import GrowingOffsets, Offsets, ViolationError
from tests.processes.our_processes import BrokersProcesses

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.skipif(OVERRIDE is not None, reason="another command has no --brokers"),
]


class QuickBrokers(BrokersProcesses):
    """Brokers whose sessions end soon, so that a pause for longer is short."""

    session_s = 1.0


def test_killed_and_paused_processes_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    campaign = Campaign(
        QuickBrokers(tmp_path / "cluster"), SEED, tmp_path / "histories", own_requests_only=True
    )
    try:
        campaign.start()
        for fault in ("kill", "pause", "kill-two"):
            campaign.round(fault)
        campaign.finish()
    finally:
        campaign.close()
    assert all(client.acknowledged for client in campaign.clients)


def test_an_offset_before_the_last_acknowledged_one_is_a_loss() -> None:
    offsets = Offsets()
    offsets.unknown = {3, 7}
    offsets.acknowledge(5)
    for found in (5, 3, 7):
        offsets.check(found, "g")
    for found in (4, 6, -1):
        with pytest.raises(ViolationError, match=f"g: found {found}, acknowledged 5"):
            offsets.check(found, "g")


def test_an_unknown_offset_does_not_take_effect_after_a_later_one_was_acknowledged() -> None:
    offsets = GrowingOffsets()
    offsets.unknown = {3, 7}
    offsets.acknowledge(5)
    for found in (5, 7):
        offsets.check(found, "g")
    with pytest.raises(ViolationError, match="g: found 3, acknowledged 5"):
        offsets.check(3, "g")
