"""Windows, for tests/windows.sh: a client of `serve` produces and consumes, HTTP answers, a data directory is kept."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from kafka_offsets import Broker
from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.files import DiskFiles, ReadOnlyFiles
from tests.storage.crash import killed_server

COMMAND = [sys.executable, "-m", "kafka_offsets.cli"]


@pytest.fixture
def served() -> Iterator[list[str]]:
    """The lines that a server has written until it is ready."""
    command = [*COMMAND, "serve", "--port", "0", "--http", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        yield [process.stderr.readline().strip() for _ in range(2)]
        process.terminate()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_client_uses_the_server(served: list[str], protocol: str) -> None:
    http, address = (line.split(" on ")[1] for line in served)
    producer = Producer({"bootstrap.servers": address})
    producer.produce("orders", b"first")
    assert producer.flush(60) == 0
    settings = {"bootstrap.servers": address, "group.id": "billing", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"group.protocol": protocol})
    consumer.subscribe(["orders"])
    assert [message.value() for message in consumer.consume(1, 60)] == [b"first"]
    consumer.close()
    with urllib.request.urlopen(f"{http}brokers/main/lag?group=billing") as answer:
        assert json.load(answer) == {"orders": {"0": 0}}


def test_a_killed_server_finds_what_it_acknowledged() -> None:
    killed_server.kill_and_start_again(COMMAND, Path("kept").resolve())  # which Linux reads next: windows.sh


def test_files_are_closed_before_they_are_changed(tmp_path: Path) -> None:
    killed_server.change_files(tmp_path / "data")


def test_readers_share_a_lock_that_excludes_a_broker(tmp_path: Path) -> None:
    DiskFiles(tmp_path).lock(".lock").release()
    readers = [ReadOnlyFiles(tmp_path).lock(".lock") for _ in range(2)]
    for reader in readers:
        with pytest.raises(StorageError, match="another broker uses the data directory"):
            DiskFiles(tmp_path).lock(".lock")
        reader.release()
    broker = DiskFiles(tmp_path).lock(".lock")
    with pytest.raises(StorageError, match="another broker uses the data directory"):
        ReadOnlyFiles(tmp_path).lock(".lock")
    broker.release()


def test_a_topic_has_folders_of_its_own(tmp_path: Path) -> None:
    with Broker(data_directory=tmp_path) as broker:
        broker.create_topic("orders")
        with pytest.raises(StorageError, match="ignores the case of names"):
            broker.create_topic("Orders")
