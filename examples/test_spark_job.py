"""A Structured Streaming job and its test: Spark's own Kafka source and sink, on a broker of the test's own.

KAFKA_OFFSETS_SPARK_JARS=jars pytest examples/test_spark_job.py      (needs pyspark; docs/spark.md says which jars)
"""

import pytest


def run_job(spark, bootstrap_servers, checkpoint):
    """The code under test: sums up the orders of each customer, of all that is there now."""
    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    amounts = orders.selectExpr("key", "cast(cast(value as string) as int) as amount")
    totals = amounts.groupBy("key").sum("amount").selectExpr("key", "cast(`sum(amount)` as string) as value")
    query = (
        totals.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("topic", "totals")
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


@pytest.mark.kafka(topics=["orders", "totals"])
def test_a_total_goes_on_where_the_last_run_ended(kafka_spark, kafka_broker, tmp_path):
    kafka_broker.produce("orders", [("anna", 5), ("ben", 1), ("anna", 7)])
    run_job(kafka_spark, kafka_broker.bootstrap_servers, tmp_path)
    kafka_broker.produce("orders", [("ben", 2)])
    run_job(kafka_spark, kafka_broker.bootstrap_servers, tmp_path)
    totals = [(record.key, record.value) for record in kafka_broker.consume_all("totals")]
    assert sorted(totals) == [(b"anna", b"12"), (b"ben", b"1"), (b"ben", b"3")]
