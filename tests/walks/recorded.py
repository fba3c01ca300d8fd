"""The walks that are kept with Kafka's answers, to be played without it: tests/stories/walks, one file a kind.

The form is that of tests/differential/stories.py. A title names the kind and the seed, and so the walk: its requests
are planned again, and must be those of the text. "@name" is a name of the walk alone. First come the ids that Kafka
drew, for ours to draw the same: who is assigned what depends on them.

    cluster drew #2 as KA8K0wjdQzy9G5o2giDfcA
    cluster drew orders as 4cf717e8c160495db2760b4ebc0de846
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tests.differential.play import Event
from tests.differential.stories import CLUSTER, STORIES, Stories, file_of
from tests.walks.compare import Steps, difference, play_ours, sendable
from tests.walks.drawn import NO_IDS, Ids
from tests.walks.found import FOUND
from tests.walks.plan import KINDS, REQUESTS, RESTART, Walk, plan

FOLDER = STORIES / "walks"
PLAYS = 12
"""How often ours must answer alike before a walk is kept: some ids that ours draws, Kafka never shows."""

MOST, MOST_OF_AN_API = 4, 1
"""So many walks of a kind are kept."""


class Recorded(NamedTuple):
    """A walk with Kafka's answers, and the ids that it drew."""

    walk: Walk
    kafkas: Steps
    drew: Ids = NO_IDS

    @property
    def name(self) -> str:
        return f"{self.walk.kind}, seed {self.walk.seed}"


def file_for(kind: str) -> str:
    """Return the name of the file for a kind of walk: those that found something share one, and those of one API."""
    if kind.startswith(REQUESTS):
        return "requests.txt"
    return "found.txt" if kind in FOUND else f"{kind.replace(' ', '_')}.txt"


def texts() -> dict[str, str]:
    """Return what is kept, by file."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.txt"))}


def read(texts: Mapping[str, str]) -> list[Recorded]:
    """Return the walks of texts, which are named by their file."""
    return [_recorded(walk_of(name), events) for name, events in Stories(texts).items()]


def _recorded(walk: Walk, events: list[Event]) -> Recorded:
    drew = [text for at, text, *_ in events if at == CLUSTER]
    return Recorded(walk, _steps(walk, events[len(drew) :]), _ids(drew))


def _ids(texts: list[str]) -> Ids:
    members: dict[str, str] = {}
    topics: dict[tuple[str, int], bytes] = {}
    for text in texts:
        _, name, _, drawn = text.split()
        if name.startswith("#"):
            members[name] = drawn
        else:
            before = sum(former == name for former, _ in topics)
            topics[name, before] = bytes.fromhex(drawn)
    return Ids(members, topics)


def _drawings(drew: Ids) -> list[Event]:
    """Return the events from which `_ids` reads ids."""
    topics = [(name, topic_id.hex()) for (name, _), topic_id in drew.topics.items()]
    return [[CLUSTER, f"drew {name} as {drawn}"] for name, drawn in [*drew.members.items(), *topics]]


def walk_of(name: str) -> Walk:
    """Return the walk of a title."""
    kind, _, seed = name.rpartition(", seed ")
    return Walk(kind, int(seed), FOUND[kind]()) if kind in FOUND else sendable(plan(kind, int(seed)))


def _steps(walk: Walk, events: list[Event]) -> Steps:
    """Return the events of each step: they begin with its request; a restart has none."""
    begun = [number for number, event in enumerate(events) if len(event) > 2]
    answered = [events[start:end] for start, end in zip(begun, [*begun[1:], None], strict=True)]
    found: Steps = []
    for step in walk.steps:
        if not answered:
            break
        found.append([] if step.api == RESTART else answered.pop(0))
    return found


def written(walks: Iterable[Recorded]) -> dict[str, str]:
    """Return the text of walks, by file."""
    files: dict[str, dict[str, list[Event]]] = defaultdict(dict)
    kinds = [*FOUND, *KINDS]
    for recorded in sorted(walks, key=lambda each: (kinds.index(each.walk.kind), each.walk.seed)):
        files[file_for(recorded.walk.kind)][recorded.name] = [
            *_drawings(recorded.drew),
            *chain(*recorded.kafkas),
        ]
    return {name: file_of(found) for name, found in files.items()}


def write(walks: Iterable[Recorded], folder: Path = FOLDER) -> None:
    """Keep walks in place of others of their kinds."""
    folder.mkdir(exist_ok=True)
    for name, text in written(walks).items():
        (folder / name).write_text(text, encoding="utf-8")


def is_settled(recorded: Recorded) -> bool:
    """Whether ours answers a walk alike each time."""
    walk, kafkas, drew = recorded
    return not any(difference(walk, play_ours(walk, number, drew), kafkas) for number in range(PLAYS))


def kept(walks: Iterable[Recorded]) -> list[Recorded]:
    """Return the walks that ours answers alike each time, no more than a few of a kind."""
    found: dict[str, list[Recorded]] = defaultdict(list)
    for each in walks:
        most = MOST_OF_AN_API if each.walk.kind.startswith(REQUESTS) else MOST
        if len(found[each.walk.kind]) < most and is_settled(each):
            found[each.walk.kind].append(each)
    return [*chain(*found.values())]
