"""Clusters: what each node answers, what moves, and what becomes of a node that stops."""

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from kafka_offsets.broker.replicas import manager
from kafka_offsets.broker.turn.background_task import Pacing
from kafka_offsets.client import commits
from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ConfigError, ConnectionLostError, ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.testing import Cluster, group_stable
from kafka_offsets.testing.broker_cluster import ClusterServer
from kafka_offsets.testing.clock import ManualClock
from kafka_offsets.testing.server.events import Event, record_produced
from tests.drivers.members import join_request
from tests.slowness import slowness

SETUP_LIMIT_MS = 50

NOT_LEADER, NOT_COORDINATOR = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR


@pytest.fixture
def cluster():
    with Cluster(record=True) as running:
        running.create_topic("orders", 6)
        yield running


def ask(cluster: Cluster, node: int, request, version: int):
    """Have a node answer."""
    found = next(each for each in cluster.nodes if each.id == node)
    with Connection(found.host, found.port, 20) as connection:
        return connection.call(request, version)


def metadata(cluster: Cluster, node: int, *topics: str):
    asked = [messages.MetadataRequest.Topic(name=name) for name in topics]
    return ask(cluster, node, messages.MetadataRequest(asked), 12)


def produce(cluster: Cluster, node: int, *partitions: int, acks: int = -1, version: int = 10):
    request = messages.ProduceRequest
    data = [request.PartitionProduceData(i, bytes(encode_batch([(b"k", b"v", (), 0)]))) for i in partitions]
    topic = request.TopicProduceData("orders", partition_data=data)
    return ask(cluster, node, request(acks=acks, timeout_ms=60_000, topic_data=[topic]), version)


def fetch(cluster: Cluster, node: int, *partitions: int, epoch: int = -1, topic: str = "orders"):
    request = messages.FetchRequest
    (found,) = metadata(cluster, node, topic).topics
    wanted = [request.FetchPartition(i, epoch, 0, partition_max_bytes=1 << 20) for i in partitions]
    asked = request(
        max_wait_ms=0,
        min_bytes=1,
        session_epoch=-1,
        topics=[request.FetchTopic(topic_id=found.topic_id, partitions=wanted)],
    )
    return ask(cluster, node, asked, 16)


def join(group: str = "billing", member_id: str = "") -> messages.MessageValue:
    return join_request(group, member_id, rebalance_ms=10_000)


def rebalances(core):
    """Whether members are waited for; what an Event asks."""
    group = core.runtime.shard_of("billing", core.clock.now()).shard.groups["billing"]
    return group.state.name == "PREPARING_REBALANCE" or None


REBALANCING = Event("the group rebalances", rebalances, lambda core: "it does not")


# -- what nodes say of themselves


def test_setting_up_and_tearing_down_takes_milliseconds() -> None:
    times, before = [], slowness()
    for _ in range(5):
        began = time.process_time()
        with Cluster(record=True):
            pass
        times.append((time.process_time() - began) * 1000)
    assert min(times) < SETUP_LIMIT_MS * max(before, slowness())


def test_every_node_names_all_of_them_and_spreads_leaders(cluster: Cluster) -> None:
    addresses = [(node.id, node.host, node.port) for node in cluster.nodes]
    assert [node_id for node_id, _, _ in addresses] == [1, 2, 3]
    assert cluster.bootstrap_servers == ",".join(f"{host}:{port}" for _, host, port in addresses)
    for node in (1, 2, 3):
        answer = metadata(cluster, node, "orders")
        assert [(each.node_id, each.host, each.port) for each in answer.brokers] == addresses
        (topic,) = answer.topics
        assert [each.leader_id for each in topic.partitions] == [1, 2, 3, 1, 2, 3]
        assert [each.replica_nodes for each in topic.partitions[:3]] == [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        described = ask(cluster, node, messages.DescribeClusterRequest(), 1)
        assert [(each.broker_id, each.host, each.port) for each in described.brokers] == addresses
        assert (described.controller_id, answer.controller_id) == (1, 1)
    pages = ask(cluster, 2, messages.DescribeTopicPartitionsRequest(), 0)
    assert [each.leader_id for each in pages.topics[0].partitions] == [1, 2, 3, 1, 2, 3]


def test_coordinators_are_spread_by_the_usual_hash(cluster: Cluster) -> None:
    groups = [f"group-{number}" for number in range(30)]
    answer = ask(cluster, 1, messages.FindCoordinatorRequest(key_type=0, coordinator_keys=groups), 6)
    told = {each.key: each.node_id for each in answer.coordinators}
    assert told == {group: cluster.coordinator(group) for group in groups}
    assert set(told.values()) == {1, 2, 3}
    (described,) = metadata(cluster, 1, "__consumer_offsets").topics
    assert described.partitions[7].leader_id == cluster.leader("__consumer_offsets", 7) == 2
    old = ask(cluster, 1, messages.FindCoordinatorRequest(key="tx", key_type=1), 3)
    assert old.node_id == cluster.coordinator(transactional_id="tx")
    assert old.port == cluster.nodes[old.node_id - 1].port


def test_a_cluster_may_have_other_ids_and_numbers() -> None:
    with Cluster({"node.id": 0, "default.replication.factor": 1}, brokers=2) as cluster:
        cluster.create_topic("t", 3)
        assert [node.id for node in cluster.nodes] == [0, 1]
        assert [each.replica_nodes for each in metadata(cluster, 0, "t").topics[0].partitions] == [
            [0],
            [1],
            [0],
        ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"brokers": 0}, "between 1 and 100 brokers, not 0"),
        ({"config": {"log.dirs": "/tmp/x"}}, "a cluster is in memory"),
        ({"config": {"advertised.listeners": "PLAINTEXT://h:1"}}, "advertised.listeners is for one broker"),
    ],
)
def test_what_a_cluster_cannot_be_is_reported(arguments, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Cluster(**arguments)


# -- the wrong node


def test_a_node_refuses_the_partitions_that_others_lead_and_names_their_leaders(cluster: Cluster) -> None:
    answer = produce(cluster, 1, 0, 1, 3, 5)
    found = {each.index: each for each in answer.responses[0].partition_responses}
    assert {index: each.error_code for index, each in found.items()} == {
        0: 0,
        1: NOT_LEADER,
        3: 0,
        5: NOT_LEADER,
    }
    assert [found[index].current_leader.leader_id for index in (1, 5)] == [2, 3]
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [
        (node.id, node.port) for node in cluster.nodes[1:]
    ]
    assert {record.partition for record in cluster.consume_all("orders")} == {0, 3}

    cluster.produce("orders", ["x"] * 6)
    create(cluster, "alone", 1, 1)
    assert cluster.leader("alone") == 1
    read = fetch(cluster, 2, 0, topic="alone")
    ((refused,),) = (topic.partitions for topic in read.responses)
    assert (refused.error_code, refused.current_leader.leader_id, refused.records) == (NOT_LEADER, 1, b"")
    assert [each.node_id for each in read.node_endpoints] == [1]


def test_a_producer_that_gives_a_topic_by_its_id_learns_the_leader(cluster: Cluster) -> None:
    (topic,) = metadata(cluster, 1, "orders").topics
    request = messages.ProduceRequest
    data = request.PartitionProduceData(1, bytes(encode_batch([(b"k", b"v", (), 0)])))
    named = request.TopicProduceData(topic_id=topic.topic_id, partition_data=[data])
    (answered,) = ask(cluster, 1, request(acks=-1, timeout_ms=60_000, topic_data=[named]), 13).responses
    (refused,) = answered.partition_responses
    assert answered.topic_id == topic.topic_id
    assert (refused.error_code, refused.current_leader.leader_id) == (NOT_LEADER, 2)


def test_a_producer_without_acks_is_disconnected_by_the_wrong_node(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConnectionLostError):
        produce(cluster, 1, 0, 1, acks=0)
    cluster.wait_for(record_produced("orders", 0))
    assert [record.partition for record in cluster.consume_all("orders")] == [0]
    assert caplog.messages == []


def test_a_node_knows_offsets_and_epochs_of_what_it_leads_alone(cluster: Cluster) -> None:
    request = messages.ListOffsetsRequest
    partitions = [request.ListOffsetsPartition(index, -1, -1) for index in range(3)]
    asked = request(topics=[request.ListOffsetsTopic("orders", partitions)])
    answer = ask(cluster, 3, asked, 7)
    assert [each.error_code for each in answer.topics[0].partitions] == [NOT_LEADER, NOT_LEADER, 0]
    ending = messages.OffsetForLeaderEpochRequest
    asked = ending(
        topics=[ending.OffsetForLeaderTopic("orders", [ending.OffsetForLeaderPartition(0, -1, 0)])]
    )
    assert ask(cluster, 2, asked, 4).topics[0].partitions[0].error_code == NOT_LEADER


def test_a_node_refuses_groups_and_transactions_of_others(cluster: Cluster) -> None:
    here = cluster.coordinator("billing")
    elsewhere = here % 3 + 1
    assert ask(cluster, elsewhere, join(), 5).error_code == NOT_COORDINATOR
    assert ask(cluster, here, join(), 5).error_code == ErrorCode.MEMBER_ID_REQUIRED
    partition = messages.OffsetCommitRequest.Partition(0, 1)
    commit = messages.OffsetCommitRequest(
        "billing", topics=[messages.OffsetCommitRequest.Topic("orders", partitions=[partition])]
    )
    assert ask(cluster, elsewhere, commit, 7).topics[0].partitions[0].error_code == NOT_COORDINATOR
    assert ask(cluster, here, commit, 7).topics[0].partitions[0].error_code == 0
    home = cluster.coordinator(transactional_id="tx")
    init = messages.InitProducerIdRequest("tx", 1000)
    assert ask(cluster, home % 3 + 1, init, 4).error_code == NOT_COORDINATOR
    assert ask(cluster, home, init, 4).error_code == 0
    assert ask(cluster, home % 3 + 1, messages.InitProducerIdRequest(None, 1000), 4).error_code == 0


def test_a_transactional_id_has_another_coordinator_than_the_group_of_its_name(cluster: Cluster) -> None:
    home = cluster.coordinator("tx")
    moved = cluster.move_coordinator(transactional_id="tx", to=home % 3 + 1)
    assert cluster.coordinator("tx") == home != moved
    init = messages.InitProducerIdRequest("tx", 1000)
    assert ask(cluster, home, init, 4).error_code == NOT_COORDINATOR
    assert ask(cluster, moved, init, 4).error_code == 0


def test_a_request_of_several_groups_is_answered_for_those_of_the_node(cluster: Cluster) -> None:
    groups = [f"group-{number}" for number in range(6)]
    for group in groups:
        cluster.commit(group, {("orders", 0): 1})
    mine = {group for group in groups if cluster.coordinator(group) == 2}
    assert 0 < len(mine) < len(groups)
    asked = [messages.OffsetFetchRequest.Group(group, topics=None) for group in groups]
    answer = ask(cluster, 2, messages.OffsetFetchRequest(groups=asked), 8)
    assert [each.group_id for each in answer.groups] == groups
    assert {each.group_id for each in answer.groups if not each.error_code} == mine
    assert {each.error_code for each in answer.groups} == {0, NOT_COORDINATOR}
    described = ask(cluster, 2, messages.DescribeGroupsRequest(groups), 5)
    assert {each.group_id for each in described.groups if not each.error_code} == mine
    listed = ask(cluster, 2, messages.ListGroupsRequest(), 3)
    assert {each.group_id for each in listed.groups} == mine
    deleted = ask(cluster, 2, messages.DeleteGroupsRequest(groups), 2)
    assert {each.group_id for each in deleted.results if not each.error_code} == mine
    assert all(bool(cluster.committed(group)) is (group not in mine) for group in groups)


# -- moves


def test_a_leader_moves_in_a_new_epoch(cluster: Cluster) -> None:
    cluster.produce("orders", ["a"], partition=0)
    assert cluster.move_leader("orders", 0) == 2 == cluster.leader("orders", 0)
    assert cluster.move_leader("orders", 0, to=3) == 3
    moved = metadata(cluster, 1, "orders").topics[0].partitions[0]
    assert (moved.leader_id, moved.leader_epoch, moved.replica_nodes) == (3, 2, [1, 2, 3])
    assert produce(cluster, 1, 0).responses[0].partition_responses[0].error_code == NOT_LEADER
    assert produce(cluster, 3, 0).responses[0].partition_responses[0].base_offset == 1
    (fenced,) = fetch(cluster, 3, 0, epoch=0).responses[0].partitions
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (fenced.current_leader.leader_id, fenced.current_leader.leader_epoch) == (3, 2)
    ending = messages.OffsetForLeaderEpochRequest
    asked = ending(
        topics=[ending.OffsetForLeaderTopic("orders", [ending.OffsetForLeaderPartition(0, -1, 0)])]
    )
    (end,) = ask(cluster, 3, asked, 4).topics[0].partitions
    assert (end.leader_epoch, end.end_offset) == (0, 1)


def test_a_coordinator_that_moves_knows_members_and_offsets_from_its_log(cluster: Cluster) -> None:
    here = cluster.coordinator("billing")
    member = ask(cluster, here, join(), 5).member_id
    assert ask(cluster, here, join(member_id=member), 5).error_code == 0
    assignment = messages.SyncGroupRequest.Assignment(member, b"all")
    sync = messages.SyncGroupRequest("billing", 1, member, None, assignments=[assignment])
    assert ask(cluster, here, sync, 3).error_code == 0
    cluster.commit("elsewhere", {("orders", 0): 7})
    there = cluster.move_coordinator("billing")
    assert there == here % 3 + 1
    beat = messages.HeartbeatRequest("billing", 1, member)
    assert ask(cluster, here, beat, 3).error_code == NOT_COORDINATOR
    assert ask(cluster, there, beat, 3).error_code == 0
    view = cluster.wait_for(group_stable("billing", members=1))
    assert [each.member_id for each in view.members] == [member]
    cluster.move_coordinator("elsewhere", to=cluster.coordinator("elsewhere") % 3 + 1)
    cluster.assert_committed("elsewhere", {("orders", 0): 7})


def test_a_waiting_join_is_answered_when_the_coordinator_has_moved() -> None:
    """Time stands still: on a machine that paused for 10 s, the first member's session ended, and nothing waited."""
    with Cluster(record=True, clock=ManualClock()) as cluster:
        here = cluster.coordinator("billing")
        node = cluster.nodes[here - 1]
        first = ask(cluster, here, join(), 5).member_id
        assert first and ask(cluster, here, join(member_id=first), 5).leader == first
        second = ask(cluster, here, join(), 5).member_id
        with Connection(node.host, node.port, 20) as connection, ThreadPoolExecutor(1) as pool:
            answer = pool.submit(connection.call, join(member_id=second), 5)
            cluster.wait_for(REBALANCING)  # for the first member, which does not come
            cluster.move_coordinator("billing")
            assert answer.result(20).error_code == NOT_COORDINATOR


def test_a_node_that_is_no_replica_becomes_one_when_it_leads() -> None:
    with Cluster({"default.replication.factor": 2}, brokers=4) as cluster:
        cluster.create_topic("t", 1)
        assert cluster.move_leader("t", to=4) == 4
        (partition,) = metadata(cluster, 1, "t").topics[0].partitions
        assert (partition.leader_id, partition.replica_nodes) == (4, [4, 2])


@pytest.mark.parametrize(
    ("move", "said"),
    [
        (lambda cluster: cluster.move_leader("nothing"), "topic nothing does not exist"),
        (lambda cluster: cluster.move_leader("orders", 6), "topic orders has no partition 6"),
        (lambda cluster: cluster.move_leader("orders", to=4), "there is no node 4, only 1, 2, 3"),
        (lambda cluster: cluster.stop_node(9), "there is no node 9, only 1, 2, 3"),
        (lambda cluster: cluster.start_node(1), "node 1 runs already"),
        (
            lambda cluster: (cluster.stop_node(2), cluster.move_leader("orders", to=2)),
            "node 2 is stopped and cannot lead orders-0",
        ),
        (lambda cluster: (cluster.stop_node(2), cluster.stop_node(2)), "node 2 is stopped already"),
        (
            lambda cluster: (cluster.stop_node(2), cluster.stop_node(3), cluster.move_leader("orders")),
            r"no other replica of orders-0 is up: \[1, 2, 3\], leader 1",
        ),
    ],
)
def test_what_cannot_move_is_reported(cluster: Cluster, move, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        move(cluster)


# -- nodes


def test_no_other_process_takes_the_port_of_a_stopped_node(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    for leave in (cluster.stop_node, cluster.kill):
        leave(2)
        with socket.socket() as other, pytest.raises(OSError, match="already in use"):
            other.bind((node.host, node.port))
        cluster.start_node(2)
        assert ask(cluster, 2, messages.ApiVersionsRequest(), 0).error_code == 0
    cluster.stop_node(2)
    cluster.stop()
    with socket.socket() as other:
        other.bind((node.host, node.port))


def test_a_node_that_stops_is_removed_and_others_lead_what_it_led(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    with Connection(node.host, node.port, 20) as connection:
        connection.call(messages.ApiVersionsRequest(), 0)
        cluster.stop_node(2)
        with pytest.raises(ConnectionLostError):
            connection.call(messages.ApiVersionsRequest(), 0)
    with pytest.raises(ConnectionLostError, match="refused"):
        ask(cluster, 2, messages.ApiVersionsRequest(), 0)
    answer = metadata(cluster, 1, "orders")
    assert [each.node_id for each in answer.brokers] == [1, 3]
    second = answer.topics[0].partitions[1]
    assert (second.leader_id, second.leader_epoch) == (3, 1)
    assert (second.isr_nodes, second.offline_replicas) == ([3, 1], [2])
    cluster.start_node(2)
    assert cluster.nodes[1] == node
    assert [each.leader_id for each in metadata(cluster, 2, "orders").topics[0].partitions] == [
        1,
        3,
        3,
        1,
        3,
        3,
    ]
    assert cluster.elect_preferred_leaders() == 2
    assert [each.leader_id for each in metadata(cluster, 2, "orders").topics[0].partitions] == [
        1,
        2,
        3,
        1,
        2,
        3,
    ]


def test_a_connection_accepted_while_its_node_stops_is_closed(cluster: Cluster) -> None:
    """It has left the listener's queue, so closing the listener does not end it: `admit` does."""
    node = cluster.nodes[1]
    client = socket.socket()
    client.settimeout(20)

    async def stop_while_accepting(server: ClusterServer) -> None:
        client.connect((node.host, node.port))
        for _ in range(2):  # the selector sees the connection, asyncio accepts it
            await asyncio.sleep(0)
        await server._stop(2)

    with client:
        cluster._until(lambda server: server._run(stop_while_accepting(server)))
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
    cluster.start_node(2)
    assert ask(cluster, 2, messages.ApiVersionsRequest(), 0).error_code == 0
    cluster.stop()  # waits for every connection that it knows of


def test_a_partition_with_one_replica_has_no_leader_while_its_node_is_stopped() -> None:
    with Cluster({"default.replication.factor": 1}) as cluster:
        cluster.create_topic("t", 3)
        cluster.produce("t", ["a", "b", "c"])
        cluster.stop_node(3)
        (topic,) = metadata(cluster, 1, "t").topics
        assert [each.leader_id for each in topic.partitions] == [1, 2, -1]
        assert topic.partitions[2].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert cluster.leader("t", 2) == -1
        cluster.start_node(3)
        assert cluster.leader("t", 2) == 3
        assert [record.value for record in cluster.consume_all("t", 2)] == [b"c"]


def test_a_group_whose_partition_has_no_leader_has_no_coordinator() -> None:
    with Cluster({"offsets.topic.replication.factor": 1}) as cluster:
        cluster.create_topic("orders", 1)
        cluster.commit("billing", {("orders", 0): 3})
        gone = cluster.coordinator("billing")
        cluster.stop_node(gone)
        asked = messages.FindCoordinatorRequest(key_type=0, coordinator_keys=["billing"])
        (found,) = ask(cluster, gone % 3 + 1, asked, 6).coordinators
        assert (found.error_code, found.error_message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
        assert (found.node_id, found.host, found.port) == (-1, "", -1)


def test_all_nodes_may_stop_and_start(cluster: Cluster) -> None:
    cluster.commit("billing", {("orders", 0): 3})
    for node in (1, 2, 3):
        cluster.stop_node(node)
    assert cluster.leader("orders", 0) == -1 == cluster.coordinator("billing")
    cluster.start_node(3)
    assert cluster.leader("orders", 0) == 3 == cluster.coordinator("billing")
    cluster.assert_committed("billing", {("orders", 0): 3})


# -- administrators


def create(cluster: Cluster, name: str, partitions: int = -1, factor: int = -1, assigned=()):
    request = messages.CreateTopicsRequest
    placed = [request.CreatableReplicaAssignment(index, list(ids)) for index, ids in enumerate(assigned)]
    asked = request(topics=[request.CreatableTopic(name, partitions, factor, placed, [])], timeout_ms=1000)
    (answer,) = ask(cluster, 1, asked, 5).topics
    return answer


def test_topics_have_the_replicas_that_their_creator_wants(cluster: Cluster) -> None:
    assert create(cluster, "one", 2, 1).replication_factor == 1
    assert create(cluster, "default", 1).replication_factor == 3
    refused = create(cluster, "four", 1, 4)
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 3 broker(s) are registered" in refused.error_message
    assert create(cluster, "placed", assigned=[(3, 1), (2, 3)]).replication_factor == 2
    placed = metadata(cluster, 1, "placed").topics[0].partitions
    assert [(each.leader_id, each.replica_nodes) for each in placed] == [(3, [3, 1]), (2, [2, 3])]
    assert (
        create(cluster, "wrong", assigned=[(4,)]).error_message
        == "The manual partition assignment includes broker 4, but no such broker is registered."
    )


def test_partitions_are_reassigned_and_leaders_elected(cluster: Cluster) -> None:
    request = messages.AlterPartitionReassignmentsRequest
    wanted = request.ReassignablePartition(0, [3, 2])
    asked = request(topics=[request.ReassignableTopic("orders", [wanted])], timeout_ms=1000)
    assert ask(cluster, 2, asked, 0).responses[0].partitions[0].error_code == 0
    assert cluster.leader("orders", 0) == 3
    cluster.move_leader("orders", 0)
    assert cluster.leader("orders", 0) == 2
    election = messages.ElectLeadersRequest
    topics = [election.TopicPartitions("orders", [0, 1])]
    for refused in (election(7, topics, 1000), election(0, topics, 0), election(0, None, 0)):
        for version in (1, 2):
            assert ask(cluster, 1, refused, version).error_code
    assert [
        each.error_code
        for each in ask(cluster, 1, election(0, topics, 0), 0).replica_election_results[0].partition_result
    ] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    assert cluster.leader("orders", 0) == 2
    results = ask(cluster, 1, election(0, [election.TopicPartitions("orders", [0, 1])], 1000), 2)
    found = {
        each.partition_id: each.error_code for each in results.replica_election_results[0].partition_result
    }
    assert found == {0: 0, 1: ErrorCode.ELECTION_NOT_NEEDED}
    assert cluster.leader("orders", 0) == 3


def test_a_node_is_asked_for_its_own_configuration(cluster: Cluster) -> None:
    request = messages.DescribeConfigsRequest
    asked = request(resources=[request.DescribeConfigsResource(4, "2", ["num.partitions"])])
    assert ask(cluster, 2, asked, 4).results[0].error_code == 0
    assert ask(cluster, 1, asked, 4).results[0].error_code == ErrorCode.INVALID_REQUEST
    resources = ask(cluster, 1, messages.ListConfigResourcesRequest([4]), 1).config_resources
    assert [each.resource_name for each in resources] == ["1", "2", "3"]


# -- with the rest


def test_a_fault_may_strike_one_node(cluster: Cluster) -> None:
    with cluster.faults.error("Metadata", ErrorCode.LEADER_NOT_AVAILABLE, node=2, topic="orders") as fault:
        found = [metadata(cluster, node, "orders").topics[0].error_code for node in (1, 2, 3)]
    assert found == [0, ErrorCode.LEADER_NOT_AVAILABLE, 0]
    assert (fault.hits, "node=2" in repr(fault)) == (1, True)
    with cluster.faults.leader_moved("orders", 0, node=1):
        assert fetch(cluster, 1, 0).responses[0].partitions[0].error_code == NOT_LEADER
        assert fetch(cluster, 2, 1).responses[0].partitions[0].error_code == 0
    with cluster.faults.delay("Produce", ms=1):
        answer = produce(cluster, 1, 0, 1).responses[0].partition_responses
        assert [each.error_code for each in answer] == [0, NOT_LEADER]


def test_requests_are_recorded_with_their_node(cluster: Cluster) -> None:
    metadata(cluster, 3, "orders")
    (recorded,) = cluster.requests.of("Metadata", node=3)
    assert recorded.node == 3
    assert "node 3, topic orders" in str(recorded)
    assert not cluster.requests.of(node=1)


def test_a_snapshot_is_restored_although_leaders_have_moved(cluster: Cluster) -> None:
    cluster.produce("orders", ["a"], partition=1)
    cluster.commit("billing", {("orders", 0): 3})
    snapshot = cluster.snapshot()
    cluster.produce("orders", ["b"], partition=1)
    cluster.stop_node(2)
    cluster.restore(snapshot)
    assert [record.value for record in cluster.consume_all("orders")] == [b"a"]
    cluster.assert_committed("billing", {("orders", 0): 3})
    assert metadata(cluster, 1, "orders").topics[0].partitions[1].leader_id == 3


def test_a_clock_moves_a_cluster() -> None:
    clock = ManualClock()
    with Cluster(clock=clock) as cluster:
        cluster.create_topic("orders")
        cluster.commit("billing", {("orders", 0): 3})
        cluster.move_coordinator("billing")
        clock.advance(8 * 86_400_000)
        assert cluster.committed("billing") == {}


def test_a_description_names_the_nodes(cluster: Cluster) -> None:
    cluster.stop_node(2)
    lines = cluster.describe().splitlines()
    assert lines[1] == f"node 2 {cluster.nodes[1].address}, stopped"


# --- roles that are taken in steps

ONE_REPLICA = {"default.replication.factor": 1, "offsets.topic.replication.factor": 1}


@pytest.fixture
def slow_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine: no role is taken at once."""
    monkeypatch.setattr(manager, "_AT_ONCE_MS", -1)
    monkeypatch.setattr(manager, "_STEP_MS", -1)
    monkeypatch.setattr(manager, "_STEPS", Pacing(fixed_ms=60_000))


def test_a_node_leads_what_a_test_asks_for_at_once(slow_roles: None) -> None:
    with Cluster(ONE_REPLICA) as cluster:
        cluster.create_topic("orders", 30)
        for partition in reversed(range(30)):
            cluster.produce("orders", [{"value": "x", "partition": partition}])
        assert len(cluster.consume_all("orders")) == 30
        for number in range(6):
            assert cluster.committed(f"absent-{number}") == {}
            cluster.commit(f"group-{number}", {("orders", 0): number})
            assert cluster.committed(f"group-{number}")["orders", 0].offset == number


def test_a_node_leads_and_coordinates_what_a_client_asks_for_at_once(slow_roles: None) -> None:
    with Cluster(ONE_REPLICA) as cluster:
        cluster.create_topic("orders", 12)
        for partition in reversed(range(12)):
            answer = produce(cluster, cluster.leader("orders", partition), partition, acks=1)
            assert answer.responses[0].partition_responses[0].error_code == 0
        for number in range(6):
            request = commits.request(f"group-{number}", {("orders", 0): number}, {}, "")
            answer = ask(cluster, cluster.coordinator(f"group-{number}"), request, 8)
            commits.check(f"group-{number}", answer, {})
