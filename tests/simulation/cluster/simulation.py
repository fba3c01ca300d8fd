"""Seeds become plans and steps, steps become runs, and a run that fails becomes the few steps that it takes."""

import random
import traceback
from collections.abc import Callable, Mapping, Sequence

from kafka_offsets.zookeeper.operations import MOST_BYTES
from tests import seeds
from tests.seeds import Failure, Step
from tests.simulation.cluster.plan import Plan
from tests.simulation.cluster.world import World
from tests.simulation.observed import determined

STEPS = 200
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


def steps_of(seed: int, count: int = STEPS, weights: Mapping[str, float] = WEIGHTS) -> list[Step]:
    """Return the steps of a seed."""
    r = random.Random(f"steps of {seed}")
    kinds = r.choices([*weights], [*weights.values()], k=count)
    return [(kind, r.randrange(60), r.getrandbits(32)) for kind in kinds]


def run(
    plan: Plan,
    steps: Sequence[Step],
    trace: Callable[[str], None] | None = None,
    new_world: Callable[..., World] = World,
) -> Failure | None:
    """Carry out steps; return what went wrong, if something did."""
    at = -1
    with determined(plan.seed) as complaints:
        world = new_world(plan, complaints, trace)
        try:
            world.begin()
            for step in steps:
                at += 1
                world.do(step)
            world.settle()
        except Exception as error:  # noqa: BLE001 -- whatever a broker does wrong is a finding
            return Failure(at, "".join(traceback.format_exception(error)), type(error).__name__)
        finally:
            world.close()
    return None


def shrink(plan: Plan, steps: Sequence[Step], limit: int = 300) -> list[Step]:
    """Return the fewest steps that were found to fail in the same way; `limit` of runs are tried."""
    return seeds.shrink(run, plan, steps, limit)


def report(plan: Plan, steps: Sequence[Step], *, shrunk: bool = True) -> str:
    """Say what went wrong, with the fewest steps that were found to show it, and how to see it again."""
    kept = shrink(plan, steps) if shrunk else steps
    return seeds.report(run, plan, kept, steps_of(plan.seed), "tests.simulation.cluster")
