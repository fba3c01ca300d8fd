"""A test of coroutines that use aiokafka: the broker has a thread of its own, so any loop will do.

    pytest examples/test_with_aiokafka.py

With pytest-asyncio the test itself may be a coroutine; what holds up its thread, as `wait_for` does, goes into
`await asyncio.to_thread(…)` there, as here.
"""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer

from kafka_offsets.testing import committed


async def take(bootstrap_servers: str, count: int) -> list[bytes]:
    """The code under test: take some orders, and commit each."""
    taken = []
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while len(taken) < count:
            taken.append((await consumer.getone()).value)
            await consumer.commit()
    return taken


@pytest.mark.kafka(topics=["orders"])
def test_orders_are_taken_as_they_come(kafka_broker):
    async def scenario():
        kafka_broker.produce("orders", ["first"])
        taking = asyncio.create_task(take(kafka_broker.bootstrap_servers, 2))
        await asyncio.to_thread(kafka_broker.wait_for, committed("billing", {("orders", 0): 1}))
        assert not taking.done()
        kafka_broker.produce("orders", ["second"])
        assert await taking == [b"first", b"second"]

    asyncio.run(scenario())
    kafka_broker.assert_committed("billing", {("orders", 0): 2}, only=True)
