"""A test of a FastStream application as it runs: its handler is called for real records, and the group commits.

    pytest examples/test_with_faststream.py

FastStream's own TestKafkaBroker calls handlers without a broker; here the group, its offsets and what is published are
Kafka's. With pytest-asyncio the test itself may be a coroutine.
"""

import asyncio

import pytest
from faststream import FastStream
from faststream.kafka import KafkaBroker

from kafka_offsets.testing import committed


def make_application(bootstrap_servers: str) -> FastStream:
    """The code under test: an invoice for each order."""
    broker = KafkaBroker(bootstrap_servers, logger=None)

    @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest", auto_commit_interval_ms=20)
    @broker.publisher("invoices")
    async def bill(order: str) -> str:
        return f"invoice for {order}"

    return FastStream(broker, logger=None)


@pytest.mark.kafka(topics=["orders", "invoices"])
def test_each_order_gets_an_invoice(kafka_broker):
    async def scenario():
        application = make_application(kafka_broker.bootstrap_servers)
        await application.start()
        try:
            kafka_broker.produce("orders", ["tea", "milk"])
            await asyncio.to_thread(kafka_broker.wait_for, committed("billing", {("orders", 0): 2}))
        finally:
            await application.stop()

    asyncio.run(scenario())
    invoices = [record.value for record in kafka_broker.consume_all("invoices")]
    assert invoices == [b"invoice for tea", b"invoice for milk"]
    kafka_broker.assert_lag("billing", 0)
