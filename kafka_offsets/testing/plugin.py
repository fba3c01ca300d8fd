"""The pytest plugin: a Kafka broker for each test or one for all tests, and a report of its state when a test fails.

pytest loads it by the entry point `pytest11`, so every run of pytest in the environment imports this module. It
imports only pytest, and the broker when a test uses one.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pytest

if TYPE_CHECKING:
    from kafka_offsets.testing.broker import Broker
    from kafka_offsets.testing.clock import ManualClock
    from kafka_offsets.testing.cluster.cluster import Cluster

MARKER = (
    "kafka(topics=None, config=None, brokers=None): how the broker of the fixture kafka_broker is made, or the cluster "
    "of kafka_cluster. topics: a list of names, or a dict of names to numbers of partitions; config: a dict of Kafka's "
    "keys to values; brokers: how many, 1 for kafka_broker and 3 for kafka_cluster unless it is said"
)

_SHOWN_REQUESTS = 30
"""So many of the last requests are shown when a test fails."""


_brokers = pytest.StashKey["list[Broker]"]()
_session_broker = pytest.StashKey["Broker"]()
_received_before = pytest.StashKey[int]()
_faults_before = pytest.StashKey[list[Any]]()
_faults_over = pytest.StashKey[list[Any]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A new Kafka broker for this test, in memory, on a free port: a `kafka_offsets.Broker`.

    `@pytest.mark.kafka(topics={"orders": 3}, config={"num.partitions": 3})` configures it. When the test fails,
    the report shows its last requests, groups and offsets.
    """
    yield from _running(request, 1)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A new Kafka cluster for this test, in memory, on free ports: a `kafka_offsets.testing.Cluster`.

    It has three nodes unless `@pytest.mark.kafka(brokers=5)` sets another number. The rest is as in `kafka_broker`.
    """
    yield from _running(request, 3)  # type: ignore[misc]


@pytest.fixture
def kafka_clock() -> "ManualClock":
    """The clock of `kafka_broker` and `kafka_cluster` in a test that uses it: a `kafka_offsets.testing.ManualClock`.

    Time stops until the test advances it: `kafka_clock.advance(days=8)`.
    """
    from kafka_offsets.testing.clock import ManualClock

    return ManualClock()


def _running(request: pytest.FixtureRequest, brokers: int) -> "Iterator[Broker]":
    """Yield the broker or the cluster of a test."""
    from kafka_offsets.errors import ConfigError
    from kafka_offsets.testing.broker import Broker

    item = request.node
    wanted = _wanted(item)
    clock = request.getfixturevalue("kafka_clock") if "kafka_clock" in request.fixturenames else None
    is_cluster = brokers > 1 or wanted.brokers is not None
    try:
        if is_cluster:
            from kafka_offsets.testing.cluster.cluster import Cluster

            made: Broker = Cluster(wanted.config, brokers=wanted.brokers or brokers, clock=clock, record=True)
        else:
            made = Broker(wanted.config, clock=clock, record=True)
    except ConfigError as error:
        _refuse(str(error))
    with made as broker:
        for name, partitions in wanted.topics.items():
            try:
                broker.create_topic(name, partitions)
            except ValueError as error:
                _refuse(str(error))
        item.stash.setdefault(_brokers, []).append(broker)
        yield broker


@pytest.fixture(scope="session")
def kafka_session_config() -> dict[str, object]:
    """Kafka's keys to values for `kafka_session_broker`. Override this fixture in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kafka_session_broker(
    request: pytest.FixtureRequest, kafka_session_config: Mapping[str, object]
) -> "Iterator[Broker]":
    """One Kafka broker for all tests that use it, in memory; with pytest-xdist one for each worker.

    Its topics and groups stay from test to test, unless `snapshot` and `restore` are used. Faults that a test injects
    end with the test; those of a fixture end when the fixture ends them. `kafka_session_config` configures the broker.
    """
    from kafka_offsets.testing.broker import Broker

    with Broker(kafka_session_config, record=True) as broker:
        request.config.stash[_session_broker] = broker
        yield broker
        del request.config.stash[_session_broker]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the last event of the session's broker before this test. Reject a marker that has no effect."""
    is_marked = any(marker.name == "kafka" for marker in item.own_markers)
    if is_marked and not {"kafka_broker", "kafka_cluster"} & set(getattr(item, "fixturenames", ())):
        _refuse("it is for the fixtures kafka_broker and kafka_cluster, neither of which this test uses")
    broker = item.config.stash.get(_session_broker, None)
    if broker is not None:
        item.stash[_received_before], item.stash[_faults_over] = broker.last_event, broker.faults.over


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Note the faults that fixtures have injected into the session's broker."""
    broker = item.config.stash.get(_session_broker, None)
    if broker is not None and "kafka_session_broker" in getattr(item, "fixturenames", ()):
        item.stash[_faults_before] = broker.faults.active


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End the faults that the test itself injected into the session's broker, after its report has named them."""
    broker = item.config.stash.get(_session_broker, None)
    before = item.stash.get(_faults_before, None)
    if broker is not None and before is not None:
        for fault in broker.faults.active:
            if fault not in before:
                fault.remove()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Add the state of the test's brokers to the report of a failure."""
    report = yield
    if report.failed:
        for own in item.stash.get(_brokers, ()):
            report.sections.append(_section(own, 0, []))
        broker = item.config.stash.get(_session_broker, None)
        if broker is not None and "kafka_session_broker" in getattr(item, "fixturenames", ()):
            received_before, over = item.stash.get(_received_before, 0), item.stash.get(_faults_over, [])
            report.sections.append(_section(broker, received_before, over))
    return report


def _section(broker: "Broker", received_before: int, over: list[Any]) -> tuple[str, str]:
    """Return title and text for a report: only requests after an event, and no faults of earlier tests."""
    lines = []
    requests = broker.requests_after(received_before)
    if len(requests) > _SHOWN_REQUESTS:
        lines.append(f"… {len(requests) - _SHOWN_REQUESTS} requests before these …")
    lines += [str(each) for each in requests[-_SHOWN_REQUESTS:]] or ["no requests"]
    lines += [repr(fault) for fault in broker.faults.named if fault not in over]
    try:
        lines.append(broker.describe())
        address = broker.bootstrap_servers
    except RuntimeError:  # the fixture has ended, and it is the end of another one that failed
        address = "stopped"
    return f"Kafka broker ({address})", "\n".join(lines)


def _refuse(problem: str) -> NoReturn:
    """Fail a test whose marker is wrong."""
    raise pytest.fail.Exception(f"the marker kafka: {problem}", pytrace=False) from None


class _Wanted(NamedTuple):
    """The settings in the markers of a test."""

    topics: dict[str, int]
    config: dict[str, object]
    brokers: int | None


def _wanted(item: pytest.Item) -> _Wanted:
    """Return the settings in the markers of a test, its class and its module; the nearest marker counts."""
    topics: dict[str, int] = {}
    config: dict[str, object] = {}
    brokers = None
    for marker in reversed(list(item.iter_markers("kafka"))):
        problem = _problem(marker)
        if problem:
            _refuse(problem)
        named = marker.kwargs.get("topics") or {}
        topics |= dict(named) if isinstance(named, Mapping) else dict.fromkeys(named, 1)
        config |= marker.kwargs.get("config") or {}
        brokers = marker.kwargs.get("brokers", brokers)
    return _Wanted(topics, config, brokers)


def _problem(marker: pytest.Mark) -> str:
    """Describe what is wrong with the arguments of a marker; empty if they are valid."""
    if marker.args:
        return f"it takes topics=, config= and brokers=, by name; {marker.args[0]!r} has none"
    unknown = sorted(marker.kwargs.keys() - {"topics", "config", "brokers"})
    if unknown:
        return f"it takes topics=, config= and brokers=, not {unknown[0]}="
    brokers = marker.kwargs.get("brokers", 1)
    if not isinstance(brokers, int) or isinstance(brokers, bool) or brokers < 1:
        return f"brokers= is a number of brokers, not {brokers!r}"
    topics, config = marker.kwargs.get("topics"), marker.kwargs.get("config")
    if isinstance(topics, str) or not isinstance(topics, (Mapping, list, tuple, set, type(None))):
        return f"topics= is a list of names or a dict of names to numbers of partitions, not {topics!r}"
    for name in topics or ():
        count = topics[name] if isinstance(topics, Mapping) else 1
        if not isinstance(name, str) or not isinstance(count, int) or isinstance(count, bool) or count < 1:
            return f"topics= has {name!r}: {count!r}, where a name and its number of partitions are expected"
    if not isinstance(config, (Mapping, type(None))):
        return f"config= is a dict of Kafka's keys to values, not {config!r}"
    return ""
