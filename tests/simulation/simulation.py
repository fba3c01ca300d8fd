"""One broker without sockets, its clients, crashes and clocks: plans and how often each step happens."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.engine import Simulation, Trace
from tests.simulation.observed import determined
from tests.simulation.plan import Plan
from tests.simulation.steps import TimeDriver

WEIGHTS = {
    "next": 42,
    "commit": 12,
    "fetch": 7,
    "transact": 12,
    "time": 14,
    "odd_join": 2,
    "odd_sync": 2,
    "odd_heartbeat": 2,
    "odd_commit": 2,
    "leave": 2,
    "delete_offsets": 2,
    "delete_groups": 1.5,
    "describe": 2,
    "list": 1.5,
    "topic": 1,
    "wall": 1,
    "stall": 0.4,
    "cut": 1,
    "deaf": 0.8,
    "restart": 1,
    "kill": 0.5,
    "power": 0.5,
    "stop": 0.4,
    "compact": 1,
    "expire": 0.7,
    "quiet": 0.06,
}
"""How often each kind of step happens. Another kind of group or request is a line here and a method of TimeDriver."""


def plan_of(seed: int) -> Plan:
    r = random.Random(f"plan of {seed}")
    fsync = r.choice(["never", "never", "interval", "commit", "commit"])
    return Plan(
        seed,
        fsync=fsync,
        shards=r.choice([1, 1, 2, 3]),
        initial_delay_ms=r.choice([0, 0, 3000]),
        max_size=r.choice([2_147_483_647, 2_147_483_647, 2]),
        segment_bytes=r.choice([600, 2000, 100_000]),
        disk_ms=r.choice([0, 12, 400]),
        power=fsync == "commit" and r.random() < 0.5,
        delete_retention_ms=r.choice([0, 60_000, 86_400_000]),
        codec=r.choice([0, 0, 0, 2]),
        retention_minutes=r.choice([1, 5, 10_080]),
        expiry_ms=r.choice([10_000, 600_000]),
        cast=r.choice([0, 1, 2]),
        max_consumers=r.choice([2_147_483_647, 2_147_483_647, 2]),
        assignment_pause_ms=r.choice([0, 0, 1000]),
        regex_pause_ms=r.choice([10_000, 500]),
    )


@contextmanager
def _world(plan: Plan, trace: Trace | None) -> Iterator[TimeDriver]:
    with determined(plan.seed) as complaints:
        yield TimeDriver(plan, complaints, trace)


SIMULATION = Simulation("tests.simulation", plan_of, WEIGHTS, 8, _world)
