"""The runners of docs/runners.md beside pytest with a broker for each test, in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.documents.pages import BLOCKS

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CASE = """
from {module} import {case}
from confluent_kafka import Producer
from kafka_offsets.testing import Broker

class TestOrders({case}):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.broker = cls.enterClassContext(Broker())

    def test_an_order(self):
        producer = Producer({{"bootstrap.servers": self.broker.bootstrap_servers}})
        producer.produce("orders", b"a")
        self.assertEqual(producer.flush(20), 0)
        del producer
        self.assertEqual(len(self.broker.consume_all("orders")), 1)

class TestPayments(TestOrders):
    pass

class TestEach({case}):
    def setUp(self):
        self.broker = self.enterContext(Broker())

    test_an_order = TestOrders.test_an_order
"""

WORKERS = """
import os
from confluent_kafka import Producer
import pytest

@pytest.mark.parametrize("number", range(4))
def test_it(kafka_address, number):
    producer = Producer({"bootstrap.servers": kafka_address})
    producer.produce("orders", os.environ.get("PYTEST_XDIST_WORKER", ""))
    assert producer.flush(20) == 0
    print(f"<{kafka_address}>")
"""

BLOCKED = """
import asyncio
from aiokafka import AIOKafkaProducer

def test_it(kafka_broker):
    async def produce():
        async with AIOKafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"a")

    asyncio.run(produce())
    assert len(kafka_broker.consume_all("orders")) == 1
"""


def run(folder: Path, *command: str, plugins: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a module of Python in a folder."""
    environment = os.environ | {"PYTHONPATH": f"{REPOSITORY}{os.pathsep}{folder}"}
    environment |= {} if plugins else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("KAFKA_BOOTSTRAP_SERVERS", None)
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


def pytest_with(folder: Path, *options: str) -> str:
    """Run pytest with some plugins in a folder; return its output."""
    done = run(
        folder, "pytest", "-p", "kafka_offsets.testing.plugin", "-p", "no:cacheprovider", "-rA", *options
    )
    return done.stdout + done.stderr


def test_unittest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(CASE.format(module="unittest", case="TestCase"))
    done = run(tmp_path, "unittest", "-v", "test_it")
    assert "Ran 3 tests" in done.stderr and done.stderr.endswith("OK\n"), done.stderr


@pytest.mark.parametrize("options", [[], ["--parallel", "2"]])
def test_django(tmp_path: Path, options: list[str]) -> None:
    pytest.importorskip("django")
    (tmp_path / "settings.py").write_text("SECRET_KEY = 'x'\n")
    (tmp_path / "test_it.py").write_text(CASE.format(module="django.test", case="SimpleTestCase"))
    done = run(tmp_path, "django", "test", "--settings", "settings", *options)
    assert "Ran 3 tests" in done.stderr and "\nOK\n" in done.stderr, done.stderr


def test_one_broker_for_all_workers_of_xdist(tmp_path: Path) -> None:
    (block,) = (each for each in BLOCKS if each.page.endswith("runners.md") and "workerinput" in each.code)
    (tmp_path / "conftest.py").write_text(block.code)
    (tmp_path / "test_it.py").write_text(WORKERS)
    said = pytest_with(tmp_path, "-p", "xdist.plugin", "-n", "2")
    assert "4 passed" in said, said
    assert len({line for line in said.splitlines() if line.startswith("<127.0.0.1:")}) == 1
    assert "1 passed" in pytest_with(tmp_path, "-k", "0")


def test_a_socket_blocker(tmp_path: Path) -> None:
    pytest.importorskip("pytest_socket")
    (tmp_path / "test_it.py").write_text(BLOCKED)
    assert "SocketBlockedError" in pytest_with(tmp_path, "-p", "pytest_socket", "--disable-socket")
    assert "1 passed" in pytest_with(tmp_path, "-p", "pytest_socket", "--allow-hosts=127.0.0.1")
    (tmp_path / "test_it.py").write_text("import pytest\npytestmark = pytest.mark.enable_socket\n" + BLOCKED)
    assert "1 passed" in pytest_with(tmp_path, "-p", "pytest_socket", "--disable-socket")
