"""A mock consumer's rebalance does not call the listener that tells of partitions revoked and assigned.

Here partitions move because a second member comes. Asked in https://github.com/apache/kafka/pull/7539.
"""

from confluent_kafka import Consumer


def test_rebalance_listeners_are_called(kafka_broker):
    kafka_broker.create_topic("orders", 2)
    settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "heartbeat.interval.ms": 100}
    heard, (first, second) = [], [Consumer(settings | {"group.id": "billing"}) for _ in range(2)]

    def hear(_, places):
        heard.append(len(places))

    first.subscribe(["orders"], on_assign=hear, on_revoke=hear)
    while len(heard) < 1:  # both are assigned
        first.poll(0.02)
    second.subscribe(["orders"])
    while len(heard) < 3:  # both are revoked, one is assigned
        first.poll(0.02)
        second.poll(0.02)
    assert heard == [2, 2, 1]
