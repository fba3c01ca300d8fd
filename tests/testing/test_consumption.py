"""What an observer remembers of members, on the core."""

import pytest

from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.testing.server.consumption import Consumption, Observation, Reader
from tests.drivers.core import CoreClient, make_core
from tests.drivers.members import GroupMember, Heartbeat


def test_members_that_crash_are_forgotten_with_their_connection() -> None:
    # A member that crashes leaves no group: a broker for a whole session of tests remembered each for ever.
    core = make_core(group_initial_rebalance_delay_ms=0)
    observed = Observation(Consumption(), core.topics.topic_name)
    core.responses.observer = observed
    classic = GroupMember(core)
    classic.send_join()
    classic.client.turn()
    classic.take_join()
    modern = CoreClient(core)
    modern.call(
        messages.CreateTopicsRequest([messages.CreateTopicsRequest.CreatableTopic("t", 1, 1)], 1000), 7
    )
    joins = Heartbeat(
        "h", "m", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert modern.call(joins, 1).assignment.topic_partitions
    assert (len(observed._joined_with), len(observed._assigned)) == (1, 1)
    for client in (classic.client, modern):
        core.disconnect(client.connection)
    assert not observed._joined_with
    assert not observed._assigned


def test_a_member_that_leaves_has_read_its_own_partitions() -> None:
    consumption, reader = Consumption(), Reader("w1", "127.0.0.1")
    consumption.fetched("one", reader, {("t", 0): 0, ("u", 0): 5})
    consumption.fetched("one", reader, {("t", 0): 2, ("u", 0): 7})
    consumption.left_group("billing", reader, {("t", 0), ("t", 1)})
    assert consumption.last_left == {"billing": (reader, {("t", 0): (0, 2)})}


@pytest.mark.parametrize("connections", [("one", "two"), ("two", "one")])
def test_clients_of_one_name_have_read_from_the_first_to_the_last_offset(
    connections: tuple[str, str],
) -> None:
    consumption, reader = Consumption(), Reader("w1", "127.0.0.1")
    for connection in connections:
        consumption.fetched(connection, reader, {("t", 0): 0 if connection == "one" else 2})
    consumption.fetched("one", reader, {("t", 0): 2})
    found: dict[Reader, dict[TopicPartition, tuple[int, int]]] = {}
    consumption.add_positions(consumption.connections(), found)
    assert found == {reader: {("t", 0): (0, 2)}}


def test_of_so_many_groups_the_last_member_that_left_is_known() -> None:
    consumption = Consumption()
    for number in range(1200):
        consumption.left_group(f"g{number}", Reader("w1", "127.0.0.1"), ())
    assert len(consumption.last_left) == 1000 and "g199" not in consumption.last_left
