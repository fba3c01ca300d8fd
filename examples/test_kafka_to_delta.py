"""A job from Kafka to a Delta table, and its test: packages of the project's own beside the Kafka connector.

pytest examples/test_kafka_to_delta.py      (needs pyspark 4.0, for which this Delta is made, and Maven Central)
"""

import pytest


@pytest.fixture(scope="session")
def kafka_spark_config():
    """What the project's sessions need; in a project this fixture is in conftest.py."""
    return {
        "spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def run_job(spark, bootstrap_servers, table, checkpoint):
    """The code under test: appends the orders that are there now to the table, each of them once."""
    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    rows = orders.selectExpr("string(key) customer", "int(string(value)) amount", "partition", "offset")
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start(str(table)).awaitTermination()


@pytest.mark.kafka(topics=["orders"])
def test_each_order_is_in_the_table_once(kafka_spark, kafka_broker, tmp_path):
    table, checkpoint = tmp_path / "orders", tmp_path / "checkpoint"
    kafka_broker.produce("orders", [("anna", 5), ("ben", 1)])
    run_job(kafka_spark, kafka_broker.bootstrap_servers, table, checkpoint)
    kafka_broker.produce("orders", [("anna", 7)])
    run_job(kafka_spark, kafka_broker.bootstrap_servers, table, checkpoint)
    rows = kafka_spark.read.format("delta").load(str(table))
    assert sorted(map(tuple, rows.select("customer", "amount").collect())) == [
        ("anna", 5),
        ("anna", 7),
        ("ben", 1),
    ]
    versions = kafka_spark.sql(f"DESCRIBE HISTORY delta.`{table}`").select("operation").collect()
    assert [row.operation for row in versions] == ["STREAMING UPDATE"] * 2
