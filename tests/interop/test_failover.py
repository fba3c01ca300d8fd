"""Groups of real clients whose coordinator moves and dies: no group rebalances, and commits continue."""

from collections.abc import Callable

import pytest

from kafka_offsets.testing import Cluster, group_stable
from tests.interop import story
from tests.interop.waiting import until

pytestmark = pytest.mark.interop

GROUP, TOPIC, PARTITIONS = "billing", "orders", 4
SESSION_MS = 240_000
"""No session ends here, however long a busy machine keeps a client from its coordinator."""


class WatchedMember(story.Member):
    """A member that counts its assignments."""

    def __init__(self, command: list[str]) -> None:
        self.assignments: list[str] = []
        super().__init__(command, self._note)

    def _note(self, line: str) -> str:
        if line.startswith("assigned"):
            self.assignments.append(line)
        return line


def python_command(client: str, *settings: str) -> Callable[[str], list[str]]:
    """Return the function that makes the command of a member of members.py."""
    return lambda bootstrap: story.python_member(client, bootstrap, GROUP, TOPIC, "auto", *settings)


def kill_coordinator(cluster: Cluster) -> None:
    cluster.kill(cluster.coordinator(GROUP))


def start_killed(cluster: Cluster) -> None:
    (killed,) = (node.id for node in cluster.nodes if not node.is_up)
    cluster.start_node(killed)
    cluster.elect_preferred_leaders()


UPSETS: list[Callable[[Cluster], object]] = [
    lambda cluster: cluster.move_coordinator(GROUP),
    lambda cluster: cluster.move_leader(TOPIC, 0),
    kill_coordinator,
    start_killed,
]


def nobody_rebalances(command: Callable[[str], list[str]]) -> None:
    """Let two members read and commit while their coordinator moves, dies and returns."""
    with Cluster({"group.initial.rebalance.delay.ms": 0}) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        members: list[WatchedMember] = []
        try:
            for _ in range(2):
                members.append(WatchedMember(command(cluster.bootstrap_servers)))
            until(lambda: [len(each.assigned) for each in members] == [2, 2], "two members share the topic")
            group = cluster.wait_for(group_stable(GROUP, members=2))
            before = [list(each.assignments) for each in members]
            produced = 0
            for upset in [None, *UPSETS]:
                if upset is not None:
                    upset(cluster)
                cluster.produce(TOPIC, [str(number) for number in range(produced, produced + 20)])
                produced += 20
                until(lambda: read(members) == set(range(produced)), "all records are read")  # noqa: B023
                until(lambda: committed(cluster) == produced, "all is committed")  # noqa: B023
            after = cluster.wait_for(group_stable(GROUP, members=2))
            said = [member.log for member in members]
            assert (after.generation, after.members) == (group.generation, group.members), said
            assert [each.assignments for each in members] == before
        finally:
            story.leave_all(members)


def read(members: list[WatchedMember]) -> set[int]:
    """Return what all members have read; none has ended."""
    for member in members:
        member.assert_alive()
    return set[int]().union(*(each.values for each in members))


def committed(cluster: Cluster) -> int:
    """Return the sum of the group's offsets."""
    return sum(each.offset for each in cluster.committed(GROUP).values())


CLIENTS = {
    "confluent-kafka": python_command("confluent-kafka", f"session.timeout.ms={SESSION_MS}"),
    "confluent-kafka, consumer protocol": python_command("confluent-kafka", "group.protocol=consumer"),
    "kafka-python": python_command("kafka-python", f"session_timeout_ms={SESSION_MS}"),
    "aiokafka": python_command("aiokafka", f"session_timeout_ms={SESSION_MS}", "metadata_max_age_ms=500"),
    "kafka-offsets": python_command("kafka-offsets", f"session.timeout.ms={SESSION_MS}"),
    "kafka-offsets, consumer protocol": python_command("kafka-offsets", "group.protocol=consumer"),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_members_stay_while_their_coordinator_moves_and_dies(client: str) -> None:
    nobody_rebalances(CLIENTS[client])


@pytest.mark.java
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_in_java_stay_while_their_coordinator_moves_and_dies(
    java_client: list[str], protocol: str
) -> None:
    settings = [f"group.protocol={protocol}"]
    if protocol == "classic":
        settings.append(f"session.timeout.ms={SESSION_MS}")
    nobody_rebalances(lambda bootstrap: [*java_client, "member", bootstrap, GROUP, TOPIC, "auto", *settings])
