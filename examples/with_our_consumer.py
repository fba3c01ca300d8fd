"""The package's own consumer: two members of a group in one thread, and what each does in its callbacks.

Prints:

    one gets 4 partitions
    one gives up 2 partitions
    two gets 2 partitions
    20 records are read, and 20 are committed
"""

from kafka_offsets.client import Consumer
from kafka_offsets.testing import Broker


class Member(Consumer):
    """A member of the group billing. By default the callbacks read and commit offsets."""

    def __init__(self, name: str, bootstrap_servers: str) -> None:
        super().__init__(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "billing",
                "partition.assignment.strategy": "cooperative-sticky",
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 50,
            }
        )
        self.name = name
        self.count = 0
        self.is_closing = False
        self.subscribe("orders")

    def on_partition_assigned(self, partitions: list[tuple[str, int]]) -> None:
        super().on_partition_assigned(partitions)
        self.count += len(partitions)
        if partitions:
            print(f"{self.name} gets {len(partitions)} partitions")

    def on_partition_deassigned(self, partitions: list[tuple[str, int]]) -> None:
        super().on_partition_deassigned(partitions)
        self.count -= len(partitions)
        if not self.is_closing:
            print(f"{self.name} gives up {len(partitions)} partitions")


with Broker() as broker:
    broker.create_topic("orders", 4)
    broker.produce("orders", range(10))
    with Member("one", broker.bootstrap_servers) as one, Member("two", broker.bootstrap_servers) as two:
        read = 0
        while read < 10:
            read += len(one.poll(100))
        broker.produce("orders", range(10))
        while read < 20 or (one.count, two.count) != (2, 2):
            read += len(one.poll(20)) + len(two.poll(20))
        one.is_closing = two.is_closing = True
    committed = sum(each.offset for each in broker.committed("billing").values())
    print(f"{read} records are read, and {committed} are committed")
