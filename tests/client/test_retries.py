"""Retries: what passes is asked again, within a limit, and one line says for what the client waits."""

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker, cli
from kafka_offsets.client import connection, retries
from kafka_offsets.client.cluster import LATEST, ClusterClient, ListedGroup
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.consumer import metadata
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.client.retries import Retries
from kafka_offsets.client.settings import ConnectionSettings
from kafka_offsets.commands.groups import lagging, rows
from kafka_offsets.errors import (
    CommitRefusedError,
    ConnectionLostError,
    ErrorCode,
    KafkaOffsetsError,
    ListenerError,
    ProtocolError,
    RefusedError,
    SilentBrokerError,
    UnknownHostError,
)
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import batch_headers, encode_batch
from kafka_offsets.testing import Cluster
from tests.client.patience import be_impatient_only_with

ORDERS = "orders", 0


class Trouble:
    """Calls that fail, a clock that moves with the pauses, and the lines that were written."""

    def __init__(self, *errors: KafkaOffsetsError, lasts_s: float = 0.0) -> None:
        self.errors = list(errors)
        self.lasts_s = lasts_s
        self.now = 100.0
        self.lines: list[str] = []
        self.recovered: list[KafkaOffsetsError] = []
        self.retries = Retries(1.0, self.lines.append, clock=lambda: self.now, pause=self._pass)

    def _pass(self, seconds: float) -> None:
        self.now += seconds

    def call(self) -> str:
        return self.retries.call(self._attempt, self.recovered.append)

    def _attempt(self) -> str:
        self.now += self.lasts_s
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def refused(code: ErrorCode) -> RefusedError:
    return RefusedError("orders-0", code)


PASSING = [
    *map(refused, sorted(retries.RETRIABLE)),
    ConnectionLostError("h:1: Connection refused"),
    CommitRefusedError("g", {ORDERS: ErrorCode.NOT_COORDINATOR}, {}),
]
LASTING = [
    refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    refused(ErrorCode.LEADER_NOT_AVAILABLE),
    refused(ErrorCode.KAFKA_STORAGE_ERROR),
    refused(ErrorCode.GROUP_AUTHORIZATION_FAILED),
    CommitRefusedError("g", {ORDERS: ErrorCode.UNKNOWN_MEMBER_ID}, {}),
    ListenerError("h:1: is PLAINTEXT the protocol of its listener?"),
    SilentBrokerError("h:1: timed out"),
    UnknownHostError("h:1: Name or service not known"),
]


@pytest.mark.parametrize("error", PASSING, ids=str)
def test_what_passes_is_asked_again_and_said_once(error: KafkaOffsetsError) -> None:
    trouble = Trouble(error, error)
    assert trouble.call() == "done"
    assert trouble.lines == [f"{error}; trying again for up to 1 s"]
    assert trouble.recovered == [error, error]
    assert trouble.now == pytest.approx(100.2)


@pytest.mark.parametrize("error", LASTING, ids=str)
def test_what_lasts_is_raised_at_once(error: KafkaOffsetsError) -> None:
    trouble = Trouble(error)
    with pytest.raises(type(error)) as raised:
        trouble.call()
    assert raised.value is error and not trouble.lines and trouble.now == 100


@pytest.mark.parametrize("is_call", [True, False], ids=["a call", "the brokers of the cluster"])
def test_a_listener_that_has_answered_before_is_waited_for(is_call: bool) -> None:
    """A broker that stops closes new connections before it answers."""
    closed = ListenerError("h:1: the broker closed the connection before it answered")
    trouble = Trouble()
    if is_call:
        trouble.call()
    else:
        trouble.retries.note_brokers([("h", 1)])
    trouble.errors = [closed]
    assert trouble.call() == "done" and trouble.recovered == [closed]


def test_a_trouble_has_a_limit_that_several_calls_share() -> None:
    """A command asks many coordinators: it does not wait for each of them as long."""
    error = refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    trouble = Trouble(*[error] * 100)
    with pytest.raises(RefusedError):
        trouble.call()
    assert trouble.now == pytest.approx(101)
    with pytest.raises(RefusedError):
        trouble.call()
    assert trouble.now == pytest.approx(101)


def test_the_limit_counts_from_the_begin_of_the_first_call_that_fails() -> None:
    slow = Trouble(*[ConnectionLostError("h:1: timed out")] * 9, lasts_s=1.5)
    with pytest.raises(ConnectionLostError):
        slow.call()
    assert len(slow.errors) == 8


def test_a_call_that_succeeds_ends_the_trouble() -> None:
    error = refused(ErrorCode.OFFSET_NOT_AVAILABLE)
    trouble = Trouble(*[error] * 9)
    assert trouble.call() == "done"
    trouble.errors = [error] * 9
    assert trouble.call() == "done"
    assert trouble.now == pytest.approx(101.8)
    assert len(trouble.lines) == 1


def test_a_call_that_fails_long_after_a_trouble_is_repeated() -> None:
    """The first call gave up, others succeeded; an hour later, each failure was raised at once."""
    error = refused(ErrorCode.NOT_COORDINATOR)
    trouble = Trouble(*[error] * 100)
    with pytest.raises(RefusedError):
        trouble.call()
    trouble.errors.clear()
    assert trouble.call() == "done"
    trouble.now += 3600
    trouble.errors = [error] * 9
    assert trouble.call() == "done" and not trouble.errors


# -- clients of a broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", 1)
        running.produce("orders", ["a", "b"])
        running.commit("g", {ORDERS: 1})
        yield running


def cluster_of(broker: Broker) -> ClusterClient:
    return ClusterClient(parse_address(broker.bootstrap_servers))


def coordinator_of(broker: Broker, group: str = "g") -> Coordinator:
    return Coordinator(parse_address(broker.bootstrap_servers), group)


def _batch(cluster: ClusterClient) -> bytes:
    producer_id, epoch = cluster.new_producer()
    rows = [(None, b"v", (), 0)]
    return bytes(encode_batch(rows, producer_id=producer_id, producer_epoch=epoch, base_sequence=0))


def _records(cluster: ClusterClient) -> int:
    return sum(1 for batches in cluster.batches(ORDERS) for _ in batch_headers(batches))


CLUSTER: dict[str, tuple[str, ErrorCode, Callable[[ClusterClient], object], object]] = {
    "leaders": ("Metadata", ErrorCode.NETWORK_EXCEPTION, lambda c: len(c.leaders(["orders"])), 1),
    "offsets": (
        "ListOffsets",
        ErrorCode.OFFSET_NOT_AVAILABLE,
        lambda c: c.offsets_at({ORDERS: LATEST}),
        {ORDERS: 2},
    ),
    "records": ("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER, _records, 1),
    "produce": (
        "Produce",
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        lambda c: c.produce({ORDERS: _batch(c)}),
        {ORDERS: 2},
    ),
    "groups": (
        "ListGroups",
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        lambda c: [each.group for each in c.groups()],
        ["g"],
    ),
}
GROUP: dict[str, tuple[str, Callable[[Coordinator], object]]] = {
    "find": ("FindCoordinator", lambda c: c.committed()),
    "committed": ("OffsetFetch", lambda c: c.committed()),
    "commit": ("OffsetCommit", lambda c: c.commit({ORDERS: 2}, {})),
    "describe": ("ConsumerGroupDescribe", lambda c: c.describe()),
    "delete": ("DeleteGroups", lambda c: c.delete()),
    "delete offsets": ("OffsetDelete", lambda c: c.delete_offsets([ORDERS])),
}


@pytest.mark.parametrize("name", CLUSTER)
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_cluster_is_asked_again(broker: Broker, name: str, is_lost: bool) -> None:
    api, code, ask, expected = CLUSTER[name]
    with cluster_of(broker) as cluster:
        assert cluster.leaders(["orders"]), "a listener that has not answered may be of another protocol"
        fault = broker.faults.close(api, n=2) if is_lost else broker.faults.error(api, code, n=2)
        with fault:
            assert ask(cluster) == expected
        assert fault.hits == 2


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (name, code)
        for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
        for name in GROUP
        if (name, code) != ("find", None)  # a listener that has not answered may be of another protocol
    ],
)
def test_a_coordinator_is_looked_for_again(broker: Broker, name: str, code: ErrorCode | None) -> None:
    api, ask = GROUP[name]
    fault = broker.faults.close(api, n=2) if code is None else broker.faults.error(api, code, n=2)
    with fault, coordinator_of(broker) as coordinator:
        ask(coordinator)
    assert fault.hits == 2


def test_what_is_sent_again_is_written_once(broker: Broker) -> None:
    """The answer was lost, not the records."""
    with cluster_of(broker) as cluster:
        batch = _batch(cluster)
        with broker.faults.close("Produce", before=False, n=1):
            cluster.produce({ORDERS: batch})
        assert cluster.offsets_at({ORDERS: LATEST}) == {ORDERS: 3}


def test_a_conditional_commit_whose_answer_is_lost_is_not_sent_again(broker: Broker) -> None:
    """The second one would be refused for what the first one has committed."""
    with (
        coordinator_of(broker) as coordinator,
        broker.faults.close("OffsetCommit", before=False, n=1),
        pytest.raises(ConnectionLostError),
    ):
        coordinator.commit({ORDERS: 2}, {ORDERS: 1})
    assert broker.committed("g")[ORDERS].offset == 2


# -- commands

COMMANDS = {
    "consume": ["consume", "orders", "-e", "-f", "%s "],
    "produce": ["produce", "orders"],
    "lag": ["lag", "g", "--json"],
    "groups list": ["groups", "list"],
    "describe": ["groups", "describe", "g"],
    "reset": ["groups", "reset", "g", "--to-latest", "--execute"],
    "delete": ["groups", "delete", "g"],
    "import": ["offsets", "import", "-", "--execute"],
    "export": ["offsets", "export", "g"],
    "cleanup": ["offsets", "cleanup"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_waits_for_a_broker_that_is_started_again(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'"g","orders",0,1\n')))
    with Broker(data_directory=tmp_path / "data") as before:
        before.create_topic("orders", 1)
        before.produce("orders", ["a", "b"])
        before.commit("g", {ORDERS: 1})
        home = before.bootstrap_servers
    host, port = parse_address(home)
    is_waiting, is_over = threading.Event(), threading.Event()

    def serve() -> None:
        """Start the broker again when the command waits for it."""
        assert is_waiting.wait(30)
        with Broker(port=port, data_directory=tmp_path / "data"):
            is_over.wait(30)

    tell = Retries._tell

    def told(self: Retries, reason: str) -> None:
        tell(self, reason)
        is_waiting.set()

    monkeypatch.setattr(Retries, "_tell", told)
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        code = cli.main([*COMMANDS[command], "-b", home])
    finally:
        is_over.set()
        thread.join()
    output, error = capsys.readouterr()
    assert code == 0, error
    waits = [line for line in error.splitlines() if "trying again" in line]
    assert waits[0] == (
        f"kafka-offsets: {host}:{port}: Connection refused: is a broker running there?; trying again for up to 30 s"
    )
    assert len(waits) == len(set(waits))
    if command == "consume":
        assert output == "a b "
    elif command == "lag":
        assert json.loads(output)["lag"] == 1


def test_one_broker_of_several_is_waited_for_with_patience() -> None:
    """A table waited 30 s for a broker that was gone, though the others had answered."""
    now = [0.0]
    lines: list[str] = []
    retries = Retries(
        30, lines.append, clock=lambda: now[0], pause=lambda seconds: now.__setitem__(0, now[0] + seconds)
    )
    retries.patience_s = 2

    def waited(error: KafkaOffsetsError, *, is_reached: bool) -> float:
        """Return how long a call is repeated."""

        def attempt() -> None:
            raise error

        began = now[0]
        retries.renew()
        if is_reached:
            retries.note_answer()
        with pytest.raises(type(error)):
            retries.call(attempt)
        return now[0] - began

    gone = ConnectionLostError("127.0.0.1:9092: Connection refused")
    loading = RefusedError("group g", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert waited(gone, is_reached=False) == pytest.approx(30, abs=0.2)
    assert waited(gone, is_reached=True) == pytest.approx(2, abs=0.2)
    assert waited(loading, is_reached=True) == pytest.approx(30, abs=0.2)
    assert [line.rpartition("up to ")[2] for line in lines] == ["30 s", "2 s", "30 s"]


def test_the_only_broker_has_the_whole_limit_for_each_answer(broker: Broker) -> None:
    """No table is worth more without it. A connection whose answer is late is not used again."""
    retries = Retries(30.0)
    retries.patience_s = 0.0  # would end every wait
    home = parse_address(broker.bootstrap_servers)
    with (
        ClusterClient(home, retries=retries) as cluster,
        Coordinator(home, "g", retries=retries) as coordinator,
    ):
        assert [each.group for each in cluster.groups({})] == ["g"]
        assert ORDERS in cluster.log_ranges(["orders"], {}) and ORDERS in coordinator.committed()
    with Connection(*home, 0.2) as connection:
        with broker.faults.drop("ListGroups", n=1), pytest.raises(ConnectionLostError, match="timed out"):
            connection.call(messages.ListGroupsRequest(), 0)
        with pytest.raises(SilentBrokerError, match="timed out"):
            connection.call(messages.ApiVersionsRequest(), 0)


def test_a_client_whose_answer_came_late_connects_again(broker: Broker) -> None:
    home = parse_address(broker.bootstrap_servers)
    without = Retries(0.0)
    with (
        ClusterClient(home, retries=without) as cluster,
        Coordinator(home, "g", retries=without) as coordinator,
    ):
        for api, ask in (
            ("ListGroups", cluster.groups),
            ("OffsetFetch", coordinator.committed),
            ("Metadata", lambda: cluster.leaders(["orders"])),
        ):
            assert ask()
            for connected in (cluster.any_broker(), *cluster._connections.values(), coordinator._connected()):
                connected._socket.settimeout(0.1)  # those that are made in their place have 30 s
            with broker.faults.drop(api) as fault, pytest.raises(ConnectionLostError, match="timed out"):
                ask()
            assert ask() and fault.hits == 1


@pytest.mark.parametrize(
    "words",
    [
        ["groups", "list"],
        ["groups", "reset", "g", "--to-earliest", "--topic", "orders"],
        ["groups", "reset", "g", "--export", "--to-current", "--topic", "orders"],
        ["groups", "delete", "other"],
        ["offsets", "export", "g"],
        ["acls", "list"],
        ["produce", "orders", "-l", "/dev/null"],
        ["consume", "orders", "--exit"],
        ["consume", "orders", "--exit", "--group", "h"],
    ],
    ids=" ".join,
)
@pytest.mark.timeout(60)
def test_a_first_address_that_hangs_is_not_waited_for(
    broker: Broker, words: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The whole --timeout was spent on it. A process that is stopped still has its connections accepted."""
    monkeypatch.setattr(connection, "PATIENCE_S", 0.1)
    monkeypatch.setattr(metadata, "_PATIENCE_MS", 100)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        host, port = hanging.getsockname()
        be_impatient_only_with(port, monkeypatch)
        servers = f"{host}:{port},{broker.bootstrap_servers}"
        cli.main([*words, "-b", servers, "--timeout", "600000"])
    assert str(port) not in capfd.readouterr().err


def test_the_error_of_each_address_is_told_in_their_order(broker: Broker) -> None:
    with socket.socket() as first, socket.socket() as second:
        places = []
        for refusing in (first, second):
            refusing.bind(("127.0.0.1", 0))
            places.append(refusing.getsockname())
        with pytest.raises(ConnectionLostError) as raised:
            connection.connect_to_any(places, lambda address, first_s: Connection(*address))
    told = str(raised.value).split("; ")
    assert [each.partition(": ")[0] for each in told] == [f"{host}:{port}" for host, port in places]


def test_addresses_that_are_all_slow_are_waited_for(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", 0.3)
    host, port = parse_address(broker.bootstrap_servers)
    settings = ConnectionSettings(((host, port), ("localhost", port)))
    with broker.faults.delay("ApiVersions", ms=1200) as fault, settings.any_broker() as found:
        assert found.latest_version(0) > 0
    assert fault.hits == 2, "the second address is the same broker, and not waited for again"


def test_an_answer_that_cannot_be_read_ends_one_connection(broker: Broker) -> None:
    """It closed the client of the cluster for good, or its connection gave the same error again and again."""
    home = parse_address(broker.bootstrap_servers)
    foreign = b"\xff\xff\xff\xff"

    def ask(node: int) -> list[ListedGroup]:
        if node == 1:
            cluster._broker(node)._protocol.receive(foreign)
        return cluster._groups(node)

    with ClusterClient(home) as cluster, Coordinator(home, "g") as coordinator:
        cluster._brokers = dict.fromkeys(range(3), home)
        outcomes = dict(cluster._side_by_side([0, 1, 2], ask))
        assert isinstance(outcomes[1], ProtocolError) and cluster._connections.keys() == {0, 2}
        assert outcomes[0] == outcomes[2] == cluster._groups(1)
        cluster.any_broker()._protocol.receive(foreign)
        coordinator._connected()._protocol.receive(foreign)
        for call in (cluster.groups, coordinator.committed):
            with pytest.raises(ProtocolError, match="a frame of -1 bytes"):
                call()
            assert call()


def test_a_connection_made_after_a_client_has_ended_is_closed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads that ask brokers went on when one of them had failed, and left their connections open."""
    is_connecting, is_over = threading.Event(), threading.Event()
    made: list[Connection] = []
    asked: list[int] = []
    threads: list[threading.Thread] = []

    class LateRetries(Retries):
        def connection(self, *given: Any, **more: Any) -> Connection:
            if threading.current_thread().name != "kafka-offsets-asks":
                return super().connection(*given, **more)
            is_connecting.set()
            assert is_over.wait(30)
            made.append(super().connection(*given, **more))
            return made[-1]

    def ask(node: int) -> Connection:
        asked.append(node)
        threads.append(threading.current_thread())
        if node == 0:
            assert is_connecting.wait(30)
            raise RuntimeError("a fault of this program")
        return cluster._broker(node)

    home = parse_address(broker.bootstrap_servers)
    monkeypatch.setattr("kafka_offsets.client.cluster._ASKED_AT_ONCE", 2)
    with ClusterClient(home, retries=LateRetries(30.0)) as cluster:
        cluster._brokers = dict.fromkeys(range(5), home)
        with pytest.raises(RuntimeError):
            list(cluster._side_by_side([1, 0], ask))
    is_over.set()
    for thread in threads:
        thread.join(30)
    assert sorted(asked) == [0, 1] and len(made) == 1
    assert made[0]._socket.fileno() == -1 and not cluster._connections


@pytest.mark.slow
def test_a_silent_broker_is_asked_once_by_the_groups_that_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinators are not looked for again: the time for what passes was spent on each."""
    monkeypatch.setattr(rows, "PATIENCE_S", 0.3)
    told: list[str] = []
    monkeypatch.setattr(Retries, "_tell", lambda self, reason: told.append(reason))
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", 1)
        names = [f"g{n}" for n in range(6)]
        for name in names:
            cluster.commit(name, {ORDERS: 0})
        homes = [cluster.coordinator(name) for name in names]
        first = cluster.nodes[0].id
        be_impatient_only_with(parse_address(cluster.nodes[0].address)[1], monkeypatch)
        with cluster.faults.drop(node=first, client_id="kafka-offsets") as fault:
            assert cli.main(["groups", "describe", *names, "--state", "-b", cluster.bootstrap_servers]) == 1
    said = capsys.readouterr()
    _, *rows_of_groups = said.out.splitlines()
    assert len(rows_of_groups) == len(names)
    assert sum("timed out" in row for row in rows_of_groups) == homes.count(first)
    assert said.err.count("is not known: ") == homes.count(first) > 0
    assert fault.hits == 1 and not told


class Watch:
    """`lag --watch` of a group that the first of three brokers does not coordinate, until its last table."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.first = cluster.nodes[0].id
        cluster.create_topic("orders", 1)
        self.group = next(name for name in map(str, range(99)) if cluster.coordinator(name) != self.first)
        cluster.commit(self.group, {ORDERS: 0})
        monkeypatch.setattr(rows, "PATIENCE_S", 1.0)
        be_impatient_only_with(parse_address(cluster.nodes[0].address)[1], monkeypatch)
        self._monkeypatch = monkeypatch

    def __call__(self, bootstrap: str, tables: int, between: Callable[[], object] = lambda: None) -> None:
        left = [None] * tables

        def pause(seconds: float) -> None:
            left.pop()
            if not left:
                raise KeyboardInterrupt
            between()

        self._monkeypatch.setattr(lagging, "_pause", pause)
        assert cli.main(["lag", self.group, "--watch", "--json", "-b", bootstrap]) == 130


@pytest.mark.slow
def test_a_watch_goes_on_beside_a_broker_that_hangs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second table on, the limit was spent on the first address alone: there was no table."""
    with Cluster(brokers=3) as cluster:
        watch = Watch(cluster, monkeypatch)
        with cluster.faults.drop(node=watch.first, client_id="kafka-offsets"):
            watch(cluster.bootstrap_servers, 3)
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 3, said.err
    assert "trying again" not in said.err


@pytest.mark.slow
def test_a_watch_goes_on_with_the_brokers_that_it_has_learnt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster(brokers=3) as cluster:
        watch = Watch(cluster, monkeypatch)
        watch(cluster.nodes[0].address, 2, lambda: cluster.stop_node(watch.first))
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2, said.err
