"""A broker on a real ZooKeeper server, with a real client: what is written, read, and survived."""

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from benchmarks.servers import free_port
from kafka_offsets import cli
from kafka_offsets.client import commits
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Broker
from tests.documents import pages
from tests.interop.waiting import until
from tests.zookeeper.real import RealServer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

DEADLINE_S = 30.0
_numbers = itertools.count(1)


@pytest.fixture
def chroot(zookeeper_server: RealServer) -> str:
    """The address of a part of the server for one test, which exists."""
    path = f"/real-{os.getpid()}-{next(_numbers)}"
    client = KazooClient(zookeeper_server.address)
    client.start()
    client.create(path)
    client.stop()
    client.close()
    return zookeeper_server.address + path


@pytest.fixture
def tool(chroot: str) -> Iterator[KazooClient]:
    """Another program that uses the same znodes."""
    client = KazooClient(chroot)
    client.start()
    yield client
    client.stop()
    client.close()


def settings(chroot: str, **more: object) -> dict[str, object]:
    keys: dict[str, object] = {"offset.storage": "zookeeper", "zookeeper.connect": chroot}
    return keys | {name.replace("_", "."): value for name, value in more.items()}


@pytest.fixture
def broker(chroot: str) -> Iterator[Broker]:
    with Broker(settings(chroot)) as running:
        running.create_topic("t", partitions=4)
        yield running


def consumer(broker: Broker, group: str) -> KafkaConsumer:
    made = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group, enable_auto_commit=False)
    made.assign([TopicPartition("t", partition) for partition in range(4)])
    return made


def commit(consumer: KafkaConsumer, **offsets: int) -> None:
    """Commit offsets: p0=12 for partition 0."""
    consumer.commit(
        {
            TopicPartition("t", int(name[1:])): OffsetAndMetadata(offset, "", -1)
            for name, offset in offsets.items()
        }
    )


def test_a_consumer_commits_and_fetches(broker: Broker, tool: KazooClient) -> None:
    with_group = consumer(broker, "g")
    commit(with_group, p0=12, p3=4)
    assert tool.get("/consumers/g/offsets/t/0")[0] == b"12"
    assert sorted(tool.get_children("/consumers/g/offsets/t")) == ["0", "3"]
    tool.set("/consumers/g/offsets/t/0", b"13")
    assert with_group.committed(TopicPartition("t", 0)) == 13
    commit(with_group, p0=14)
    assert tool.get("/consumers/g/offsets/t/0")[0] == b"14"
    assert broker.committed("g")["t", 3].offset == 4
    with_group.close()


def test_a_group_of_consumers_rebalances_and_commits(broker: Broker, tool: KazooClient) -> None:
    member = KafkaConsumer(
        "t", bootstrap_servers=broker.bootstrap_servers, group_id="members", enable_auto_commit=False
    )
    while not member.assignment():
        # A shorter poll may end before its SyncGroup does, and kafka-python 3.0.12 then forgets the assignment.
        member.poll(2_000)
    commit(member, p1=5)
    member.close()
    assert tool.get("/consumers/members/offsets/t/1")[0] == b"5"


def test_a_commit_of_thousands_of_partitions_is_one_transaction(broker: Broker, tool: KazooClient) -> None:
    broker.create_topic("wide", partitions=7000)
    with_group = consumer(broker, "g")
    offsets = {TopicPartition("wide", p): OffsetAndMetadata(p, "", -1) for p in range(7000)}
    with_group.commit(offsets)
    assert len(tool.get_children("/consumers/g/offsets/wide")) == 7000
    before = tool.get("/consumers/g/offsets/wide/0")[1].last_modified_transaction_id
    with_group.commit(offsets)
    changed = {tool.get(f"/consumers/g/offsets/wide/{p}")[1].last_modified_transaction_id for p in (0, 6999)}
    assert len(changed) == 1 and before not in changed
    with_group.close()


def test_a_deleted_group_leaves_nothing(broker: Broker, tool: KazooClient) -> None:
    from kafka.admin import KafkaAdminClient

    with_group = consumer(broker, "g")
    commit(with_group, p0=1, p1=2)
    with_group.close()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.delete_groups(["g"])
    admin.close()
    assert tool.exists("/consumers/g") is None


def test_an_expired_session_is_replaced(
    broker: Broker, tool: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    with_group = consumer(broker, "g")
    commit(with_group, p0=1)
    expire(broker)
    commit(with_group, p0=2)
    assert tool.get("/consumers/g/offsets/t/0")[0] == b"2"
    assert "the session with ZooKeeper" in caplog.text
    with_group.close()


def expire(broker: Broker) -> None:
    """Expire the broker's session: another client takes it over, and ends it."""
    from tests.zookeeper.sessions import expire_session

    expire_session(broker)


def test_commits_survive_a_server_that_is_killed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    server = RealServer(tmp_path_factory.mktemp("killed"))
    server.start()
    try:
        with Broker(settings(server.address, zookeeper_session_timeout_ms=4000)) as broker:
            broker.create_topic("t", partitions=4)
            with_group = consumer(broker, "g")
            commit(with_group, p0=1)
            server.kill()
            starting = threading.Timer(0.5, server.start)
            starting.start()
            commit(with_group, p0=2)
            starting.join()
            assert with_group.committed(TopicPartition("t", 0)) == 2
            with_group.close()
    finally:
        server.stop()


def test_the_path_of_all_znodes_is_created(zookeeper_server: RealServer) -> None:
    path = f"/made-{os.getpid()}/by/the/broker"
    with Broker(settings(zookeeper_server.address + path)) as broker:
        broker.create_topic("t", partitions=4)
        with_group = consumer(broker, "g")
        commit(with_group, p0=1)
        with_group.close()
    tool = KazooClient(zookeeper_server.address)
    tool.start()
    assert tool.get(f"{path}/consumers/g/offsets/t/0")[0] == b"1"
    tool.stop()
    tool.close()


def test_offsets_that_may_not_be_read_are_not_missing(broker: Broker, tool: KazooClient) -> None:
    tool.ensure_path("/consumers/g/offsets/t")
    tool.create("/consumers/g/offsets/t/0", b"5", acl=[make_digest_acl("u", "p", all=True)])
    with Connection(*parse_address(broker.bootstrap_servers)) as connection:
        wanted = [messages.OffsetFetchRequest.Topic("t", [0])]
        answer = connection.call(messages.OffsetFetchRequest("g", wanted), 7)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_broker_without_zookeeper_starts_and_stops(tmp_path: Path) -> None:
    began = time.monotonic()
    with Broker(settings(f"127.0.0.1:{free_port()}", zookeeper_connection_timeout_ms=100)) as broker:
        broker.create_topic("t", partitions=4)
        with Connection(*parse_address(broker.bootstrap_servers)) as connection:
            answer = connection.call(commits.request("g", {("t", 0): 1}, {}), commits.VERSION)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert time.monotonic() - began < DEADLINE_S


def test_a_broker_stops_while_zookeeper_does_not_answer(tmp_path: Path) -> None:
    server = RealServer(tmp_path)
    server.start()
    try:
        broker = Broker(settings(server.address, zookeeper_session_timeout_ms=120_000))
        broker.start()
        broker.create_topic("t", partitions=4)
        with_group = consumer(broker, "g")
        commit(with_group, p0=1)
        with_group.close()
        os.kill(server.pid, signal.SIGSTOP)
        began = time.monotonic()
        broker.stop()
        assert time.monotonic() - began < 60, "it waits for no answer, nor for the end of its session"
    finally:
        os.kill(server.pid, signal.SIGCONT)
        server.stop()


def test_no_thread_remains(chroot: str) -> None:
    before = set(threading.enumerate())
    with Broker(settings(chroot)) as broker:
        broker.create_topic("t", partitions=4)
    # `stop` waits for the end of the session for a second at most.
    until(lambda: set(threading.enumerate()) <= before, "the threads of the session have ended")


def test_offsets_are_migrated_and_served(
    chroot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker(data_directory=tmp_path) as broker:
        broker.create_topic("t", partitions=4)
        with_group = consumer(broker, "g")
        commit(with_group, p0=1, p3=4)
        with_group.close()
    stores = ["--data-dir", str(tmp_path), "--zookeeper", chroot, "--execute"]
    assert cli.main(["offsets", "migrate", "--from", "log", "--to", "zookeeper", *stores]) == 0
    assert "in all: 2 copied" in capsys.readouterr().out
    with Broker(settings(chroot), data_directory=tmp_path) as broker:
        with_group = consumer(broker, "g")
        assert with_group.committed(TopicPartition("t", 3)) == 4
        commit(with_group, p0=2)
        with_group.close()
    back = ["offsets", "migrate", "--from", "zookeeper", "--to", "log", "--overwrite", *stores]
    assert cli.main(back) == 0
    assert "in all: 1 copied, 1 already copied" in capsys.readouterr().out
    with Broker(data_directory=tmp_path) as broker:
        assert {place: entry.offset for place, entry in broker.committed("g").items()} == {
            ("t", 0): 2,
            ("t", 3): 4,
        }


@pytest.mark.parametrize(
    "block",
    [
        block
        for page in ("clusters.md", "zookeeper.md")
        for block in pages.blocks(page, "console")
        if block.why.endswith(Path(__file__).name)
    ],
    ids=lambda block: block.place,
)
def test_the_lines_of_the_pages_print_the_output_below_them(
    chroot: str, tmp_path: Path, block: pages.Block
) -> None:
    with Broker(data_directory=tmp_path / "data") as seeded:
        seeded.create_topic("orders", 12)
        seeded.commit("billing", {("orders", partition): 7 for partition in range(12)})
    code = block.code.removeprefix('$ pip install ".[zookeeper]"\n')
    if "--zookeeper zoo1" in code:  # a cluster has a directory of its own
        code = code.replace("./data", "./cluster").replace("10.0.0.1", "127.0.0.1")
    elif "serve" in code:
        code = code.replace("serve", "serve --port 0")
    for address in ("zoo1:2181,zoo2:2181,zoo3:2181/kafka", "localhost:2181"):
        code = code.replace(address, chroot)
    pages.run_in_shell(code, pages.ADDRESS, tmp_path, tmp_path)
