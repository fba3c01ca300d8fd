"""`Broker` inside another process: it starts, stops and leaves nothing behind, whatever its clients are doing."""

import asyncio
import gc
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker, ConfigError, OffsetAndMetadata, StorageError, testing
from kafka_offsets.broker.network import embedded
from kafka_offsets.broker.network import server as server_module
from tests.conftest import REPOSITORY
from tests.drivers import wire
from tests.drivers.wire import Connection

CYCLES = 100
STOP_LIMIT_S = 1.0
CROWDED_STOP_LIMIT_S = 20.0
"""Where threads of the test that never rest have the interpreter three quarters of the time."""


def broker_threads() -> set[threading.Thread]:
    """The threads of the brokers in this process; another test's fixture may have one."""
    return {thread for thread in threading.enumerate() if thread.name == "kafka-offsets"}


def commit(broker: Broker, group: str, offset: int, topic: str = "orders") -> None:
    """Commit by a frame made by hand; the topic is there afterwards."""
    with suppress(ValueError):
        broker.create_topic(topic)
    with Connection(broker.bootstrap_servers) as connection:
        connection.socket.sendall(wire.offset_commit(1, group, topic, offset, 1))
        assert wire.offset_commit_errors(connection.receive(), topic) == {0}


def fetch_frame(topic: str, wait_ms: int) -> bytes:
    """Fetch v4: a long poll at offset 0."""
    partition = struct.pack(">iqi", 0, 0, 1 << 20)
    body = struct.pack(">iiiib", -1, wait_ms, 1, 1 << 20, 0)
    return wire.frame(1, 4, 1, body + wire.array([wire.text(topic) + wire.array([partition])]))


def join_frame(group: str, member_id: str = "") -> bytes:
    """JoinGroup v1 of a consumer."""
    protocol = wire.text("range") + struct.pack(">i", 0)
    head = wire.text(group) + struct.pack(">ii", 60_000, 60_000)
    return wire.frame(11, 1, 1, head + wire.text(member_id) + wire.text("consumer") + wire.array([protocol]))


def park_requests(broker: Broker, stack: ExitStack) -> list[Connection]:
    """Leave fetches and joins unanswered, and connections that say nothing."""
    connections = [stack.enter_context(Connection(broker.bootstrap_servers)) for _ in range(9)]
    fetching, joining, silent = connections[:3], connections[3:6], connections[6:]
    for connection in fetching:
        connection.socket.sendall(fetch_frame("orders", wait_ms=60_000))
    joining[0].socket.sendall(join_frame("billing"))
    joining[0].receive()  # a leader without an assignment; the others wait for it to join again
    for connection in joining[1:]:
        connection.socket.sendall(join_frame("billing"))
    silent[0].socket.sendall(b"\0\0")  # a frame that never becomes whole
    for connection in silent[1:]:
        assert connection.api_versions() == 0
    return connections


def assert_closed(connection: Connection) -> None:
    """Fail unless the peer has gone."""
    try:
        assert connection.socket.recv(1) == b""
    except ConnectionResetError:
        pass


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


# -- in a thread ------------------------------------------------------------------------------------------------


def test_programs_and_tests_use_one_class() -> None:
    assert testing.Broker is Broker


def test_a_port_that_is_taken_at_another_address_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, create_server = [], asyncio.BaseEventLoop.create_server

    async def taken_once(loop: Any, protocol: Any, host: str, port: int, **options: Any) -> Any:
        if port and not taken:
            taken.append(socket.create_server(("0.0.0.0", port)))
        return await create_server(loop, protocol, host, port, **options)

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_server", taken_once)
    with Broker(host="") as broker, taken.pop() as other:
        assert broker.bootstrap_servers != f"localhost:{other.getsockname()[1]}"


def test_a_broker_listens_on_a_free_port_of_the_loopback_and_keeps_commits_in_memory() -> None:
    with Broker() as broker, Broker() as other:
        assert broker.bootstrap_servers.startswith("127.0.0.1:")
        assert broker.bootstrap_servers != other.bootstrap_servers
        broker.create_topic("orders")
        commit(broker, "billing", 42)
        (entry,) = broker.committed("billing").values()
        assert isinstance(entry, OffsetAndMetadata)
        assert (entry.offset, entry.metadata) == (42, "42")
        assert other.committed("billing") == {}


def test_start_and_stop_do_what_with_does() -> None:
    broker = Broker()
    broker.start()
    with Connection(broker.bootstrap_servers) as connection:
        assert connection.api_versions() == 0
    broker.stop()
    broker.stop()


def test_a_broker_in_memory_starts_again_empty() -> None:
    broker = Broker()
    with broker:
        broker.create_topic("orders")
        commit(broker, "billing", 1)
    with broker:
        assert broker.committed("billing") == {}
        broker.create_topic("orders")


def test_a_broker_with_a_data_directory_finds_topics_and_offsets_again(tmp_path: Path) -> None:
    with Broker(data_directory=tmp_path / "data") as broker:
        broker.create_topic("orders")
        commit(broker, "billing", 42)
    with Broker(data_directory=str(tmp_path / "data")) as broker:
        assert broker.committed("billing")["orders", 0].offset == 42
        with pytest.raises(ValueError, match=r"topic 'orders': .*exists"):
            broker.create_topic("orders")


def test_the_key_log_dirs_is_the_data_directory(tmp_path: Path) -> None:
    config = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    with Broker(config) as broker:
        commit(broker, "billing", 42)
    with Broker(data_directory=tmp_path) as broker:
        assert broker.committed("billing")["orders", 0].offset == 42


def test_a_second_broker_on_the_same_directory_is_refused_and_the_first_lives(tmp_path: Path) -> None:
    with Broker(data_directory=tmp_path) as broker:
        before = threading.active_count(), descriptors()
        second = Broker(data_directory=tmp_path)
        for _ in range(2):
            with pytest.raises(StorageError, match="another broker uses the data directory"):
                second.start()
        assert (threading.active_count(), descriptors()) == before
        commit(broker, "billing", 1)
    with second:
        assert second.committed("billing")["orders", 0].offset == 1


def test_a_port_in_use_is_an_oserror_and_leaves_nothing(taken_port: int, tmp_path: Path) -> None:
    before = threading.active_count(), descriptors()
    broker = Broker(port=taken_port, data_directory=tmp_path)
    with pytest.raises(OSError, match="address already in use"):
        broker.start()
    assert (threading.active_count(), descriptors()) == before
    with Broker(data_directory=tmp_path):
        pass


def test_data_that_cannot_be_read_is_refused_and_leaves_the_directory_free(tmp_path: Path) -> None:
    with Broker({"offsets.topic.num.partitions": 1}, data_directory=tmp_path) as broker:
        commit(broker, "billing", 1)
        commit(broker, "billing", 2)
    (segment,) = tmp_path.glob("__consumer_offsets-0/*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:30] + b"\xff" + whole[31:])
    before = threading.active_count(), descriptors()
    for _ in range(2):
        with pytest.raises(StorageError, match=r"__consumer_offsets-0/0+\.log at byte 0"):
            Broker(data_directory=tmp_path).start()
    gc.collect()
    assert (threading.active_count(), descriptors()) == before
    segment.write_bytes(whole)
    with Broker(data_directory=tmp_path) as broker:
        assert broker.committed("billing")["orders", 0].offset == 2


def test_a_wrong_configuration_is_refused_before_anything_starts() -> None:
    with pytest.raises(TypeError, match="the port is '9092', not an int"):
        Broker(port="9092")  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"the configuration is a dict of keys to values, not 'num\.partitions=3'"
    ):
        Broker("num.partitions=3")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions"):
        Broker({"num.partition": 3})


def test_a_topic_is_created_once_and_only_if_kafka_would(tmp_path: Path) -> None:
    with Broker(data_directory=tmp_path) as broker:
        broker.create_topic("orders", partitions=3, config={"cleanup.policy": "compact"})
        with pytest.raises(ValueError, match="orders"):
            broker.create_topic("orders")
        with pytest.raises(ValueError, match="not a name"):
            broker.create_topic("not a name")
        with pytest.raises(ValueError, match="payments"):
            broker.create_topic("payments", partitions=0)
        with pytest.raises(TypeError, match="topic 'payments': the number of partitions is '3', not an int"):
            broker.create_topic("payments", partitions="3")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="the name of the topic is 3, not a str"):
            broker.create_topic(3)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="payments"):
            broker.create_topic("payments", config={"no.such.key": "1"})
        broker.create_topic("payments")


def test_an_unknown_group_has_committed_nothing() -> None:
    with Broker() as broker:
        assert broker.committed("nobody") == {}
        commit(broker, "billing", 1)
        assert broker.committed("nobody") == {}


def test_a_broker_that_does_not_run_says_so() -> None:
    broker = Broker()
    for _ in range(2):
        for call in (
            lambda: broker.bootstrap_servers,
            lambda: broker.create_topic("orders"),
            lambda: broker.committed("billing"),
        ):
            with pytest.raises(RuntimeError, match="not running"):
                call()
        with broker:
            with pytest.raises(RuntimeError, match="running already"):
                broker.start()
            broker.create_topic("payments")


def test_many_threads_use_one_broker() -> None:
    with Broker() as broker, ThreadPoolExecutor(8) as pool:

        def use(number: int) -> int:
            topic = f"topic-{number}"
            broker.create_topic(topic)
            commit(broker, "billing", number, topic)
            return broker.committed("billing")[topic, 0].offset

        assert list(pool.map(use, range(40))) == list(range(40))
        assert len(broker.committed("billing")) == 40


def test_calls_while_the_broker_stops_are_answered_or_refused_but_never_left_waiting() -> None:
    broker = Broker()
    broker.start()
    ready = threading.Barrier(5)

    def call() -> int:
        ready.wait()
        for calls in range(1_000_000):
            try:
                broker.committed("billing")
            except RuntimeError:
                return calls
        raise AssertionError("the broker never stopped")

    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(call) for _ in range(4)]
        ready.wait()
        broker.stop()
        for called in calls:
            called.result(timeout=20)


def test_two_threads_may_stop_one_broker() -> None:
    before = broker_threads()
    broker = Broker()
    for _ in range(20):
        broker.start()
        stopping = [threading.Thread(target=broker.stop) for _ in range(2)]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join(timeout=20)
        assert broker_threads() == before


def test_a_stop_that_cannot_write_ends_the_thread_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = broker_threads()
    broker = Broker(data_directory=tmp_path)
    broker.start()
    close = server_module.BrokerCore.close

    def refuse(core: server_module.BrokerCore) -> None:
        close(core)
        raise StorageError("cannot append: no space left on device", "orders-0")

    monkeypatch.setattr(server_module.BrokerCore, "close", refuse)
    with pytest.raises(StorageError, match="no space left"):
        broker.stop()
    assert broker_threads() == before
    with pytest.raises(RuntimeError, match="not running"):
        broker.committed("billing")


def test_an_interrupt_while_waiting_for_the_start_leaves_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    before = broker_threads()

    class Interrupted(embedded.Future):  # type: ignore[type-arg]
        def result(self, timeout: float | None = None) -> object:
            super().result(timeout)
            raise KeyboardInterrupt

    broker = Broker()
    with monkeypatch.context() as patched:
        patched.setattr(embedded, "Future", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            broker.start()
    assert broker_threads() == before
    with broker:
        assert broker.committed("billing") == {}


def test_a_name_with_several_addresses_has_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{last}", 0)) for last in (1, 2)]

    async def resolve(
        _loop: object, address: tuple[str, int], **_: object
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [(*entry[:4], (entry[4][0], address[1])) for entry in addresses]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "_ensure_resolved", resolve)
    with Broker(host="everywhere.test") as broker:
        port = broker.bootstrap_servers.removeprefix("everywhere.test:")
        for _, _, _, _, (host, _) in addresses:
            with Connection(f"{host}:{port}") as connection:
                assert connection.api_versions() == 0


# -- in a loop of the caller ------------------------------------------------------------------------------------


def test_async_with_runs_the_broker_in_the_callers_loop() -> None:
    async def main() -> None:
        threads = threading.active_count()
        async with Broker() as broker:
            assert threading.active_count() == threads
            broker.create_topic("orders")
            await asyncio.to_thread(commit, broker, "billing", 42)
            assert broker.committed("billing")["orders", 0].offset == 42
            with pytest.raises(RuntimeError, match="running already"):
                await broker.__aenter__()
            with pytest.raises(RuntimeError, match="async with"):
                broker.stop()
        with pytest.raises(RuntimeError, match="not running"):
            broker.committed("billing")
        async with broker:
            assert broker.committed("billing") == {}

    asyncio.run(main())


def test_other_threads_use_a_broker_that_runs_in_a_loop() -> None:
    async def main() -> None:
        async with Broker() as broker:

            def use(number: int) -> int:
                broker.create_topic(f"topic-{number}")
                commit(broker, "billing", number, f"topic-{number}")
                return broker.committed("billing")[f"topic-{number}", 0].offset

            used = await asyncio.gather(*(asyncio.to_thread(use, number) for number in range(20)))
            assert used == list(range(20))

    asyncio.run(main())


def test_an_async_start_that_fails_leaves_nothing(taken_port: int, tmp_path: Path) -> None:
    async def main() -> None:
        before = descriptors(), len(asyncio.all_tasks())
        broker = Broker(port=taken_port, data_directory=tmp_path)
        for _ in range(2):
            with pytest.raises(OSError, match="address already in use"):
                await broker.__aenter__()
        async with Broker(data_directory=tmp_path):
            pass
        assert (descriptors(), len(asyncio.all_tasks())) == before

    asyncio.run(main())


def test_a_cancelled_stop_still_closes_the_files(tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(data_directory=tmp_path)
        await broker.__aenter__()
        await asyncio.to_thread(commit, broker, "billing", 42)
        stopping = asyncio.create_task(broker.__aexit__(None, None, None))
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        async with Broker(data_directory=tmp_path) as second:
            assert second.committed("billing")["orders", 0].offset == 42

    asyncio.run(main())


# -- what is left behind ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("in_memory", [True, False], ids=["in memory", "on disk"])
def test_starting_and_stopping_leaves_no_thread_socket_or_file(in_memory: bool, tmp_path: Path) -> None:
    def cycle() -> None:
        directory = None if in_memory else tmp_path
        with Broker(data_directory=directory) as broker, Connection(broker.bootstrap_servers) as connection:
            assert connection.api_versions() == 0

    cycle()
    before = threading.active_count(), descriptors()
    for _ in range(CYCLES):
        cycle()
    assert (threading.active_count(), descriptors()) == before


def test_starting_and_stopping_leaves_no_task_in_the_callers_loop() -> None:
    async def main() -> None:
        async def cycle() -> None:
            async with Broker() as broker:
                host, _, port = broker.bootstrap_servers.rpartition(":")
                _, writer = await asyncio.open_connection(host, int(port))
                writer.close()

        await cycle()
        before = threading.active_count(), descriptors(), len(asyncio.all_tasks())
        for _ in range(CYCLES):
            await cycle()
        assert (threading.active_count(), descriptors(), len(asyncio.all_tasks())) == before

    asyncio.run(main())


@pytest.mark.parametrize("fsync", ["never", "interval", "commit"])
def test_a_broker_stops_within_a_second_whatever_waits(fsync: str, tmp_path: Path) -> None:
    config = {"group.initial.rebalance.delay.ms": 0, "fetch.first.wait.ms": 0, "fsync": fsync}
    with ExitStack() as stack:
        broker = Broker(config, data_directory=tmp_path)
        broker.start()
        broker.create_topic("orders")
        connections = park_requests(broker, stack)
        commit(broker, "shipping", 1)
        begin = time.perf_counter()
        broker.stop()
        assert time.perf_counter() - begin < STOP_LIMIT_S
        for connection in connections:
            assert_closed(connection)
    with Broker(config, data_directory=tmp_path) as broker:
        assert broker.committed("shipping")["orders", 0].offset == 1


@pytest.mark.slow
def test_a_broker_stops_while_clients_continue_to_connect() -> None:
    for _ in range(5):
        broker = Broker()
        broker.start()
        host, _, port = broker.bootstrap_servers.rpartition(":")
        before = threading.active_count()
        connected, stopped = threading.Event(), threading.Event()

        def connect(address: tuple[str, int], connected: threading.Event, stopped: threading.Event) -> None:
            while not stopped.is_set():
                try:
                    socket.create_connection(address, 5).close()
                    connected.set()
                except OSError:
                    pass

        clients = [
            threading.Thread(target=connect, args=((host, int(port)), connected, stopped)) for _ in range(3)
        ]
        for client in clients:
            client.start()
        assert connected.wait(20)
        begin = time.perf_counter()
        broker.stop()
        took = time.perf_counter() - begin
        stopped.set()
        for client in clients:
            client.join()
        assert took < CROWDED_STOP_LIMIT_S
        assert threading.active_count() == before - 1


def test_a_client_sees_its_connection_closed_when_the_broker_stops() -> None:
    with Broker() as broker:
        connection = Connection(broker.bootstrap_servers)
        assert connection.api_versions() == 0
    with connection:
        assert_closed(connection)


STRICT = """
import asyncio, logging, sys
from tests.broker.network import test_embedding as embedding
from contextlib import ExitStack
from kafka_offsets import Broker

logging.basicConfig(level=logging.WARNING)
logging.getLogger("asyncio").setLevel(logging.ERROR)  # a machine that is busy makes callbacks slow
broker = Broker({"fsync": "commit"}, data_directory=sys.argv[1])
with ExitStack() as stack:
    with broker:
        broker.create_topic("orders")
        embedding.park_requests(broker, stack)
        embedding.commit(broker, "shipping", 42)
with ExitStack() as stack:
    async def main():
        async with broker:
            assert broker.committed("shipping")["orders", 0].offset == 42
            await asyncio.to_thread(embedding.park_requests, broker, stack)
    asyncio.run(main(), debug=True)
"""


@pytest.mark.slow
def test_nothing_is_warned_of_in_the_debug_mode_of_asyncio(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONASYNCIODEBUG": "1", "PYTHONDEVMODE": "1"}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", STRICT, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=environment,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# -- what importing costs ---------------------------------------------------------------------------------------


def loaded_modules(source: str) -> set[str]:
    """Return the modules that are loaded after `source`."""
    source += "; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, cwd=REPOSITORY, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_of_it() -> None:
    loaded = {name for name in loaded_modules("import kafka_offsets") if name.startswith("kafka_offsets")}
    assert loaded == {"kafka_offsets"}


@pytest.mark.slow
def test_a_running_broker_has_loaded_nothing_that_only_tests_and_tools_need() -> None:
    source = "from kafka_offsets import Broker; broker = Broker(); broker.start(); broker.stop()"
    heavy = {"construct", "pyspark", "hypothesis", "numpy", "kazoo", "kafka"}
    assert not heavy & {name.partition(".")[0] for name in loaded_modules(source)}


def test_every_public_name_is_there() -> None:
    import kafka_offsets

    for name in kafka_offsets.__all__:
        assert getattr(kafka_offsets, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Brokers'"):
        _ = kafka_offsets.Brokers


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [({"port": 65_536}, "65536"), ({"port": -1}, "-1"), ({"data_directory": ""}, "empty")],
)
def test_a_port_or_directory_that_cannot_be_is_a_config_error(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Broker(**wrong)
