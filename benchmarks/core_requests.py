"""What a request costs in the broker from bytes to bytes: function calls and CPU, no sockets.

    python benchmarks/core_requests.py [--only commit produce] [--partitions 1 10] [--disk]      this tree
    python benchmarks/core_requests.py --beside ANOTHER_TREE                                     and another one
    python benchmarks/core_requests.py --pythons python3.13 python3.14          this tree with other Pythons
    python benchmarks/core_requests.py --connections 1 --window 1               in lock step: a request a turn

Eight connections send sixteen requests each in one piece; then the turn ends and their answers are taken.

    commit       OffsetCommit of one group, for so many partitions; a thousand groups
    offsets      OffsetFetch of the same
    coordinator  FindCoordinator of one group
    versions     ApiVersions
    metadata     Metadata of a topic of a hundred partitions
    list         ListOffsets, the latest offset of a partition
    fetch        Fetch of ten records of 100 bytes
    produce      Produce of one such record; after the fetches, because it makes them larger
    batches      Produce of a hundred records of 1 kB

The log is in memory, or with --disk in a directory. Function calls are those that sys.setprofile sees, of Python and of
C, in a fixed number of requests: two trees with the same number differ in CPU by noise or by what happens between
calls. CPU is that of the process, the least and the median of the rounds, without the profile. With --beside each tree
has a process of its own, and they do their rounds in turn: *ratio* is the median of the ratios of each round, with the
least and the greatest. A machine with other work moves the ratios by a tenth, and function calls by nothing.
"""

import argparse
import gc
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

GROUPS, TOPIC_PARTITIONS = 1000, 100
RECORD_BYTES, FETCHED_RECORDS = 100, 10
VERSIONS = {
    "commit": 8,
    "offsets": 7,
    "coordinator": 3,
    "versions": 3,
    "metadata": 12,
    "list": 7,
    "fetch": 11,
    "produce": 9,
    "batches": 9,
}
CREATE_VERSION = 7
BY_PARTITIONS = ("commit", "offsets")
ROUND_MS = 300
"""A round lasts about as long, in each process as many turns."""


class Case(NamedTuple):
    """A kind of request, and how many partitions it has."""

    what: str
    partitions: int

    def __str__(self) -> str:
        return f"{self.what} of {self.partitions}"


class Figures(NamedTuple):
    """Of one request: its function calls, and its CPU in each round."""

    calls: float
    cpu_us: list[float]


# -- one tree


def framed(request: Any, api_key: int, version: int, header_version: int) -> bytes:
    """A request as the broker receives it."""
    from kafka_offsets.protocol import messages

    body = messages.encode(messages.RequestHeader(api_key, version, 1, "benchmark"), header_version)
    body += messages.encode(request, version)
    return struct.pack(">i", len(body)) + body


def requests(case: Case) -> Iterator[bytes]:
    """A request for each group, or each partition."""
    from kafka_offsets.protocol import messages
    from kafka_offsets.protocol.records import encode_batch

    version, partitions = VERSIONS[case.what], range(case.partitions)
    if case.what == "commit":
        commit = messages.OffsetCommitRequest
        for group in range(GROUPS):
            offsets = [commit.Partition(index, group, committed_metadata="") for index in partitions]
            made = commit(f"group-{group}", -1, "", None, topics=[commit.Topic("t", partitions=offsets)])
            yield framed(made, 8, version, 2)
    elif case.what == "offsets":
        fetch = messages.OffsetFetchRequest
        for group in range(GROUPS):
            yield framed(fetch(f"group-{group}", [fetch.Topic("t", list(partitions))]), 9, version, 2)
    elif case.what in ("produce", "batches"):
        produce = messages.ProduceRequest
        made = [(None, bytes(RECORD_BYTES), (), 1_700_000_000_000)]
        if case.what == "batches":
            made = [(b"k%d" % number, bytes(1000), (), 1_700_000_000_000) for number in range(100)]
        records = bytes(encode_batch(made))
        for index in range(TOPIC_PARTITIONS):
            data = produce.TopicProduceData(
                "t", partition_data=[produce.PartitionProduceData(index, records)]
            )
            yield framed(produce(None, 1, 30_000, [data]), 0, version, 2)
    elif case.what == "coordinator":
        for group in range(GROUPS):
            yield framed(messages.FindCoordinatorRequest(f"group-{group}"), 10, version, 2)
    elif case.what == "versions":
        yield framed(messages.ApiVersionsRequest("benchmark", "1"), 18, version, 2)
    elif case.what == "metadata":
        topic = messages.MetadataRequest.Topic(name="t")
        yield framed(messages.MetadataRequest([topic]), 3, version, 2)
    elif case.what == "list":
        find = messages.ListOffsetsRequest
        for index in range(TOPIC_PARTITIONS):
            latest = find.ListOffsetsPartition(index, -1, -1)
            yield framed(find(-1, 0, [find.ListOffsetsTopic("t", [latest])]), 2, version, 2)
    else:
        read = messages.FetchRequest
        for index in range(TOPIC_PARTITIONS):
            asked = read.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
            made = read(max_wait_ms=500, min_bytes=1, topics=[read.FetchTopic("t", bytes(16), [asked])])
            yield framed(made, 1, version, 1)


class Core:
    """A broker without sockets, with ten records in each partition, and an offset for each group and partition."""

    def __init__(self, folder: str | None, connections: int, window: int) -> None:
        from kafka_offsets.broker.core.core import BrokerCore
        from kafka_offsets.protocol import messages
        from kafka_offsets.storage.files.files import DiskFiles

        try:
            from kafka_offsets.broker.config.keys import Config
        except ImportError:  # an older tree
            from kafka_offsets.broker.config import Config  # type: ignore[attr-defined, no-redef]

        self._core: Any = BrokerCore(Config.load(), *([DiskFiles(Path(folder))] if folder else []))
        owner = getattr(self._core, "answers", self._core)  # of older commits
        self._responses = getattr(self._core, "responses", owner)
        self._connections = [
            self._core.connect(f"peer-{number}", "/127.0.0.1") for number in range(connections)
        ]
        self.window = window
        made = messages.CreateTopicsRequest
        topic = made.CreatableTopic("t", TOPIC_PARTITIONS, 1)
        self._turn([framed(made([topic], 30_000), 19, CREATE_VERSION, 2)])
        for frame in list(requests(Case("produce", 1))) * FETCHED_RECORDS:
            self._turn([frame])
        for frame in requests(Case("commit", TOPIC_PARTITIONS)):
            self._turn([frame])

    def _turn(self, pieces: list[bytes]) -> None:
        for connection, piece in zip(self._connections, pieces, strict=False):
            self._core.receive(connection, piece)
        while self._core.end_turn():  # a machine with other work may need several for the requests
            pass
        self.answered = [self._core.drain(each) for each in self._responses.take_output()]

    def turns(self, frames: list[bytes], count: int) -> None:
        """So many turns, with `window` requests of each connection."""
        window, connections = self.window, len(self._connections)
        pieces = [b"".join(frames[at : at + window]) for at in range(0, len(frames) - window + 1, window)]
        for turn in range(count):
            first = turn * connections
            self._turn([pieces[(first + number) % len(pieces)] for number in range(connections)])
            assert len(self.answered) == connections, "not every connection has its answers"

    @property
    def turn_requests(self) -> int:
        """The requests of a turn."""
        return self.window * len(self._connections)


def count_of(answers: bytes) -> int:
    """How many responses these are."""
    count = 0
    while answers:
        answers = answers[4 + struct.unpack_from(">i", answers)[0] :]
        count += 1
    return count


def counted(core: Core, frames: list[bytes], turns: int) -> float:
    """Function calls of a request."""
    calls = 0

    def count_call(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count_call)
    core.turns(frames, turns)
    sys.setprofile(None)
    return calls / turns / core.turn_requests


def work(options: argparse.Namespace) -> None:
    """Do what is asked for by lines on standard input: [what, partitions, turns]; answer each by one line."""
    with tempfile.TemporaryDirectory() as folder:
        core = Core(folder if options.disk else None, options.connections, options.window)
        for line in sys.stdin:
            what, partitions, turns = json.loads(line)
            frames = list(requests(Case(what, partitions)))
            frames *= -(-core.turn_requests // len(frames))
            if turns < 0:
                core.turns(frames, -turns)  # every group has its shard, and every codec is compiled
                assert [count_of(each) for each in core.answered] == [core.window] * options.connections
                found = counted(core, frames, -turns)
                gc.collect()
                gc.freeze()
                gc.set_threshold(20_000, 20, 20)  # as `serve` does
            else:
                before = time.process_time()
                core.turns(frames, turns)
                found = (time.process_time() - before) / turns / core.turn_requests * 1e6
            print(json.dumps(found), flush=True)


# -- all of them


class Worker:
    """A process with the core of a tree."""

    def __init__(self, python: str, tree: Path, options: list[str]) -> None:
        environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
        command = [python, __file__, "--work", *options]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def ask(self, case: Case, turns: int) -> float:
        """Calls of a request if `turns` is negative, otherwise its CPU."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([*case, turns]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            sys.exit("a worker ended")
        return float(json.loads(line))

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def version_of(python: str) -> str:
    """The version of an interpreter."""
    command = [python, "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def measure(workers: dict[str, Worker], case: Case, options: argparse.Namespace) -> None:
    """All rounds of one case; print its figures."""
    found = {name: Figures(worker.ask(case, -options.counted_turns), []) for name, worker in workers.items()}
    first = next(iter(workers.values())).ask(case, 20)
    turns = max(1, int(ROUND_MS * 1000 / first / options.connections / options.window))
    for number in range(options.rounds):
        order = list(workers) if number % 2 else list(workers)[::-1]
        for name in order:
            found[name].cpu_us.append(workers[name].ask(case, turns))
    for name, figures in found.items():
        cpu = figures.cpu_us
        print(
            f"{case!s:>16}{name:>8}{figures.calls:9.1f}{min(cpu):9.1f}{statistics.median(cpu):9.1f}", end=""
        )
        if name != "this":
            ratios = sorted(mine / other for mine, other in zip(found["this"].cpu_us, cpu, strict=True))
            middle = statistics.median(ratios)
            print(f"{middle:9.3f}  {ratios[0]:.3f} to {ratios[-1]:.3f}", end="")
        print(flush=True)


def main() -> None:
    """Measure each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=VERSIONS, default=list(VERSIONS))
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 10], help="of a commit")
    parser.add_argument("--beside", type=Path, help="the root of another tree")
    parser.add_argument("--pythons", nargs="+", default=[], help="other interpreters for this tree")
    parser.add_argument("--disk", action="store_true", help="logs are in a directory")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--window", type=int, default=16, help="requests of each connection in a turn")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--counted-turns", type=int, default=50, help="in which calls are counted")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options)
        return
    this = Path(__file__).resolve().parent.parent
    of_work = [f"--connections={options.connections}", f"--window={options.window}"]
    of_work += ["--disk"] if options.disk else []
    with ExitStack() as stack:
        workers = {"this": Worker(sys.executable, this, of_work)}
        if options.beside:
            workers["other"] = Worker(sys.executable, options.beside.resolve(), of_work)
        for python in options.pythons:
            workers[version_of(python)] = Worker(python, this, of_work)
        for worker in workers.values():
            stack.callback(worker.close)
        print(f"{'':24}{'calls':>9}{'us least':>9}{'median':>9}{'ratio' if len(workers) > 1 else '':>9}")
        for what in (each for each in VERSIONS if each in options.only):
            for partitions in options.partitions if what in BY_PARTITIONS else [1]:
                measure(workers, Case(what, partitions), options)


if __name__ == "__main__":
    main()
