"""Mutation testing: is a change of any line seen by a test of its room? Continues where it stopped, in .crash.

    python -m tests.mutation                                        all mutants of all rooms, some 58,000
    python -m tests.mutation --rooms storage,spark --sample 20 --seed 7
    python -m tests.mutation --rooms coordinator --modules join,sync
    python -m tests.mutation --again                                those again that survived, after a test was added

mutmut makes the mutants; rooms.py names the tests that judge them. For each room, pytest collects its tests once and
runs each of them in a fork, to see which functions it enters and how long it takes. Then every mutant has a fork, where
those tests that enter its function run, the quickest first, until one fails. What they do not see is judged once more
in a new process, by the last tests of the room. What survives is printed as a difference, for a test to be written, or
the code to be deleted that has no use.
"""

import argparse
import ast
import collections
import functools
import gc
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import pytest

from kafka_offsets.protocol.messages import MessageValue
from tests.conftest import REPOSITORY
from tests.mutation.mutants import FUNCTIONS, Mutant, function_of, module_of, mutants_of
from tests.mutation.rooms import ROOMS, modules_of

FOLDER = REPOSITORY / ".crash"
VERDICTS = FOLDER / "mutation.jsonl"
MEMORY_BYTES = 4 << 30
"""Of a fork: a mutant may ask for the moon."""
WAIT_SECONDS = 120
"""Of a test in a fork, in which nothing is computed: as long as pytest-timeout grants it."""


class Profile(NamedTuple):
    """What a test does when there is no mutant: CPU seconds, and the functions that it enters."""

    seconds: float
    functions: list[str]


class Options(NamedTuple):
    rooms: list[str]
    modules: list[str]
    sample: int
    seed: int
    again: bool
    processes: int


class Campaign:
    """A plugin for pytest that runs mutants of a room in place of tests."""

    def __init__(self, name: str, chosen: list[Mutant], options: Options) -> None:
        self.name = name
        self.room = ROOMS[name]
        self.chosen = chosen
        self.options = options
        self.failed = ""
        self.caches: list[Any] = []
        self.verdicts = read_verdicts()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not any(name in item.nodeid for name in self.room.left_out)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        self.caches = [found for found in gc.get_objects() if isinstance(found, functools._lru_cache_wrapper)]
        gc.freeze()
        profiles = self._profiles(session.items)
        waiting = [mutant for mutant in self.chosen if self._is_open(mutant)]
        print(
            f"\n{self.name}: {len(self.chosen)} mutants are asked for, {len(waiting)} are to be run",
            flush=True,
        )
        random.shuffle(waiting)
        by_function: dict[str, list[pytest.Item]] = collections.defaultdict(list)
        for item in sorted(session.items, key=lambda item: profiles[item.nodeid].seconds):
            for function in profiles[item.nodeid].functions:
                by_function[function].append(item)
        self._run(waiting, by_function, profiles)
        return True

    def _is_open(self, mutant: Mutant) -> bool:
        verdict = self.verdicts.get(mutant.key)
        return verdict is None or (self.options.again and verdict in ("survived", "no test"))

    def _profiles(self, items: list[pytest.Item]) -> dict[str, Profile]:
        """Run the test files that were not run since they or the modules changed; return what each test does."""
        kept = FOLDER / f"mutation-tests-{self.name}.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        sources = hashlib.sha256(b"".join(path.read_bytes() for path in modules_of(self.name)))
        by_path: dict[Path, list[pytest.Item]] = collections.defaultdict(list)
        for item in items:
            by_path[item.path].append(item)
        profiles: dict[str, Profile] = {}
        for path, tests in by_path.items():
            digest = sources.copy()
            digest.update(path.read_bytes())
            key = f"{path.relative_to(REPOSITORY)} {digest.hexdigest()[:16]}"
            if key not in known:
                known[key] = self._profile(tests)
                kept.write_text(json.dumps(known))
            profiles |= {name: Profile(*profile) for name, profile in known[key].items()}
        items[:] = [item for item in items if item.nodeid in profiles]
        return profiles

    def _profile(self, items: list[pytest.Item]) -> dict[str, Any]:
        """Run the tests of a file in a fork, which leaves no thread and nothing compiled to those of the mutants."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                items[0].config.pluginmanager.unregister(name="terminalreporter")
                entered = watch(self.name)
                profiles = {}
                for item in items:
                    entered.clear()
                    forget(self.caches)
                    begin = time.process_time()
                    item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
                    profiles[item.nodeid] = time.process_time() - begin, sorted(entered.copy())
                    if self.failed:
                        print(f"\nleft out, as it fails without any mutant: {item.nodeid}", flush=True)
                        del profiles[item.nodeid]
                        self.failed = ""
                with open(writer, "w") as file:
                    json.dump(profiles, file)
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader) as file:
            answer = file.read()
        os.waitpid(pid, 0)
        assert answer, f"{items[0].path} has ended its process"
        found: dict[str, Any] = json.loads(answer)
        return found

    def _run(
        self, waiting: list[Mutant], tests: dict[str, list[pytest.Item]], profiles: dict[str, Profile]
    ) -> None:
        running: dict[int, tuple[Mutant, int]] = {}
        begin = time.monotonic()
        for done, mutant in enumerate(waiting):
            items = tests[f"{mutant.module}.{mutant.function}"]
            if not items:
                self._decided(mutant, "no test", "")
                continue
            if len(running) == self.options.processes:
                self._wait(running)
            limits = [(item, 10 * profiles[item.nodeid].seconds + 5) for item in items]
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                self._judge(mutant, limits, writer)
            os.close(writer)
            running[pid] = mutant, reader
            if done % 100 == 99:
                rate = (done + 1) / (time.monotonic() - begin)
                print(f"{done + 1} of {len(waiting)}, {rate:.1f} mutants/s", flush=True)
        while running:
            self._wait(running)

    def _judge(self, mutant: Mutant, limits: list[tuple[pytest.Item, float]], writer: int) -> None:
        """In a fork: run the tests until one fails, write its name, and end the process.

        Time is that of the CPU, as the machine may be busy with other things; only waiting has a limit by the clock.
        """
        manager = limits[0][0].config.pluginmanager
        manager.unregister(name="terminalreporter")
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        failed = "the fork itself"
        try:
            mutant.plant()
            forget(self.caches)
            for (item, limit), (following, _) in zip(limits, [*limits[1:], (None, 0.0)], strict=True):
                signal.setitimer(signal.ITIMER_PROF, limit)
                signal.setitimer(signal.ITIMER_REAL, limit + WAIT_SECONDS)
                item._initrequest()  # type: ignore[attr-defined]
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    break
            failed = self.failed
        finally:
            os.write(writer, failed.encode()[:4000])
            os._exit(1 if failed else 0)

    def _wait(self, running: dict[int, tuple[Mutant, int]]) -> None:
        pid, status = os.wait()
        mutant, reader = running.pop(pid)
        with open(reader, "rb") as file:
            test = file.read().decode(errors="replace")
        verdict = {0: "survived", 1: "killed"}.get(os.waitstatus_to_exitcode(status), "timed out")
        self._decided(mutant, verdict, test)

    def _judge_last(self, mutant: Mutant) -> bool:
        """Is the change seen in a process that begins with it?"""
        name = mutant.module.split(".")[-1]
        # The file with the name of the module is the likeliest to fail.
        files = sorted(self.room.last, key=lambda file: name not in file)
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            copy = Path(folder) / REPOSITORY.name
            shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(".*", "build", "__pycache__"))
            mutant.write(copy)
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-qx",
                "-pno:cacheprovider",
                "-mnot apache_kafka",
                *files,
            ]
            environment = os.environ | {"PYTHONPATH": str(copy)}
            done = subprocess.run(command, cwd=copy, env=environment, capture_output=True)
            return done.returncode != 0

    def _decided(self, mutant: Mutant, verdict: str, test: str) -> None:
        if verdict in ("survived", "no test") and self.room.last and self._judge_last(mutant):
            verdict, test = "killed", "the last tests"
        self.verdicts[mutant.key] = verdict
        with VERDICTS.open("a") as file:
            file.write(
                json.dumps({"key": mutant.key, "name": mutant.name, "verdict": verdict, "by": test}) + "\n"
            )
        if verdict in ("survived", "no test"):
            print(f"{verdict}: {mutant.difference()}\n", flush=True)


def draw(room: str, options: Options) -> list[Mutant]:
    """Return the mutants of a room that are asked for."""
    paths = [path for path in modules_of(room) if path.stem in options.modules or not options.modules]
    found = [mutant for path in paths for mutant in mutants_of(path)]
    if not 0 < options.sample < len(found):
        return found
    # A larger sample of the same seed contains the smaller one.
    random.Random(f"{options.seed}:{room}").shuffle(found)
    print(f"{room}: {options.sample} of {len(found)} mutants, --seed {options.seed}", flush=True)
    return found[: options.sample]


def forget(caches: list[Any]) -> None:
    """Empty the caches: what they hold was computed by other code."""
    for cache in caches:
        cache.cache_clear()
    for message in MessageValue.__subclasses__():
        message.DECODERS.clear()
        message.ENCODERS.clear()


def watch(room: str) -> set[str]:
    """Make each function of a room add its name to the set that is returned, whenever it is called.

    A function that sys.setprofile calls would see the same, and take three times as long.
    """
    entered: set[str] = set()
    for path in modules_of(room):
        for name in _names_of(path):
            _watch(function_of(module_of(path), name), f"{module_of(path)}.{name}", entered)
    return entered


def _watch(function: FunctionType, name: str, entered: set[str]) -> None:
    code = function.__code__
    whole = FunctionType(
        code, function.__globals__, code.co_name, function.__defaults__, function.__closure__
    )
    whole.__kwdefaults__ = function.__kwdefaults__

    def enter(*arguments: Any, **named: Any) -> Any:
        entered.add(name)
        return whole(*arguments, **named)

    # The function itself stays, as others refer to it; and code of another function cannot refer to `enter` by name.
    constants = tuple(enter if isinstance(value, str) else value for value in _entrance.__code__.co_consts)
    function.__code__ = _entrance.__code__.replace(co_consts=constants, co_freevars=code.co_freevars)
    function.__defaults__ = function.__kwdefaults__ = None


def _entrance(*arguments: Any, **named: Any) -> Any:
    enter: Any = "a constant, for which the function to be called is put in"
    return enter(*arguments, **named)


def _names_of(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, FUNCTIONS) and not node.decorator_list:
            yield node.name
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                plain = ("staticmethod", "classmethod")
                if isinstance(method, FUNCTIONS) and all(
                    isinstance(decorator, ast.Name) and decorator.id in plain
                    for decorator in method.decorator_list
                ):
                    yield f"{node.name}.{method.name}"


def read_verdicts() -> dict[str, str]:
    lines = VERDICTS.read_text().splitlines() if VERDICTS.exists() else []
    return {entry["key"]: entry["verdict"] for entry in map(json.loads, lines)}


def report(chosen: dict[str, list[Mutant]], verdicts: dict[str, str]) -> None:
    """Print how many mutants of each room were killed; one whose tests never end counts as seen."""
    print(f"\n{'room':24}{'run':>7}{'killed':>8}{'timed out':>11}{'survived':>10}{'no test':>9}{'seen':>8}")
    total: collections.Counter[str] = collections.Counter()
    for room in [*chosen, "all"]:
        mutants = chosen.get(room, [])
        counts = collections.Counter(verdicts[m.key] for m in mutants if m.key in verdicts)
        total += counts
        counts = total if room == "all" else counts
        run, killed, late = counts.total(), counts["killed"], counts["timed out"]
        seen = f"{100 * (killed + late) / run:7.1f}%" if run else ""
        print(f"{room:24}{run:7}{killed:8}{late:11}{counts['survived']:10}{counts['no test']:9}{seen:>8}")


def _run_room(room: str, chosen: list[Mutant], options: Options) -> int:
    """Run a room in a fork, as pytest runs once in a process; return the status of pytest."""
    pid = os.fork()
    if pid == 0:
        arguments = [*ROOMS[room].judges, "-q", "--timeout=0", "-p", "no:cacheprovider"]
        arguments += ["-m", "not java and not apache_kafka and not spark"]
        # This module has imported the conftest already.
        arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        status = pytest.main(arguments, plugins=[Campaign(room, chosen, options)])
        sys.stdout.flush()
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rooms", default=",".join(ROOMS), help="folders of kafka_offsets, with commas")
    parser.add_argument("--modules", default="", help="names of modules of these rooms, with commas")
    parser.add_argument(
        "--sample", type=int, default=0, help="so many mutants of each room, at random; 0: all"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 16))
    parser.add_argument("--again", action="store_true", help="run those again that have survived")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    modules = given.modules.split(",") if given.modules else []
    options = Options(given.rooms.split(","), modules, given.sample, given.seed, given.again, given.processes)
    FOLDER.mkdir(exist_ok=True)
    chosen = {room: draw(room, options) for room in options.rooms}
    statuses = [_run_room(room, mutants, options) for room, mutants in chosen.items()]
    report(chosen, read_verdicts())
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
