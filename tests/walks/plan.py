"""What a walk asks: steps as plain data, so that a walk can be kept, shortened and played again.

A value of a field that depends on earlier answers is a string "$kind.of": see `known.py`. "@name" is a name of the
walk alone: topics, groups and transactional ids of two walks never meet. {"$bytes": text} is bytes in latin-1,
{"$subscription": [topics]} the metadata of a member, {"$batch": …} a record batch.
"""

import random
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.protocol import messages

T = TypeVar("T")
RESTART = "restart"
"""The step that stops and starts both brokers."""

REQUESTS = "requests of "
"""How the kinds begin whose walks are requests of one API, drawn from its schema."""

OLDEST = {"OffsetCommit": 2, "OffsetFetch": 1, "Produce": 3}
"""Where Kafka's versions begin after ours do."""


class Step(NamedTuple):
    """One request.

    client  the connection
    of      whose member, producer or session the answer is remembered as
    """

    client: str
    of: str
    api: str
    version: int
    fields: dict[str, Any]


class Walk(NamedTuple):
    """What is played; `seed` says where it came from, `steps` may be fewer than it made."""

    kind: str
    seed: int
    steps: list[Step]

    @property
    def restarts(self) -> bool:
        return any(step.api == RESTART for step in self.steps)


class Draw(random.Random):
    """What a plan is drawn from."""

    def one(self, *values: T) -> T:
        """Return any of the values."""
        return self.choice(values)

    def usually(self, value: T, *others: Any, odds: float = 0.85) -> Any:
        """Return the first value, seldom one of the others."""
        return value if self.random() < odds else self.choice(others)

    def some(self, values: list[T], most: int = 3) -> list[T]:
        """Return from none to `most` of the values; seldom none, and seldom one twice."""
        count = self.usually(self.randint(1, most), 0, odds=0.95)
        if self.random() < 0.9:
            return self.sample(values, min(count, len(values)))
        return self.choices(values, k=count)

    def version(self, api: str) -> int:
        """Return a version that Kafka serves, rather the newest."""
        number = messages.find(f"{api}Request").SCHEMA.number
        first, last = SERVED.by_key[number].versions
        return self.usually(self.randint(max(first, OLDEST.get(api, first)), last), last, odds=0.7)


Make = Callable[[Draw], list[Step]]
"""Return one step, or a few that belong together."""

KINDS: dict[str, Callable[[Draw], list[Step]]] = {}
"""What makes the steps of a walk, by the kind of walk."""


def kind(name: str, begin: Make, actions: dict[Make, int], length: tuple[int, int] = (12, 30)) -> None:
    """Enter a kind of walk: what it begins with, and how often each action comes."""

    def make(draw: Draw) -> list[Step]:
        steps = begin(draw)
        wanted = len(steps) + draw.randint(*length)
        while len(steps) < wanted:
            (action,) = draw.choices(list(actions), list(actions.values()))
            steps += action(draw)
        return steps

    KINDS[name] = make


def with_restart(name: str) -> None:
    """Enter a kind of walk once more, with a restart in the middle."""

    def make(draw: Draw) -> list[Step]:
        steps = KINDS[name](draw)
        middle = len(steps) // 2
        return [*steps[:middle], Step("restart", "restart", RESTART, 0, {}), *steps[middle:]]

    KINDS[f"{name} and a restart"] = make


def plan(kind: str, seed: int) -> Walk:
    """Return the walk of a seed, always the same."""
    return Walk(kind, seed, KINDS[kind](Draw(f"{kind}:{seed}")))
