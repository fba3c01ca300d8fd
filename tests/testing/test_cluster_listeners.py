"""Listeners of a cluster: each node serves all of them, and clients get the addresses of theirs (KIP-103)."""

from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.client.connection import Connection
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity, Login
from kafka_offsets.errors import ConfigError, ErrorCode
from kafka_offsets.metadata.image import Brokers
from kafka_offsets.protocol import messages
from kafka_offsets.security.credential import Secret
from kafka_offsets.testing import Cluster
from tests.drivers.secured_cluster import Keys

TWO = {
    "listeners": "INTERNAL://127.0.0.1:0,CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "default.replication.factor": "1",
}
USERS = {"alice": "secret"}
LOGIN = ClientSecurity("SASL_PLAINTEXT", None, Login("PLAIN", "alice", Secret("secret")))


def addresses(cluster: Cluster, listener: str) -> dict[int, tuple[str, int]]:
    """The address of each node at a listener, as its sockets have it."""

    def read(server: Any) -> dict[int, tuple[str, int]]:
        return {each.node_id: each.core.broker.node.addresses[listener] for each in server.servers}

    return cluster._call(read)  # type: ignore[attr-defined]


def call(address: tuple[str, int], request: messages.MessageValue, version: int, *, is_client: bool = True):
    with Connection(*address, 20, LOGIN if is_client else PLAINTEXT) as connection:
        return connection.call(request, version)


@pytest.mark.parametrize("listener", ["INTERNAL", "CLIENTS"])
def test_clients_get_the_addresses_of_their_listener(listener: str) -> None:
    with Cluster(TWO, users=USERS) as cluster:
        cluster.create_topic("orders")
        expected = addresses(cluster, listener)
        asked = expected[1]
        assert cluster.address_of(listener) == ",".join(f"{host}:{port}" for host, port in expected.values())
        is_client = listener == "CLIENTS"

        metadata = call(asked, messages.MetadataRequest(None), 12, is_client=is_client)
        assert {each.node_id: (each.host, each.port) for each in metadata.brokers} == expected

        described = call(asked, messages.DescribeClusterRequest(), 0, is_client=is_client)
        assert {each.broker_id: (each.host, each.port) for each in described.brokers} == expected

        wanted = messages.FindCoordinatorRequest("billing")
        found = call(asked, wanted, 3, is_client=is_client)
        assert (found.host, found.port) == expected[found.node_id]


def test_a_stopped_node_returns_at_the_ports_of_all_its_listeners() -> None:
    with Cluster(TWO, users=USERS) as cluster:
        before = addresses(cluster, "CLIENTS")
        cluster.restart(2)
        assert addresses(cluster, "CLIENTS") == before


def test_a_node_without_the_listener_of_a_client_is_left_out() -> None:
    """Kafka answers LISTENER_NOT_FOUND for what this node leads, and earlier versions LEADER_NOT_AVAILABLE."""
    with Cluster(TWO, users=USERS) as cluster:
        cluster.create_topic("orders", partitions=3)

        def forget(server: Any) -> None:
            """Let all brokers know node 2 without the listener CLIENTS."""
            for each in server.servers:
                brokers = each._membership.image.brokers
                changed = brokers.by_id[2]._replace(listeners={"INTERNAL": ("127.0.0.1", 1)})
                each._membership.image.brokers = Brokers(
                    brokers.controller_id, dict(brokers.by_id) | {2: changed}
                )

        cluster._call(forget)  # type: ignore[attr-defined]
        asked = addresses(cluster, "CLIENTS")[1]
        led = [cluster.leader("orders", index) for index in range(3)]
        for version, error in (
            (12, ErrorCode.LISTENER_NOT_FOUND),
            (5, ErrorCode.LEADER_NOT_AVAILABLE),
        ):
            wanted = messages.MetadataRequest
            answer = call(asked, wanted([wanted.Topic(name="orders")]), version)
            assert {each.node_id for each in answer.brokers} == {1, 3}
            found = {each.partition_index: each for each in answer.topics[0].partitions}
            for index, leader in enumerate(led):
                expected = (error, -1) if leader == 2 else (ErrorCode.NONE, leader)
                assert (found[index].error_code, found[index].leader_id) == expected


def test_two_listeners_that_need_the_same_ports_are_a_mistake_of_the_operator() -> None:
    listeners = {"listeners": "A://:9092,B://:9093", "listener.security.protocol.map": "A:PLAINTEXT,B:SSL"}
    with pytest.raises(ConfigError, match="A and B both need 9093"):
        Cluster(listeners)
    Config.load(listeners)  # one broker needs one port for each


def test_clients_connect_to_every_node_with_tls(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    security = keys.client("alice", "secret", "SCRAM-SHA-256")
    with Cluster(keys.config | {"listeners": "SASL_SSL://127.0.0.1:0"}, users=USERS) as cluster:
        for node in cluster.nodes:
            with Connection(node.host, node.port, 20, security) as connection:
                answer = connection.call(messages.MetadataRequest([]), 12)
            assert {each.node_id for each in answer.brokers} == {1, 2, 3}
