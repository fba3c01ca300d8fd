"""The states that a crash may leave at any moment of a story; a broker starts on each, goes on, and crashes again.

python -m tests.storage.crash.crash_states                 the full form: goes on where it stopped, in .crash/
python -m tests.storage.crash.crash_states NAME            one state again, by the name that a failure gave
"""

import argparse
import functools
import itertools
import logging
import math
import random
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import NamedTuple

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.turn.workers import sync_inline
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import StorageError
from tests.slices import DoneSlices
from tests.storage.crash.crash_files import CrashPoint, Cut, RecordingFiles, Sync, Tree, Write, parts
from tests.storage.crash.crash_story import (
    CONFIGS,
    Story,
    ViolationError,
    compare,
    go_on,
    ids_from,
    knowledge,
    tell,
)

POLICIES = ("commit", "interval", "never")
STEPS = 32
"""Of a story: enough for rolls, topics that come and go, cleaning, and several lives."""

DEEP_DRAWS = 10_000
DEEP_SHARE = 16
"""In depth, every 16th crash point of a story has 10,000 states drawn, and every subset tried where there are few."""

WIDE_DRAWS = 100


class StateName(NamedTuple):
    """Enough to make a state again: POLICY/SEED/STEPS/POINT/KIND/NUMBER.

    point  number of the call before which the machine stopped
    kind   how the fates of the outstanding calls were chosen: death (of the process), subset, single, draw, garbage
    number  which one of that kind
    """

    policy: str
    seed: int
    steps: int
    point: int
    kind: str
    number: int

    def __str__(self) -> str:
        return "/".join(str(part) for part in self)

    @classmethod
    def parse(cls, text: str) -> "StateName":
        policy, seed, steps, point, kind, number = text.split("/")
        return cls(policy, int(seed), int(steps), int(point), kind, int(number))


class Point:
    """A crash point of a story and the states that are tried of it."""

    def __init__(self, story: Story, name: StateName) -> None:
        self.name = name
        self._operations = story.files.operations
        self._crash = CrashPoint(story.files.base, self._operations, name.point)

    def tree(self, name: StateName) -> Tree:
        """The state of one name."""
        if name.kind == "death":
            return next(itertools.islice(self._deaths(), name.number, None))
        if name.kind in ("draw", "garbage"):
            chance = random.Random(str(name))
            return self._crash.tree(self._crash.draw(chance, garbage=name.kind == "garbage"))
        fates = self._crash.subsets() if name.kind == "subset" else self._crash.single_faults()
        return self._crash.tree(next(itertools.islice(fates, name.number, None)))

    def states(self, draws: int, *, garbage: bool) -> Iterator[tuple[StateName, Tree]]:
        """Every state that is tried, `draws` of each kind at most; some of them are equal."""
        if not garbage:
            for index, tree in enumerate(self._deaths()):
                yield self.name._replace(kind="death", number=index), tree
        if not self._is_worth_it():
            return
        for kind in ("garbage",) if garbage else ("subset", "single", "draw"):
            yield from self._states_of(kind, draws)

    def _states_of(self, kind: str, draws: int) -> Iterator[tuple[StateName, Tree]]:
        name = self.name._replace(kind=kind)
        if kind in ("draw", "garbage"):
            for index in range(draws):
                drawn = name._replace(number=index)
                yield drawn, self.tree(drawn)
            return
        sequence = self._crash.subsets() if kind == "subset" else self._crash.single_faults()
        for index, fates in enumerate(itertools.islice(sequence, draws)):
            yield name._replace(number=index), self._crash.tree(fates)

    def _deaths(self) -> Iterator[Tree]:
        """All calls happened, and the one that the process died in, when it writes, in part."""
        yield self._crash.process_death()
        if self.name.point < len(self._operations):
            call = self._operations[self.name.point]
            for fate in parts(call) if isinstance(call, Write) else ():
                if isinstance(fate, Cut):
                    tree = self._crash.process_death()
                    tree.apply(call, fate)
                    yield tree

    def _is_worth_it(self) -> bool:
        """Whether there are states that the next crash point does not have, under a promise that is no weaker."""
        at = self.name.point
        return at == len(self._operations) or isinstance(self._operations[at], Sync)


def check(tree: Tree, story: Story, name: StateName) -> bool:
    """Start on a state, compare, go on, crash again, start, compare.

    Returns whether the broker started, which it may refuse where garbage is in the files, with file and position.
    Raises ViolationError.
    """
    chance = random.Random(str(name))
    with ids_from(chance):
        return _check(tree, story, name, chance)


def _check(tree: Tree, story: Story, name: StateName, chance: random.Random) -> bool:
    files = RecordingFiles(tree)
    try:
        second = Story(files, name.policy, chance)
    except StorageError as error:
        if name.kind == "garbage" and error.path is not None and error.position is not None:
            return False
        raise ViolationError(f"the start was refused: {error}") from error
    found = {key: history.states[0] for key, history in second.histories.items()}
    compare(found, story.expected_at(name.point), process_death=name.kind == "death")
    second.commit()
    go_on(second, 2)
    point = CrashPoint(tree, files.operations, chance.randrange(len(files.operations) + 1))
    again = RecordingFiles(point.tree(point.draw(chance)))
    try:
        third = knowledge(BrokerCore(CONFIGS[name.policy], again, ManualClock(), sync_inline))
    except StorageError as error:
        raise ViolationError(f"the start after a second crash was refused: {error}") from error
    try:
        compare(third, second.expected_at(point.at), process_death=False)
    except ViolationError as violation:
        raise ViolationError(f"after a second crash, before call {point.at}: {violation}") from violation
    return True


class Count(NamedTuple):
    """What came of some crash points.

    states   different states after a power failure; deaths: of the process alone
    refused  states with garbage in them at which the start was refused, with file and position
    cpu_s    seconds of CPU
    """

    points: int = 0
    states: int = 0
    deaths: int = 0
    refused: int = 0
    cpu_s: float = 0.0

    def plus(self, other: "Count") -> "Count":
        return Count(
            self.points + other.points,
            self.states + other.states,
            self.deaths + other.deaths,
            self.refused + other.refused,
            self.cpu_s + other.cpu_s,
        )


def try_points(
    story: Story, names: Iterable[StateName], draws: int, *, garbage: bool = False, most: float = math.inf
) -> Count:
    """Try the states of some crash points, each state once. Raises ViolationError with the name of the state.

    draws  states drawn for each crash point; most: states, over all of them
    """
    started = time.process_time()
    seen: set[tuple[bool, int]] = set()
    points = states = deaths = refused = 0
    for point in names:
        if states + deaths >= most:
            break
        points += 1
        for name, tree in Point(story, point).states(draws, garbage=garbage):
            is_death = name.kind == "death"
            fingerprint = is_death, tree.fingerprint()
            if fingerprint in seen:
                continue
            seen.add(fingerprint)
            try:
                refused += not check(tree, story, name)
            except Exception as error:
                problem = error if isinstance(error, ViolationError) else repr(error)
                sizes = {path: len(content) for path, content in tree.files().items()}
                raise ViolationError(
                    f"crash state {name}: {problem}\nfiles and their sizes: {sizes}"
                ) from error
            deaths += is_death
            states += not is_death
    return Count(points, states, deaths, refused, time.process_time() - started)


def points_of(story: Story, policy: str, seed: int) -> list[StateName]:
    """All crash points of a story, the first before any call, the last after all of them."""
    return [StateName(policy, seed, STEPS, at, "", 0) for at in range(len(story.files.operations) + 1)]


class Slice(NamedTuple):
    """A part of the full form.

    depth  wide: every crash point of a story, a few states each; deep: some of its crash points, the more states;
           garbage: as wide, with random bytes where nothing was written
    """

    depth: str
    policy: str
    seed: int

    def run(self) -> Count:
        """Try the states of this slice."""
        logging.disable(logging.ERROR)  # torn tails are cut by the thousand
        story = tell(self.policy, self.seed, STEPS)
        names = points_of(story, self.policy, self.seed)
        if self.depth == "deep":
            return try_points(story, names[self.seed % DEEP_SHARE :: DEEP_SHARE], DEEP_DRAWS)
        return try_points(story, names, WIDE_DRAWS, garbage=self.depth == "garbage")


def replay(name: StateName) -> None:
    """Try one state again."""
    story = tell(name.policy, name.seed, name.steps)
    tree = Point(story, name).tree(name)
    for path, content in tree.files().items():
        print(path, content.hex())
    check(tree, story, name)
    print(f"{name}: all is well")


class Progress:
    """The slices that are done, and those that come next."""

    def __init__(self) -> None:
        self._file = DoneSlices("states")
        self.done = {Slice(*entry["slice"]): Count(*entry["count"]) for entry in self._file.read()}

    def add(self, slice_: Slice, count: Count) -> None:
        self.done[slice_] = count
        self._file.add(slice=slice_, count=count)

    def total(self) -> Count:
        return functools.reduce(Count.plus, self.done.values(), Count())

    def missing(self) -> Iterator[Slice]:
        """The slices that come next, without end."""
        for seed in itertools.count(1):
            for depth, policy in itertools.product(("wide", "deep", "garbage"), POLICIES):
                slice_ = Slice(depth, policy, seed)
                if slice_ not in self.done:
                    yield slice_


def run_all(target: int, seconds: float, processes: int) -> int:
    """Run slices until `target` states are done or the time is over; 1 when one of them fails."""
    progress = Progress()
    stop_at = time.monotonic() + seconds
    slices = progress.missing()
    with ProcessPoolExecutor(processes) as pool:
        running: dict[Future[Count], Slice] = {}
        while True:
            is_enough = progress.total().states >= target or time.monotonic() > stop_at
            while not is_enough and len(running) < processes:
                slice_ = next(slices)
                running[pool.submit(slice_.run)] = slice_
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                slice_ = running.pop(future)
                try:
                    progress.add(slice_, future.result())
                except ViolationError as violation:
                    print(violation, file=sys.stderr)
                    return 1
                print(f"{'/'.join(map(str, slice_))}: {_said(progress.done[slice_])}", flush=True)
    print(f"all so far: {_said(progress.total())}")
    return 0


def _said(count: Count) -> str:
    rate = (count.states + count.deaths) / max(count.cpu_s, 0.001)
    return (
        f"{count.states} states after a power failure, {count.deaths} after a death of the process, "
        f"at {count.points} crash points; {count.refused} refused; {rate:.0f}/s of CPU"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("state", nargs="?", help="the name of one state, to try it again")
    parser.add_argument("--states", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.state:
        replay(StateName.parse(options.state))
        return 0
    return run_all(options.states, options.seconds, options.processes)


if __name__ == "__main__":
    sys.exit(main())
