"""Seeds become plans and steps, and steps become runs with ZooKeeper."""

from collections.abc import Callable, Sequence

from tests import seeds
from tests.seeds import Failure, Step
from tests.simulation.cluster import simulation
from tests.simulation.cluster.plan import Plan
from tests.simulation.cluster.simulation import STEPS, plan_of
from tests.simulation.cluster.zookeeper.world import ZooKeeperWorld

WEIGHTS = {
    **simulation.WEIGHTS,
    "time": 70,
    "kill": 1.5,
    "power": 1.5,
    "stop": 1.5,
    "start": 20,
    "isolate": 3.5,
    "cut": 2,
    "heal": 14,
    "release": 8,
    "resume": 12,
    "expire": 1.5,
    "away": 1,
}
"""More time passes between faults: a node that is back waits for the end of its session, and for a controller."""

__all__ = ["plan_of", "report", "run", "shrink", "steps_of"]


def steps_of(seed: int, count: int = STEPS) -> list[Step]:
    """Return the steps of a seed."""
    return simulation.steps_of(seed, count, WEIGHTS)


def run(plan: Plan, steps: Sequence[Step], trace: Callable[[str], None] | None = None) -> Failure | None:
    """Carry out steps; return what went wrong, if something did."""
    return simulation.run(plan, steps, trace, ZooKeeperWorld)


def shrink(plan: Plan, steps: Sequence[Step], limit: int = 300) -> list[Step]:
    """Return the fewest steps that were found to fail in the same way; `limit` of runs are tried."""
    return seeds.shrink(run, plan, steps, limit)


def report(plan: Plan, steps: Sequence[Step], *, shrunk: bool = True) -> str:
    """Say what went wrong, with the fewest steps that were found to show it, and how to see it again."""
    kept = shrink(plan, steps) if shrunk else steps
    return seeds.report(run, plan, kept, steps_of(plan.seed), "tests.simulation.cluster.zookeeper")
