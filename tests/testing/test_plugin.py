"""The plugin for pytest, as pytest runs it in processes of its own."""

import os
import subprocess
import sys
from importlib.util import find_spec
from textwrap import dedent

import confluent_kafka
import pytest

from kafka_offsets.testing import Broker
from tests.conftest import REPOSITORY
from tests.slowness import slowness

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "kafka_offsets.testing.plugin")
"""As the entry point is called: where that is installed, pytest takes it, and loads nothing twice."""

IMPORT_LIMIT_MS = 10

LOADED_BEFORE = (confluent_kafka, Broker)
"""What pytester would take out of the modules again, and could not load a second time."""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run tests with the plugin; their warnings are errors, as ours are."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY), prepend=os.pathsep)
    # Where the entry point is not installed, a conftest.py of ours has imported the plugin before.
    ini = "[pytest]\nfilterwarnings =\n    error\n    ignore:Module already imported:pytest.PytestAssertRewriteWarning"
    ini += "\naddopts = --strict-markers -p no:cacheprovider"

    def run_tests(source: str, *options: str, other_plugin: str = "") -> pytest.RunResult:
        asyncio_mode = " -p no:asyncio"
        if other_plugin == "pytest_asyncio.plugin":
            asyncio_mode = "\nasyncio_default_fixture_loop_scope = function"
        pytester.makeini(ini + asyncio_mode)
        pytester.makepyfile(source)
        if not other_plugin:
            return pytester.runpytest_inprocess(*PLUGIN, *options)
        # Importing all plugins that are installed would take most of the time of a process.
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        return pytester.runpytest_subprocess(*PLUGIN, "-p", other_plugin, *options)

    return run_tests


PRODUCING = """
    import pytest
    from kafka_offsets.testing import Cluster

    @pytest.mark.kafka(topics={"orders": 3}, config={"num.partitions": 2})
    def test_one(kafka_broker):
        assert kafka_broker.produce("orders", ["a", "b", "c"]) == {("orders", n): 1 for n in range(3)}
        assert kafka_broker.produce("other", ["a", "b"]) == {("other", 0): 1, ("other", 1): 1}

    def test_another(kafka_broker):
        assert not isinstance(kafka_broker, Cluster)
        assert kafka_broker.group("billing") is None
        with pytest.raises(ValueError, match="topic orders does not exist"):
            kafka_broker.consume_all("orders")
"""


def test_each_test_has_a_broker_of_its_own_that_its_marker_describes(run) -> None:
    run(PRODUCING).assert_outcomes(passed=2)


def test_markers_of_module_class_and_function_add_up_and_the_nearest_counts(run) -> None:
    result = run("""
        import pytest

        pytestmark = pytest.mark.kafka(topics=["orders", "payments"], config={"num.partitions": 2})

        @pytest.mark.kafka(topics={"orders": 3})
        class TestOrders:
            @pytest.mark.kafka(config={"num.partitions": 4})
            def test_it(self, kafka_broker):
                kafka_broker.produce("new", ["x"])
                counts = kafka_broker.lag("g", ["new", "orders", "payments"])
                assert [name for name, _ in counts] == ["new"] * 4 + ["orders"] * 3 + ["payments"]

        def test_that_needs_no_broker():
            pass
    """)
    result.assert_outcomes(passed=2)


def test_a_marker_has_topics_with_a_configuration(run) -> None:
    run("""
        import pytest

        PRICES = {"partitions": 2, "config": {"cleanup.policy": "compact", "segment.ms": 1}}

        @pytest.mark.kafka(topics={"orders": 3, "prices": PRICES})
        def test_broker(kafka_broker):
            kafka_broker.produce("prices", [("a", "1"), ("a", "2")])
            kafka_broker.compact("prices", include_active=True)
            assert [each.value for each in kafka_broker.consume_all("prices")] == [b"2"]
            assert len(kafka_broker.lag("g", ["prices"])) == 2
    """).assert_outcomes(passed=1)


def test_a_marker_has_users_and_acls(run) -> None:
    run("""
        import pytest
        from kafka_offsets.client.connection import Connection, parse_address
        from kafka_offsets.client.security import ClientSecurity, Login
        from kafka_offsets.errors import RefusedError
        from kafka_offsets.security.credential import Secret
        from kafka_offsets.testing import allow

        pytestmark = pytest.mark.kafka(users={"alice": "secret"})
        ACLS = [allow("alice", "write", topic="orders")]

        def connect(address, password):
            security = ClientSecurity("SASL_PLAINTEXT", None, Login("PLAIN", "alice", Secret(password)))
            Connection(*parse_address(address), security=security).close()

        @pytest.mark.kafka(topics=["orders"], acls=ACLS)
        def test_broker(kafka_broker):
            assert kafka_broker.acls == frozenset(ACLS)
            connect(kafka_broker.bootstrap_servers, "secret")
            with pytest.raises(RefusedError):
                connect(kafka_broker.bootstrap_servers, "wrong")

        def test_cluster(kafka_cluster):
            for node in kafka_cluster.nodes:
                connect(node.address, "secret")
                with pytest.raises(RefusedError):
                    connect(node.address, "wrong")
    """).assert_outcomes(passed=2)


WRONG = [
    ("partitions=3", "it takes topics=, config=, brokers=, users= and acls=, not partitions="),
    (
        "{'orders': 3}",
        "it takes topics=, config=, brokers=, users= and acls=, by name; {'orders': 3} has none",
    ),
    ("brokers=0", "brokers= is a number of brokers, not 0"),
    ("brokers=101", "a cluster has between 1 and 100 brokers, not 101"),
    (
        "topics='orders'",
        "topics=: a list of topics is expected, such as [[]'orders'], not the text 'orders'",
    ),
    (
        "topics={'orders': 0}",
        "topics=: topic 'orders': 1 or more partitions, not 0",
    ),
    ("topics=['a/b']", "topic 'a/b': *"),
    ("users=['alice']", "users= is a dict of names to passwords, not a list"),
    ("users={'alice': 1}", "users is a dict of names to passwords, both of them texts"),
    ("acls='all'", "acls= is a list of ACLs, not 'all'"),
    ("config=['a']", "config= is a dict of Kafka's keys to values, not [[]'a']"),
    ("config={'num.partition': 3}", "unknown configuration key num.partition; did you mean num.partitions?"),
]


def test_wrong_arguments_of_the_marker_are_reported(run) -> None:
    tests = [
        f"@pytest.mark.kafka({arguments})\ndef test_{number}(kafka_broker):\n    pass\n"
        for number, (arguments, _) in enumerate(WRONG)
    ]
    tests.append("@pytest.mark.kafka(topics=['t'])\ndef test_last(kafka_session_broker):\n    pass\n")
    result = run("import pytest\n\n" + "\n".join(tests))
    result.assert_outcomes(errors=len(WRONG) + 1)
    result.stdout.fnmatch_lines([f"the marker kafka: {said}" for _, said in WRONG])
    result.stdout.fnmatch_lines(
        [
            "the marker kafka: on a test it is for the fixtures kafka_broker and kafka_cluster, neither of which *"
        ]
    )


def test_a_test_that_asks_for_the_clock_moves_its_brokers_time(run) -> None:
    run("""
        import pytest
        from kafka_offsets.testing import ManualClock

        @pytest.fixture
        def week(kafka_clock):
            return lambda: kafka_clock.advance(days=8)

        @pytest.mark.kafka(topics=["orders"])
        def test_broker(kafka_broker, week):
            kafka_broker.commit("billing", {("orders", 0): 0})
            week()
            assert kafka_broker.committed("billing") == {}

        @pytest.mark.kafka(topics=["orders"])
        def test_cluster(kafka_clock, kafka_cluster):
            kafka_cluster.commit("billing", {("orders", 0): 0})
            kafka_clock.advance(days=8)
            assert kafka_cluster.committed("billing") == {}

        def test_without_it_time_is_the_machines(kafka_broker):
            assert not isinstance(kafka_broker._clock, ManualClock)
    """).assert_outcomes(passed=3)


def test_clusters_have_as_many_nodes_as_the_marker_says_and_are_reported(run) -> None:
    result = run("""
        import pytest

        def test_three(kafka_cluster):
            assert len(kafka_cluster.nodes) == 3

        @pytest.mark.kafka(topics={"orders": 5}, brokers=5)
        def test_five(kafka_cluster):
            assert [kafka_cluster.leader("orders", n) for n in range(5)] == [1, 2, 3, 4, 5]

        @pytest.mark.kafka(brokers=2)
        def test_two(kafka_broker):
            kafka_broker.stop_node(2)
            assert False
    """)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*-- Kafka broker (127.0.0.1:*,127.0.0.1:*) --*", "node 2 *, stopped"])


FAILING = """
    import socket
    from confluent_kafka import Consumer

    def consume(broker, **more):
        consumer = Consumer({
            "bootstrap.servers": broker.bootstrap_servers, "group.id": "billing", "client.id": "me",
            "auto.offset.reset": "earliest", "enable.auto.commit": False, **more,
        })
        consumer.subscribe(["orders"])
        message = consumer.poll(20)
        assert message.error() is None
        consumer.commit(asynchronous=False)
        return consumer

    def test_it(BROKER):
        BROKER.produce("orders", ["first", "second"])
        consumer = consume(BROKER)
        try:
            BROKER.assert_committed("billing", {("orders", 0): 2})
        finally:
            consumer.close()
"""


@pytest.mark.parametrize("fixture", ["kafka_broker", "kafka_module_broker", "kafka_session_broker"])
def test_a_failure_shows_the_last_requests_the_groups_and_the_offsets(run, fixture: str) -> None:
    result = run(FAILING.replace("BROKER", fixture))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *the committed offsets of group 'billing' are not as expected:",
            "E *orders-0: committed 1, expected 2 (1 fewer)",
            "*-- Kafka broker (127.0.0.1:*) --*",
            "??:??:??.???  * ms  me * JoinGroup v* group 'billing'; MEMBER_ID_REQUIRED; offers range, roundrobin",
            "??:??:??.???  * ms  me * OffsetCommit v* group 'billing', topic orders; commits orders-0 = 1",
            "group 'billing' (classic): Empty in generation 2 with 0 members",
            "  orders-0 committed 1, lag 1",
        ]
    )


def test_the_report_of_a_session_shows_the_requests_of_this_test(run) -> None:
    result = run("""
        import socket

        def ask(broker, client):
            host, _, port = broker.bootstrap_servers.rpartition(":")
            with socket.create_connection((host, int(port)), 10) as peer:
                peer.sendall(bytes([0, 0, 0, 13, 0, 18, 0, 0, 0, 0, 0, 1, 0, 3]) + client)
                assert peer.recv(4)

        def test_one(kafka_session_broker):
            ask(kafka_session_broker, b"one")

        def test_two(kafka_session_broker):
            ask(kafka_session_broker, b"two")
            assert False
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["* two  * ApiVersions v0"])
    result.stdout.no_fnmatch_line("* one  * ApiVersions v0")


def test_what_an_earlier_test_was_refused_is_not_in_the_report_of_a_later_one(run) -> None:
    result = run("""
        from kafka_offsets.client.commits import VERSION, request
        from kafka_offsets.client.connection import Connection, parse_address

        def refused(broker, group):
            with Connection(*parse_address(broker.bootstrap_servers)) as connection:
                connection.call(request(group, {("nowhere", 0): 0}, {}), VERSION)

        def test_one(kafka_session_broker):
            refused(kafka_session_broker, "early")

        def test_two(kafka_session_broker):
            refused(kafka_session_broker, "late")
            assert False
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["why: *'late'*"])
    result.stdout.no_fnmatch_line("why: *'early'*")


def test_what_passes_shows_nothing(run) -> None:
    run(PRODUCING, "-rA").stdout.no_fnmatch_line("*Kafka broker*")


def test_the_broker_of_a_session_is_configured_by_a_fixture(run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest

        @pytest.fixture(scope="session")
        def kafka_session_config():
            return {"num.partitions": 5}
    """)
    result = run("""
        def test_one(kafka_session_broker):
            kafka_session_broker.produce("orders", ["x"])

        def test_two(kafka_session_broker):
            assert len(kafka_session_broker.lag("g", ["orders"])) == 5
    """)
    result.assert_outcomes(passed=2)


SCOPES = """
    import pytest

    pytestmark = pytest.mark.kafka(topics={"orders": 3}, config={"num.partitions": 4})
    seen = {}

    def note(brokers):
        for name, broker in brokers.items():
            seen.setdefault(name, set()).add(broker)
            assert broker.produce("new", ["x"])
        return {name: len(of) for name, of in seen.items()}

    @pytest.fixture
    def brokers(kafka_broker, kafka_class_broker, kafka_module_broker, kafka_package_broker, kafka_session_broker):
        values = kafka_broker, kafka_class_broker, kafka_module_broker, kafka_package_broker, kafka_session_broker
        return dict(zip(["test", "class", "module", "package", "session"], values))

    @pytest.mark.kafka(topics={"orders": 5})
    class TestOne:
        def test_one(self, brokers):
            note(brokers)

        def test_two(self, brokers):
            note(brokers)
            found = {name: len(broker.lag("g", ["orders", "new"])) for name, broker in brokers.items()}
            assert found == {"test": 5 + 4, "class": 5 + 4, "module": 3 + 4, "package": 6, "session": 6}

    class TestTwo:
        def test_three(self, brokers):
            last = {"test": 3, "class": 2, "module": 1, "package": 1, "session": 1}
            assert note(brokers) == last
            (ended,) = seen["class"] - {brokers["class"]}
            with pytest.raises(RuntimeError, match="this broker is not running"):
                ended.bootstrap_servers
"""


def test_a_broker_of_each_scope_lives_as_long_as_that(run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest

        @pytest.fixture(scope="session")
        def kafka_session_config():
            return {"num.partitions": 6}
    """)
    run(SCOPES).assert_outcomes(passed=3)


OF_A_PACKAGE = """
    import pytest

    def test_it(kafka_package_broker, seen):
        seen.append(kafka_package_broker)

    def test_it_again(kafka_package_broker, seen):
        assert seen[-1] is kafka_package_broker
"""


def test_a_package_that_imports_the_fixture_has_a_broker_of_its_own(run, pytester: pytest.Pytester) -> None:
    """pytest ends a fixture with a package only if it is defined there; a plugin's ends with the run."""
    pytester.makeconftest("""
        import pytest

        @pytest.fixture(scope="session")
        def seen():
            return []
    """)
    imported = "from kafka_offsets.testing.plugin import kafka_package_broker"
    for package in ("one", "one/under", "second"):
        folder = pytester.mkpydir(package)
        (folder / "conftest.py").write_text(imported)
        (folder / f"test_a_{folder.name}.py").write_text(dedent(OF_A_PACKAGE))
    run("""
        import pytest

        def test_the_brokers(seen):
            assert len(set(seen)) == 3
            for each in seen:
                with pytest.raises(RuntimeError, match="this broker is not running"):
                    each.bootstrap_servers
    """).assert_outcomes(passed=7)


def test_a_test_starts_further_brokers_and_its_report_shows_them(run) -> None:
    result = run("""
        import pytest
        from kafka_offsets import ConfigError

        before = []

        @pytest.mark.kafka(topics=["source"])
        def test_one(kafka_broker, kafka_broker_factory, kafka_clock, tmp_path):
            target = kafka_broker_factory(topics={"orders": 2}, config={"num.partitions": 3}, data_directory=tmp_path)
            target.produce("orders", ["a"], partition=1)
            target.commit("billing", {("orders", 0): 0})
            target.stop()
            again = kafka_broker_factory(data_directory=tmp_path)
            assert [record.value for record in again.consume_all("orders")] == [b"a"]
            kafka_clock.advance(days=8)
            assert again.committed("billing") == {}
            cluster = kafka_broker_factory(topics=["t"], brokers=2)
            assert len(cluster.nodes) == 2
            cluster.commit("mirror", {("t", 0): 0})
            with pytest.raises(ConfigError, match="^a cluster is in memory"):
                kafka_broker_factory(brokers=2, data_directory=tmp_path)
            before.extend([kafka_broker, again, cluster])
            assert False

        def test_two(kafka_broker_factory):
            assert before
            for broker in before:
                with pytest.raises(RuntimeError, match="is not running"):
                    broker.describe()
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*-- Kafka broker (127.0.0.1:*) --*", "*-- Kafka broker (stopped) --*", "group 'mirror'*"]
    )


def test_a_disk_fault_that_is_left_in_force_does_not_fail_the_end_of_the_test(run) -> None:
    result = run("""
        def test_full(kafka_broker):
            kafka_broker.faults.disk_full(free_bytes=0)

        def test_broken(kafka_broker):
            kafka_broker.faults.disk_error("append")
    """)
    result.assert_outcomes(passed=2)


def test_faults_of_a_test_end_with_it_and_those_of_fixtures_with_them(run) -> None:
    result = run("""
        import pytest

        @pytest.fixture(scope="module")
        def old(kafka_session_broker):
            with kafka_session_broker.faults.release("2.8") as fault:
                yield fault

        def test_one(kafka_session_broker, old):
            kafka_session_broker.faults.disk_full()
            kafka_session_broker.faults.down()
            assert len(kafka_session_broker.faults.active) == 3

        def test_two(kafka_session_broker, old):
            assert kafka_session_broker.faults.active == [old]
            kafka_session_broker.faults.down()
            assert False

        def test_three(kafka_session_broker):
            kafka_session_broker.faults.disk_full()
    """)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["<fault down: *struck 0 times>"])
    assert result.stdout.str().count("<fault down: ") == 1  # not that of the test before


def test_every_fault_of_a_test_is_reported(run) -> None:
    result = run("""
        from kafka_offsets import ErrorCode

        def test_it(kafka_broker):
            faults = kafka_broker.faults
            with faults.delay("Fetch", ms=5), faults.coordinator_loading("g", n=1):
                pass
            faults.release("2.8")
            faults.slow_disk(1)
            assert False
    """)
    result.stdout.fnmatch_lines(
        [
            "<fault coordinator_loading: * group='g', struck 0 of 1 times, over>",
            "<fault delay: Fetch by 5 ms, struck 0 times, over>",
            "<fault withhold: every API as Kafka 2.8, struck 0 times>",
            "<fault slow_disk: *sync*struck 0 times>",
        ]
    )


@pytest.mark.skipif(find_spec("xdist") is None, reason="pytest-xdist is not installed")
def test_workers_of_xdist_have_brokers_of_their_own_and_report_failures(run) -> None:
    result = run(
        """
        import os

        def test_one(kafka_session_broker, kafka_broker):
            kafka_session_broker.create_topic("t")

        def test_two(kafka_session_broker):
            kafka_session_broker.create_topic("t")  # in that of another worker
            kafka_session_broker.produce("orders", ["first", "second"])
            kafka_session_broker.commit("billing", {("orders", 0): 1})
            assert os.environ["PYTEST_XDIST_WORKER"] is None
    """,
        *("-n", "2"),
        other_plugin="xdist",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*-- Kafka broker (127.0.0.1:*", "  orders-0 committed 1, lag 1"])


@pytest.mark.skipif(find_spec("pytest_asyncio") is None, reason="pytest-asyncio is not installed")
def test_coroutines_use_the_same_fixture(run) -> None:
    result = run(
        """
        import asyncio
        import pytest
        from aiokafka import AIOKafkaConsumer
        from kafka_offsets.testing import committed

        @pytest.mark.asyncio
        async def test_it(kafka_broker):
            kafka_broker.produce("orders", ["first"])
            waiting = asyncio.create_task(kafka_broker.async_wait_for(committed("billing", {("orders", 0): 1})))
            async with AIOKafkaConsumer(
                "orders", bootstrap_servers=kafka_broker.bootstrap_servers, group_id="billing",
                auto_offset_reset="earliest", enable_auto_commit=False,
            ) as consumer:
                assert (await consumer.getone()).value == b"first"
                await consumer.commit()
            assert await waiting == {("orders", 0): 1}
    """,
        other_plugin="pytest_asyncio.plugin",
    )
    result.assert_outcomes(passed=1)


def test_the_plugin_is_loaded_once(pytestconfig: pytest.Config) -> None:
    loaded = [
        plugin
        for plugin in pytestconfig.pluginmanager.get_plugins()
        if getattr(plugin, "__name__", "") == "kafka_offsets.testing.plugin"
    ]
    assert len(loaded) <= 1
    markers = [line for line in pytestconfig.getini("markers") if line.startswith("kafka(")]
    assert len(markers) == len(loaded)


def test_a_run_that_uses_no_broker_pays_next_to_nothing_for_the_plugin() -> None:
    code = (
        "import pytest, sys, time\n"
        "before, began = set(sys.modules), time.process_time()\n"
        "import kafka_offsets.testing.plugin\n"
        "print((time.process_time() - began) * 1000)\n"
        "print(*sorted(name for name in set(sys.modules) - before))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(3):  # the first import compiles, and another process may have had the processor
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            check=True,
            env=environment,
        )
        spent, modules = done.stdout.splitlines()
        assert set(modules.split()) == {
            "kafka_offsets",
            "kafka_offsets.testing",
            "kafka_offsets.testing.plugin",
        }
        if float(spent) < IMPORT_LIMIT_MS * slowness():
            break
    else:
        pytest.fail(f"the import took {spent} ms, and too long twice before")


SHOWN_WARNINGS = ("-W", "default::pytest.PytestWarning", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Show the warning of the plugin, and not that of pytest where a conftest.py has imported the plugin before."""

ORDERS = """
    import pytest
    from tests.drivers import wire

    @pytest.fixture
    def clients():
        made = []
        yield made
        for each in made:
            each.socket.close()

    @pytest.fixture
    def ordered(kafka_broker):
        made = []
        yield made
        for each in made:
            each.socket.close()

    @pytest.fixture
    def other(tmp_path, monkeypatch):
        yield

    def connect(made, broker):
        made.append(wire.Connection(broker.bootstrap_servers.split(",")[0]))
        assert made[-1].api_versions() == 0

    {test}
"""


@pytest.mark.parametrize(
    "test",
    [
        "def test_it(clients, kafka_broker): connect(clients, kafka_broker)",
        "def test_it(clients, kafka_broker_factory): connect(clients, kafka_broker_factory())",
        "def test_it(clients, kafka_cluster): connect(clients, kafka_cluster)",
    ],
)
def test_a_fixture_that_closes_its_clients_after_the_broker_is_named(run, test: str) -> None:
    result = run(ORDERS.format(test=test), *SHOWN_WARNINGS)
    result.assert_outcomes(passed=1, warnings=1)
    said = "kafka_broker has stopped while clients were connected: wire at 127.0.0.1:*"
    result.stdout.fnmatch_lines(
        [f"*PytestWarning: {said}. The fixture clients ends after it. Close clients first: *"]
    )


def test_a_shared_broker_that_stops_before_a_fixture_ends_is_named(run) -> None:
    source = """
        import pytest
        from tests.drivers import wire

        @pytest.fixture(scope="module")
        def clients():
            made = []
            yield made
            for each in made:
                each.socket.close()

        def test_it(clients, kafka_module_broker):
            clients.append(wire.Connection(kafka_module_broker.bootstrap_servers))
            assert clients[0].api_versions() == 0
    """
    result = run(source, *SHOWN_WARNINGS)
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        ["*kafka_module_broker has stopped while clients were connected: wire at 127.0.0.1:*"]
    )


@pytest.mark.parametrize(
    "test",
    [
        "def test_it(other, ordered, kafka_broker): connect(ordered, kafka_broker)",
        "def test_it(clients, kafka_broker): connect(clients, kafka_broker); clients.pop().socket.close()",
        "def test_it(tmp_path, monkeypatch, kafka_broker, clients): connect(clients, kafka_broker)",
        "def test_it(clients, kafka_broker): connect(clients, kafka_broker); kafka_broker.stop()",
    ],
)
def test_clients_that_are_closed_first_are_not_named(run, test: str) -> None:
    run(ORDERS.format(test=test)).assert_outcomes(passed=1)  # a warning is an error


UNITTEST = """
    import unittest
    import pytest

    @pytest.mark.kafka(topics=["orders"])
    class TestOrders(unittest.TestCase):
        {usefixtures}
        def test_it(self):
            pass

        def test_other(self):
            pass
"""


@pytest.mark.parametrize(
    ("usefixtures", "refused"),
    [
        ("", 2),
        ("@pytest.mark.usefixtures('kafka_broker')", 0),
        ("@pytest.mark.usefixtures('kafka_class_broker')", 0),
        ("@pytest.fixture(autouse=True)\n        def broker(self, kafka_broker): pass", 0),
    ],
)
def test_a_marker_on_a_testcase_without_a_fixture_is_refused(run, usefixtures: str, refused: int) -> None:
    result = run(UNITTEST.format(usefixtures=usefixtures))
    result.assert_outcomes(passed=2 - refused, errors=refused)
    if refused:
        result.stdout.fnmatch_lines(
            ["the marker kafka: the TestCase TestOrders has it for the fixtures kafka_broker, kafka_class*"]
        )


def test_what_a_client_asks_again_and_again_does_not_fill_the_report(run):
    """Spark asks for the ends of its topics dozens of times a second, and no other request was shown."""
    result = run(
        """
        from confluent_kafka.admin import AdminClient

        def test_one(kafka_broker):
            kafka_broker.produce("orders", ["a"])
            admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers, "client.id": "poller"})
            admin.list_consumer_groups().result(10)
            for _ in range(50):
                admin.list_topics("orders", timeout=10)
            del admin  # closes it: the report keeps the variables of the test
            assert not "reported"
        """
    )
    shown = result.stdout.lines
    assert any("requests that their clients have repeated are omitted" in line for line in shown)
    assert any("ListGroups" in line for line in shown), "the request before them"
    assert 0 < sum("poller" in line and "Metadata" in line for line in shown) < 10


def test_a_traceback_ends_at_the_line_of_the_test(run) -> None:
    text = """
        import pytest
        from kafka_offsets.testing import committed

        CALLS = [
            lambda broker: broker.wait_for(committed("billing"), 0.01),
            lambda broker: broker.assert_committed("billing", {("orders", 0): 1}),
            lambda broker: broker.produce("orders", [object()]),
            lambda broker: broker.produce("a wrong name!", ["a"]),
            lambda broker: broker.consume_all("orders"),
            lambda broker: broker.commit("billing", {("orders", 0): 1}),
            lambda broker: broker.compact("orders"),
            lambda broker: broker.faults.error("Nope", 3),
        ]

        @pytest.mark.parametrize("call", CALLS)
        def test_it(kafka_broker, call):
            call(kafka_broker)
    """
    result = run(text, "--tb=short")
    result.assert_outcomes(failed=8)
    result.stdout.no_fnmatch_line("*kafka_offsets/*: in *")
    result.stdout.no_fnmatch_line("*concurrent/futures*")
    run(text, "--full-trace", "-k", "4").stdout.fnmatch_lines(["*broker.py:*: ValueError"])


def test_ten_seconds_of_heartbeats_and_empty_fetches_do_not_hide_what_was_refused(run) -> None:
    result = run("""
        import socket

        def ask(peer, key, version, body):
            frame = bytes([0, key, 0, version, 0, 0, 0, 1, 0, 2]) + b"me" + body
            peer.sendall(len(frame).to_bytes(4) + frame)
            size = int.from_bytes(peer.recv(4))
            while size:
                size -= len(peer.recv(size))

        def test_it(kafka_broker):
            host, _, port = kafka_broker.bootstrap_servers.rpartition(":")
            with socket.create_connection((host, int(port)), 10) as peer:
                ask(peer, 9, 1, b"\\0\\7billing" + bytes(4))
                for _ in range(40):
                    ask(peer, 12, 0, b"\\0\\7billing" + bytes(4) + b"\\0\\4gone")
            assert False
    """)
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    result.stdout.fnmatch_lines(["refused: *Heartbeat v0*UNKNOWN_MEMBER_ID (40 times from ??:??:??)"])
    section = text.partition("Kafka broker (")[2].partition("short test summary")[0]
    assert len(section.splitlines()) <= 62
