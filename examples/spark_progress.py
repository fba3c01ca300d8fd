"""A streaming query that is a consumer group to everyone else, and its lag, read from the offsets log by Spark.

    KAFKA_OFFSETS_SPARK_JARS=jars python examples/spark_progress.py      (docs/spark.md says which jars)

Prints:

    totals has committed: batch=0 query=totals
    orders-0: 3 of 3, lag 0
    orders-1: 2 of 4, lag 2
"""

import glob
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from kafka_offsets.spark import OffsetCommitListener
from kafka_offsets.spark.pipelines import ends_of, lag, latest
from kafka_offsets.testing import Broker


def run_job(spark: SparkSession, broker: Broker, checkpoint: str) -> None:
    """A query over what there is now, and its progress as the group `totals`."""
    listener = OffsetCommitListener(broker.bootstrap_servers, "totals", queries=["totals"])
    spark.streams.addListener(listener)
    orders = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    orders = orders.option("subscribe", "orders").option("startingOffsets", "earliest")
    totals = orders.load().groupBy("key").count().writeStream.queryName("totals").outputMode("update")
    query = totals.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    assert listener.commit(query), listener.last_error
    spark.streams.removeListener(listener)
    listener.close()


def main(folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = ",".join(glob.glob(os.path.join(os.environ["KAFKA_OFFSETS_SPARK_JARS"], "*.jar")))
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.jars", jars).getOrCreate()
    with Broker(data_directory=folder / "data") as broker:
        broker.create_topic("orders", 2)
        broker.produce("orders", ["a", "b", "c"], partition=0)
        broker.produce("orders", ["d", "e"], partition=1)
        run_job(spark, broker, str(folder / "checkpoint"))
        broker.produce("orders", ["f", "g"], partition=1)
        log = spark.read.format("consumer_offsets").option("mode", "latest")
        state = latest(log.load(str(folder / "data")))
        print("totals has committed:", state.first()["metadata"])
        for row in lag(state, ends_of(spark, broker.bootstrap_servers, state)).orderBy("partition").collect():
            print(f"orders-{row.partition}: {row.position} of {row.log_end_offset}, lag {row.lag}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
