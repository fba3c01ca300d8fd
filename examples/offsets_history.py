"""A month of commits as a Parquet file and as a plot, without Spark: python examples/offsets_history.py [FOLDER]

Prints:

    137 records of the offsets log, the last at 2026-01-30 12:00:00+00:00
    billing has committed 60 times and is at 600
    reports has committed 60 times and is at 420
    archive has committed 16 times and is at 80
    archive expired on 2026-01-15
"""

import sys
import tempfile
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from kafka_offsets.spark import to_parquet
from kafka_offsets.testing import Broker, ManualClock

DAY_MS = 86_400_000
RATES = {"billing": 10, "reports": 7, "archive": 5}


def commit_for_a_month(data_directory: Path) -> None:
    """Two groups commit every twelve hours for 30 days, and a third for 8 days."""
    clock = ManualClock(1_767_225_600_000)  # the first of January 2026
    config = {"log.cleaner.enable": False, "log.flush.offset.checkpoint.interval.ms": DAY_MS}
    with Broker(config, data_directory=data_directory, clock=clock) as broker:
        broker.create_topic("orders")
        for step in range(1, 30 * 2 + 1):
            for group in RATES if step <= 16 else ("billing", "reports"):
                broker.commit(group, {("orders", 0): RATES[group] * step})
            clock.advance(DAY_MS // 2)


def main(folder: Path) -> None:
    commit_for_a_month(folder)
    columns = "record_timestamp,group,committed_offset,tombstone"
    to_parquet(folder, folder / "history.parquet", types="offset", columns=columns)
    history = pq.read_table(folder / "history.parquet").sort_by("record_timestamp")
    print(f"{len(history)} records of the offsets log, the last at {history['record_timestamp'][-1]}")
    axes = Figure().subplots()
    for group in RATES:
        rows = history.filter(pc.equal(history["group"], group))
        commits = rows.filter(pc.invert(rows["tombstone"]))
        print(f"{group} has committed {len(commits)} times and is at {commits['committed_offset'][-1]}")
        axes.plot(commits["record_timestamp"], commits["committed_offset"], label=group)
        for deleted in rows.filter(rows["tombstone"])["record_timestamp"]:
            print(f"{group} expired on {deleted.as_py():%Y-%m-%d}")
    axes.legend()
    axes.figure.savefig(folder / "history.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
