"""A test of code that uses confluent-kafka: an idempotent producer, a consumer group, a commit.

Prints:

    orders-0@0: first
    orders-0@1: second
    billing continues at 2
"""

from confluent_kafka import Consumer, Producer

from kafka_offsets import Broker


def produce(bootstrap_servers: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
    for value in ("first", "second"):
        producer.produce("orders", value)
    assert producer.flush(10) == 0


def consume(bootstrap_servers: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    for _ in range(2):
        message = consumer.poll(10)
        assert message is not None and message.error() is None
        value = message.value() or b""
        print(f"{message.topic()}-{message.partition()}@{message.offset()}: {value.decode()}")
    consumer.commit(asynchronous=False)
    consumer.close()


def main() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        produce(broker.bootstrap_servers)
        consume(broker.bootstrap_servers)
        print(f"billing continues at {broker.committed('billing')['orders', 0].offset}")


if __name__ == "__main__":
    main()
