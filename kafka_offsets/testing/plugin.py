"""The pytest plugin: a Kafka broker for each test or one for all tests, and a report of its state when a test fails.

pytest loads it by the entry point `pytest11`, so every run of pytest in the environment imports this module. It
imports only pytest, and the broker when a test uses one.
"""

import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pytest

if TYPE_CHECKING:
    from kafka_offsets.testing.broker import Broker
    from kafka_offsets.testing.broker_cluster import Cluster
    from kafka_offsets.testing.clock import ManualClock
    from kafka_offsets.testing.factory import BrokerFactory

MARKER = (
    "kafka(topics=None, config=None, brokers=None, users=None, acls=None): how the broker of the fixture kafka_broker "
    "is made, or the cluster of kafka_cluster; on a class or module also kafka_class_broker and kafka_module_broker. "
    "topics: a list of names, or a dict of names to numbers of partitions or to {'partitions': 3, 'config': {...}}; "
    "config: a dict of Kafka's keys to values; "
    "brokers: how many, 3 for kafka_cluster and 1 for the others unless it is said; users: a dict of names to "
    "passwords; acls: a list of ACLs"
)


class _Before(NamedTuple):
    """What a shared broker had recorded before a test.

    last_event  the number of its last event
    incident    a number before those of the incidents of the test
    over        the faults that had ended
    """

    last_event: int
    incident: int
    over: list[Any]


_OF_A_TEST = {"kafka_broker", "kafka_cluster"}
_OF_A_CLASS = {*_OF_A_TEST, "kafka_class_broker"}
"""The fixtures that the marker on a test, and on a class, configures."""

_factory = pytest.StashKey["BrokerFactory"]()
_shared = pytest.StashKey["dict[str, Broker]"]()
_before = pytest.StashKey[dict[str, _Before]]()
_faults_before = pytest.StashKey[dict[str, list[Any]]]()
_left = pytest.StashKey[str]()
"""At the fixtures' node: which clients were connected when its brokers stopped, in words."""

_spark = pytest.StashKey[Any]()
_spark_fixture = pytest.StashKey["tuple[pytest.FixtureDef[Any], Any]"]()
_spark_before = pytest.StashKey[Any]()
_spark_shared = pytest.StashKey[Any]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)
    config.stash[_shared] = {}


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest, kafka_broker_factory: "BrokerFactory") -> "Broker":
    """A new Kafka broker for this test, in memory, on a free port: a `kafka_offsets.Broker`.

    `@pytest.mark.kafka(topics={"orders": 3}, config={"num.partitions": 3})` configures it. When the test fails,
    the report shows its last requests, groups and offsets.
    """
    return _start(kafka_broker_factory, _wanted(request.node))


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, kafka_broker_factory: "BrokerFactory") -> "Cluster":
    """A new Kafka cluster for this test, in memory, on free ports: a `kafka_offsets.testing.Cluster`.

    It has three nodes unless `@pytest.mark.kafka(brokers=5)` sets another number. The rest is as in `kafka_broker`.
    """
    marker = _wanted(request.node)
    return _start(kafka_broker_factory, marker._replace(brokers=marker.brokers or 3))  # type: ignore[return-value]


@pytest.fixture
def kafka_broker_factory(request: pytest.FixtureRequest) -> "Iterator[BrokerFactory]":
    """A function that starts further brokers for this test, which all stop at its end.

    `kafka_broker_factory(topics=["orders"], config={...}, data_directory=tmp_path)` returns a broker;
    with `brokers=3` a cluster: see `kafka_offsets.testing.BrokerFactory`.
    """
    from kafka_offsets.testing.factory import BrokerFactory

    clock = request.getfixturevalue("kafka_clock") if "kafka_clock" in request.fixturenames else None
    with BrokerFactory(clock) as factory:
        request.node.stash[_factory] = factory
        yield factory
        _note_clients(request, factory)


@pytest.fixture
def kafka_clock() -> "ManualClock":
    """The clock of `kafka_broker` and `kafka_cluster` in a test that uses it: a `kafka_offsets.testing.ManualClock`.

    Time stops until the test advances it: `kafka_clock.advance(days=8)`.
    """
    from kafka_offsets.testing.clock import ManualClock

    return ManualClock()


@pytest.fixture(scope="session")
def kafka_session_config() -> dict[str, object]:
    """Kafka's keys to values for the brokers that tests share. Override this fixture in a conftest.py."""
    return {}


@pytest.fixture(scope="class")
def kafka_class_broker(
    request: pytest.FixtureRequest, kafka_session_config: Mapping[str, object]
) -> "Iterator[Broker]":
    """One Kafka broker for all tests of a class; the marker on the class configures it. See `kafka_session_broker`."""
    yield from _sharing(request, kafka_session_config)


@pytest.fixture(scope="module")
def kafka_module_broker(
    request: pytest.FixtureRequest, kafka_session_config: Mapping[str, object]
) -> "Iterator[Broker]":
    """One Kafka broker for all tests of a module; its `pytestmark` configures it. See `kafka_session_broker`."""
    yield from _sharing(request, kafka_session_config)


@pytest.fixture(scope="package")
def kafka_package_broker(
    request: pytest.FixtureRequest, kafka_session_config: Mapping[str, object]
) -> "Iterator[Broker]":
    """One Kafka broker for all tests of a package whose conftest.py imports this fixture. See `kafka_session_broker`.

    Otherwise it is for the whole run: pytest ends a fixture with a package only if it is defined in that package.
    """
    yield from _sharing(request, kafka_session_config)


@pytest.fixture(scope="session")
def kafka_session_broker(
    request: pytest.FixtureRequest, kafka_session_config: Mapping[str, object]
) -> "Iterator[Broker]":
    """One Kafka broker for all tests that use it, in memory; with pytest-xdist one for each worker.

    Its topics and groups stay from test to test, unless `snapshot` and `restore` are used. Faults that a test injects
    end with the test; those of a fixture end when the fixture ends them. `kafka_session_config` configures the broker.
    """
    yield from _sharing(request, kafka_session_config)


@pytest.fixture(scope="session")
def kafka_spark_config() -> dict[str, str]:
    """Spark's keys to values for `kafka_spark`. Override this fixture in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kafka_spark(
    request: pytest.FixtureRequest,
    kafka_spark_config: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Any]:
    """A `pyspark.sql.SparkSession` for all tests that use it, local and with Spark's Kafka connector.

    It needs the extra `spark`, with PySpark 3.5, or 4.0 or later. Its settings suit small queries: two threads, two
    shuffle partitions, no web interface, whole stages not compiled. The jars of the connector are those in the folder
    KAFKA_OFFSETS_SPARK_JARS; without that variable Spark downloads them. Queries that a test starts and listeners that
    it adds end with the test, as those of its fixtures do. If a test has stopped the session, or its JVM has ended,
    the next one gets a new one.
    """
    from kafka_offsets.errors import ConfigError
    from kafka_offsets.spark import tests_session

    stash = request.config.stash
    try:
        with tests_session.for_tests(kafka_spark_config, tmp_path_factory.mktemp("spark")) as session:
            stash[_spark] = session
            yield session
    except ConfigError as error:
        raise pytest.fail.Exception(f"the fixture kafka_spark: {error}", pytrace=False) from None
    finally:
        if _spark in stash:
            del stash[_spark]


def _sharing(request: pytest.FixtureRequest, config: Mapping[str, object]) -> "Iterator[Broker]":
    """Yield the broker of several tests."""
    from kafka_offsets.testing.factory import BrokerFactory

    marker = _wanted(request.node)
    shared, name = request.config.stash[_shared], str(request.fixturename)
    with BrokerFactory() as factory:
        around = shared.get(name)  # of a package that contains this one
        shared[name] = _start(factory, marker._replace(config={**config, **marker.config}))
        yield shared[name]
        _note_clients(request, factory)
        if around is None:
            del shared[name]
        else:
            shared[name] = around


def _note_clients(request: pytest.FixtureRequest, factory: "BrokerFactory") -> None:
    """Record which clients are connected to brokers that stop now."""
    clients = factory.clients
    if clients:
        name = str(request.fixturename).removesuffix("_factory")
        request.node.stash[_left] = f"{name} has stopped while clients were connected: {', '.join(clients)}"


@pytest.hookimpl
def pytest_fixture_post_finalizer(
    fixturedef: "pytest.FixtureDef[Any]", request: pytest.FixtureRequest
) -> None:
    """Warn of a fixture that ends after the broker, and may have closed its clients only then."""
    left = request.node.stash.get(_left, None)
    if (
        left is not None
        and fixturedef.cached_result is not None
        and _ends_with_code(fixturedef.func, request.config)
    ):
        del request.node.stash[_left]
        message = (
            f"{left}. The fixture {fixturedef.argname} ends after it. Close clients first: a fixture that takes the "
            "broker as an argument ends before it"
        )
        warnings.warn(pytest.PytestWarning(message), stacklevel=1)


def _ends_with_code(fixture: Callable[..., object], config: pytest.Config) -> bool:
    """Whether a fixture is of the project under test, none of a plugin, and does something after its test."""
    function = inspect.unwrap(fixture)
    file = Path(inspect.getfile(function))
    if not file.is_relative_to(config.rootpath) or "site-packages" in file.parts or file == Path(__file__):
        return False
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _start(factory: "BrokerFactory", marker: "_Wanted") -> "Broker":
    """Start what a marker describes."""
    from kafka_offsets.errors import ConfigError

    arguments: dict[str, Any] = {name: value for name, value in marker._asdict().items() if value is not None}
    try:
        started: Broker = factory(**arguments)
    except (ConfigError, TypeError, ValueError) as error:
        _refuse(str(error))
    return started


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record the last events of shared brokers before this test. Reject a marker that has no effect."""
    used = set(getattr(item, "fixturenames", ()))
    if _is_marked(item) and not _OF_A_TEST & used:
        _refuse(
            "on a test it is for the fixtures kafka_broker and kafka_cluster, neither of which this test uses"
        )
    case = item.getparent(pytest.Class)
    if case is not None and _is_marked(case) and not _OF_A_CLASS & (used | _requested_by(case.obj)):
        _refuse(
            f"the TestCase {case.name} has it for the fixtures {', '.join(sorted(_OF_A_CLASS))}, none of which its "
            "tests use: @pytest.mark.usefixtures('kafka_broker') on the class, or a fixture with autouse=True in it"
        )
    item.stash[_before] = {name: _before_test(each) for name, each in item.config.stash[_shared].items()}
    _renew_spark(item)
    _note_spark(item.config, item.config.stash, _spark_shared)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: "pytest.FixtureDef[Any]", request: pytest.FixtureRequest) -> Any:
    """Keep the fixture `kafka_spark` of this plugin, to end it when its session has ended.

    Note what runs in Spark after a fixture of several tests, for which it stays.
    """
    if fixturedef.argname == kafka_spark.__name__ and fixturedef.func.__module__ == __name__:
        request.config.stash[_spark_fixture] = fixturedef, request
    result = yield
    if fixturedef.scope != "function":
        _note_spark(request.config, request.config.stash, _spark_shared)
    return result


def _renew_spark(item: pytest.Item) -> None:
    """End the fixture `kafka_spark`, and the fixtures made of it, if its session has ended."""
    if _spark in item.config.stash and _running_spark(item.config) is None:
        fixture, request = item.config.stash[_spark_fixture]
        fixture.finish(request)


def _running_spark(config: pytest.Config) -> Any:
    """Return the session of `kafka_spark` if it runs."""
    session = config.stash.get(_spark, None)
    if session is None:
        return None
    from kafka_offsets.spark import tests_session

    return None if tests_session.has_ended(session) else session


def _note_spark(config: pytest.Config, stash: pytest.Stash, key: "pytest.StashKey[Any]") -> None:
    """Record the queries and listeners of the session of `kafka_spark`, if it runs."""
    session = _running_spark(config)
    if session is not None:
        from kafka_offsets.spark import tests_session

        stash[key] = tests_session.running(session)


def _end_in_spark(config: pytest.Config, before: Any) -> None:
    """End the queries and listeners that the session of `kafka_spark` did not have before, if it runs."""
    session = _running_spark(config)
    if session is not None and before is not None:
        from kafka_offsets.spark import tests_session

        tests_session.end_others(session, before)


def _is_marked(node: pytest.Item | pytest.Class) -> bool:
    return any(marker.name == "kafka" for marker in node.own_markers)


def _requested_by(case: type) -> set[str]:
    """Return the fixtures that other tests of a TestCase request; of any other class what it could request."""
    from unittest import TestCase  # no import cost for tests without the marker

    if not issubclass(case, TestCase):
        return _OF_A_CLASS
    marks = [mark for _, each in inspect.getmembers(case) for mark in getattr(each, "pytestmark", ())]
    return {name for mark in marks if mark.name == "usefixtures" for name in mark.args}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Record the faults that fixtures have injected into shared brokers, and what fixtures run in Spark."""
    item.stash[_faults_before] = {name: broker.faults.active for name, broker in _used(item).items()}
    _note_spark(item.config, item.stash, _spark_before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Any:
    """End the faults that the test itself injected into shared brokers, after its report has named them.

    Stop what it has left in Spark, before its brokers stop, and what its own fixtures have left there.
    """
    before = item.stash.get(_faults_before, {})
    for name, broker in _used(item).items():
        for fault in broker.faults.active if name in before else ():
            if fault not in before[name]:
                fault.remove()
    _end_in_spark(item.config, item.stash.get(_spark_before, None))
    try:
        return (yield)
    finally:
        _end_in_spark(item.config, item.config.stash.get(_spark_shared, None))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """Forget the brokers of a test when it is over: pytest keeps its items until the end of the run."""
    try:
        return (yield)
    finally:
        keys: tuple[pytest.StashKey[Any], ...] = (_factory, _before, _faults_before, _left, _spark_before)
        for key in keys:
            if key in item.stash:
                del item.stash[key]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    """Add the state of the test's brokers to the report of a failure, and end its traceback at the test's own line."""
    if call.excinfo is not None and not item.config.getoption("fulltrace"):
        _end_at_the_test(call.excinfo.value)
    report = yield
    if report.failed:
        factory = item.stash.get(_factory, None)
        for own in factory.started if factory is not None else ():
            report.sections.append(_section(own, _Before(0, 0, [])))
        before = item.stash.get(_before, {})
        for name, broker in _used(item).items():
            report.sections.append(_section(broker, before.get(name, _Before(0, 0, []))))
    return report


def _end_at_the_test(error: BaseException) -> None:
    """Cut the frames of this package off the end of a traceback, where it says what a test did wrong.

    Those of an error that only a fault of this package raises stay, and with --full-trace all do.
    """
    if not isinstance(error, _TOLD) and type(error).__module__ != "kafka_offsets.errors":
        return
    last = None
    frame = error.__traceback__
    while frame is not None:
        if not _is_ours(frame.tb_frame.f_code.co_filename):
            last = frame
        frame = frame.tb_next
    if last is None or last.tb_next is None or not _begins_here(last.tb_next):
        return
    last.tb_next = None
    error.__cause__ = None
    error.__suppress_context__ = True


_TOLD = (AssertionError, TimeoutError, ValueError, TypeError, RuntimeError, OSError)
"""What methods for tests raise, beside the exceptions of `kafka_offsets.errors`."""

_PACKAGE = str(Path(__file__).parent.parent)
_FUTURES = os.path.join("", "concurrent", "futures", "")


def _is_ours(file: str) -> bool:
    return file.startswith(_PACKAGE) or _FUTURES in file


def _begins_here(frame: TracebackType) -> bool:
    """Whether the first frame that is cut off is of this package, not of a Future that the test itself waits for."""
    return frame.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def _before_test(broker: "Broker") -> _Before:
    from kafka_offsets.incidents import new_number

    return _Before(broker.last_event, new_number(), broker.faults.over)


def _used(item: pytest.Item) -> "dict[str, Broker]":
    """Return the running shared brokers that a test uses, by the names of their fixtures."""
    names = set(getattr(item, "fixturenames", ()))
    return {name: broker for name, broker in item.config.stash[_shared].items() if name in names}


def _section(broker: "Broker", before: _Before) -> tuple[str, str]:
    """Return title and text for a report: only requests after an event, and no faults of earlier tests."""
    faults = [fault for fault in broker.faults.named if fault not in before.over]
    try:
        address = broker.bootstrap_servers
    except RuntimeError:  # the fixture has ended, and it is the end of another one that failed
        address = "stopped"
    return f"Kafka broker ({address})", "\n".join(broker.report(before.last_event, faults, before.incident))


def _refuse(problem: str) -> NoReturn:
    """Fail a test whose marker is wrong."""
    raise pytest.fail.Exception(f"the marker kafka: {problem}", pytrace=False) from None


class _Wanted(NamedTuple):
    """The settings in the markers of a test."""

    topics: dict[str, Any]
    config: dict[str, object]
    brokers: int | None = None
    users: dict[str, str] | None = None
    acls: list[Any] | None = None


_OTHERS = ("brokers", "users", "acls")
_NAMES = "topics=, config=, brokers=, users= and acls="


def _wanted(item: pytest.Item) -> _Wanted:
    """Return the settings in the markers of a test, its class and its module; the nearest marker counts."""
    topics: dict[str, Any] = {}
    config: dict[str, object] = {}
    others: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("kafka"))):
        problem = _problem(marker)
        if problem:
            _refuse(problem)
        named = marker.kwargs.get("topics") or {}
        topics |= dict(named) if isinstance(named, Mapping) else dict.fromkeys(named, 1)
        config |= marker.kwargs.get("config") or {}
        others |= {name: marker.kwargs[name] for name in _OTHERS if name in marker.kwargs}
    return _Wanted(topics, config, **others)


def _problem(marker: pytest.Mark) -> str:
    """Describe what is wrong with the arguments of a marker; empty if they are valid."""
    if marker.args:
        return f"it takes {_NAMES}, by name; {marker.args[0]!r} has none"
    unknown = sorted(marker.kwargs.keys() - {*_Wanted._fields})
    if unknown:
        return f"it takes {_NAMES}, not {unknown[0]}="
    brokers = marker.kwargs.get("brokers", 1)
    if not isinstance(brokers, int) or isinstance(brokers, bool) or brokers < 1:
        return f"brokers= is a number of brokers, not {brokers!r}"
    topics, config = marker.kwargs.get("topics"), marker.kwargs.get("config")
    if topics is not None:
        from kafka_offsets.testing.contents.topics import topics_of

        try:
            topics_of(topics)
        except (TypeError, ValueError) as error:
            return f"topics=: {error}"
    if not isinstance(config, (Mapping, type(None))):
        return f"config= is a dict of Kafka's keys to values, not {config!r}"
    users, acls = marker.kwargs.get("users"), marker.kwargs.get("acls")
    if not isinstance(users, (Mapping, type(None))):
        return f"users= is a dict of names to passwords, not a {type(users).__name__}"
    if not isinstance(acls, (list, tuple, set, frozenset, type(None))):
        return f"acls= is a list of ACLs, not {acls!r}"
    return ""
