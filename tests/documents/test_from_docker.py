"""docs/from-docker.md: what stands there as "after" runs; "before" is at least Python, and sets keys that are served.

The block for Spark is run by tests/spark/test_from_docker.py, beside the session of Spark.
"""

import ast
import re
import shutil
from pathlib import Path

import pytest

from kafka_offsets import Broker
from kafka_offsets.broker.config.keys import Config
from tests.documents import pages

PAGE = "from-docker.md"
PYTHON = pages.blocks(PAGE, "python")
CONSOLE = pages.blocks(PAGE, "console")
YAML = pages.blocks(PAGE, "yaml")


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_the_examples_after_the_migration_pass(tmp_path: Path) -> None:
    after = [code for code in PYTHON if not code.startswith(("# before", "# spark"))]
    assert pages.run_as_tests(after, tmp_path) >= 5


def test_the_examples_before_the_migration_are_python() -> None:
    before = [code for code in PYTHON if code.startswith("# before")]
    assert len(before) == 3
    for code in before:
        ast.parse(code)


def test_what_a_compose_file_sets_is_served_by_the_same_keys() -> None:
    (composed,) = YAML
    given = dict(re.findall(r"^ +KAFKA_(\w+): (\S+)$", composed, re.MULTILINE))
    assert len(given) == 2
    keys = {name.lower().replace("_", "."): value for name, value in given.items()}
    assert Config.load(keys).num_partitions == int(keys["num.partitions"])


@pytest.mark.interop
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed: apt-get install -y kcat")
def test_the_lines_for_a_shell_print_the_output_below_them(tmp_path: Path) -> None:
    serving, *asking = CONSOLE
    assert "kafka-offsets serve" in serving
    with Broker() as broker:
        for code in asking:
            pages.run_in_shell(code, broker, tmp_path)
