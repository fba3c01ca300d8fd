"""Replicas of one broker whose disk refuses or is slow, and topics that another broker creates at the same time."""

from contextlib import closing

import pytest

from kafka_offsets.broker.cluster.view import ClusterView
from kafka_offsets.broker.partition import log_opener
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.metadata.controller import PlacedTopic
from kafka_offsets.metadata.image import TopicPartition
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.replication.follower import FollowerReplica
from kafka_offsets.replication.leader import LeaderReplica, ReplicationSettings
from tests.broker.groups.test_shard_loader import LateBackground
from tests.drivers.core import CoreClient
from tests.drivers.replicas import OFFSETS, Node, broken, commit, ends, errors, repair


@pytest.fixture
def node():
    with closing(Node()) as made:
        yield made


def test_a_partition_that_cannot_be_opened_is_led_once_it_can(node):
    # It was reported and never led until the broker was started again, but took records meanwhile.
    broken(node.files, "orders-0")
    node.create("orders", [1])
    assert not ClusterView(node.membership.image).leads(node.core.broker, "orders", 0)
    repair(node.files)
    node.pass_time(1100)
    assert isinstance(node.partition().replica, LeaderReplica)
    assert ClusterView(node.membership.image).leads(node.core.broker, "orders", 0)


def list_offsets(index):
    made = messages.ListOffsetsRequest
    asked = made.ListOffsetsPartition(index, timestamp=-1)
    return made(topics=[made.ListOffsetsTopic("orders", [asked])]), 4


def produced(index):
    made = messages.ProduceRequest
    data = made.PartitionProduceData(index, bytes(encode_batch([(None, b"v", (), 0)])))
    return made(None, 1, 1000, [made.TopicProduceData("orders", partition_data=[data])]), 7


def fetched(*indexes):
    made = messages.FetchRequest
    asked = [made.FetchPartition(index, partition_max_bytes=1000) for index in indexes]
    return made(max_wait_ms=0, topics=[made.FetchTopic("orders", partitions=asked)]), 6


def codes(client):
    """Return the error code of each partition in the responses of a client."""
    return [
        partition.error_code
        for answer in client.take()
        for topic in getattr(answer, "responses", None) or answer.topics
        for partition in getattr(topic, "partition_responses", None) or topic.partitions
    ]


def test_requests_wait_for_the_log_of_a_partition_that_is_led_here(node, monkeypatch):
    # They were refused until a second after the log was open. A partition led elsewhere is refused at once.
    late = LateBackground()
    node.files.outlives_process, node.core.workers.background = True, late
    monkeypatch.setattr(log_opener, "_LONG_BYTES", 0)
    node.create("orders", [1, 2], [2, 1], [1, 2])
    clients = [CoreClient(node.core) for _ in range(3)]
    for client, request in zip(clients, (list_offsets, produced, fetched), strict=True):
        client.send(request(0))
        client.turn()
        assert not codes(client)
    elsewhere = CoreClient(node.core)
    for request in (list_offsets, produced, fetched):
        elsewhere.send(request(1))
        elsewhere.turn()
        assert codes(elsewhere) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    late.run(node.core)
    assert isinstance(node.partition().replica, LeaderReplica)
    node.clock.advance(1)
    node.core.run_due()
    node.core.end_turn()
    assert [codes(client) for client in clients] == [[0], [0], [0]]


def test_a_partition_whose_leader_moves_while_its_log_is_opened_is_refused(node, monkeypatch):
    late = LateBackground()
    node.files.outlives_process, node.core.workers.background = True, late
    monkeypatch.setattr(log_opener, "_LONG_BYTES", 0)
    node.create("orders", [1, 2])
    clients = [CoreClient(node.core) for _ in range(3)]
    for client, request in zip(clients, (list_offsets, produced, fetched), strict=True):
        client.send(request(0))
        client.turn()
    node.publish(node.metadata.controller.lead(TopicPartition("orders", 0), 2))
    late.run(node.core)
    node.clock.advance(1)
    node.core.run_due()
    node.core.end_turn()
    assert [codes(client) for client in clients] == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]] * 3
    assert node.partition().log.log_end_offset == 0


def test_another_replica_leads_a_partition_that_cannot_be_opened_here(node):
    # The partition was down as long as this disk refused it.
    broken(node.files, "orders-0")
    node.create("orders", [1, 2], [1])
    states = node.metadata.image.topics["orders"].partitions
    assert [(state.leader, state.isr) for state in states] == [(2, (2,)), (1, (1,))]
    assert not node.channels, "nothing is fetched while the disk refuses"
    repair(node.files)
    node.pass_time(2100)
    ((request, _),) = node.channels[2].sent
    assert request.replica_state.replica_epoch == node.metadata.image.brokers.by_id[1].epoch
    assert isinstance(node.partition(index=1).replica, LeaderReplica)


def test_a_topic_that_cannot_be_created_here_is_created_later_and_the_others_have_it_at_once(node):
    # The error reached the broker that had asked for the topic, and the brokers after this one never had the topic.
    broken(node.files, "")
    node.publish(node.metadata.controller.create([PlacedTopic("orders", b"o" * 16, [[1]], {})]))
    assert node.core.topics.get("orders") is None
    assert "orders" in node.metadata._members[3].image.topics
    repair(node.files)
    node.pass_time(1100)
    assert isinstance(node.partition().replica, LeaderReplica)


def new_topics(*names):
    made = messages.CreateTopicsRequest
    return made([made.CreatableTopic(name, 1, 2) for name in names], 5000)


def wanted_topics(*names):
    made = messages.MetadataRequest
    return made([made.Topic(name=name) for name in names], True)


def slow(node):
    """Let the disk take 100 ms for each log; return how many are open."""

    def opened(operation, path):
        if operation == "make" and path.startswith("many-"):
            node.clock.advance(100)
        return False

    node.files.only = opened
    return lambda: len(node.core.topics.get("many").open_partitions)


def test_many_logs_are_opened_in_steps_and_clients_are_served_between_them(node):
    # A broker was fenced while it opened the logs of a topic with thousands of partitions in one piece.
    count = slow(node)
    node.create("many", *([1, 2] if index % 2 else [2, 1] for index in range(40)))
    assert 0 < count() <= 10
    view = ClusterView(node.membership.image)
    assert view.leads(node.core.broker, "many", 1)
    assert [view.leads(node.core.broker, "many", index) for index in range(39, 25, -2)] == 5 * [True] + 2 * [
        False
    ]
    assert CoreClient(node.core).call(wanted_topics("many"), 8).topics[0].error_code == 0
    node.publish(node.metadata.controller.lead(TopicPartition("many", 37), 2))
    node.publish(node.metadata.controller.lead(TopicPartition("many", 38), 1))
    assert count() <= 15
    node.pass_time(10_000)
    assert count() == 40
    leaders = {
        index
        for index, each in enumerate(node.core.topics.get("many").partitions)
        if isinstance(each.replica, LeaderReplica)
    }
    assert leaders == {*range(1, 40, 2), 38} - {37}
    assert all(
        isinstance(each.replica, (LeaderReplica, FollowerReplica))
        for each in node.core.topics.get("many").partitions
    )


def test_a_topic_is_deleted_while_its_logs_are_opened(node):
    slow(node)
    node.create("many", *([1, 2] for _ in range(40)))
    node.publish(node.metadata.controller.delete(["many"]))
    node.create("many", [1, 2])
    node.pass_time(10_000)
    assert isinstance(node.partition("many").replica, LeaderReplica)
    assert not node.core.replicas._postponed


def test_the_creator_of_a_topic_that_cannot_be_stored_here_gets_an_error_and_the_cluster_has_it(node):
    # KeyError: UNKNOWN_SERVER_ERROR and a traceback.
    broken(node.files, "")
    client = CoreClient(node.core)
    (answered,) = client.call(new_topics("orders"), 7).topics
    assert (answered.error_code, answered.error_message) == (
        ErrorCode.KAFKA_STORAGE_ERROR,
        "The topic exists in the cluster, and this broker could not store it yet.",
    )
    (described,) = client.call(wanted_topics("bills"), 8).topics
    assert described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (
        client.call(messages.FindCoordinatorRequest("g", 0), 3).error_code
        == ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    assert {*node.metadata._members[3].image.topics} == {"orders", "bills", OFFSETS}
    repair(node.files)
    node.pass_time(1100)
    assert isinstance(node.partition("bills").replica, LeaderReplica)
    assert client.call(new_topics("orders"), 7).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def overtaken(node, *names):
    """Let another broker create topics just before the controller receives this one's next request for them."""
    create = node.membership.create

    def refused(topics):
        node.membership.create = create
        for name in names:
            created = PlacedTopic(name, name[:1].encode() * 16, [[1, 2]], {})
            node.metadata.publish(node.metadata.controller.create([created]))
        raise StorageError(f"another broker has created {', '.join(names)} in the meantime")

    node.membership.create = refused


def test_another_broker_creates_a_topic_at_the_same_time(node, caplog):
    # It was KAFKA_STORAGE_ERROR, and an error in the log; for the offsets topic after each start of a cluster.
    client = CoreClient(node.core)
    overtaken(node, "orders", "bills")
    answered = client.call(new_topics("orders", "new", "bills"), 7).topics
    exists = ErrorCode.TOPIC_ALREADY_EXISTS
    assert [(each.name, each.error_code) for each in answered] == [
        ("orders", exists),
        ("new", 0),
        ("bills", exists),
    ]
    assert answered[0].error_message == "Topic 'orders' already exists."
    overtaken(node, "first")
    described = client.call(wanted_topics("first", "second"), 8).topics
    assert [(each.name, each.error_code) for each in described] == [("first", 0), ("second", 0)]
    overtaken(node, OFFSETS)
    assert client.call(messages.FindCoordinatorRequest("g", 0), 3).error_code == 0
    overtaken(node, "__transaction_state")
    assert client.call(messages.FindCoordinatorRequest("g", 1), 3).error_code == 0
    assert caplog.messages == []


def test_a_topic_that_cannot_be_deleted_here_is_deleted_later(node):
    node.create("orders", [1, 2])
    broken(node.files, "")
    node.publish(node.metadata.controller.delete(["orders"]))
    repair(node.files)
    node.pass_time(1100)
    assert node.core.topics.get("orders") is None
    assert not node.core.replicas._by_log


def test_groups_of_a_partition_that_cannot_be_loaded_are_served_once_it_can(caplog):
    with closing(Node(offsets_topic_replication_factor=1)) as node:
        groups_are_served_once_their_partition_is_loaded(node, caplog)


def groups_are_served_once_their_partition_is_loaded(node, caplog):
    node.create("t", [1])
    broken(node.files, f"{OFFSETS}-0")
    client = CoreClient(node.core)
    commit(client)
    caplog.clear()
    commit(client)  # each request of a broker that starts was logged as an error of its own
    assert caplog.messages == []
    assert errors(client.take()) == [ErrorCode.NOT_COORDINATOR] * 2
    repair(node.files)
    node.pass_time(1100)
    commit(client)
    assert errors(client.take()) == [ErrorCode.NONE]


def test_a_partition_that_cannot_be_added_here_is_refused_alone(node):
    # IndexError: every partition of the Produce got UNKNOWN_SERVER_ERROR.
    node.create("orders", [1])
    broken(node.files, "topics")
    node.publish(node.metadata.controller.grow({"orders": [[1]]}))
    assert node.core.topics.get("orders").partition_count == 1
    made = messages.ProduceRequest
    batch = bytes(encode_batch([(None, b"a", (), 0)]))
    data = [made.PartitionProduceData(index, batch) for index in (0, 1)]
    client = CoreClient(node.core)
    client.send((made(acks=1, timeout_ms=1000, topic_data=[made.TopicProduceData("orders", None, data)]), 9))
    repair(node.files)
    node.core.end_turn()
    (answer,) = client.take()
    found = [each.error_code for each in answer.responses[0].partition_responses]
    assert found == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    node.pass_time(1100)
    assert isinstance(node.partition(index=1).replica, LeaderReplica)


@pytest.mark.parametrize("first", ["leads", "follows"])
def test_a_follower_whose_log_cannot_be_truncated_follows_once_it_can(node, first):
    # It never fetched again: the next attempt found the state in force already. A former leader left unanswered what
    # waited for it, too.
    node.publish(node.metadata.controller.create([PlacedTopic("orders", b"o" * 16, [[2, 3, 1]], {})]))
    for offset in (0, 1):  # of an old version, without a leader epoch: the two logs cannot be compared
        node.partition().append_replicated(bytes(encode_batch([(None, b"a", (), 0)], base_offset=offset)))
    node.partition().log.replicated_to = 1
    outcomes = []
    if first == "leads":
        node.partition().replica = LeaderReplica(
            1, node.membership.image.state("orders", 0)._replace(leader=1), 2, 1, ReplicationSettings(), 0
        )
        node.core.replicas.acknowledgements.wait(ends(node.partition()), 60_000, outcomes.append)
    broken(node.files, "orders-0/0")
    node.publish(node.metadata.controller.fence(2))
    assert node.partition().log.log_end_offset == 2
    assert [*outcomes] == [{node.partition(): ErrorCode.NOT_LEADER_OR_FOLLOWER}] * (first == "leads")
    assert 3 not in node.channels
    repair(node.files)
    node.pass_time(1100)
    assert node.partition().log.log_end_offset == 1
    ((request, _),) = node.channels[3].sent
    assert request.topics[0].partitions[0].fetch_offset == 1
