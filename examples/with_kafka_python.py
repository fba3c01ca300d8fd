"""A test of code that uses kafka-python: a broker of its own, in the test's process.

Prints:

    orders-0@0: first
    orders-0@1: second
    billing continues at 2
"""

from kafka import KafkaConsumer, KafkaProducer

from kafka_offsets import Broker


def produce(bootstrap_servers: str) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for value in (b"first", b"second"):
            producer.send("orders", value).get(timeout=10)


def consume(bootstrap_servers: str) -> None:
    with KafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        for _ in range(2):
            message = next(consumer)
            print(f"{message.topic}-{message.partition}@{message.offset}: {message.value.decode()}")
        consumer.commit()


def main() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        produce(broker.bootstrap_servers)
        consume(broker.bootstrap_servers)
        print(f"billing continues at {broker.committed('billing')['orders', 0].offset}")


if __name__ == "__main__":
    main()
