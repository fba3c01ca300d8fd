"""`serve --brokers 3` over SASL_SSL between brokers and to clients: processes, and clients of others."""

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.drivers.secured_cluster import Keys
from tests.interop.broker_process import COMMAND, OVERRIDE
from tests.interop.cluster_process import ClusterProcess
from tests.interop.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(OVERRIDE is not None, reason="another command has no --brokers"),
]

PATIENCE_S = 20


def test_records_and_commits_survive_the_end_of_a_broker(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    properties = tmp_path / "server.properties"
    settings = keys.config | {
        "listeners": "CLIENTS://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,INTERNAL:SASL_SSL",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.users": "broker=broker-hush,alice=alice-hush",
        "sasl.inter.broker.user": "broker",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:alice",
        "offsets.topic.num.partitions": "1",
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="ascii")
    cluster = ClusterProcess(tmp_path / "data", settings={})
    cluster._command = [*COMMAND, "--brokers", "3", "--config", str(properties), "--topic", "orders:1"]
    client = {
        "bootstrap.servers": cluster.start(),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": "alice-hush",
        "ssl.ca.location": keys.truststore,
        "retry.backoff.ms": 20,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 100,
        "log_level": 0,
    }
    place, failed = TopicPartition("orders", 0), []
    producer = Producer(client | {"acks": "all"})

    def produce(number: int) -> None:
        producer.produce(
            "orders", b"%d" % number, on_delivery=lambda error, _: error and failed.append(error)
        )
        assert producer.flush(PATIENCE_S) == 0

    with closing(Consumer(client | {"group.id": "billing", "enable.auto.commit": False})) as consumer:
        produce(1)
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        leader = consumer.list_topics("orders", PATIENCE_S).topics["orders"].partitions[0].leader
        cluster.kill_broker(leader)
        produce(2)
        assert consumer.committed([place], PATIENCE_S)[0].offset == 1
        consumer.assign([TopicPartition("orders", 0, 0)])
        assert [message.value() for message in consumer.consume(2, PATIENCE_S)] == [b"1", b"2"]

        def in_sync() -> int:
            return len(consumer.list_topics("orders", PATIENCE_S).topics["orders"].partitions[0].isrs)

        until(lambda: in_sync() == 3, "the broker is started again and in sync")
    cluster.stop()
    assert not failed
    assert not [line for line in cluster.log if "hush" in line]
