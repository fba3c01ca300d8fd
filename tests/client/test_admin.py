"""The admin client: groups, their offsets, and what can be deleted of them."""

from collections.abc import Iterator

import pytest

from kafka_offsets import CommitRefusedError, ConfigError, ErrorCode
from kafka_offsets.client import Admin
from kafka_offsets.errors import ConnectionLostError, RefusedError
from kafka_offsets.testing import Broker, Cluster
from tests.client.consumers import consumers

OFFSETS = {("t", 0): 3, ("t", 1): 4, ("u", 0): 5}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t", 2)
        running.create_topic("u", 1)
        yield running


@pytest.fixture
def admin(broker: Broker) -> Admin:
    return Admin({"bootstrap.servers": broker.bootstrap_servers})


def test_offsets_of_a_group_without_members_are_deleted_one_by_one(broker: Broker, admin: Admin) -> None:
    """KIP-496: each partition has its own error; deleting what is not there is none."""
    broker.commit("g", OFFSETS)
    wanted = [("t", 0), ("u", 0), ("t", 7), ("nowhere", 0)]
    assert admin.delete_consumer_group_offsets("g", wanted) == {
        ("t", 0): ErrorCode.NONE,
        ("u", 0): ErrorCode.NONE,
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert {place: each.offset for place, each in broker.committed("g").items()} == {("t", 1): 4}


def test_offsets_of_topics_that_a_member_reads_stay(broker: Broker, admin: Admin) -> None:
    broker.commit("g", OFFSETS)
    with consumers(broker.bootstrap_servers) as make:
        make("t").get_partitions()
        assert admin.delete_consumer_group_offsets("g", [("t", 1), ("u", 0)]) == {
            ("t", 1): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            ("u", 0): ErrorCode.NONE,
        }
        with pytest.raises(RefusedError, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups(["g"])
        described = admin.describe_consumer_group("g")
        assert (described.state, described.protocol) == ("Stable", "range")
        assert described.members[0].assigned == {("t", 0), ("t", 1)}
    assert {("t", 1)} <= admin.list_consumer_group_offsets("g").keys()


def test_a_group_that_does_not_exist_is_an_error_of_the_whole(admin: Admin) -> None:
    with pytest.raises(RefusedError, match="group g: GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_group_offsets("g", [("t", 0)])


def test_offsets_are_altered_listed_and_deleted_with_their_group(broker: Broker, admin: Admin) -> None:
    admin.alter_consumer_group_offsets("g", OFFSETS)
    found = admin.list_consumer_group_offsets("g")
    assert {place: each.offset for place, each in found.items()} == OFFSETS
    with pytest.raises(CommitRefusedError):
        admin.alter_consumer_group_offsets("g", {("nowhere", 0): 1})
    assert [each.group for each in admin.list_groups()] == ["g"]
    admin.delete_consumer_groups(["g"])
    assert (admin.list_groups(), broker.committed("g")) == ([], {})


def test_groups_of_all_brokers_are_found() -> None:
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("t", 1)
        admin = Admin({"bootstrap.servers": cluster.bootstrap_servers})
        names = [f"group-{number}" for number in range(9)]
        for name in names:
            admin.alter_consumer_group_offsets(name, {("t", 0): 1})
        assert [each.group for each in admin.list_groups()] == names


def test_a_second_address_is_tried_when_the_first_does_not_answer(broker: Broker) -> None:
    with Broker() as gone:
        first = gone.bootstrap_servers
    admin = Admin({"bootstrap.servers": f"{first},{broker.bootstrap_servers}"})
    assert admin.list_groups() == []
    with pytest.raises(ConnectionLostError, match=first):
        Admin({"bootstrap.servers": first, "default.api.timeout.ms": "100"}).list_groups()


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "h:1", "default.api.timeout.ms": "soon"}, "default.api.timeout.ms is soon: "),
        ({"bootstrap.servers": "h:1", "group.id": "g"}, "unknown keys of an admin client: group.id"),
        ({"bootstrap.servers": "h:1", "ssl.key.password": 7}, "ssl.key.password is a int, not a text"),
    ],
)
def test_wrong_properties_are_named(properties: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        Admin(properties)
