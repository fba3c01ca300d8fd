"""What is the same for all steps of a seed."""

from typing import NamedTuple


class Plan(NamedTuple):
    """What is the same for all steps of a seed.

    nodes     brokers; as many replicas as `replicas` at the start
    unclean   `unclean.leader.election.enable`
    elr       eligible leader replicas are tracked. Only then do power failures lose records; else Kafka may lose them
    loss      one in so many messages is lost; 0: none
    repeat    one in so many messages arrives twice; 0: none
    drift     the clock of every second node is so many percent fast, of the others slow
    """

    seed: int
    nodes: int = 3
    replicas: int = 3
    min_isr: int = 2
    unclean: bool = False
    elr: bool = True
    loss: int = 0
    repeat: int = 0
    drift: int = 0
    lag_max_ms: int = 4000
