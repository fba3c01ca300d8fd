"""What is left of the brokers of tests: nothing while the run goes on, and a warning of one that nobody has stopped."""

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_offsets.testing import Broker
from tests.conftest import LONG, REPOSITORY
from tests.drivers import wire

TESTS = 2000 if LONG else 250

SOURCE = """
import gc
import pytest
from kafka_offsets.testing import Broker

def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

@pytest.mark.parametrize("number", range({tests}))
def test_one(kafka_broker, number):
    kafka_broker.produce("orders", [bytes(500_000)] * 2)
    if number in (100, {tests} - 1):
        gc.collect()
        alive = sum(isinstance(each, Broker) for each in gc.get_objects())
        print(f" alive={{alive}} resident={{resident_mib():.0f}} ")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.slow
def test_the_brokers_of_earlier_tests_are_gone(tmp_path: Path) -> None:
    (tmp_path / "test_many.py").write_text(SOURCE.format(tests=TESTS))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "kafka_offsets.testing.plugin",
        "-p",
        "no:cacheprovider",
    ]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert f"{TESTS} passed" in run.stdout, run.stdout[-3000:] + run.stderr
    words = [word for word in run.stdout.split() if word.startswith(("alive=", "resident="))]
    early, late = words[:2], words[2:]
    assert (early[0], late[0]) == ("alive=1", "alive=1"), words
    before_mib, after_mib = (float(each[1].split("=")[1]) for each in (early, late))
    assert after_mib < before_mib + 60, words


def test_a_broker_that_is_not_stopped_warns_and_serves_on() -> None:
    broker = Broker()
    broker.start()
    address, loop, server, stopped = (
        broker.bootstrap_servers,
        broker._loop,
        broker._running(),
        broker._stopped,
    )
    held = [broker]
    del broker
    with pytest.warns(ResourceWarning, match=f"a broker was not stopped: it listens on {address}"):
        held.clear()
    with wire.Connection(address) as connection:
        assert connection.api_versions() == 0
    assert loop is not None and stopped is not None
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
    loop.call_soon_threadsafe(stopped.set)


@pytest.mark.parametrize("started", [False, True])
def test_a_broker_that_is_stopped_or_never_started_does_not_warn(*, started: bool) -> None:
    broker = Broker()
    if started:
        with broker:
            pass
    del broker
    gc.collect()  # a warning is an error
