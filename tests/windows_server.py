"""`kafka-offsets serve` on Windows, for tests/windows.sh: a client produces and consumes, and HTTP answers."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer


@pytest.fixture
def served() -> Iterator[list[str]]:
    """The lines that a server has written until it is ready."""
    command = [sys.executable, "-m", "kafka_offsets.cli", "serve", "--port", "0", "--http", "0"]
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
