"""A fake consumer cannot be iterated over, and what should it do when it runs out of messages?

The real one waits for the next; the test gives it one, or ends it.
Asked in https://github.com/alm0ra/mockafka-py/issues/224.
"""

import asyncio

from aiokafka import AIOKafkaConsumer


async def follow(address, done, enough):
    async with AIOKafkaConsumer("orders", bootstrap_servers=address, auto_offset_reset="earliest") as orders:
        async for record in orders:
            done.append(record.value)
            enough.set()


def test_a_loop_over_a_topic(kafka_broker):
    async def scenario(done, enough):
        task = asyncio.create_task(follow(kafka_broker.bootstrap_servers, done, enough))
        kafka_broker.produce("orders", ["tea"])
        await asyncio.wait_for(enough.wait(), 20)
        task.cancel()
        await asyncio.wait([task])  # it closes what it has opened
        return done

    assert asyncio.run(scenario([], asyncio.Event())) == [b"tea"]
