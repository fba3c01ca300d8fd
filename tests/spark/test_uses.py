"""The table of docs/spark.md: each use of Spark's connector that has a test here."""

import ast
from pathlib import Path

from tests.conftest import GeneratedPart

FILES = {
    "Batches from topics": "test_kafka_source.py",
    "Streams": "test_kafka_streaming.py",
    "Into topics": "test_kafka_sink.py",
}
FEWEST = 25


def uses(file: str) -> list[str]:
    """The tests of a file, as sentences."""
    tree = ast.parse((Path(__file__).parent / file).read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [name.removeprefix("test_").replace("_", " ") for name in names if name.startswith("test_")]


def test_the_table_of_uses_is_that_of_the_tests(generated: GeneratedPart) -> None:
    rows = [f"| {part} | {use} |" for part, file in FILES.items() for use in uses(file)]
    assert len(rows) >= FEWEST
    generated.check("docs/spark.md", "uses", "\n".join(["| | |", "|---|---|", *rows]))
