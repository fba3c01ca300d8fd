"""What is the same for all steps of a seed."""

from typing import NamedTuple

NODES = (1, 2, 3)


class Plan(NamedTuple):
    """What is the same for all steps of a seed.

    loss       one in so many frames is lost, with its connection; 0: none
    drift      the clock of every second node is so many percent fast, of the others slow
    forwards   `offsets.forward`: any node takes commits
    """

    seed: int
    fsync: str = "never"
    loss: int = 0
    drift: int = 0
    lag_max_ms: int = 4000
    forwards: bool = False
    segment_bytes: int = 100_000
