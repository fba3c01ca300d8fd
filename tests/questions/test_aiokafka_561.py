"""What is the recommended way to unit-test producers and consumers, without relying on a real Kafka?

Asked in https://github.com/aio-libs/aiokafka/issues/561.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def copy(address):
    async with (
        AIOKafkaConsumer("orders", bootstrap_servers=address, auto_offset_reset="earliest") as orders,
        AIOKafkaProducer(bootstrap_servers=address) as producer,
    ):
        await producer.send_and_wait("invoices", b"invoice for " + (await orders.getone()).value)


def test_records_of_one_topic_are_copied_to_another(kafka_broker):
    kafka_broker.produce("orders", ["tea"])
    asyncio.run(copy(kafka_broker.bootstrap_servers))
    assert [record.value for record in kafka_broker.consume_all("invoices")] == [b"invoice for tea"]
