"""Nothing is found in the brokers of the examples, which do what users do. Those that inject faults are left out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LONG, REPOSITORY
from tests.test_examples import EXAMPLES, IN_FRAMEWORKS, IN_SPARK, IN_ZOOKEEPER

_WITH_FAULTS = ("faults.", "testing.machines")
_WITH_BROKER = ("Broker(", "kafka_broker", "kafka_cluster")


def _is_healthy(example: Path) -> bool:
    text = example.read_text(encoding="utf-8")
    return any(word in text for word in _WITH_BROKER) and not any(word in text for word in _WITH_FAULTS)


HEALTHY = [
    each for each in EXAMPLES if each not in IN_SPARK | IN_ZOOKEEPER | IN_FRAMEWORKS and _is_healthy(each)
]
"""A process each: without KAFKA_OFFSETS_LONG some of them."""


@pytest.mark.slow
@pytest.mark.parametrize("example", HEALTHY if LONG else HEALTHY[::6], ids=lambda example: example.stem)
def test_nothing_is_found_in_an_example(example: Path) -> None:
    script = "import sys, runpy, tests.diagnosis.probe; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    command = [sys.executable, "-c", script, str(example)]
    if example.name.startswith("test_"):
        options = "-m pytest -p tests.diagnosis.probe -p tests.lost_sockets -p no:cacheprovider -q -s"
        command = [sys.executable, *options.split(), str(example)]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "PROBED" in done.stderr + done.stdout
    assert "FINDING" not in done.stderr + done.stdout
