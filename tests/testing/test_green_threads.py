"""Processes in which gevent or eventlet has replaced the threads, and what a client in C needs there."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.conftest import REPOSITORY

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PATCHES = {
    "gevent": "from gevent import monkey, spawn\nmonkey.patch_all({})\n",
    "eventlet": "import warnings\nwarnings.simplefilter('ignore')\nfrom eventlet import monkey_patch, spawn\n"
    "monkey_patch({})\n",
}

IN_C = """
from confluent_kafka import Consumer, Producer
from kafka_offsets.testing import Broker

with Broker() as broker:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", b"first")
    assert producer.flush(20) == 0
    settings = {"group.id": "billing", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    consumer.subscribe(["orders"])
    assert consumer.poll(20).value() == b"first"
    consumer.commit(asynchronous=False)
    consumer.close()
    del producer
    broker.assert_lag("billing", 0)
"""

IN_PYTHON = """
import tests.interop
from kafka import KafkaConsumer, KafkaProducer
from kafka_offsets.testing import Broker
from kafka_offsets.testing.server.events import caught_up

def consume():
    with KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        assert next(consumer).value == b"first"
        consumer.commit()

with Broker() as broker:
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("orders", b"first").get(20)
    spawn(consume)
    broker.wait_for(caught_up("billing"))
"""

TIMES_OUT = """
from confluent_kafka import Producer
from kafka_offsets.testing import Broker

for _ in range(2):
    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"first")
        assert producer.flush(0.2) == 1
        producer.purge()
        del producer
"""


def errors_of(library: str, arguments: str, source: str) -> str:
    """Run a program whose first lines patch it; return its standard error."""
    if find_spec(library) is None:  # eventlet, once imported, warns of each fork of the process
        pytest.skip(f"{library} is not installed")
    program = PATCHES[library].format(arguments) + source
    run = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stderr


@pytest.mark.parametrize("library", PATCHES)
def test_a_client_in_c_works_where_threads_are_not_replaced(library: str) -> None:
    assert "has replaced the threads" not in errors_of(library, "thread=False", IN_C)


@pytest.mark.parametrize("library", PATCHES)
def test_a_client_in_python_works_where_all_is_replaced(library: str) -> None:
    errors_of(library, "", IN_PYTHON)


@pytest.mark.parametrize("library", PATCHES)
def test_replaced_threads_are_named_once_and_a_client_in_c_times_out(library: str) -> None:
    said = errors_of(library, "", TIMES_OUT)
    assert said.count(f"{library} has replaced the threads of this process: a client in C") == 1
    assert "patch" in said.rpartition("With ")[2] and "(thread=False) the broker has a thread" in said
