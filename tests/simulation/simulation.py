"""Seeds become plans and steps, steps become runs, and a run that fails becomes the few steps that it takes."""

import random
import traceback
from collections.abc import Callable, Sequence

from tests import seeds
from tests.seeds import Failure
from tests.simulation.observed import determined
from tests.simulation.plan import Plan
from tests.simulation.steps import Step, TimeDriver

STEPS = 200
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
"""How often each kind of step happens. Another kind of group or of request is a line here and a method of Stepper."""


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


def steps_of(seed: int, count: int = STEPS) -> list[Step]:
    r = random.Random(f"steps of {seed}")
    kinds = r.choices([*WEIGHTS], [*WEIGHTS.values()], k=count)
    return [(kind, r.randrange(8), r.getrandbits(32)) for kind in kinds]


def run(plan: Plan, steps: Sequence[Step], trace: Callable[[str], None] | None = None) -> Failure | None:
    """Carry out steps; return what went wrong, if something did."""
    at = -1
    with determined(plan.seed) as complaints:
        try:
            world = TimeDriver(plan, complaints, trace)
            for step in steps:
                at += 1
                world.do(step)
            world.advance(30_000)
            world.check()
        except Exception as error:  # noqa: BLE001 -- whatever the broker does wrong is a finding
            return Failure(at, "".join(traceback.format_exception(error)), type(error).__name__)
    return None


def shrink(plan: Plan, steps: Sequence[Step], limit: int = 2000) -> list[Step]:
    """Return the fewest steps that were found to fail in the same way; `limit` of runs are tried."""
    return seeds.shrink(run, plan, steps, limit)


def report(plan: Plan, steps: Sequence[Step], *, shrunk: bool = True) -> str:
    """Say what went wrong, with the fewest steps that were found to show it, and how to see it again."""
    kept = shrink(plan, steps) if shrunk else steps
    return seeds.report(run, plan, kept, steps_of(plan.seed), "tests.simulation")
