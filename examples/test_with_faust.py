"""A test of a Faust application as it runs: its agent reads real records, and its table is kept in a topic.

    pytest examples/test_with_faust.py

Faust's own `agent.test_context()` calls the agent without a broker; here the group, its offsets, what is sent and the
changelog of the table are Kafka's.
"""

import asyncio

import faust
import pytest

from kafka_offsets.testing import committed


def make_application(bootstrap_servers: str) -> faust.App:
    """The code under test: an invoice for each order, with how often it came."""
    app = faust.App(
        "billing",
        broker=f"kafka://{bootstrap_servers}",
        store="memory://",
        topic_partitions=1,
        topic_disable_leader=True,
        stream_wait_empty=False,
        broker_commit_interval=0.1,
        web_enabled=False,
    )
    orders = app.topic("orders", value_type=str, value_serializer="raw")
    invoices = app.topic("invoices", value_type=str, value_serializer="raw")
    counts = app.Table("counts", default=int)

    @app.agent(orders)
    async def bill(stream: faust.Stream[str]) -> None:
        async for order in stream:
            counts[order] += 1
            await invoices.send(value=f"{counts[order]} {order}")

    return app


@pytest.mark.kafka(topics=["orders", "invoices"])
def test_each_order_gets_an_invoice(kafka_broker):
    async def scenario():
        app = make_application(kafka_broker.bootstrap_servers)
        app.finalize()
        async with app:
            await asyncio.to_thread(kafka_broker.wait_for, committed("billing", {("orders", 0): 2}), 30)

    kafka_broker.produce("orders", ["tea", "tea"])
    asyncio.run(scenario())
    invoices = [record.value for record in kafka_broker.consume_all("invoices")]
    assert invoices == [b"1 tea", b"2 tea"]
    changes = [record.value for record in kafka_broker.consume_all("billing-counts-changelog")]
    assert changes[-1] == b"2"
    kafka_broker.assert_lag("billing", 0)
