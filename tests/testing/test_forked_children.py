"""Children of a process with a broker: they have its address, none of its sockets, and an object that never waits."""

import asyncio
import concurrent.futures
import multiprocessing
import os
import pickle
import socket
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kafka_offsets.broker.network import prometheus
from kafka_offsets.broker.nodes.controller_endpoint import ControllerEndpoint
from kafka_offsets.http.control import Control
from kafka_offsets.http.server import Address, HttpServer
from kafka_offsets.metadata.controller import Controller
from kafka_offsets.metadata.controller_service import ControllerService
from kafka_offsets.metadata.image import ClusterImage
from kafka_offsets.testing import Broker, CertificateAuthority, Cluster, ManualClock
from kafka_offsets.testing.server.events import group_stable
from tests.conftest import REPOSITORY
from tests.drivers import wire
from tests.testing.children import answer, ask

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks"),
    # Python 3.12 and later warn of every fork of a process with threads: here it is the subject.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
METHODS = [
    *(each for each in ("fork", "spawn", "forkserver") if each in multiprocessing.get_all_start_methods())
]


def said_in_a_fork(function: Callable[[], object]) -> str:
    """Return what a function returns or raises in a forked child, which ends at once."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = f"{function()}"
        except BaseException as error:  # noqa: BLE001 - told to the parent
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


@contextmanager
def living_fork() -> Iterator[None]:
    """A forked child lives until the end of the block; it has done what it does at its start."""
    started, ended = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(started[1], b"x")
        os.close(ended[1])
        os.read(ended[0], 1)
        os._exit(0)
    try:
        os.read(started[0], 1)
        yield
    finally:
        for each in (*started, *ended):
            os.close(each)
        os.waitpid(pid, 0)


def test_a_living_child_does_not_keep_the_port_of_a_stopped_node() -> None:
    with Cluster() as cluster:
        node = cluster.nodes[1]
        cluster.stop_node(2)
        with living_fork():
            cluster.stop()
            with socket.socket() as other:
                other.bind((node.host, node.port))


USES: dict[str, Callable[[Broker], object]] = {
    "produce": lambda broker: broker.produce("orders", ["a"]),
    "committed": lambda broker: broker.committed("billing"),
    "commit": lambda broker: broker.commit("billing", {("orders", 0): 1}),
    "wait_for": lambda broker: broker.wait_for(group_stable("billing")),
    "async_wait_for": lambda broker: asyncio.run(broker.async_wait_for(group_stable("billing"))),
    "requests": lambda broker: broker.requests,
    "snapshot": lambda broker: broker.snapshot(),
    "faults": lambda broker: broker.faults.down(),
    "start": lambda broker: broker.start(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("kind", [Broker, Cluster])
def test_the_object_in_a_fork_says_where_its_broker_runs(
    kind: type[Broker], use: Callable[[Broker], object]
) -> None:
    with kind(record=True) as broker, broker._state_lock:  # another thread of the parent may have it
        said = said_in_a_fork(lambda: use(broker))
        address = said_in_a_fork(lambda: broker.bootstrap_servers)
    assert said.startswith(f"RuntimeError: this broker runs in process {os.getpid()}, of which process ")
    assert f"is a fork: connect a client to {address}, " in said
    assert address.count(":") == (3 if kind is Cluster else 1)


def test_a_fork_stops_no_broker_and_moves_no_clock() -> None:
    clock = ManualClock()
    with Broker(clock=clock) as broker:
        assert said_in_a_fork(broker.stop) == "None"
        assert "of this clock runs in process" in said_in_a_fork(lambda: clock.advance(1))
        assert ask(broker.bootstrap_servers) == 0
        clock.advance(1)


def test_a_broker_that_does_not_run_starts_in_a_fork() -> None:
    broker = Broker()

    def use() -> int:
        with broker:
            return ask(broker.bootstrap_servers)

    assert said_in_a_fork(use) == "0"


def test_a_fork_of_a_running_loop_leaves_the_broker_to_its_parent() -> None:
    async def main() -> None:
        async with Broker() as broker:
            assert "is a fork: connect" in said_in_a_fork(lambda: broker.committed("billing"))
            assert await asyncio.to_thread(ask, broker.bootstrap_servers) == 0

    asyncio.run(main())


def test_a_fork_that_ends_as_a_process_does() -> None:
    source = "import os\nfrom kafka_offsets import Broker\nb = Broker()\nb.start()\npid = os.fork()\nif pid: "
    source += "print(os.waitpid(pid, 0)[1]); b.stop()"
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("0\n", "")


@pytest.mark.parametrize("kind", [Broker, Cluster])
def test_a_living_fork_keeps_no_connection_and_no_port(kind: type[Broker]) -> None:
    broker = kind()
    broker.start()
    addresses = broker.bootstrap_servers.split(",")
    snapshot = broker.snapshot()
    for end in (broker.faults.close_connections, lambda: broker.restore(snapshot), broker.stop):
        with ExitStack() as opened:
            held = [opened.enter_context(wire.Connection(address)) for address in addresses]
            assert [each.api_versions() for each in held] == [0] * len(addresses)
            with living_fork():
                end()
                assert [each.socket.recv(1) for each in held] == [b""] * len(addresses)
                for address in addresses if end == broker.stop else ():
                    with pytest.raises(ConnectionRefusedError):
                        ask(address)
                    with Broker(port=int(address.partition(":")[2])) as again:
                        assert ask(again.bootstrap_servers) == 0


Started = tuple[int, Callable[[], Awaitable[None]]]
"""The port of a server, and what stops it."""


async def start_http() -> Started:
    server = HttpServer(Address("127.0.0.1", 0), Control("127.0.0.1"))
    await server.__aenter__()
    return int(server.url.rpartition(":")[2]), server.__aexit__


async def start_metrics() -> Started:
    endpoint = prometheus.Endpoint("127.0.0.1", 0, dict)
    return endpoint.port, lambda: asyncio.to_thread(endpoint.close)


async def start_controller() -> Started:
    endpoint = ControllerEndpoint(ControllerService(Controller(ClusterImage()), "cluster"), 60_000)
    return await endpoint.start("127.0.0.1"), endpoint.stop


@pytest.mark.parametrize("start", [start_http, start_metrics, start_controller])
def test_a_living_fork_keeps_nothing_of_the_other_servers(start: Callable[[], Awaitable[Started]]) -> None:
    async def main() -> None:
        port, stop = await start()
        with socket.create_connection(("127.0.0.1", port), 20) as held:
            held.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await asyncio.to_thread(held.recv, 1)  # it is accepted now
            with living_fork():
                await stop()
                while held.recv(65536):
                    pass
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", port), 20)
                socket.create_server(("127.0.0.1", port)).close()

    asyncio.run(main())


def test_a_living_fork_keeps_no_connection_with_tls_nor_one_that_has_not_begun() -> None:
    authority = CertificateAuthority()
    context = ssl.create_default_context(cadata=authority.certificate_pem)
    with Broker({**authority.broker_config(), "listeners": "SSL://127.0.0.1:0"}) as broker:
        host, _, port = broker.bootstrap_servers.partition(":")
        with (
            context.wrap_socket(
                socket.create_connection((host, int(port)), 20), server_hostname=host
            ) as talking,
            socket.create_connection((host, int(port)), 20) as silent,
            living_fork(),
        ):
            broker.stop()
            for each in (talking, silent):
                try:
                    assert each.recv(1) == b""
                except (ConnectionResetError, ssl.SSLEOFError):
                    pass  # it ends too


def test_a_living_fork_keeps_no_lock_of_a_data_directory(tmp_path: Path) -> None:
    broker = Broker(data_directory=tmp_path)
    broker.start()
    with living_fork():
        broker.stop()
        with Broker(data_directory=tmp_path):
            pass


def test_other_sockets_of_a_fork_stay_open_and_as_they_are() -> None:
    own, other = socket.socketpair()
    with own, other, Broker() as broker, wire.Connection(broker.bootstrap_servers) as connection:
        socket.setdefaulttimeout(7)
        try:
            said = said_in_a_fork(
                lambda: (own.send(b"x"), connection.api_versions(), socket.getdefaulttimeout())
            )
        finally:
            socket.setdefaulttimeout(None)
        assert said == "(1, 0, 7.0)"
        assert other.recv(1) == b"x"
        assert os.get_blocking(own.fileno())


@contextmanager
def process(method: str) -> Iterator[Callable[[str], object]]:
    """A child of multiprocessing that asks, and lives until the end of the block."""
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    child = context.Process(target=answer, args=(theirs,))
    child.start()

    def call(address: str) -> object:
        ours.send(address)
        return ours.recv()

    try:
        yield call
    finally:
        ours.send("")
        child.join()
        ours.close()
        theirs.close()


@contextmanager
def pool(method: str) -> Iterator[Callable[[str], object]]:
    with multiprocessing.get_context(method).Pool(1) as workers:
        yield lambda address: workers.apply(ask, (address,))
        workers.close()
        workers.join()


@contextmanager
def executor(method: str) -> Iterator[Callable[[str], object]]:
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, context) as workers:
        yield lambda address: workers.submit(ask, address).result()


@contextmanager
def command(_: str) -> Iterator[Callable[[str], object]]:
    source = "import sys\nfrom tests.testing.children import ask\nprint(ask(input()), flush=True)\ninput()"
    child = subprocess.Popen(
        [sys.executable, "-c", source],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None and child.stdout is not None

    def call(address: str) -> object:
        child.stdin.write(f"{address}\n")
        child.stdin.flush()
        return int(child.stdout.readline())

    with child:
        yield call
        child.communicate("\n")


WAYS = [(way, method) for way in (process, pool, executor) for method in METHODS] + [(command, "subprocess")]


@pytest.mark.slow
@pytest.mark.parametrize(("way", "method"), WAYS, ids=[f"{way.__name__}-{method}" for way, method in WAYS])
def test_a_child_asks_the_broker_and_outlives_it(
    way: Callable[[str], "contextmanager[Callable[[str], object]]"], method: str
) -> None:
    broker = Broker()
    broker.start()
    with wire.Connection(broker.bootstrap_servers) as connection:
        assert connection.api_versions() == 0
        with way(method) as call:
            address = broker.bootstrap_servers
            assert call(address) == 0
            broker.stop()
            assert connection.socket.recv(1) == b""
            with Broker(port=int(address.partition(":")[2])) as again:
                assert ask(again.bootstrap_servers) == 0


def test_a_broker_is_not_sent_to_another_process() -> None:
    with pytest.raises(TypeError, match=r"send its address, broker\.bootstrap_servers"):
        pickle.dumps(Broker())
