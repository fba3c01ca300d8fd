"""Calls with an argument of another type are refused, where they would otherwise answer for something else."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from kafka_offsets.client import Admin
from kafka_offsets.testing import Broker, Cluster, allow, caught_up, committed
from kafka_offsets.testing.factory import BrokerFactory
from kafka_offsets.testing.strategies import offset_histories

ADMIN = Admin({"bootstrap.servers": "127.0.0.1:1"})
ACL = allow("alice", "READ", topic="orders")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda broker: broker.lag("g", topics="orders"), "a list of topics"),
        (
            lambda broker: broker.lag("g", topics=[b"orders"]),
            "a list of topics is expected; it has b'orders'",
        ),
        (lambda broker: broker.overview("billing"), "a list of groups"),
        (lambda broker: broker.wait_for(caught_up("g", "orders")), "a list of topics"),
        (lambda broker: broker.wait_for(committed("g", {"orders": 1})), "a dict .*topic, partition"),
        (lambda broker: broker.add_acls([ACL]), "a list of ACLs"),
        (lambda broker: broker.create_topic("t", True), "the number of partitions is True"),
        (lambda broker: broker.create_topic("t", config=["retention.ms=1"]), "its config is a dict"),
        (lambda _: Broker(topics="orders"), "a list of topics"),
        (lambda _: Broker(topics={"orders": "3"}), "topic 'orders': a number of partitions"),
        (lambda _: Broker(topics={"orders": {"configs": {}}}), "topic 'orders': 'configs' is neither"),
        (lambda _: Broker(acls=ACL), "a list of ACLs"),
        (lambda _: BrokerFactory()(topics="orders"), "a list of topics"),
        (lambda _: Cluster(topics="orders"), "a list of topics"),
        (lambda _: ADMIN.delete_consumer_groups("billing"), "a list of groups"),
        (lambda _: offset_histories(groups="billing"), "a list of groups"),
        (lambda _: offset_histories(topics="orders"), "a list of topics"),
    ],
)
def test_what_would_be_taken_for_something_else_is_refused(
    broker: Broker, call: Callable[[Broker], Any], said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        call(broker)


@pytest.fixture(scope="module")
def broker() -> Any:
    with Broker(topics=["orders"]) as running:
        running.produce("orders", ["a"])
        running.commit("g", {("orders", 0): 0})
        yield running


def test_a_broker_names_its_address() -> None:
    broker = Broker()
    assert repr(broker) == "<Broker, not running>"
    with broker:
        assert repr(broker) == f"<Broker at {broker.bootstrap_servers}>"
    with Cluster(brokers=2) as cluster:
        assert repr(cluster) == f"<Cluster at {cluster.bootstrap_servers}>"


@pytest.mark.parametrize("kind", [Broker, Cluster])
def test_a_broker_begins_with_its_topics(kind: type[Broker]) -> None:
    topics = {"orders": 3, "prices": {"config": {"cleanup.policy": "compact", "segment.bytes": 1 << 20}}}
    with kind(topics=topics) as broker:
        counts = {
            name: broker._call(lambda server, name=name: server.core.topics.get(name)) for name in topics
        }
        assert {name: each.partition_count for name, each in counts.items()} == {"orders": 3, "prices": 1}
        assert counts["prices"].configs == {"cleanup.policy": "compact", "segment.bytes": "1048576"}


def test_topics_of_a_directory_stay_and_refused_ones_stop_the_start(tmp_path: Any) -> None:
    for _ in range(2):
        with Broker(data_directory=tmp_path, topics=["orders"]) as broker:
            broker.produce("orders", ["a"])
    assert broker._thread is None
    wrong = Broker(data_directory=tmp_path, topics={"prices": {"config": {"no.such.key": 1}}})
    with pytest.raises(ValueError, match=r"topic 'prices': .*no\.such\.key"):
        wrong.start()
    with Broker(data_directory=tmp_path) as broker:
        assert len(broker.consume_all("orders")) == 2


def _public_methods(which: type) -> list[str]:
    return [name for name, each in inspect.getmembers(which, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("name", _public_methods(Broker))
def test_a_wrong_keyword_names_the_public_class(name: str) -> None:
    with pytest.raises(
        TypeError, match=rf"^Broker\.{name}\(\) got an unexpected keyword argument 'nonsense'"
    ):
        getattr(Broker(), name)(nonsense=1)
