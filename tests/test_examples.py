"""Every example runs: programs print what their first lines say that they print, tests pass. The table names packages.

Those for Spark run beside its other tests."""

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, GeneratedPart
from tests.documents.pages import WARNINGS
from tests.spark import jvm
from tests.zookeeper.real import RealServer, zookeeper_server

__all__ = ["zookeeper_server"]

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))
IN_SPARK = {example for example in EXAMPLES if "pyspark" in example.read_text(encoding="utf-8")}
"""Those that need Spark: tests/spark/test_examples.py runs them."""
IN_DELTA = {example for example in IN_SPARK if "io.delta" in example.read_text(encoding="utf-8")}
"""Those of a PySpark that Delta is made for: tests/spark/version.sh runs them."""
IN_ZOOKEEPER = {example for example in EXAMPLES if "kazoo" in example.read_text(encoding="utf-8")}
"""Those that are given the address of a ZooKeeper server."""
IN_FRAMEWORKS = {REPOSITORY / "examples" / f"test_with_{name}.py" for name in ("faust", "quix")}
"""Those of frameworks with environments of their own: tests/interop/test_other_tools.py runs them."""
TESTS = [example for example in EXAMPLES if example.name.startswith("test_")]
PROGRAMS = [example for example in EXAMPLES if example not in TESTS]
MOST_LINES = 60
"""So long may a process take, on a busy machine."""

PACKAGES = {
    "aiokafka": "aiokafka",
    "confluent_kafka": "confluent-kafka",
    "faststream": "'faststream[kafka]'",
    "faust": "faust-streaming",
    "hypothesis": "hypothesis",
    "kafka": "kafka-python",
    "kafka_offsets.spark": "fsspec numpy pyarrow",
    "kafka_offsets.testing.machines": "hypothesis",
    "kafka_offsets.testing.strategies": "hypothesis",
    "kazoo": "kazoo",
    "matplotlib": "matplotlib",
    "pyarrow": "pyarrow",
    "pyspark": "'.[spark]'",
    "pytest": "pytest",
    "quixstreams": "quixstreams",
}
"""What to install for a module that an example imports, beside `pip install .`."""


def promised(example: Path) -> str:
    """Return what stands after "Prints:" in the docstring."""
    docstring = example.read_text(encoding="utf-8").split('"""')[1]
    before, prints, output = docstring.partition("\nPrints:\n\n")
    assert before and prints, f"{example.name} does not say what it prints"
    return textwrap.dedent(output)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


def imported(example: Path) -> set[str]:
    """Return the full names of what an example imports."""
    names = set()
    for node in ast.walk(ast.parse(example.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{each.name}" for each in node.names}
    return names


def packages(example: Path) -> set[str]:
    """Return what an example needs beside this project, as words for pip."""
    found = set()
    for name in imported(example):
        begins = [name[: match.start()] for match in re.finditer(r"\.|$", name)]
        known = [PACKAGES[begin] for begin in begins if begin in PACKAGES]
        own = begins[0] == "kafka_offsets" or begins[0] in sys.stdlib_module_names
        assert known or own, f"{example.name} imports {name}: PACKAGES does not say what to install"
        found.update(*(each.split() for each in known))
    return {"'.[spark]'"} | found & {"pytest"} if "'.[spark]'" in found else found


QUESTIONS = {
    "How do I test code that uses my client?": "test_with_confluent_kafka test_with_kafka_python test_with_aiokafka "
    "test_with_faststream test_with_faust test_with_quix committed_offsets",
    "How do I use a broker without pytest?": "with_kafka_python with_confluent_kafka with_aiokafka restart",
    "Does it survive failures?": "flaky_network test_killed_broker test_paused_broker test_cluster "
    "test_secured_cluster",
    "Is nothing lost or done twice?": "test_rebalance test_exactly_once with_transactions test_state_machine "
    "property_test",
    "Why is it stuck?": "why",
    "What happens when time passes?": "offset_expiry",
    "How do I test a job of Spark?": "test_spark_job test_kafka_to_delta spark_progress",
    "What is in an offsets log?": "spark_audit offsets_history zookeeper_offsets",
    "How do I read without another client?": "with_our_consumer",
}
"""The examples that answer each, without `.py`."""


def test_each_example_answers_a_question_and_its_table_says_what_it_needs(generated: GeneratedPart) -> None:
    answers = [f"{name}.py" for names in QUESTIONS.values() for name in names.split()]
    assert sorted(answers) == sorted(each.name for each in EXAMPLES)
    by_name = {each.name: each for each in EXAMPLES}
    rows: list[str] = []
    for question, names in QUESTIONS.items():
        rows += ["", f"### {question}", "", "| example | shows | `pip install` |", "|---|---|---|"]
        for example in (by_name[f"{name}.py"] for name in names.split()):
            text = example.read_text(encoding="utf-8")
            shows = text.split('"""')[1].splitlines()[0].partition(": python ")[0]
            needs = " ".join(sorted(packages(example)))
            rows.append(f"| [{example.name}]({example.name}) | {shows} | {f'`{needs}`' if needs else ''} |")
    generated.check("examples/README.md", "examples", "\n".join(rows))


@pytest.mark.parametrize("module", ["machines", "strategies"])
def test_without_hypothesis_a_module_says_what_to_install(module: str) -> None:
    done = run("-c", f"import sys; sys.modules['hypothesis'] = None; import kafka_offsets.testing.{module}")
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: kafka_offsets.testing.{module} needs hypothesis: pip install hypothesis"
    )


def run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run Python in the repository."""
    environment = {"PYTHONPATH": str(REPOSITORY), "KAFKA_OFFSETS_SPARK_JARS": str(jvm.JARS)}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=os.environ | environment,
    )


def run_tests(examples: list[Path]) -> None:
    """Run examples that are tests."""
    words = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "kafka_offsets.testing.plugin",
        "-p",
        "tests.lost_sockets",
        *examples,
    ]
    done = run(*words, "-W", "ignore::DeprecationWarning")
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^(\d+) passed in ", done.stdout, re.MULTILINE)
    assert passed and int(passed[1]) >= len(examples), done.stdout


@pytest.mark.interop
@pytest.mark.parametrize(
    "example", [each for each in PROGRAMS if each not in IN_SPARK | IN_ZOOKEEPER], ids=lambda path: path.stem
)
def test_the_example_prints_what_it_says(example: Path) -> None:
    done = run(*WARNINGS, example)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == promised(example)


@pytest.mark.interop
@pytest.mark.parametrize("example", sorted(IN_ZOOKEEPER), ids=lambda path: path.stem)
def test_the_example_with_zookeeper_prints_what_it_says(example: Path, zookeeper_server: RealServer) -> None:
    done = run(*WARNINGS, example, zookeeper_server.address)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == promised(example)


def test_the_examples_of_another_pyspark_are_run_with_it() -> None:
    text = (REPOSITORY / "tests" / "spark" / "version.sh").read_text(encoding="utf-8")
    assert IN_DELTA and all(f"examples/{each.name}" in text for each in IN_DELTA)


@pytest.mark.interop
def test_the_examples_that_are_tests_pass() -> None:
    run_tests([each for each in TESTS if each not in IN_SPARK | IN_FRAMEWORKS])


def test_the_examples_need_no_other_plugin_of_pytest() -> None:
    absent = [word for plugin in ("timeout", "xdist", "hypothesispytest") for word in ("-p", f"no:{plugin}")]
    done = run(
        "-m", "pytest", "-q", "--collect-only", *absent, REPOSITORY / "examples" / "test_paused_broker.py"
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_test_that_hangs_is_ended(request: pytest.FixtureRequest) -> None:
    assert request.config.getoption("timeout") is not None or "PYTEST_TIMEOUT" in os.environ


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_short(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < MOST_LINES


def test_a_busy_machine_fails_no_property() -> None:
    drawn = [text for each in EXAMPLES if "@given" in (text := each.read_text(encoding="utf-8"))]
    assert drawn
    for text in drawn:
        assert "deadline=None" in text
        assert "HealthCheck.too_slow" in text
