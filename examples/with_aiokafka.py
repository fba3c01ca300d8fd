"""A test of code that uses aiokafka: `async with` runs the broker in the same loop, without a thread.

Prints:

    orders-0@0: first
    orders-0@1: second
    billing continues at 2
"""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kafka_offsets import Broker


async def produce(bootstrap_servers: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for value in (b"first", b"second"):
            await producer.send_and_wait("orders", value)


async def consume(bootstrap_servers: str) -> None:
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        for _ in range(2):
            message = await consumer.getone()
            print(f"{message.topic}-{message.partition}@{message.offset}: {message.value.decode()}")
        await consumer.commit()


async def main() -> None:
    async with Broker() as broker:
        broker.create_topic("orders")
        await produce(broker.bootstrap_servers)
        await consume(broker.bootstrap_servers)
        print(f"billing continues at {broker.committed('billing')['orders', 0].offset}")


if __name__ == "__main__":
    asyncio.run(main())
