"""One broker for all clients of this folder.

KAFKA_OFFSETS_TEST_BOOTSTRAP=HOST:PORT names a broker that runs already; it needs SETTINGS of broker_process.
KAFKA_OFFSETS_TEST_SERVE names another command than ours to start brokers with.
"""

import gc
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.interop import java_program, kafka_peer
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_peer import KafkaPeer
from tests.interop.names import Names

KAFKA_SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def leaks_are_told_here() -> Iterator[None]:
    """What a client has left open fails the test that made it, and not one that runs when it is collected."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of the broker under test."""
    running = os.environ.get("KAFKA_OFFSETS_TEST_BOOTSTRAP")
    if running:
        yield running
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("broker") / "data")
    yield broker.start()
    broker.stop()


@pytest.fixture
def names(request: pytest.FixtureRequest) -> Names:
    """Topic and group names of this test alone, also against a broker that lives longer than the tests."""
    return Names(f"{request.node.name[:60]}-{os.getpid()}-{next(_numbers)}")


@pytest.fixture(scope="session")
def kcat() -> str:
    """The path of kcat."""
    path = shutil.which("kcat")
    if path is None:
        missing("kcat", "apt-get install -y kcat")
    assert path is not None
    return path


@pytest.fixture(scope="session")
def java_client(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command line that runs java/Client.java; compiled once."""
    java_program.need_tools()
    return java_program.command(tmp_path_factory.mktemp("client"))


@pytest.fixture(
    scope="session", params=["ours", pytest.param("Apache Kafka", marks=pytest.mark.apache_kafka)]
)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a broker, ours or Apache Kafka, for tests with topics and groups of their own."""
    if request.param == "ours":
        yield request.getfixturevalue("bootstrap")
        return
    kafka_peer.need_tools()
    peer = KafkaPeer(tmp_path_factory.mktemp("kafka"))
    host, port = peer.start(KAFKA_SETTINGS)
    yield f"{host}:{port}"
    peer.end()


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaPeer]:
    """Apache Kafka, not started yet, with a directory of its own."""
    kafka_peer.need_tools()
    peer = KafkaPeer(tmp_path / "kafka")
    yield peer
    peer.end()
