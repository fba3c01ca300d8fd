"""What is the same for all steps of a seed."""

from typing import NamedTuple


class Plan(NamedTuple):
    """What is the same for all steps of a seed.

    nodes       how many brokers, numbered from 1
    replicas    of each partition
    loss        one in so many frames is lost, with its connection; 0: none
    drifts      the clock of each node is so many percent fast, or slow
    forwards    `offsets.forward`: any node takes commits
    most_bytes  of one request to ZooKeeper; a change that is larger is several requests
    """

    seed: int
    nodes: int
    replicas: int
    fsync: str
    loss: int
    drifts: tuple[int, ...]
    lag_max_ms: int
    forwards: bool
    segment_bytes: int
    most_bytes: int

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The ids of all brokers."""
        return tuple(range(1, self.nodes + 1))
