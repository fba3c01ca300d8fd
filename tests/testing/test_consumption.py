"""What an observer remembers of members, on the core."""

from kafka_offsets.protocol import messages
from kafka_offsets.testing.server.consumption import Consumption, Observation
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
    assert (len(observed._kept), len(observed._assigned)) == (1, 1)
    for client in (classic.client, modern):
        core.disconnect(client.connection)
    assert not observed._kept
    assert not observed._assigned
