"""What all tests share: seeds that are printed, hypothesis profiles, pages that tests can write again."""

import gc
import os
import random
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.costs import Costs
from tests.lost_sockets import pytest_collection_finish  # noqa: F401 -- a hook

if TYPE_CHECKING:
    from tests.http.browser import Page

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = Path(__file__).resolve().parent / "data"

IN_CI = os.environ.get("CI") == "true"
SEED = int(os.environ.get("KAFKA_OFFSETS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
# The workers of pytest-xdist are children, and print the seed that the header gives.
os.environ["KAFKA_OFFSETS_SEED"] = str(SEED)

TIMEOUT_S = 600.0
"""How long a test may take, if its mark or the command line does not say it.

It ends what hangs and measures nothing: builds, JVMs and processes that tests start have no limit of their own.
"""

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 4 << 30


def has_room(folder: Path) -> bool:
    """Return whether temporary folders may be made here: 4 GiB are free, and libraries can be loaded from it."""
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= MEMORY_BYTES and not found.f_flag & os.ST_NOEXEC


# What most tests ask for is what was written, not what a disk kept: waiting for its fsync is no part of them. Tests of
# the disk itself use `disk_path`.
if has_room(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# A slow machine is no failure of what is tested, so no deadlines; pytest's own timeout ends what hangs.
settings.register_profile("quick", max_examples=50, deadline=None, derandomize=IN_CI)
settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile(
    "mutation",
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
LONG = settings.get_current_profile_name() == "long"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this project."""
    parser.addoption(
        "--rewrite-docs", action="store_true", help="write the generated tables of docs/ and README.md again"
    )
    parser.addoption(
        "--rewrite-stories",
        action="store_true",
        help="write our answers in tests/stories again, never Kafka's",
    )
    parser.addoption(
        "--rewrite-pictures", action="store_true", help="take the pictures of pages in tests/pictures again"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Measure what tests cost, and let pytest-timeout end those that hang.

    The latter not by setup.cfg, where pytest refuses the option if pytest-timeout is not installed: the examples need
    only pytest.
    """
    if getattr(config.option, "timeout", TIMEOUT_S) is None and "PYTEST_TIMEOUT" not in os.environ:
        config.option.timeout = TIMEOUT_S
    config.pluginmanager.register(Costs(), "costs")


def pytest_report_header() -> str:
    """Say with which seed a failure comes back."""
    return f"seed: KAFKA_OFFSETS_SEED={SEED}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep modules and collected tests from the garbage collector, which would look at all of them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes minutes or waits, so that no worker is left with it when the others are done."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("spark"):
        return 0
    if item.get_closest_marker("apache_kafka"):
        return 1
    return 2 if item.get_closest_marker("interop") else 3


def shared_scope(nodeid: str) -> str:
    """Return what stays in one worker: a file, or all tests that share a session of Spark or an Apache Kafka."""
    file, _, test = nodeid.partition("::")
    if file.startswith("tests/spark/"):
        return "tests/spark"
    return "Apache Kafka" if "[Apache Kafka" in test else file


def next_scope(queue: Sequence[str], waiting: int, workers: int) -> str:
    """Return which scope is given out next: half of the workers wait for sockets, while the others compute.

    queue    what is left, in order
    waiting  how many of the other workers have a scope that waits
    """
    wanted = waiting < workers // 2
    return next((scope for scope in queue if _waits(scope) == wanted), queue[0])


def _waits(scope: str) -> bool:
    return scope.startswith(("Apache Kafka", "tests/interop/", "tests/processes/", "tests/zookeeper/"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep tests of one `shared_scope` in one worker of pytest-xdist, and all processors busy.

    Not by marks and --dist loadgroup: with pytest 9.2 and pytest-xdist 3.8 they have no effect, and no warning says so.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return shared_scope(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            others = [scopes for other, scopes in self.assigned_work.items() if other is not node]
            waiting = sum(any(map(_waits, _unfinished(scopes))) for scopes in others)
            scope = next_scope([*self.workqueue], waiting, len(self.nodes))
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False  # in the order of the items
    return Groups(config, log)


def _unfinished(scopes: Mapping[str, Mapping[str, bool]]) -> list[str]:
    """Return the scopes of a worker of which not all tests are done."""
    return [scope for scope, is_done in scopes.items() if not all(is_done.values())]


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A folder on a disk, as far as /tmp is: for tests of what the file system does."""
    with tempfile.TemporaryDirectory(prefix="kafka-offsets-") as folder:
        yield Path(folder)


@pytest.fixture
def patient_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """`serve --ready` of this process waits for an answer as long as a busy machine needs, and not 2 s."""
    monkeypatch.setattr("kafka_offsets.commands.serve_one._READY_SECONDS", 60.0)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """A generator that depends on the seed and the test's name alone; a failure prints the seed."""
    print(f"KAFKA_OFFSETS_SEED={SEED}")
    file, _, name = request.node.location
    return random.Random(f"{SEED}:{file}::{name}")


@pytest.fixture
def generated(request: pytest.FixtureRequest) -> "GeneratedPart":
    """Compare a generated part of a document with what it should be, or write it with --rewrite-docs."""
    return GeneratedPart(rewrite=request.config.getoption("--rewrite-docs"))


@pytest.fixture
def compare(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[["Page", str], list[str]]:
    """Compares the page of a browser with the kept pictures of a name, and returns what differs."""
    from tests.http import pictures  # late: few tests need it, and Pillow

    if (why := pictures.missing()) is not None:
        pytest.skip(why)
    rewrite = request.config.getoption("--rewrite-pictures")
    return lambda page, name: pictures.differences(page, name, rewrite=rewrite, folder=tmp_path)


class GeneratedPart:
    """The lines of a document between `<!-- begin: NAME -->` and `<!-- end: NAME -->`."""

    def __init__(self, *, rewrite: bool) -> None:
        self._rewrite = rewrite

    def check(self, page: str, name: str, expected: str) -> None:
        """Fail when the part of `page`, a path in the repository, is not `expected`."""
        path = REPOSITORY / page
        before, begin, rest = path.read_text(encoding="utf-8").partition(f"<!-- begin: {name} -->\n")
        actual, end, after = rest.partition(f"<!-- end: {name} -->\n")
        assert begin and end, f"{page} has no part {name}"
        expected = f"\n{expected.strip()}\n\n"
        if self._rewrite and actual != expected:
            path.write_text(before + begin + expected + end + after, encoding="utf-8")
            return
        assert actual == expected, f"{page} is not up to date; write it again by: pytest --rewrite-docs"


def missing(what: str, install: str) -> None:
    """Skip for want of a tool on a developer's machine; fail where everything is expected to be installed."""
    message = f"{what} is missing; install it by: {install}"
    if IN_CI:
        pytest.fail(message)
    pytest.skip(message)
