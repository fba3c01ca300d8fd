"""Whole brokers of a cluster: plans and how often each step happens."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from kafka_offsets.zookeeper.operations import MOST_BYTES
from tests.simulation.cluster.plan import Plan
from tests.simulation.cluster.world import World
from tests.simulation.engine import Simulation, Trace
from tests.simulation.observed import determined

W = TypeVar("W", bound=World)

WEIGHTS = {
    "time": 40,
    "produce": 22,
    "commit": 18,
    "member": 24,
    "read": 4,
    "look": 3,
    "kill": 2.5,
    "power": 2.5,
    "stop": 2,
    "start": 12,
    "isolate": 5,
    "cut": 3,
    "heal": 9,
    "hold": 5,
    "release": 4,
    "pause": 3,
    "resume": 7,
    "prefer": 2,
    "reassign": 3,
    "lead": 6,
}
"""How often each kind of step happens. Another kind is a line here and a method of World."""


def plan_of(seed: int) -> Plan:
    """Return what is the same for all steps of a seed."""
    r = random.Random(f"plan of {seed}")
    nodes = r.choice([3, 3, 4, 5])
    most = r.choice([0, 1, 20])
    return Plan(
        seed,
        nodes=nodes,
        replicas=r.choice([3, nodes]),
        fsync=r.choice(["never", "interval", "commit"]),
        loss=r.choice([0, 0, 100, 20]),
        drifts=tuple(r.randint(-most, most) for _ in range(nodes)),
        lag_max_ms=r.choice([700, 2000, 6000]),
        forwards=r.random() < 0.3,
        segment_bytes=r.choice([600, 100_000]),
        most_bytes=r.choice([600, MOST_BYTES, MOST_BYTES]),
    )


@contextmanager
def opened(new_world: Callable[..., W], plan: Plan, trace: Trace | None) -> Iterator[W]:
    """Open a world of brokers for one run."""
    with determined(plan.seed) as complaints:
        world = new_world(plan, complaints, trace)
        try:
            world.begin()
            yield world
        finally:
            world.close()


SIMULATION = Simulation("tests.simulation.cluster", plan_of, WEIGHTS, 60, partial(opened, World), tries=300)
