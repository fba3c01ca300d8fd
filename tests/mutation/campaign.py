"""Mutation testing of coordinator/: is a change of any line seen by a test? Goes on where it stopped, in .crash.

    python -m tests.mutation                                        all mutants, some twelve thousand
    python -m tests.mutation --sample 50 --seed 7 --modules join,sync
    python -m tests.mutation --again                                those again that survived, after a test was added

mutmut makes the mutants. pytest collects the tests below once and runs each of them, to see which functions it enters
and how long it takes. Then every mutant has a fork, where those tests that enter its function run, the quickest first,
until one fails. What survives is printed as a difference, for a test to be written, or the code to be left out that
nobody misses.
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
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from tests.conftest import REPOSITORY
from tests.mutation.mutants import Mutant, function_of, mutants_of

MODULES = sorted(path for path in REPOSITORY.glob("kafka_offsets/coordinator/*.py"))
JUDGES = (
    "tests/coordinator",
    "tests/differential",
    "tests/claims",
    "tests/broker/test_commit_options.py",
    "tests/broker/test_conditional_commits.py",
    "tests/broker/test_expiry.py",
    "tests/broker/test_group_config.py",
    "tests/broker/test_loading.py",
    "tests/simulation/test_simulation.py",
)
LEFT_OUT = (
    # They weigh memory; what the table holds is compared with an oracle by others.
    "test_an_entry_costs_few_bytes",
    "test_an_entry_takes_at_most_64_bytes",
    # They start processes or sockets, where the mutant is not.
    "test_a_seed_is_the_same_run_in_every_process",
    "test_numpy_is_imported_for_a_long_log_alone",
    "tests/claims/test_consumer_rewrite.py",
    "test_an_admin_deletes_offsets",
    # Size, of what smaller tests look at too.
    "test_many_more_names_and_keys_than_tables_begin_with",
    "test_a_long_batch_is_read_as_many_short_ones_are",
    "test_a_thousand_members_and_ten_thousand_groups_cost_no_squares",
    "test_no_step_of_a_large_shard_is_long",
)
FOLDER = REPOSITORY / ".crash"
VERDICTS = FOLDER / "mutation.jsonl"
PROFILES = FOLDER / "mutation-tests.json"
MEMORY_BYTES = 4 << 30
"""Of a fork: a mutant may ask for the moon."""


class Profile(NamedTuple):
    """What a test does when there is no mutant: CPU seconds, and the functions that it enters."""

    seconds: float
    functions: list[str]


class Options(NamedTuple):
    modules: list[str]
    sample: int
    seed: int
    again: bool
    processes: int


class Campaign:
    """A plugin for pytest that runs mutants in place of tests."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.failed = ""
        self.verdicts = _read_verdicts()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not any(name in item.nodeid for name in LEFT_OUT)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        profiles = self._profiles(session.items)
        chosen = [mutant for name in self.options.modules for mutant in self._mutants(name)]
        waiting = [mutant for mutant in chosen if self._is_open(mutant)]
        print(f"\n{len(chosen)} mutants are asked for, {len(waiting)} are to be run", flush=True)
        random.shuffle(waiting)
        by_function: dict[str, list[pytest.Item]] = collections.defaultdict(list)
        for item in sorted(session.items, key=lambda item: profiles[item.nodeid].seconds):
            for function in profiles[item.nodeid].functions:
                by_function[function].append(item)
        self._run(waiting, by_function, profiles)
        report(chosen, self.verdicts)
        return True

    def _mutants(self, module: str) -> list[Mutant]:
        found = list(mutants_of(REPOSITORY / f"kafka_offsets/coordinator/{module}.py"))
        count = self.options.sample
        if 0 < count < len(found):
            # A larger sample of the same seed contains the smaller one.
            random.Random(f"{self.options.seed}:{module}").shuffle(found)
            print(f"{module}: {count} of {len(found)} mutants, --seed {self.options.seed}", flush=True)
            return found[:count]
        return found

    def _is_open(self, mutant: Mutant) -> bool:
        verdict = self.verdicts.get(mutant.key)
        return verdict is None or (self.options.again and verdict in ("survived", "no test"))

    def _profiles(self, items: list[pytest.Item]) -> dict[str, Profile]:
        """Run the tests that were not run since they or the modules changed; end the campaign when one fails."""
        known = json.loads(PROFILES.read_text()) if PROFILES.exists() else {}
        files: dict[Path, str] = {}
        profiles = {}
        functions = _functions()
        sources = hashlib.sha256(b"".join(path.read_bytes() for path in MODULES))
        for item in items:
            if item.path not in files:
                digest = sources.copy()
                digest.update(item.path.read_bytes())
                files[item.path] = digest.hexdigest()[:16]
            file, *rest = known.get(item.nodeid, ("",))
            profile = Profile(*rest) if file == files[item.path] else self._profile(item, functions)
            profiles[item.nodeid] = profile
            known[item.nodeid] = [files[item.path], *profile]
        PROFILES.write_text(json.dumps(known))
        return profiles

    def _profile(self, item: pytest.Item, functions: dict[CodeType, str]) -> Profile:
        entered: set[str] = set()

        def look(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call" and frame.f_code in functions:
                entered.add(functions[frame.f_code])

        threading.setprofile(look)
        sys.setprofile(look)
        begin = time.process_time()
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        if self.failed:
            pytest.exit(f"without any mutant fails {self.failed}", returncode=1)
        return Profile(time.process_time() - begin, sorted(entered))

    def _run(
        self, waiting: list[Mutant], tests: dict[str, list[pytest.Item]], profiles: dict[str, Profile]
    ) -> None:
        caches = [found for found in gc.get_objects() if isinstance(found, functools._lru_cache_wrapper)]
        running: dict[int, tuple[Mutant, int]] = {}
        gc.freeze()
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
                self._judge(mutant, limits, writer, caches)
            os.close(writer)
            running[pid] = mutant, reader
            if done % 100 == 99:
                rate = (done + 1) / (time.monotonic() - begin)
                print(f"{done + 1} of {len(waiting)}, {rate:.1f} mutants/s", flush=True)
        while running:
            self._wait(running)

    def _judge(
        self, mutant: Mutant, limits: list[tuple[pytest.Item, float]], writer: int, caches: list[Any]
    ) -> None:
        """In a fork: run the tests until one fails, write its name, and end the process.

        Time is that of the CPU: the machine may be busy with other things.
        """
        manager = limits[0][0].config.pluginmanager
        manager.unregister(name="terminalreporter")
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        failed = "the fork itself"
        try:
            mutant.plant()
            for cache in caches:
                cache.cache_clear()
            for (item, limit), (following, _) in zip(limits, [*limits[1:], (None, 0.0)], strict=True):
                signal.setitimer(signal.ITIMER_PROF, limit)
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

    def _decided(self, mutant: Mutant, verdict: str, test: str) -> None:
        self.verdicts[mutant.key] = verdict
        with VERDICTS.open("a") as file:
            file.write(
                json.dumps({"key": mutant.key, "name": mutant.name, "verdict": verdict, "by": test}) + "\n"
            )
        if verdict in ("survived", "no test"):
            print(f"{verdict}: {mutant.difference()}\n", flush=True)


def _functions() -> dict[CodeType, str]:
    """The name of each function of coordinator/ by its code."""
    found = {}
    for path in MODULES:
        for mutant in _names_of(path):
            found[function_of(path.stem, mutant).__code__] = f"{path.stem}.{mutant}"
    return found


def _names_of(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            yield node.name
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                plain = ("staticmethod", "classmethod")
                if isinstance(method, ast.FunctionDef) and all(
                    isinstance(decorator, ast.Name) and decorator.id in plain
                    for decorator in method.decorator_list
                ):
                    yield f"{node.name}.{method.name}"


def _read_verdicts() -> dict[str, str]:
    lines = VERDICTS.read_text().splitlines() if VERDICTS.exists() else []
    return {entry["key"]: entry["verdict"] for entry in map(json.loads, lines)}


def report(chosen: list[Mutant], verdicts: dict[str, str]) -> None:
    """Print how many mutants of each module were killed; one whose tests never end counts as seen."""
    print(f"\n{'module':24}{'run':>7}{'killed':>8}{'timed out':>11}{'survived':>10}{'no test':>9}{'seen':>8}")
    total: collections.Counter[str] = collections.Counter()
    modules = sorted({mutant.module for mutant in chosen})
    for module in [*modules, "all"]:
        if module == "all":
            counts = total
        else:
            counts = collections.Counter(
                verdicts[m.key] for m in chosen if m.module == module and m.key in verdicts
            )
            total += counts
        run, killed, late = counts.total(), counts["killed"], counts["timed out"]
        seen = f"{100 * (killed + late) / run:7.1f}%" if run else ""
        print(f"{module:24}{run:7}{killed:8}{late:11}{counts['survived']:10}{counts['no test']:9}{seen:>8}")


def main() -> int:
    names = [path.stem for path in MODULES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--modules", default=",".join(names), help="names of modules of coordinator/, with commas"
    )
    parser.add_argument(
        "--sample", type=int, default=0, help="so many mutants of each module, at random; 0: all"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 16))
    parser.add_argument("--again", action="store_true", help="run those again that have survived")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    options = Options(given.modules.split(","), given.sample, given.seed, given.again, given.processes)
    FOLDER.mkdir(exist_ok=True)
    arguments = [*JUDGES, "-q", "--timeout=0", "-p", "no:cacheprovider"]
    # This module has imported the conftest already.
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main(arguments, plugins=[Campaign(options)]))


if __name__ == "__main__":
    sys.exit(main())
