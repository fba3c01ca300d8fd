"""Every example for Spark runs: programs print what their first lines say that they print, tests pass.

Programs run in this process, and their `getOrCreate` returns the session of the other tests, as starting a JVM takes
more time than they do. The test starts a JVM in a process of its own, with a session as the example builds it.
"""

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark import jvm
from tests.test_examples import IN_DELTA, IN_SPARK, PROGRAMS, TESTS, promised, run_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.mark.parametrize("example", sorted(IN_SPARK & set(PROGRAMS)), ids=lambda path: path.stem)
def test_the_example_in_spark_prints_what_it_says(
    example: Path,
    spark: "SparkSession",
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA_OFFSETS_SPARK_JARS", str(jvm.JARS))
    monkeypatch.setattr(sys, "argv", [str(example)])
    monkeypatch.setattr(type(spark), "stop", lambda session: None)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out == promised(example)


def test_the_examples_in_spark_that_are_tests_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm.need_spark()
    for name, value in jvm.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    run_tests(sorted(IN_SPARK & set(TESTS) - IN_DELTA))
