"""A walk with both brokers: where they differ, and the walk that shows it with the fewest requests."""

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from tests.differential.brokers import PATIENCE_MS
from tests.differential.play import Event
from tests.differential.printed import Names, build
from tests.walks.drawn import NO_IDS, Ids, as_kafka_drew, drawn_members, draws
from tests.walks.exemptions import as_ours
from tests.walks.known import Known
from tests.walks.peers import OwnPeer
from tests.walks.plan import RESTART, Step, Walk
from tests.walks.play import Peer, Side, settle, step_after, step_alone
from tests.walks.simpler import simpler_steps

Steps = list[list[Event]]
"""The events of each step."""


MOST_CODES = 1000
"""A number that is no time and no id."""

LINE = 1200
"""As many characters of a line are shown."""

MOST_REPEATS = 4
"""So often ours repeats a walk at most until it has drawn Kafka's ids: once is enough for all recorded walks."""


class Played(NamedTuple):
    """What both brokers did in a walk.

    drew  the ids that Kafka drew
    """

    ours: Steps
    kafkas: Steps
    drew: Ids


class Difference(NamedTuple):
    """The first step whose events are not alike."""

    walk: Walk
    ours: Steps
    kafkas: Steps

    @property
    def unlike(self) -> list[Any]:
        """The fields that lead to what differs, and the values or types of both."""
        return _unlike(_answers(self.ours[-1]), _answers(self.kafkas[-1]))

    def __str__(self) -> str:
        lines = [f"{self.walk.kind}, seed {self.walk.seed}, {len(self.ours)} requests"]
        for events in self.ours[:-1]:
            lines += [f"        {json.dumps(event)}" for event in events]
        for name, side in (("ours ", self.ours), ("Kafka", self.kafkas)):
            lines += [f"  {name} {json.dumps(event)}" for event in side[-1]]
        return "\n".join([*(line[:LINE] for line in lines), f"  unlike: {self.unlike}"])


def sendable(walk: Walk) -> Walk:
    """Return a walk without the requests that cannot be written in their version, such as null where it is not."""
    return walk._replace(steps=[step for step in walk.steps if step.api == RESTART or _is_written(step)])


def _is_written(step: Step) -> bool:
    names = Names()
    cls = messages.find(f"{step.api}Request")
    try:
        request = build(cls, Known("", names).resolve(step.fields), step.version, names)
        messages.encode(request, step.version)
    except ProtocolError:
        return False
    return True


def play(walk: Walk, kafka: Peer, number: int, patience_ms: int = PATIENCE_MS) -> Played:
    """Play a walk with both up to the first difference, or to where one has no meaning; return what each did.

    Where they differ, ours plays the walk again with the ids that Kafka drew.
    """
    mine: Steps = []
    kafkas: Steps = []
    with draws() as drawn:
        ours, theirs = Side(OwnPeer(), number), Side(kafka, number, patience_ms)
        try:
            for step in walk.steps:
                mine.append(step_alone(ours, step))
                kafkas.append(step_after(theirs, step, mine[-1]))
                if difference(walk, mine, kafkas):
                    drawn.repeat(as_kafka_drew(drawn.ids, ours.ids, theirs.ids))
                    ours.close()
                    ours = Side(OwnPeer(), number)
                    mine = _replay(ours, walk.steps[: len(kafkas)])
                if difference(walk, mine, kafkas):
                    break
                settle(ours, step)
                settle(theirs, step)
                if not ours.has_meaning_after(step, mine[-1]):
                    break
        finally:
            ours.close()
            theirs.close()
    return Played(mine, kafkas, theirs.ids.named(drawn_members(drawn.ids, ours.ids)))


def _replay(side: Side, steps: list[Step]) -> Steps:
    found = [step_alone(side, steps[0])]
    for before, step in pairwise(steps):
        settle(side, before)
        found.append(step_alone(side, step))
    return found


def play_ours(walk: Walk, number: int, drew: Ids = NO_IDS) -> Steps:
    """Play a walk with ours alone, and with the ids that Kafka drew.

    Only its answers tell what ours draws an id for: it plays until all ids are those of Kafka.
    """
    with draws() as drawn:
        found, ids = _play_alone(walk, number)
        for _ in range(MOST_REPEATS):
            given = as_kafka_drew(drawn.ids, ids, drew)
            if all(wanted in (None, mine) for wanted, mine in zip(given, drawn.ids, strict=True)):
                break
            drawn.repeat(given)
            found, ids = _play_alone(walk, number)
    return found


def _play_alone(walk: Walk, number: int) -> tuple[Steps, Ids]:
    side = Side(OwnPeer(), number)
    found: Steps = []
    try:
        for step in walk.steps:
            found.append(step_alone(side, step))
            settle(side, step)
            if not side.has_meaning_after(step, found[-1]):
                break
    finally:
        side.close()
    return found, side.ids


def difference(walk: Walk, ours: Steps, kafkas: Steps) -> Difference | None:
    """Return the first difference, None if there is none."""
    alike: Steps = []
    for step, mine, theirs in zip(walk.steps, ours, kafkas, strict=False):
        alike.append(as_ours(step, mine, theirs))
        if mine != alike[-1]:
            end = len(alike)
            return Difference(walk._replace(steps=walk.steps[:end]), ours[:end], alike)
    return None


def shrink(found: Difference, find: Callable[[Walk], Difference | None]) -> Difference:
    """Return the difference with the fewest and simplest requests that still differ in the same answer.

    find  plays a walk
    """

    def smaller(steps: list[Step]) -> Difference | None:
        seen = find(sendable(found.walk._replace(steps=steps))) if steps else None
        return seen if seen and _kind(seen) == _kind(found) else None

    size = max(1, len(found.walk.steps) // 2)
    while size:
        start = 0
        while start < len(found.walk.steps):
            if seen := smaller(found.walk.steps[:start] + found.walk.steps[start + size :]):
                found = seen
            else:
                start += size
        size //= 2
    return _simplified(found, smaller)


def _simplified(found: Difference, smaller: Callable[[list[Step]], Difference | None]) -> Difference:
    """Return the difference with the least in each request."""
    for number in reversed(range(len(found.walk.steps))):
        is_simplest = False
        while not is_simplest:
            steps = found.walk.steps
            simpler = ([*steps[:number], step, *steps[number + 1 :]] for step in simpler_steps(steps[number]))
            seen = next(filter(None, map(smaller, simpler)), None)
            is_simplest = seen is None
            found = seen or found
    return found


def _kind(found: Difference) -> Any:
    """What a smaller walk must show as well: which API, and which fields differ how."""
    return found.walk.steps[-1].api, *found.unlike


def _answers(events: Iterable[Event]) -> list[Any]:
    return [event[-1] for event in events]


def _unlike(one: Any, other: Any) -> list[Any]:
    """Return what differs, as (field, ours, Kafka's) of the first leaf."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one:
            if one[name] != other.get(name):
                return [name, *_unlike(one[name], other.get(name))]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for mine, theirs in zip(one, other, strict=True):
            if mine != theirs:
                return _unlike(mine, theirs)
    are_codes = all(isinstance(each, int) and abs(each) < MOST_CODES for each in (one, other))
    return [one, other] if are_codes else [type(one).__name__, type(other).__name__]
