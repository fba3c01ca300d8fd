"""Seeds become plans and steps, steps become runs, and a run that fails becomes the few steps that it takes."""

import random
import traceback
from collections.abc import Callable, Sequence

from tests import seeds
from tests.replication.simulation.plan import Plan
from tests.replication.simulation.world import World
from tests.seeds import Failure, Step

STEPS = 200
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


def steps_of(seed: int, count: int = STEPS) -> list[Step]:
    """Return the steps of a seed."""
    r = random.Random(f"steps of {seed}")
    kinds = r.choices([*WEIGHTS], [*WEIGHTS.values()], k=count)
    return [(kind, r.randrange(60), r.getrandbits(32)) for kind in kinds]


def run(plan: Plan, steps: Sequence[Step], trace: Callable[[str], None] | None = None) -> Failure | None:
    """Carry out steps; return what went wrong, if something did."""
    at = -1
    try:
        world = World(plan, trace)
        for step in steps:
            at += 1
            world.do(step)
        world.settle()
    except Exception as error:  # noqa: BLE001 -- whatever a replica does wrong is a finding
        return Failure(at, "".join(traceback.format_exception(error)), type(error).__name__)
    return None


def shrink(plan: Plan, steps: Sequence[Step], limit: int = 2000) -> list[Step]:
    """Return the fewest steps that were found to fail in the same way; `limit` of runs are tried."""
    return seeds.shrink(run, plan, steps, limit)


def report(plan: Plan, steps: Sequence[Step], *, shrunk: bool = True) -> str:
    """Say what went wrong, with the fewest steps that were found to show it, and how to see it again."""
    kept = shrink(plan, steps) if shrunk else steps
    return seeds.report(run, plan, kept, steps_of(plan.seed), "tests.replication.simulation")
