"""A test against a cluster with users and ACLs: clients have the same rights at every broker, also after a failover.

pytest examples/test_secured_cluster.py
"""

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from kafka_offsets.testing import Cluster, allow

USERS = {"shop": "its password", "billing": "another one"}
RIGHTS = [
    allow("shop", "WRITE", topic="orders"),
    allow("billing", "READ", topic="orders"),
    allow("billing", "READ", group="billing"),
]


@pytest.fixture
def cluster():
    with Cluster(users=USERS, acls=RIGHTS) as running:
        running.create_topic("orders")
        yield running


def settings(cluster: Cluster, user: str) -> dict:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": USERS[user],
    }


def order(cluster: Cluster, user: str) -> int:
    """Produce a record; return the error code, 0 for none."""
    outcomes: list[int] = []
    producer = Producer(settings(cluster, user))
    producer.produce(
        "orders", b"an order", callback=lambda error, _: outcomes.append(error.code() if error else 0)
    )
    producer.flush(20)
    return outcomes[0]


def test_only_the_shop_orders_whichever_broker_leads(cluster):
    for _ in range(2):
        assert order(cluster, "billing") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert order(cluster, "shop") == 0
        cluster.stop_node(cluster.leader("orders"))
    group = {"group.id": "billing", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings(cluster, "billing") | group)
    consumer.subscribe(["orders"])
    assert len(consumer.consume(2, 20)) == 2
    consumer.close()
    cluster.assert_lag("billing", 0)
