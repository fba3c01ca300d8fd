"""Make the pictures of docs/spark.md: a day of six groups, drawn by the pipelines.

    python docs/pictures/make.py

The day is synthetic: `billing` stops for three hours in the morning, `audit` reads slowly, `chatty` commits after each
record, and the others do what they should. The log of offsets is made as rows and goes through `lag_history` and
`activity` as one that was read from segments would.
"""

import math
import os
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent.parent))

from kafka_offsets.spark import charts, local_session, report  # noqa: E402 - the tree that this file is in
from kafka_offsets.spark.reader import schema  # noqa: E402

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
WINDOW = timedelta(minutes=30)
STEP_MINUTES = 5
STEPS = 24 * 60 // STEP_MINUTES
COLUMNS = (*schema.DEFAULT_COLUMNS,)


class Reader(NamedTuple):
    """A group: how much it reads at most in a step, how often it commits in one, and when it stands still, in hours."""

    name: str
    speed: int
    commits: int
    stands: tuple[float, float] = (0, 0)


READERS = (
    Reader("billing", 900, 5, (8, 11)),
    Reader("audit", 330, 2),
    Reader("chatty", 900, 60),
    Reader("search", 900, 4),
    Reader("mail", 900, 3),
    Reader("fraud", 900, 6),
)


def rows() -> tuple[list[dict[str, Any]], list[tuple[str, int, int, datetime]]]:
    """Return the records of the offsets log, and how far the topic had grown at which time."""
    chance = random.Random(9)  # noqa: S311 - numbers for a picture
    at_most = {reader.name: 0 for reader in READERS}
    end = 0
    written: list[dict[str, Any]] = []
    times = []
    for step in range(STEPS):
        now = BEGIN + timedelta(minutes=STEP_MINUTES * step)
        hour = step * STEP_MINUTES / 60
        end += round(320 + 260 * math.sin((hour - 9) / 24 * 2 * math.pi) + chance.uniform(-40, 40))
        times.append(("orders", 0, end - 1, now))
        for reader in READERS:
            if reader.stands[0] <= hour < reader.stands[1]:
                continue
            before = at_most[reader.name]
            after = min(end, before + reader.speed)
            at_most[reader.name] = after
            for number in range(1, reader.commits + 1):
                offset = before + (after - before) * number // reader.commits
                when = now + timedelta(seconds=60 * STEP_MINUTES * number / (reader.commits + 1))
                written.append({"group": reader.name, "committed_offset": offset, "record_timestamp": when})
    return sorted(written, key=lambda row: row["record_timestamp"]), times


def table_rows(written: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield all columns of the records."""
    usual = {"log_partition": 0, "kind": "offset", "key_version": 1, "value_version": 4, "tombstone": False}
    usual |= {"topic": "orders", "partition": 0, "metadata": "", "transactional": False, "record_bytes": 81}
    for offset, row in enumerate(written):
        full = {**usual, "log_offset": offset, "commit_timestamp": row["record_timestamp"], **row}
        yield tuple(full.get(name) for name in COLUMNS)


def lines(table: Any, column: str) -> charts.Series:
    """Return a line for each group: the sums of a column by the starts of windows, with gaps."""
    sums = table.groupBy("group", "window_start").sum(column).orderBy("window_start").collect()
    found: dict[str, list[charts.Point]] = {reader.name: [] for reader in READERS}
    for group, start, value in sums:
        found[group].append((start.astimezone(UTC), float(value or 0)))
    return {group: charts.with_gaps(points, WINDOW) for group, points in found.items()}


def plots(spark: Any) -> dict[str, charts.Plot]:
    """Return the plots by the names of their pictures; `spark` is a session."""
    from kafka_offsets.spark.pipelines import activity, lag_history, lagging

    written, grown = rows()
    raw = spark.createDataFrame(list(table_rows(written)), schema.ddl(COLUMNS))
    steps = activity(raw, "30 minutes").persist()
    lags = lag_history(raw, spark.createDataFrame(grown, lagging.TIMES), "30 minutes")
    return {
        "lag": charts.Plot("Lag", "records", lines(lags, "lag")),
        "commits": charts.Plot("Commits", "in 30 minutes", lines(steps, "commits")),
        "growth": charts.Plot("Growth of the log", "bytes", report.summed(lines(steps, "bytes"))),
    }


def main() -> None:
    """Draw all pictures."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"}
    settings["spark.ui.showConsoleProgress"] = "false"
    spark = local_session.builder("pictures", settings, master="local[2]", is_small=True).getOrCreate()
    for name, plot in plots(spark).items():
        charts.draw(plot).savefig(HERE / f"{name}.png", dpi=110, metadata={"Software": None})
    spark.stop()


if __name__ == "__main__":
    main()
