"""A fake consumer's commit() takes no offsets, where the real one does.

The real one is what runs here; the fake one was to get a first part of it.
Asked in https://github.com/alm0ra/mockafka-py/pull/237.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition


async def commit_behind_the_first(address):
    options = {"group_id": "billing", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with AIOKafkaConsumer("orders", bootstrap_servers=address, **options) as consumer:
        record = await consumer.getone()
        await consumer.commit({TopicPartition(record.topic, record.partition): record.offset + 1})


def test_a_commit_of_chosen_offsets(kafka_broker):
    kafka_broker.produce("orders", ["tea", "milk"])
    asyncio.run(commit_behind_the_first(kafka_broker.bootstrap_servers))
    kafka_broker.assert_committed("billing", {("orders", 0): 1})
