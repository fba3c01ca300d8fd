"""`serve --brokers 3` over SASL_SSL between brokers and to clients: processes, and clients of others."""

import signal
import socket
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_offsets.broker.config.listeners import address_text
from kafka_offsets.client import acls
from kafka_offsets.client.connection import parse_address
from kafka_offsets.protocol import messages
from kafka_offsets.testing import allow
from tests.drivers.secured_cluster import NODES, Keys, SecuredCluster
from tests.interop.broker_process import COMMAND, OVERRIDE
from tests.interop.cluster_process import ClusterProcess
from tests.interop.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(OVERRIDE is not None, reason="another command has no --brokers"),
]

PATIENCE_S = 60
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def name_at(address: str, keys: Keys) -> str:
    """The name in the certificate of a broker."""
    tls = keys.client().tls
    host, port = parse_address(address)
    with tls.wrap_socket(socket.create_connection((host, port), PATIENCE_S), server_hostname=host) as peer:
        return peer.getpeercert()["subject"][0][0][1]


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
        "authorizer.class.name": AUTHORIZER,
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

    keys.authority.sign("renewed").write_pem(Path(keys.keystore))
    cluster._process.send_signal(signal.SIGHUP)
    for address in cluster.address.split(","):
        until(lambda address=address: name_at(address, keys) == "renewed", "certificates are loaded again")
    cluster.stop()
    assert not failed
    assert not [line for line in cluster.log if "hush" in line]


def test_transactions_of_a_client_end_at_the_leaders_of_their_partitions(tmp_path: Path) -> None:
    """Coordinators send markers to leaders, and leaders ask coordinators about transactions, with brokers' rights."""
    keys = Keys(tmp_path)
    config = keys.config | {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.users": "broker=broker-hush,alice=alice-hush",
        "sasl.inter.broker.user": "broker",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:broker",
        "transaction.state.log.num.partitions": "3",
    }
    rights = [
        allow("alice", "ALL", topic="orders"),
        allow("alice", "ALL", transactional_id="t", prefix=True),
        allow("alice", "READ", group="billing"),
    ]
    with SecuredCluster(config) as cluster:
        broker = keys.client("broker", "broker-hush")
        made = messages.CreateTopicsRequest
        cluster.call(1, made([made.CreatableTopic("orders", 3, 3)], 10_000), 5, broker)
        assert not any(
            each.error_code for each in cluster.call(1, acls.creation(rights), acls.VERSION, broker).results
        )
        client = {
            "bootstrap.servers": ",".join(address_text(*cluster.address(node)) for node in NODES),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "alice-hush",
            "ssl.ca.location": keys.truststore,
            "log_level": 0,
        }
        for number in range(3):  # with coordinators of their own
            producer = Producer(client | {"transactional.id": f"t{number}"})
            producer.init_transactions(PATIENCE_S)
            producer.begin_transaction()
            for partition in range(3):
                producer.produce("orders", b"%d" % number, partition=partition)
            producer.commit_transaction(PATIENCE_S)
        settings = {
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        with closing(Consumer(client | settings)) as consumer:
            consumer.subscribe(["orders"])
            read = consumer.consume(9, PATIENCE_S)
        assert sorted((each.partition(), each.value()) for each in read) == [
            (partition, b"%d" % number) for partition in range(3) for number in range(3)
        ]
