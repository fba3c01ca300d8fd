"""Meters of the coordinator (KIP-496): plain numbers, so that counting costs next to nothing."""

from dataclasses import dataclass


@dataclass(slots=True)
class Meters:
    """Numbers that only grow, counted when a decision is made, as Kafka's GroupCoordinatorMetrics are.

    offset_commits        offsets, not requests
    offset_expirations    offsets that a round of expiry has deleted
    offset_deletions      offsets that OffsetDelete has deleted, not those of deleted groups and topics
    completed_rebalances  how often a classic group became Stable
    consumer_rebalances   how often a heartbeat, or topics that came, counted a consumer group on; not who left it
    """

    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
    completed_rebalances: int = 0
    consumer_rebalances: int = 0
