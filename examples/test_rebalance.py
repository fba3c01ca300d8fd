"""A test of a rebalance: a worker commits before it gives partitions up, so its work is not done again.

pytest examples/test_rebalance.py
"""

from collections import Counter

import pytest
from confluent_kafka import Consumer

from kafka_offsets.testing import group_stable

PARTITIONS, RECORDS = 4, 40


class Worker:
    """The code under test."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.done: list[bytes] = []
        self.committed = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,
            }
        )
        self.consumer.subscribe(["orders"], on_revoke=self.give_up)

    def give_up(self, consumer: Consumer, partitions: list) -> None:
        if len(self.done) > self.committed:  # librdkafka raises _NO_OFFSET when there is nothing to commit
            consumer.commit(asynchronous=False)
            self.committed = len(self.done)

    def work(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.done.append(message.value())


@pytest.mark.kafka(topics={"orders": PARTITIONS})
def test_no_order_is_done_twice_when_a_worker_comes(kafka_broker):
    kafka_broker.produce("orders", [str(number) for number in range(RECORDS)])
    workers = [Worker(kafka_broker.bootstrap_servers)]
    while len(workers[0].done) < RECORDS // 4:
        workers[0].work()
    workers.append(Worker(kafka_broker.bootstrap_servers))
    while len(workers[0].done + workers[1].done) < RECORDS or not kafka_broker.group("billing").is_settled:
        for worker in workers:
            worker.work()
    group = kafka_broker.wait_for(group_stable("billing", members=2))
    assert [len(member.partitions) for member in group.members] == [2, 2]
    assert set(Counter(workers[0].done + workers[1].done).values()) == {1}
    for worker in workers:
        worker.consumer.close()
    kafka_broker.assert_lag("billing", 0)
