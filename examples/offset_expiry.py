"""A week in a moment: what happens to a group without members, by a clock that the test moves.

Prints:

    after 6 days billing continues at 1
    after 8 days billing has no offset
    a consumer that comes back reads from the start: first
"""

from confluent_kafka import Consumer

from kafka_offsets.testing import Broker, ManualClock

DAY_MS = 86_400_000


def read_one(bootstrap_servers: str) -> str:
    """Read one record where the group continues, commit what comes next, and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(10)
    assert message is not None and message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()
    return (message.value() or b"").decode()


def main() -> None:
    clock = ManualClock()
    with Broker({"log.retention.hours": -1}, clock=clock) as broker:
        broker.create_topic("orders")
        broker.produce("orders", ["first", "second"])
        assert read_one(broker.bootstrap_servers) == "first"
        clock.advance(6 * DAY_MS)
        print(f"after 6 days billing continues at {broker.committed('billing')['orders', 0].offset}")
        clock.advance(2 * DAY_MS)
        assert broker.committed("billing") == {}
        print("after 8 days billing has no offset")
        print("a consumer that comes back reads from the start:", read_one(broker.bootstrap_servers))


if __name__ == "__main__":
    main()
