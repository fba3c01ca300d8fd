"""Meters of the coordinator (KIP-496): plain numbers, because counting them costs almost nothing."""

from dataclasses import dataclass


@dataclass(slots=True)
class Meters:
    """Numbers that only grow, counted when a decision is made, as Kafka's GroupCoordinatorMetrics are.

    offset_commits        offsets, not requests
    offset_expirations    offsets deleted by expiration
    offset_deletions      offsets deleted by a request; not those of deleted groups and topics
    completed_rebalances  how often a classic group became Stable
    consumer_rebalances   epochs of consumer groups that a heartbeat or a new topic caused; leaving members do not count
    """

    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
    completed_rebalances: int = 0
    consumer_rebalances: int = 0
