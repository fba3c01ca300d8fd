"""Settings and administration of a cluster: what is altered at one node is in force at every node."""

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.security.delegation_token import DelegationToken
from kafka_offsets.testing import Cluster
from kafka_offsets.testing.broker_cluster import ClusterServer
from kafka_offsets.testing.server.events import Event
from tests.storage.directory.test_client_settings import TOKEN

SHA_256 = 1
GROUP, BROKER = 32, 4
SESSION = "consumer.session.timeout.ms"
NODES = (1, 2, 3)


@pytest.fixture
def cluster():
    with Cluster() as running:
        yield running


def ask(cluster: Cluster, node: int, request, version: int):
    """Have a node answer."""
    found = next(each for each in cluster.nodes if each.id == node)
    with Connection(found.host, found.port, 20) as connection:
        return connection.call(request, version)


def at_nodes(cluster: Cluster, read):
    """What each node that is up has, as `read` finds it."""
    return cluster._in_cluster(lambda server: {each.node_id: read(each.core) for each in server.servers})


# -- settings


def set_group(cluster: Cluster, node: int, value: str | None) -> None:
    made = messages.IncrementalAlterConfigsRequest
    change = made.AlterableConfig(SESSION, 1 if value is None else 0, value)
    answer = ask(cluster, node, made([made.AlterConfigsResource(GROUP, "billing", [change])], False), 1)
    assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]


def group_timeout(cluster: Cluster, node: int) -> str:
    made = messages.DescribeConfigsRequest
    answer = ask(cluster, node, made([made.DescribeConfigsResource(GROUP, "billing", [SESSION])]), 4)
    return answer.results[0].configs[0].value


def test_quotas_throttle_at_every_node_and_replication_at_none(cluster: Cluster) -> None:
    cluster.create_topic("t")
    cluster.set_quota(
        client_id="<default>", producer_byte_rate=1, consumer_byte_rate=1, request_percentage=1e-9
    )
    throttles = [ask(cluster, node, messages.MetadataRequest([]), 9).throttle_time_ms for node in NODES]
    assert throttles == [1000] * 3
    for _ in range(3):
        cluster.produce("t", [b"x" * 10_000])  # with acks=all: followers fetch it
    assert cluster.in_sync("t") == [1, 2, 3]


def set_quota(cluster: Cluster, node: int, user: str, rate: float | None) -> None:
    made = messages.AlterClientQuotasRequest
    op = made.OpData("consumer_byte_rate", rate or 0.0, rate is None)
    answer = ask(cluster, node, made([made.EntryData([made.EntityData("user", user)], [op])], False), 1)
    assert [each.error_code for each in answer.entries] == [ErrorCode.NONE]


def quotas(cluster: Cluster, node: int) -> dict[str, float]:
    answer = ask(cluster, node, messages.DescribeClientQuotasRequest([], False), 1)
    return {each.entity[0].entity_name: each.values[0].value for each in answer.entries}


def set_password(cluster: Cluster, node: int, user: str) -> None:
    made = messages.AlterUserScramCredentialsRequest
    answer = ask(
        cluster, node, made([], [made.ScramCredentialUpsertion(user, SHA_256, 4096, b"salt", b"pw")]), 0
    )
    assert [each.error_code for each in answer.results] == [ErrorCode.NONE]


def remove_password(cluster: Cluster, node: int, user: str) -> None:
    made = messages.AlterUserScramCredentialsRequest
    answer = ask(cluster, node, made([made.ScramCredentialDeletion(user, SHA_256)], []), 0)
    assert [each.error_code for each in answer.results] == [ErrorCode.NONE]


def users(cluster: Cluster, node: int) -> list[str]:
    answer = ask(cluster, node, messages.DescribeUserScramCredentialsRequest(None), 0)
    return sorted(each.user for each in answer.results)


def described(cluster: Cluster, node: int) -> tuple[str, dict[str, float], list[str]]:
    return group_timeout(cluster, node), quotas(cluster, node), users(cluster, node)


def set_all(cluster: Cluster, node: int) -> None:
    set_group(cluster, node, "50000")
    set_quota(cluster, node, "alice", 10.0)
    set_password(cluster, node, "alice")


def remove_all(cluster: Cluster, node: int) -> None:
    set_group(cluster, node, None)
    set_quota(cluster, node, "alice", None)
    remove_password(cluster, node, "alice")


ALL = ("50000", {"alice": 10.0}, ["alice"])
NOTHING = ("45000", {}, [])


def in_force(core: BrokerCore) -> int | None:
    """The session timeout that the coordinator of this node gives the members of the group."""
    found = core.group_configs.settings.get("billing")
    return None if found is None else found.consumer_session_timeout_ms


def test_settings_altered_at_one_node_are_described_and_in_force_at_every_node(cluster) -> None:
    set_all(cluster, 2)
    assert [described(cluster, node) for node in NODES] == [ALL] * 3
    assert at_nodes(cluster, in_force) == dict.fromkeys(NODES, 50000)
    remove_all(cluster, 3)
    assert [described(cluster, node) for node in NODES] == [NOTHING] * 3
    assert at_nodes(cluster, in_force) == dict.fromkeys(NODES, None)


def test_changes_of_different_nodes_add_up(cluster) -> None:
    set_quota(cluster, 1, "alice", 10.0)
    set_password(cluster, 1, "alice")
    set_quota(cluster, 2, "bob", 20.0)
    set_password(cluster, 2, "bob")
    for node in NODES:
        assert quotas(cluster, node) == {"alice": 10.0, "bob": 20.0}
        assert users(cluster, node) == ["alice", "bob"]


@pytest.mark.parametrize("end", ["stop_node", "kill"])
def test_a_node_that_was_down_has_what_was_altered_in_the_meantime(cluster, end: str) -> None:
    getattr(cluster, end)(3)
    set_all(cluster, 1)
    cluster.start_node(3)
    assert described(cluster, 3) == ALL
    getattr(cluster, end)(3)
    remove_all(cluster, 1)
    cluster.start_node(3)
    assert described(cluster, 3) == NOTHING


def test_a_node_that_was_cut_off_has_what_was_altered_in_the_meantime(cluster) -> None:
    cluster.partition({1, 2}, {3})
    set_all(cluster, 1)
    assert described(cluster, 3) == NOTHING
    cluster.heal()
    assert described(cluster, 3) == ALL


def test_settings_are_in_snapshots(cluster) -> None:
    empty = cluster.snapshot()
    set_all(cluster, 1)
    full = cluster.snapshot()
    cluster.restore(empty)
    assert [described(cluster, node) for node in NODES] == [NOTHING] * 3
    cluster.restore(full)
    assert [described(cluster, node) for node in NODES] == [ALL] * 3
    remove_all(cluster, 2)
    assert [described(cluster, node) for node in NODES] == [NOTHING] * 3


def test_a_token_made_at_one_node_is_known_at_every_node(cluster) -> None:
    cluster._in_cluster(lambda server: server.cores[0].settings.set_tokens({TOKEN.token_id: TOKEN}))
    assert at_nodes(cluster, known_tokens) == dict.fromkeys(NODES, (TOKEN,))
    cluster.kill(2)
    cluster._in_cluster(lambda server: server.cores[1].settings.set_tokens({}))
    cluster.start_node(2)
    assert at_nodes(cluster, known_tokens) == dict.fromkeys(NODES, ())


def known_tokens(core: BrokerCore) -> tuple[DelegationToken, ...]:
    return tuple(core.directory.clients.tokens.values())


def test_the_metadata_show_no_secret(cluster) -> None:
    set_password(cluster, 1, "alice")

    def read(server: ClusterServer) -> tuple[str, bytes]:
        stored = server.cores[0].directory.clients.credentials["alice", SHA_256]
        return repr(server.metadata.image), stored.stored_key

    text, key = cluster._in_cluster(read)
    assert "alice" in text
    assert repr(key) not in text
    assert "salt" not in text


# -- what an administrator asks a node that does not lead


NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def create(cluster: Cluster, node: int, name: str, assignments) -> tuple[int, str | None]:
    made = messages.CreateTopicsRequest
    placed = [made.CreatableReplicaAssignment(index, list(replicas)) for index, replicas in assignments]
    answer = ask(cluster, node, made([made.CreatableTopic(name, -1, -1, placed, [])], 10_000, False), 7)
    return answer.topics[0].error_code, answer.topics[0].error_message


def write_marker(cluster: Cluster, node: int, topic: str, index: int = 0) -> int:
    made = messages.WriteTxnMarkersRequest
    marker = made.WritableTxnMarker(77, 0, True, [made.WritableTxnMarkerTopic(topic, [index])], 0)
    answer = ask(cluster, node, made([marker]), 1)
    return answer.markers[0].topics[0].partitions[0].error_code


@pytest.fixture
def placed(cluster) -> str:
    """A topic with replicas at the nodes 1 and 2; node 1 leads."""
    assert create(cluster, 3, "placed", [(0, (1, 2))]) == (NONE, None)
    return "placed"


def test_a_follower_appends_no_marker(cluster, placed: str) -> None:
    assert write_marker(cluster, 2, placed) == NOT_LEADER
    assert write_marker(cluster, 3, placed) == UNKNOWN
    assert write_marker(cluster, 1, placed) == NONE
    assert cluster.leader(placed) == 1
    ends = at_nodes(
        cluster, lambda core: [each.log.log_end_offset for each in core.topics.get(placed).open_partitions]
    )
    assert ends == {1: [1], 2: [1], 3: []}


def logs(cluster: Cluster, node: int, topic: str) -> list[int]:
    """The partitions of a topic that a node has logs of, as it describes them all, and by name."""
    made = messages.DescribeLogDirsRequest
    every = ask(cluster, node, made(None), 4)
    named = ask(cluster, node, made([made.DescribableLogDirTopic(topic, [0, 1, 2, 9])]), 4)
    found = [
        {each.name: [log.partition_index for log in each.partitions] for each in answer.results[0].topics}
        for answer in (every, named)
    ]
    assert found[0].get(topic) == found[1].get(topic)
    return found[0].get(topic, [])


def reassign(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    made = messages.AlterPartitionReassignmentsRequest
    wanted = made.ReassignableTopic(topic, [made.ReassignablePartition(0, replicas)])
    answer = ask(cluster, 1, made(5000, True, [wanted]), 1)
    assert answer.responses[0].partitions[0].error_code == NONE


def test_a_node_describes_the_logs_of_its_own_replicas(cluster) -> None:
    assert create(cluster, 1, "placed", [(0, (2, 1)), (1, (3, 1))]) == (NONE, None)
    assert [logs(cluster, node, "placed") for node in NODES] == [[0, 1], [0], [1]]


def test_a_replica_that_has_moved_away_is_not_described(cluster, placed: str) -> None:
    reassign(cluster, placed, [3])
    cluster.wait_for(Event("node 3 is the only replica", moved_to_3, lambda _: "it is not"))
    assert [logs(cluster, node, placed) for node in NODES] == [[], [], [0]]


def moved_to_3(core):
    """Whether node 3 is the only replica; what an Event asks."""
    topic = core.topics.get("placed")
    return (topic is not None and core.topics._image.state("placed", 0).replicas == (3,)) or None


def test_log_directories_are_altered_for_own_replicas_only(cluster, placed: str) -> None:
    made = messages.AlterReplicaLogDirsRequest

    def alter(node: int, index: int) -> int:
        path = ask(cluster, node, messages.DescribeLogDirsRequest([]), 4).results[0].log_dir
        asked = made([made.AlterReplicaLogDir(path, [made.AlterReplicaLogDirTopic(placed, [index])])])
        return ask(cluster, node, asked, 2).results[0].partitions[0].error_code

    assert [alter(node, 0) for node in NODES] == [NONE, NONE, ErrorCode.REPLICA_NOT_AVAILABLE]
    assert [alter(node, 1) for node in NODES] == [UNKNOWN] * 3


def test_each_replica_describes_producers(cluster, placed: str) -> None:
    made = messages.DescribeProducersRequest

    def describe(node: int, topic: str, index: int) -> tuple[int, int]:
        answer = ask(cluster, node, made([made.TopicRequest(topic, [index])]), 0).topics[0].partitions[0]
        return answer.error_code, len(answer.active_producers)

    produce_idempotently(cluster, placed)
    assert [describe(node, placed, 0) for node in NODES] == [(NONE, 1), (NONE, 1), (NOT_LEADER, 0)]
    assert [describe(node, placed, 1) for node in NODES] == [(UNKNOWN, 0)] * 3


def produce_idempotently(cluster: Cluster, topic: str) -> None:
    """Have node 1 append a record of a producer to partition 0; all in-sync replicas have it then."""
    made = messages.ProduceRequest
    batch = bytes(encode_batch([(b"k", b"v", (), 0)], producer_id=77, producer_epoch=0, base_sequence=0))
    asked = made(
        acks=-1,
        timeout_ms=5000,
        topic_data=[made.TopicProduceData(topic, partition_data=[made.PartitionProduceData(0, batch)])],
    )
    assert ask(cluster, 1, asked, 10).responses[0].partition_responses[0].error_code == NONE


# -- where an administrator places replicas


ASSIGNMENT = "The manual partition assignment includes"


def inconsistent(count: int, before: int) -> tuple[int, str]:
    message = f"{ASSIGNMENT} a partition with {count} replica(s), but this is not consistent with previous partitions"
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{message}, which have {before} replica(s)."


def test_all_partitions_of_a_new_topic_have_the_same_number_of_replicas(cluster) -> None:
    assert create(cluster, 1, "orders", [(0, (2, 3)), (1, (3,))]) == inconsistent(1, 2)
    assert create(cluster, 1, "orders", [(1, (1, 2)), (0, (1,))]) == inconsistent(1, 2)
    unknown = f"{ASSIGNMENT} broker 9, but no such broker is registered."
    assert create(cluster, 1, "orders", [(0, (1,)), (1, (9, 2))]) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        unknown,
    )
    assert create(cluster, 1, "orders", [(0, (2, 3)), (1, (3, 1))]) == (NONE, None)


def test_new_partitions_have_as_many_replicas_as_the_others(cluster, placed: str) -> None:
    made = messages.CreatePartitionsRequest

    def grow(count: int, *assignments: list[int]) -> tuple[int, str | None]:
        new = [made.CreatePartitionsAssignment(each) for each in assignments]
        answer = ask(cluster, 3, made([made.CreatePartitionsTopic(placed, count, new)], 10_000, False), 3)
        return answer.results[0].error_code, answer.results[0].error_message

    assert grow(2, [1]) == inconsistent(1, 2)
    assert grow(3, [2, 3], [1, 2, 3]) == inconsistent(3, 2)
    assert grow(2, [3, 1]) == (NONE, None)
    assert [logs(cluster, node, placed) for node in NODES] == [[0, 1], [0], [1]]


def test_a_follower_fetches_a_topic_that_another_node_has_created(cluster, placed: str) -> None:
    """No request reaches node 2, so nothing but the change of the metadata ended its turn."""
    produce_idempotently(cluster, placed)
    ends = at_nodes(
        cluster, lambda core: [each.log.log_end_offset for each in core.topics.get(placed).open_partitions]
    )
    assert ends == {1: [1], 2: [1], 3: []}


# -- what a node says of the others


def test_all_nodes_are_voters(cluster) -> None:
    made = messages.DescribeQuorumRequest
    asked = made([made.TopicData("__cluster_metadata", [made.PartitionData(0)])])
    cluster.stop_node(1)
    for node in (2, 3):
        answer = ask(cluster, node, asked, 2)
        (partition,) = answer.topics[0].partitions
        assert partition.leader_id == 2
        assert [each.replica_id for each in partition.current_voters] == [1, 2, 3]
        assert [each.last_fetch_timestamp > 0 for each in partition.current_voters] == [False, True, True]
        addresses = [(each.node_id, each.listeners[0].host, each.listeners[0].port) for each in answer.nodes]
        assert addresses == [(each.id, each.host, each.port) for each in cluster.nodes]


def test_every_node_lists_the_groups_that_have_a_configuration(cluster) -> None:
    def listed(node: int) -> list[tuple[int, str]]:
        answer = ask(cluster, node, messages.ListConfigResourcesRequest([GROUP]), 1)
        return [(each.resource_type, each.resource_name) for each in answer.config_resources]

    set_group(cluster, 1, "50000")
    assert [listed(node) for node in NODES] == [[(GROUP, "billing")]] * 3
    set_group(cluster, 2, None)
    assert [listed(node) for node in NODES] == [[]] * 3


def test_elections_say_why_no_leader_moves(cluster, placed: str) -> None:
    made = messages.ElectLeadersRequest

    def elect(topics, kind: int = 0) -> list[tuple[int, str | None]]:
        answer = ask(cluster, 3, made(kind, topics, 5000), 2)
        assert [each.topic for each in answer.replica_election_results] == [placed]
        found = answer.replica_election_results[0].partition_result
        return [(each.error_code, each.error_message) for each in found]

    one = [made.TopicPartitions(placed, [0])]
    needless = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    gone = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
    assert elect(one) == [needless]
    assert elect(None) == []  # those that need no election are excluded
    cluster.stop_node(1)
    assert elect(one) == elect(None) == [gone]
    assert elect(one, 1) == [needless]
    assert elect(None, 1) == []


# -- DeleteRecords


def delete_records(cluster: Cluster, node: int, topic: str, timeout_ms: int) -> tuple[int, int]:
    made = messages.DeleteRecordsRequest
    wanted = made.DeleteRecordsTopic(topic, [made.DeleteRecordsPartition(0, -1)])
    answer = ask(cluster, node, made([wanted], timeout_ms), 2).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


def log_starts(cluster: Cluster, topic: str) -> dict[int, list[int]]:
    return at_nodes(
        cluster, lambda core: [each.log.log_start_offset for each in core.topics.get(topic).open_partitions]
    )


def test_records_are_deleted_when_every_replica_has_deleted_them(cluster, placed: str) -> None:
    produce_idempotently(cluster, placed)
    assert delete_records(cluster, 2, placed, 10_000) == (NOT_LEADER, -1)
    assert delete_records(cluster, 1, placed, 10_000) == (NONE, 1)
    assert log_starts(cluster, placed) == {1: [1], 2: [1], 3: []}


def test_a_deletion_that_a_replica_does_not_make_times_out(cluster, placed: str) -> None:
    produce_idempotently(cluster, placed)
    cluster.partition({1, 3}, {2})
    assert delete_records(cluster, 1, placed, 100) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    cluster.kill(2)  # replicas that are down do not count
    assert delete_records(cluster, 1, placed, 10_000) == (NONE, 1)
