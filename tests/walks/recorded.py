"""The walks that are kept with Kafka's answers, to be played without it.

A line is a walk, its steps and what Kafka did in each of them.
"""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.walks.compare import Steps, difference, play_ours
from tests.walks.plan import Walk

FILE = Path(__file__).resolve().parents[1] / "data" / "walks.jsonl.gz"
PLAYS = 12
"""How often ours must answer alike before a walk is kept: the order of some lists is that of random ids."""


class Recorded(NamedTuple):
    """A walk with Kafka's answers."""

    walk: Walk
    kafkas: Steps

    @property
    def name(self) -> str:
        return f"{self.walk.kind}, seed {self.walk.seed}"


def read() -> list[Recorded]:
    """Return the walks that are kept."""
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        return [Recorded(Walk.from_json(line), line["kafka"]) for line in map(json.loads, lines)]


def write(walks: Iterable[Recorded]) -> None:
    """Keep walks, and no others."""
    with FILE.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as lines:
        for walk, kafkas in walks:
            lines.write(json.dumps(walk.to_json() | {"kafka": kafkas}).encode() + b"\n")


def is_settled(recorded: Recorded) -> bool:
    """Whether ours answers a walk alike each time."""
    walk, kafkas = recorded
    return not any(difference(walk, play_ours(walk, number), kafkas) for number in range(PLAYS))
