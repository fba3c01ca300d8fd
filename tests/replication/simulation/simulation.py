"""Replicas and their controller: plans and how often each step happens."""

import random
from contextlib import nullcontext

from tests.replication.simulation.plan import Plan
from tests.replication.simulation.world import World
from tests.simulation.engine import Simulation, Trace

WEIGHTS = {
    "time": 40,
    "produce": 34,
    "kill": 3,
    "power": 3,
    "stop": 2,
    "start": 10,
    "flush": 5,
    "isolate": 6,
    "cut": 3,
    "heal": 8,
    "hold": 8,
    "release": 7,
    "prefer": 2,
    "unclean": 1,
    "reassign": 1.5,
    "cancel": 0.7,
    "delete": 1.5,
}
"""How often each kind of step happens. Another kind is a line here and a method of World."""


def plan_of(seed: int) -> Plan:
    """Return what is the same for all steps of a seed."""
    r = random.Random(f"plan of {seed}")
    nodes = r.choice([3, 3, 4, 5])
    return Plan(
        seed,
        nodes=nodes,
        replicas=r.choice([3, 3, min(nodes, 4)]),
        min_isr=2,
        unclean=r.random() < 0.15,
        elr=r.random() < 0.7,
        loss=r.choice([0, 0, 50, 10]),
        repeat=r.choice([0, 20, 5]),
        drift=r.choice([0, 1, 20]),
        lag_max_ms=r.choice([700, 2000, 6000]),
    )


def _world(plan: Plan, trace: Trace | None) -> nullcontext[World]:
    return nullcontext(World(plan, trace))


SIMULATION = Simulation("tests.replication.simulation", plan_of, WEIGHTS, 60, _world)
