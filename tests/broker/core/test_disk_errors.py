"""The system refuses the n-th call for files, for n = 1, 2, 3, … until a run has no failure any more.

A real directory behind a system that refuses: `os` itself is replaced, so that everything above it is tested. After
each run: what was acknowledged is there, what was answered with an error may be, nothing else is; the broker has gone
on, or it refused to; and after a restart it serves.

KAFKA_OFFSETS_DISK_ERRORS=all tries every n of every kind; otherwise some, by the seed.
"""

import errno
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import DiskFiles
from tests.drivers.core import CoreClient, commit_request, make_core
from tests.storage.crash.faults import replace_os

ALL = os.environ.get("KAFKA_OFFSETS_DISK_ERRORS") == "all"
CALLS = ("open", "pwrite", "pread", "ftruncate", "fsync", "replace", "remove", "listdir", "makedirs", "fstat")
ERRORS = ("EIO", "ENOSPC", "EMFILE", "EINTR", "short write")
PARTITIONS = range(3)


class Refusing:
    """The module `os`, of which the call number `at` fails.

    error  a name from `errno`, or "short write": half of the bytes, and ENOSPC when the rest is written
    stuck  the calls after it fail as well, until `lift`
    """

    def __init__(self, at: int, error: str, *, stuck: bool = False) -> None:
        self.at = at
        self.error = error
        self.stuck = stuck
        self.calls: list[str] = []
        self.failed: str | None = None
        self._after_short = False

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        return self._counted(name, function) if name in CALLS else function

    def lift(self) -> None:
        """Let everything pass from now on, when something was refused before."""
        if self.failed is not None:
            self.at = 0
        self.stuck = self._after_short = False

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append(f"{name} {arguments[0]}")
            if self._after_short and name == "pwrite":
                self._after_short = self.stuck
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if len(self.calls) == self.at or (self.stuck and 0 < self.at < len(self.calls)):
                if self.error != "short write":
                    self.failed = self.failed or self.calls[-1]
                    number = getattr(errno, self.error)
                    raise OSError(number, os.strerror(number))
                if name == "pwrite":
                    self.failed = self.failed or self.calls[-1]
                    self._after_short = True
                    data = bytes(arguments[1])
                    return function(arguments[0], data[: len(data) // 2], *arguments[2:])
            if name == "fsync":
                return None  # what the disk does is not tested here
            return function(*arguments, **named)

        return call


class Run:
    """One life of a broker with a disk that refuses, and what it told its clients."""

    def __init__(self, directory: Path, system: Refusing, fsync: str) -> None:
        self.directory = directory
        self.system = system
        self.config: dict[str, object] = {
            "fsync": fsync,
            "offsets_topic_num_partitions": 1,
            "offsets_topic_segment_bytes": 1200,
        }
        self.acknowledged = -1
        self.uncertain: set[int] = set()
        self.answers: list[set[int]] = []

    def start(self) -> BrokerCore:
        return make_core(DiskFiles(self.directory), **self.config)

    def live(self) -> None:
        """Start, create topics, commit over several segments, delete, commit again, stop."""
        core = self.start()
        try:
            for name in ("t", "gone"):
                self._create(core, name)
            client = CoreClient(core)
            for number in range(10):
                self.commit(core, client, number)
            client.call(messages.DeleteTopicsRequest(topic_names=["gone"], timeout_ms=1000), 4)
            self.system.lift()  # there is room again
            has_been_refused = self.system.failed is not None
            self.commit(core, client, 10)
            if has_been_refused and core.topics.get("t") is not None:
                hosted = core.runtime.shard_of("g", core.clock.now())
                # An fsync or a cut was refused: it is final.
                stands = hosted.failed or hosted.log.failure is not None
                assert self.answers[-1] == {0} or stands, (
                    "the disk takes writes again, and the broker does not"
                )
        finally:
            core.close()

    def _create(self, core: BrokerCore, name: str) -> None:
        topic = messages.CreateTopicsRequest.CreatableTopic(name, num_partitions=3, replication_factor=1)
        CoreClient(core).call(messages.CreateTopicsRequest([topic], 1000), 4)

    def commit(self, core: BrokerCore, client: CoreClient, number: int) -> None:
        """Commit one number to all partitions, and note what the answer promises."""
        answer = client.call(commit_request(core, "g", {("t", n): number for n in PARTITIONS}), 8)
        errors = {partition.error_code for topic in answer.topics for partition in topic.partitions}
        self.answers.append(errors)
        if errors == {0}:
            self.acknowledged, self.uncertain = number, set()
        else:
            assert len(errors) == 1, "accepted in part"
            self.uncertain.add(number)

    def check(self) -> None:
        """After a restart all partitions have the same offset: the last that was acknowledged, or a later one sent."""
        for again in range(2):
            core = self.start()
            found = {entry.offset for entry in core.shards.committed("g").values()}
            count = len(core.shards.committed("g"))
            allowed = {self.acknowledged} | self.uncertain
            assert found <= allowed, (found, allowed)
            assert count in ((0, 3) if self.acknowledged < 0 else (3,)), count
            if core.topics.get("t") is None:
                self._create(core, "t")
            client = CoreClient(core)
            self.commit(core, client, 100 + again)
            assert self.answers[-1] == {0}
            core.close()


@pytest.fixture
def scratch(tmp_path: Path) -> Callable[[], Path]:
    numbers = itertools.count()
    return lambda: tmp_path / str(next(numbers))


def places(rng: random.Random, total: int) -> list[int]:
    return list(range(1, total + 2)) if ALL else [*sorted(rng.sample(range(1, total + 1), 6)), total + 1]


def run_once(directory: Path, system: Refusing, fsync: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    run = Run(directory, system, fsync)
    with monkeypatch.context() as patched:
        replace_os(patched, system)
        try:
            run.live()
        except StorageError:
            assert system.failed, "nothing was refused, and the broker did not start or stop"
    run.check()
    return run


@pytest.mark.slow
@pytest.mark.timeout(3600 if ALL else 120)
@pytest.mark.parametrize("fsync", ["never", "commit"])
@pytest.mark.parametrize("stuck", [False, True], ids=["once", "until-lifted"])
@pytest.mark.parametrize("error", ERRORS)
def test_a_refused_call_costs_nothing_that_was_acknowledged(
    error: str,
    stuck: bool,
    fsync: str,
    scratch: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
    rng: random.Random,
) -> None:
    quiet = Refusing(0, error)
    run = run_once(scratch(), quiet, fsync, monkeypatch)
    assert (run.acknowledged, quiet.failed) == (101, None)
    total = len(quiet.calls)
    assert total > 60
    for at in places(rng, total):
        system = Refusing(at, error, stuck=stuck)
        try:
            run_once(scratch(), system, fsync, monkeypatch)
        except BaseException:
            print(f"call {at} of {total}: {system.failed}, {error}")
            raise
        assert (system.failed is None) == (at > total) or error == "short write"


def test_an_fsync_that_fails_is_final_until_the_directory_is_opened_again(
    scratch: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system reports a page that it could not write once: a second fsync would succeed without it."""
    system = Refusing(0, "EIO")
    run = Run(scratch(), system, "commit")
    replace_os(monkeypatch, system)
    core = run.start()
    run._create(core, "t")
    client = CoreClient(core)
    run.commit(core, client, 1)
    system.at, system.error = next_fsync(system, lambda: run.commit(core, client, 2)), "EIO"
    assert system.failed is not None and system.failed.startswith("fsync")
    assert run.answers == [{0}, {16}]
    before = len(system.calls)
    for number in (3, 4):
        run.commit(core, client, number)
        assert run.answers[-1] == {16}, "no commit is taken by a log that may have lost one"
    assert not any(call.startswith("fsync") for call in system.calls[before:]), "no retry that pretends"
    assert client.committed("g") == {}
    with pytest.raises(StorageError, match=r"cannot sync|no appends until"):
        core.close()
    assert not (run.directory / ".kafka_cleanshutdown").exists()
    run.check()  # opened again, verified, served: what failed may be there, what was acknowledged is


def next_fsync(system: Refusing, action: Callable[[], None]) -> int:
    """Carry out an action whose first fsync fails."""
    counted = system._counted

    def failing(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if name == "fsync" and system.failed is None:
            system.at = len(system.calls) + 1
        return counted(name, function)

    system._counted = failing  # type: ignore[method-assign]
    action()
    system._counted = counted  # type: ignore[method-assign]
    return 0
