"""A flaky network, scripted: a consumer that must not lose or repeat anything, whatever happens to its connection.

`copy` represents your code. Each fault occurs once, at a bad moment.

Prints:

    copied: 0 1 2 3 4 5 6 7 8 9
    billing continues at 10
    struck: close coordinator_moved drop half_answer
"""

from kafka import KafkaConsumer, KafkaProducer

from kafka_offsets.testing import Broker

COUNT = 10


def copy(bootstrap_servers: str) -> list[str]:
    """The code under test: read everything once, and commit after each record."""
    with KafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        request_timeout_ms=2000,
        heartbeat_interval_ms=400,
        retry_backoff_ms=20,
    ) as consumer:
        copied: dict[int, str] = {}
        while len(copied) < COUNT:
            record = next(consumer)
            copied[record.offset] = record.value.decode()
            consumer.commit(timeout_ms=20_000)
        return list(copied.values())


def main() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(COUNT):
                producer.send("orders", b"%d" % number)
        faults = broker.faults
        faults.close("JoinGroup", n=1)  # the connection breaks while the consumer joins
        faults.half_answer("Fetch", n=1)  # or in the middle of its records
        faults.drop("Fetch", n=1)  # an answer that never comes
        faults.coordinator_moved("billing", n=1)
        print("copied:", *copy(broker.bootstrap_servers))
        print(f"billing continues at {broker.committed('billing')['orders', 0].offset}")
        assert not faults.active
        print("struck:", *sorted(fault.kind for fault in faults.struck))


if __name__ == "__main__":
    main()
