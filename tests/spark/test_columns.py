"""A pipeline reads the columns that it names in `schema.NEEDS`, and no others: each costs its copy into the JVM.

Spark says it: for rows in Parquet, its plan names the columns that are read.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from kafka_offsets.spark.reader import schema
from tests.conftest import DATA, REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

WEEK_MS = 7 * 86_400_000


def read_by(*tables: "DataFrame") -> set[str]:
    """Return the columns that plans read from Parquet."""
    found: set[str] = set()
    for each in tables:
        leaves: Any = each._jdf.queryExecution().sparkPlan().collectLeaves()
        for index in range(leaves.size()):
            leaf = leaves.apply(index)
            if leaf.nodeName().startswith("Scan parquet"):
                found.update(leaf.requiredSchema().fieldNames())
    return found


def made_by(name: str, raw: "DataFrame") -> Sequence["DataFrame"]:
    """Return the tables that a pipeline computes from the rows of a log."""
    from kafka_offsets.spark import pipelines
    from kafka_offsets.spark.pipelines import lagging, segment_files, state

    def times() -> "DataFrame":
        return raw.sparkSession.createDataFrame([], lagging.TIMES)

    tables: dict[str, Callable[[], Sequence[DataFrame]]] = {
        "latest": lambda: [pipelines.latest(raw)],
        "merge_state": lambda: [state.changes(raw)],
        "lag": lambda: [pipelines.latest(raw)],
        "lag_history": lambda: [pipelines.lag_history(raw, times())],
        "stale": lambda: [pipelines.stale(raw, WEEK_MS, WEEK_MS)],
        "activity": lambda: [pipelines.activity(raw)],
        "audit": lambda: pipelines.audit(raw),
        "write_segments": lambda: [segment_files._of_log(raw, state.REFUSE)],
    }
    return tables[name]()


@pytest.fixture(scope="module")
def rows(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "DataFrame":
    """All columns of a log."""
    from kafka_offsets.spark import to_parquet

    file = tmp_path_factory.mktemp("rows") / "log.parquet"
    names = ",".join(column.name for column in schema.COLUMNS)
    to_parquet(DATA / "logs" / "consumer", file, isolation="uncommitted", columns=names)
    return spark.read.parquet(str(file))


@pytest.mark.parametrize("name", schema.NEEDS)
def test_a_pipeline_reads_the_columns_that_it_names(name: str, rows: "DataFrame") -> None:
    named = schema.NEEDS[name].columns
    assert read_by(*made_by(name, rows.select(*named))) == set(named)


_READER = re.compile(r'format\("consumer_offsets"\)(?:[^\n]|\n(?=\s))*?\.load\(')


@pytest.mark.parametrize("page", ["examples/*.py", "docs/*.md", "README.md"])
def test_examples_name_the_columns_that_they_read(page: str) -> None:
    files = sorted(REPOSITORY.glob(page))
    found = [call for file in files for call in _READER.findall(file.read_text(encoding="utf-8"))]
    assert found, page
    for call in found:
        assert re.search("columns|pipeline|mode", call), call
