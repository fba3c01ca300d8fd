"""The first call after a start, for a log that takes a moment to open: it is answered, as by Kafka."""

import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import kafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafka_offsets import Broker, cli

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

COUNT = 3200
"""Records of 100 bytes: more than what a request opens by itself."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a long log, and a group that has read half of it."""
    directory = tmp_path_factory.mktemp("first") / "data"
    with Broker(data_directory=directory) as broker:
        broker.create_topic("orders", 1)
        broker.produce("orders", ["x" * 100] * COUNT)
        broker.commit("g", {("orders", 0): COUNT // 2})
    assert (directory / "orders-0" / f"{0:020}.log").stat().st_size > 256 << 10
    return directory


@pytest.fixture
def home(stopped: Path, tmp_path: Path) -> Iterator[str]:
    directory = shutil.copytree(stopped, tmp_path / "data")
    with Broker(data_directory=directory) as broker:
        assert ("orders", 0) not in broker._call(lambda server: dict(server.core.directory.logs))
        yield broker.bootstrap_servers


def _watermarks(home: str) -> object:
    consumer = Consumer({"bootstrap.servers": home, "group.id": "other"})
    try:
        return consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=20)
    finally:
        consumer.close()


def _at_a_time(home: str) -> object:
    consumer = Consumer({"bootstrap.servers": home, "group.id": "other"})
    try:
        (found,) = consumer.offsets_for_times([TopicPartition("orders", 0, 0)], timeout=20)
    finally:
        consumer.close()
    assert found.error is None
    return found.offset


def _listed(home: str) -> object:
    admin = AdminClient({"bootstrap.servers": home})
    (future,) = admin.list_offsets({TopicPartition("orders", 0): OffsetSpec.latest()}).values()
    return future.result(20).offset


def _deleted(home: str) -> object:
    admin = AdminClient({"bootstrap.servers": home})
    (future,) = admin.delete_records([TopicPartition("orders", 0, 5)]).values()
    return future.result(20).low_watermark


def _produced(home: str) -> object:
    offsets: list[object] = []
    producer = Producer({"bootstrap.servers": home, "retries": 0, "linger.ms": 0})
    producer.produce(
        "orders", b"v", on_delivery=lambda error, message: offsets.append(error or message.offset())
    )
    assert not producer.flush(20)
    return offsets


def _ends(home: str) -> object:
    place = kafka.TopicPartition("orders", 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=home)
    try:
        return consumer.end_offsets([place])[place]
    finally:
        consumer.close()


CALLS: list[tuple[Callable[[str], object], object]] = [
    (_watermarks, (0, COUNT)),
    (_at_a_time, 0),
    (_listed, COUNT),
    (_deleted, 5),
    (_produced, [COUNT]),
    (_ends, COUNT),
]


@pytest.mark.parametrize(("call", "expected"), CALLS, ids=[call.__name__[1:] for call, _ in CALLS])
def test_the_first_call_of_a_client_is_answered(
    home: str, call: Callable[[str], object], expected: object
) -> None:
    """librdkafka hands NOT_LEADER_OR_FOLLOWER on to the program in most of these calls."""
    assert call(home) == expected


COMMANDS = {
    "consume": ["consume", "orders", "-e", "-o", "-1", "-f", "%o"],
    "produce": ["produce", "orders", "--json"],
    "lag": ["lag", "g", "--json"],
    "describe": ["groups", "describe", "g", "--json"],
    "reset": ["groups", "reset", "g", "--to-latest", "--json"],
    "import": ["offsets", "import", "-", "--json"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_command_is_carried_out(
    home: str, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = b"v\n" if command == "produce" else b'"g","orders",0,7\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    code = cli.main([*COMMANDS[command], "-b", home])
    output, error = capsys.readouterr()
    assert code == 0, error
    if command == "consume":
        assert output == str(COUNT - 1)
    elif command == "produce":
        assert json.loads(output)["offset"] == COUNT
    elif command == "lag":
        assert json.loads(output)["lag"] == COUNT // 2
