"""Consume, transform, produce: each record of one topic becomes one of another, exactly once (confluent-kafka).

Prints:

    before the commit billing continues at the beginning
    after the commit billing continues at 2
    a reader of committed records sees ONE, TWO
"""

from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_offsets import Broker


def consumer(bootstrap_servers: str, group: str, topic: str) -> Consumer:
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    made = Consumer(settings)
    made.subscribe([topic])
    return made


def take_two(reader: Consumer) -> list[str]:
    return [message.value().decode() for message in reader.consume(2, timeout=10)]


def run(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "billing-0"})
    producer.init_transactions()
    producer.begin_transaction()
    for text in ("one", "two"):
        producer.produce("orders", text)
    producer.commit_transaction()
    orders = consumer(broker.bootstrap_servers, "billing", "orders")
    producer.begin_transaction()
    for text in take_two(orders):
        producer.produce("invoices", text.upper())
    place = TopicPartition("orders", 0, 2)
    producer.send_offsets_to_transaction([place], orders.consumer_group_metadata())
    assert not broker.committed("billing")
    print("before the commit billing continues at the beginning")
    producer.commit_transaction()
    print("after the commit billing continues at", broker.committed("billing")["orders", 0].offset)
    invoices = consumer(broker.bootstrap_servers, "audit", "invoices")
    print("a reader of committed records sees", ", ".join(take_two(invoices)))
    orders.close()
    invoices.close()


if __name__ == "__main__":
    with Broker() as started:
        started.create_topic("orders")
        started.create_topic("invoices")
        run(started)
