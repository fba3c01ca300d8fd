"""What is in a log directory of Apache Kafka, and what is not as it should be.

    python examples/spark_audit.py [DIRECTORY]

Without a directory it is one of the logs of Kafka 4.3.1 that the tests keep. No jars are needed.

Prints:

    partition 0: 7 records, 0 missing, 0 unreadable
    partition 1: 41 records, 0 missing, 0 unreadable
    partition 2: 3 records, 0 missing, 0 unreadable
    partition 3: 23 records, 0 missing, 0 unreadable
    g-range: 25 records, 20 commits, 0 rewinds, 7 keys
    g-coop: 14 records, 6 commits, 0 rewinds, 3 keys
    g-assign: 10 records, 10 commits, 0 rewinds, 2 keys
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from kafka_offsets.spark.pipelines import audit

LOG = Path(__file__).parents[1] / "tests" / "data" / "logs" / "classic"


def main(directory: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    reader = spark.read.format("consumer_offsets").option("pipeline", "audit")
    found = audit(reader.load(str(directory)))
    counts = (
        "partition {0.log_partition}: {0.records} records, {0.missing} missing, {0.unreadable} unreadable"
    )
    for row in found.partitions.orderBy("log_partition").collect():
        print(counts.format(row))
    for row in found.groups.orderBy("records", ascending=False).limit(3).collect():
        print(
            f"{row.group}: {row.records} records, {row.commits} commits, {row.rewinds} rewinds, {row['keys']} keys"
        )
    for row in found.problems.collect():
        print(f"{row.file} at {row.position}: {row.error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else LOG)
