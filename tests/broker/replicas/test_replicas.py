"""Replicas of one broker: what it leads and follows, with other brokers that a test plays."""

from contextlib import closing
from dataclasses import replace

import pytest

from kafka_offsets.broker.core.core import BrokerCore, ClusterPart
from kafka_offsets.broker.groups import loading
from kafka_offsets.broker.replicas import coordinators
from kafka_offsets.broker.wire.channel import broker_client_id
from kafka_offsets.coordinator.transactions.decisions import Decision, Transaction, TransactionState
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.metadata.controller import PlacedTopic
from kafka_offsets.metadata.image import Delta, Placed, TopicPartition
from kafka_offsets.metadata.in_process import InProcessMembership
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.replication.follower import FollowerReplica
from tests.drivers.core import CoreClient
from tests.drivers.replicas import OFFSETS, Node, PlayedChannel, commit, ends, errors


@pytest.fixture
def node():
    with closing(Node()) as made:
        yield made


def test_a_commit_that_no_follower_fetches_is_answered_after_its_timeout_and_takes_effect_later(node):
    # A follower that fetches nothing held the commit for ever. Kafka answers COORDINATOR_NOT_AVAILABLE.
    node.create("t", [1])
    client = CoreClient(node.core)
    commit(client)
    node.pass_time(4900)
    assert client.take() == []
    node.pass_time(200)
    assert errors(client.take()) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    end = node.partition(OFFSETS).log.log_end_offset
    node.fetched_by(2, OFFSETS, end)
    assert client.take() == []
    assert client.committed("g") == {("t", 0): 5}


def test_a_commit_that_is_answered_not_coordinator_may_take_effect(node):
    # docs/commits.md said so of COORDINATOR_NOT_AVAILABLE alone.
    node.create("t", [1])
    client = CoreClient(node.core)
    commit(client)
    node.publish(node.metadata.controller.lead(TopicPartition(OFFSETS, 0), 2))
    assert errors(client.take()) == [ErrorCode.NOT_COORDINATOR]
    assert node.partition(OFFSETS).log.log_end_offset == 1, "a follower may have fetched it"
    node.publish(node.metadata.controller.lead(TopicPartition(OFFSETS, 0), 1))
    node.fetched_by(2, OFFSETS, 1)
    assert client.committed("g") == {("t", 0): 5}


def test_each_commit_waits_for_its_own_timeout(node):
    node.create("t", [1])
    client = CoreClient(node.core)
    commit(client)
    node.pass_time(3000)
    other = CoreClient(node.core)
    commit(other)
    node.pass_time(2100)
    assert len(client.take()) == 1
    assert other.take() == []
    node.pass_time(3000)
    assert errors(other.take()) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_each_commit_waits_for_its_timeout_in_real_time_while_the_clock_does_not_move(node):
    # The deadline of the second commit was set when that of the first one had ended: it waited up to twice as long.
    node.create("t", [1])
    waits = []
    node.core.scheduler.real_time_fallback = lambda ms, deadline, is_work: waits.append((ms, deadline))
    clients = [CoreClient(node.core), CoreClient(node.core)]
    for client in clients:
        commit(client)
    assert [ms for ms, _ in waits] == [5000, 5000]
    for client, (_, deadline) in zip(clients, list(waits), strict=True):
        assert client.take() == []
        deadline.fire(node.clock.now())
        node.core.end_turn()
        assert errors(client.take()) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert len(waits) == 2


def test_the_timeouts_of_replicated_commits_are_forgotten(node):
    node.create("t", [1])
    client = CoreClient(node.core)
    waits = []
    node.core.scheduler.real_time_fallback = lambda ms, deadline, is_work: waits.append(deadline)
    for _ in range(3):
        commit(client)
        node.fetched_by(2, OFFSETS, node.partition(OFFSETS).log.log_end_offset)
        client.take()
    assert [deadline.callback is None for deadline in waits] == [True, True, False]


def test_a_replicated_commit_is_answered_at_once_and_only_once(node):
    node.create("t", [1])
    client = CoreClient(node.core)
    commit(client)
    node.fetched_by(2, OFFSETS, node.partition(OFFSETS).log.log_end_offset)
    assert errors(client.take()) == [ErrorCode.NONE]
    node.pass_time(6000)
    assert client.take() == []


def test_responses_that_time_out_are_forgotten(node):
    # Each one stayed in the queue of its partition until the high watermark moved, which may be never.
    node.create("orders", [1, 2])
    outcomes = []
    acknowledgements = node.core.replicas.acknowledgements
    node.partition().append_marker(7, 0, 0, node.clock.now(), is_commit=True)
    for timeout_ms in (200, 100, 300):
        acknowledgements.wait(ends(node.partition()), timeout_ms, outcomes.append)
    node.pass_time(400)
    assert outcomes == [{node.partition(): ErrorCode.REQUEST_TIMED_OUT}] * 3
    assert not acknowledgements._waiting


def replicate_one_record(node) -> None:
    """Append a record to orders-0, have broker 2 fetch it, and wait until the high watermark is stored."""
    node.create("orders", [1, 2])
    node.partition().append_marker(7, 0, 0, node.clock.now(), is_commit=True)
    node.core.appends.record(node.partition())
    node.core.end_turn()
    node.fetched_by(2, "orders", 1)
    node.pass_time(5000)


def test_a_high_watermark_is_written_while_the_broker_runs(node):
    # It was written at a clean stop alone: a killed leader began at 0 again, and consumers got OFFSET_OUT_OF_RANGE.
    replicate_one_record(node)
    killed = node.files.copy()
    assert b"orders 0 1\n" in killed.read_all("replication-offset-checkpoint")


def test_a_broker_that_waits_for_its_metadata_stores_the_high_watermark_that_it_had(node):
    # It stored the log end. After a kill it led with that: consumers read records that no other replica had.
    replicate_one_record(node)
    node.partition().append_marker(7, 0, 0, node.clock.now(), is_commit=True)
    node.core.close()
    waiting = BrokerCore(
        node.core.config, node.files.copy(), node.clock, cluster=ClusterPart("cluster", PlayedChannel)
    )
    with closing(waiting):
        topic = waiting.topics.get("orders")
        assert topic is not None
        partition = waiting.topics.partition_of(topic, 0)  # as retention opens it in the background
        assert partition is not None
        node.clock.advance(5000)
        waiting.run_due()
        waiting.end_turn()
        assert (partition.log.log_end_offset, partition.log.high_watermark) == (2, 1)
        assert b"orders 0 1\n" in waiting.directory.files.copy().read_all("replication-offset-checkpoint")


def test_a_high_watermark_that_falls_with_the_log_is_written_at_once(node):
    # After a kill the stored one was above new records that no other replica had, and consumers could read them.
    replicate_one_record(node)
    change(node, "orders", leader=2, isr=(2,))
    channel = node.channels[2]
    ((request, _),) = channel.sent
    made = messages.FetchResponse
    cut = made.PartitionData(
        0, diverging_epoch=made.EpochEndOffset(0, 0), high_watermark=0, log_start_offset=0
    )
    topic = made.FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=[cut])
    channel.answer(made(responses=[topic]))
    assert node.partition().log.log_end_offset == 0
    assert b"orders 0 0\n" in node.files.copy().read_all("replication-offset-checkpoint")


def test_a_replica_that_moves_to_another_broker_leaves_no_log_here(node):
    # Its log stayed, and with it the records that another replica has truncated since.
    node.create("orders", [1, 2], [1, 2])
    state = node.metadata.image.state("orders", 0)
    moved = state._replace(replicas=(2, 3), isr=(2, 3), leader=2, leader_epoch=1, partition_epoch=1)
    node.publish(Delta(partitions=(Placed(TopicPartition("orders", 0), moved),)))
    assert not node.files.exists("orders-0")
    assert node.files.exists("orders-1")
    assert ("orders", 0) not in node.core.directory.logs
    back = moved._replace(replicas=(2, 1), isr=(2, 1), leader_epoch=2, partition_epoch=2)
    node.publish(Delta(partitions=(Placed(TopicPartition("orders", 0), back),)))
    assert isinstance(node.partition().replica, FollowerReplica)
    assert node.partition().log.log_end_offset == 0


def answer_to(request, **by_topic):
    """Return the response to a Fetch: NONE for each partition, changed as `by_topic` says for the topic's id."""
    made = messages.FetchResponse
    return made(
        responses=[
            made.FetchableTopicResponse(
                topic_id=topic.topic_id,
                partitions=[
                    made.PartitionData(
                        each.partition, high_watermark=0, **by_topic.get(names[topic.topic_id], {})
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
            for names in [{bytes([65]) * 16: "a", bytes([66]) * 16: "b"}]
        ]
    )


@pytest.fixture
def follower(node):
    """Broker 1, which follows a-0 and b-0 of broker 2."""
    topics = [PlacedTopic(n, n.upper().encode() * 16, [[2, 1]], {}) for n in ("a", "b")]
    node.publish(node.metadata.controller.create(topics))
    return node


def asked(channel):
    ((request, _),) = channel.sent
    return {topic.topic_id[:1] for topic in request.topics}


def test_a_partition_that_pauses_is_asked_for_although_others_have_no_records(follower):
    # The fetch of the others waited at the leader for an hour, and the paused partition with it.
    channel = follower.channels[2]
    assert asked(channel) == {b"A", b"B"}
    channel.answer(answer_to(channel.sent[0][0], a={"error_code": ErrorCode.UNKNOWN_LEADER_EPOCH}))
    assert asked(channel) == {b"B"}
    assert channel.sent[0][0].max_wait_ms == follower.core.config.replica_fetch_wait_max_ms
    follower.pass_time(1000)
    channel.answer(answer_to(channel.sent[0][0]))
    assert asked(channel) == {b"A", b"B"}


def test_a_pause_ends_with_its_deadline_also_while_the_clock_does_not_move(follower):
    # With a clock moved by hand a deadline also expires in real time; the partition was never asked for again.
    deadlines = []
    follower.core.scheduler.real_time_fallback = lambda ms, deadline, is_work: deadlines.append(deadline)
    channel = follower.channels[2]
    channel.answer(None)
    assert channel.sent == []
    for deadline in deadlines:
        deadline.fire(follower.clock.now())
    follower.core.run_due()
    assert asked(channel) == {b"A", b"B"}


def test_the_pause_of_a_follower_is_the_configured_one():
    with closing(Node(replica_fetch_backoff_ms=200)) as node:
        node.publish(node.metadata.controller.create([PlacedTopic("a", b"A" * 16, [[2, 1]], {})]))
        channel = node.channels[2]
        channel.answer(answer_to(channel.sent[0][0], a={"error_code": ErrorCode.UNKNOWN_LEADER_EPOCH}))
        node.pass_time(200)
        assert asked(channel) == {b"A"}


def test_a_follower_of_one_more_partition_keeps_its_connection(follower):
    # It closed it to end the Fetch that waits: with TLS, a handshake for each topic that is created.
    channel = follower.channels[2]
    waiting = channel.sent[0][0]
    for name in ("c", "d"):
        follower.publish(
            follower.metadata.controller.create([PlacedTopic(name, name.encode() * 16, [[2, 1]], {})])
        )
    assert [len(request.topics) for request, _ in channel.sent] == [2, 0], "one more request ends the wait"
    assert (channel.sent[1][0].replica_state, channel.sent[1][0].max_wait_ms) == (waiting.replica_state, 0)
    channel.answer(messages.FetchResponse())
    channel.answer(messages.FetchResponse())
    assert asked(channel) == {b"A", b"B", b"c", b"d"}
    assert channel.closed == 0


def test_an_answer_from_before_a_partition_was_followed_again_says_nothing_about_it(follower):
    channel = follower.channels[2]
    waiting = channel.sent[0][0]
    state = follower.metadata.image.state("a", 0)
    again = state._replace(leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)
    follower.publish(Delta(partitions=(Placed(TopicPartition("a", 0), again),)))
    channel.answer(answer_to(waiting, a={"error_code": ErrorCode.FENCED_LEADER_EPOCH}))
    channel.answer(messages.FetchResponse())
    assert asked(channel) == {b"A", b"B"}, "its first answer in the new epoch is still to come"


def test_partitions_that_are_added_to_a_request_that_is_lost_are_asked_for_after_a_pause(follower):
    channel = follower.channels[2]
    follower.publish(follower.metadata.controller.create([PlacedTopic("c", b"c" * 16, [[2, 1]], {})]))
    channel.answer(None)
    channel.answer(None)
    assert channel.sent == []
    follower.pass_time(follower.core.config.replica_fetch_backoff_ms)
    assert asked(channel) == {b"A", b"B", b"c"}


def test_a_follower_with_a_new_broker_epoch_gives_up_the_fetch_that_waits(follower):
    # A new controller registers every broker again. Leaders refuse to add a follower by a fetch with its former epoch,
    # and the next one came only with the next record, up to an hour later.
    channel = follower.channels[2]
    former = channel.sent[0][0].replica_state.replica_epoch
    follower.publish(follower.metadata.controller.register(2, "localhost", 9002))
    assert len(channel.sent) == 1, "the epoch of another broker changes nothing"
    follower.publish(follower.metadata.controller.register(1, "localhost", 9001))
    assert asked(channel) == {b"A", b"B"}
    assert channel.sent[0][0].replica_state.replica_epoch > former


def test_a_leader_that_is_live_again_is_followed_again(follower):
    # A controller that ended in the midst of a change had stored that broker 2 leads, and not that it is up. The next
    # one registered it, and no follower fetched from it any longer. Found by the simulation with ZooKeeper, seed 117.
    brokers = follower.metadata.image.brokers
    gone = brokers.by_id[2]._replace(is_up=False)
    follower.publish(Delta(brokers=brokers._replace(by_id={**brokers.by_id, 2: gone})))
    assert follower.channels[2].sent == []
    follower.publish(Delta(brokers=brokers))
    assert asked(follower.channels[2]) == {b"A", b"B"}


def test_a_broker_that_was_unregistered_fetches_with_its_former_epoch(follower):
    # With -1, the leader would add its next run to the ISR for what this run has fetched (KIP-903).
    former = follower.metadata.image.brokers.by_id[1].epoch
    assert follower.membership.unregister(1) is ErrorCode.NONE
    channel = follower.channels[2]
    channel.answer(None)
    follower.pass_time(follower.core.config.replica_fetch_backoff_ms)
    assert asked(channel) == {b"A", b"B"}
    assert channel.sent[0][0].replica_state.replica_epoch == former


def test_damaged_records_of_a_leader_pause_one_partition(follower):
    # The error reached the loop, and the follower never asked again for anything.
    channel = follower.channels[2]
    channel.answer(answer_to(channel.sent[0][0], a={"records": b"\xff" * 100}))
    assert asked(channel) == {b"B"}
    follower.pass_time(1000)
    channel.answer(answer_to(channel.sent[0][0]))
    assert asked(channel) == {b"A", b"B"}


def test_a_changed_min_insync_replicas_counts_at_once(node):
    # The leader kept the value from the beginning of its epoch.
    node.create("orders", [1, 2])
    node.publish(node.metadata.controller.configure("orders", {"min.insync.replicas": "2"}))
    assert node.partition().replica.min_isr == 2


def change(node, name, **fields) -> None:
    """Publish a changed state of the first partition of a topic."""
    state = node.membership.image.state(name, 0)
    changed = state._replace(partition_epoch=state.partition_epoch + 1, **fields)
    node.publish(Delta(partitions=(Placed(TopicPartition(name, 0), changed),)))


def test_a_new_epoch_of_the_same_leader_refuses_nothing_that_waits(node):
    # Its groups were loaded again, and their parked requests got NOT_COORDINATOR. Kafka continues.
    node.create("t", [1])
    client = CoreClient(node.core)
    commit(client)
    change(node, OFFSETS, leader_epoch=1)
    assert client.take() == []
    assert node.partition(OFFSETS).log.leader_epoch == 1
    node.fetched_by(2, OFFSETS, node.partition(OFFSETS).log.log_end_offset)
    assert errors(client.take()) == [ErrorCode.NONE]


TRANSACTIONS = "__transaction_state"


@pytest.fixture
def coordinator():
    """Broker 1 coordinates transactions, and leads orders-0."""
    settings = {
        "transaction_state_log_num_partitions": 1,
        "transaction_state_log_replication_factor": 2,
        "transaction_state_log_min_isr": 1,
    }
    with closing(Node(**settings)) as node:
        node.create("orders", [1, 2])
        yield node


def decide_to_commit(node, *partitions):
    """Decide to commit transaction x in these partitions; no follower has the decision."""
    prepared = Transaction(7, 1, 60_000, TransactionState.PREPARE_COMMIT, 0, 0, partitions, client_version=2)
    decided = Decision(ErrorCode.NONE, prepared)
    error, *_ = node.core.transactions.decide("x", lambda found: decided, node.clock.now())
    assert not error
    node.core.end_turn()


@pytest.fixture
def ending(coordinator):
    """Broker 1 has decided to commit transaction x in orders-0; no follower has the decision."""
    decide_to_commit(coordinator, ("orders", 0))
    return coordinator


def transaction_state(node):
    return node.core.transactions.ids[0]["x"].state


def test_a_transaction_whose_end_is_replicated_late_gets_its_markers(ending):
    # After the first timeout nothing wrote them any more: the transaction stayed open until the next election.
    ending.pass_time(31_000)
    assert ending.partition().log.log_end_offset == 0
    ending.fetched_by(2, TRANSACTIONS, 1)
    assert ending.partition().log.log_end_offset == 1
    ending.pass_time(31_000)
    ending.fetched_by(2, "orders", 1)
    assert transaction_state(ending) is TransactionState.PREPARE_COMMIT
    ending.fetched_by(2, TRANSACTIONS, 2)
    assert transaction_state(ending) is TransactionState.COMPLETE_COMMIT


def test_a_marker_whose_leader_resigns_before_it_is_replicated_is_written_by_the_next(ending):
    ending.fetched_by(2, TRANSACTIONS, 1)
    change(ending, "orders", leader=2, leader_epoch=1)
    ending.pass_time(1100)
    (request,) = (
        each for each, _ in ending.channels[2].sent if isinstance(each, messages.WriteTxnMarkersRequest)
    )
    assert request.markers[0].producer_id == 7


def markers_sent(node):
    """Return the markers that wait for broker 2: the partitions of each request."""
    return [
        [(topic.name, index) for topic in request.markers[0].topics for index in topic.partition_indexes]
        for request, _ in node.channels[2].sent
        if isinstance(request, messages.WriteTxnMarkersRequest)
    ]


def answer_markers(node):
    """Have broker 2 answer the markers that it has got: its partitions have them."""
    made = messages.WriteTxnMarkersResponse
    for sent in [
        each for each in node.channels[2].sent if isinstance(each[0], messages.WriteTxnMarkersRequest)
    ]:
        node.channels[2].sent.remove(sent)
        marker = sent[0].markers[0]
        topics = [
            made.WritableTxnMarkerTopicResult(
                topic.name,
                [made.WritableTxnMarkerPartitionResult(index, 0) for index in topic.partition_indexes],
            )
            for topic in marker.topics
        ]
        sent[1](made([made.WritableTxnMarkerResult(marker.producer_id, topics)]))
    node.core.end_turn()


@pytest.fixture
def ending_in_two(coordinator):
    """Only broker 1 has the marker of orders-0; broker 2 has not answered that of other-0."""
    coordinator.create("other", [2, 1])
    decide_to_commit(coordinator, ("orders", 0), ("other", 0))
    coordinator.fetched_by(2, TRANSACTIONS, 1)
    assert coordinator.partition().log.log_end_offset == 1
    assert markers_sent(coordinator) == [[("other", 0)]]
    return coordinator


@pytest.mark.parametrize("moved", [{"leader": 2}, {"leader": 2, "replicas": (2, 3), "isr": (2, 3)}])
def test_a_marker_whose_leader_resigns_while_another_broker_has_not_answered_is_written_by_the_next(
    ending_in_two, moved
):
    # The wait for orders-0 began after the answer: nobody led it here by then, and it was never answered. The
    # transaction stayed PrepareCommit, and consumers of committed records waited there. When the replica had gone from
    # here as well, the transaction was complete without the marker.
    node = ending_in_two
    change(node, "orders", leader_epoch=1, **moved)
    answer_markers(node)
    node.pass_time(1100)
    assert markers_sent(node) == [[("orders", 0)]]
    assert transaction_state(node) is TransactionState.PREPARE_COMMIT
    answer_markers(node)
    node.fetched_by(2, TRANSACTIONS, 2)
    assert transaction_state(node) is TransactionState.COMPLETE_COMMIT


def test_a_marker_that_is_truncated_before_its_leader_returns_is_written_again(ending_in_two):
    node = ending_in_two
    change(node, "orders", leader=2, leader_epoch=1)
    node.partition().truncate(0)
    change(node, "orders", leader=1, leader_epoch=2)
    answer_markers(node)
    assert node.partition().log.log_end_offset == 0
    node.pass_time(1100)
    assert node.partition().log.log_end_offset == 1
    node.fetched_by(2, "orders", 1)
    node.fetched_by(2, TRANSACTIONS, 2)
    assert transaction_state(node) is TransactionState.COMPLETE_COMMIT


def test_a_marker_for_offsets_that_are_led_elsewhere_before_they_are_loaded_is_written_there(
    coordinator, monkeypatch
):
    # It waited for the end of a load that had been given up.
    monkeypatch.setattr(coordinators, "_MOST_AT_ONCE_BYTES", -1)
    monkeypatch.setattr(coordinator.core.loader, "load", lambda hosted: None)  # it takes long
    coordinator.create(OFFSETS, [1, 2])
    decide_to_commit(coordinator, (OFFSETS, 0))
    coordinator.fetched_by(2, TRANSACTIONS, 1)
    change(coordinator, OFFSETS, leader=2, leader_epoch=1)
    coordinator.pass_time(1100)
    assert markers_sent(coordinator) == [[(OFFSETS, 0)]]


@pytest.mark.parametrize("leads", [True, False])
def test_an_acknowledgement_of_a_partition_that_is_led_elsewhere_is_refused_at_once(node, leads):
    node.create("orders", [1, 2])
    partition = node.partition()
    partition.append_marker(7, 0, 0, node.clock.now(), is_commit=True)
    if not leads:
        change(node, "orders", leader=2, leader_epoch=1)
    outcomes = []
    node.core.replicas.acknowledgements.wait(ends(partition), 100, outcomes.append)
    assert outcomes == ([] if leads else [{partition: ErrorCode.NOT_LEADER_OR_FOLLOWER}])


@pytest.mark.parametrize("moves", [False, True])
def test_the_coordinator_learns_of_a_marker_only_when_it_is_replicated(node, moves):
    # A coordinator elsewhere would complete the transaction, and the next leader of orders-0 would not have the marker.
    node.create("orders", [1, 2])
    made, client = messages.WriteTxnMarkersRequest, CoreClient(node.core)
    topics = [made.WritableTxnMarkerTopic("orders", [0])]
    client.send((made([made.WritableTxnMarker(7, 1, True, topics, 0)]), 1))
    node.core.end_turn()
    assert node.partition().log.log_end_offset == 1
    assert client.take() == []
    if moves:
        change(node, "orders", leader=2, leader_epoch=1)
    else:
        node.fetched_by(2, "orders", 1)
    (answer,) = client.take()
    (found,) = answer.markers[0].topics[0].partitions
    assert (found.error_code != ErrorCode.NONE) is moves


def test_a_broker_that_coordinates_a_transaction_no_longer_writes_no_markers_for_it(ending):
    # They could end the next transaction of the same producer.
    change(ending, "orders", leader=-1, leader_epoch=1)
    ending.fetched_by(2, TRANSACTIONS, 1)
    change(ending, TRANSACTIONS, leader=2, leader_epoch=1)
    change(ending, "orders", leader=1, leader_epoch=2)
    ending.pass_time(3000)
    assert ending.partition().log.log_end_offset == 0


def test_too_few_in_sync_replicas_refuse_the_state_of_a_transaction(ending):
    ending.fetched_by(2, TRANSACTIONS, 1)
    ending.fetched_by(2, "orders", 1)
    before = ending.partition(TRANSACTIONS).log.log_end_offset
    ending.fetched_by(2, TRANSACTIONS, before)
    ending.publish(ending.metadata.controller.configure(TRANSACTIONS, {"min.insync.replicas": "2"}))
    change(ending, TRANSACTIONS, isr=(1,))
    decided = Decision(ErrorCode.NONE, ending.core.transactions.ids[0]["x"])
    error, *_ = ending.core.transactions.decide("x", lambda found: decided, ending.clock.now())
    assert error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ending.partition(TRANSACTIONS).log.log_end_offset == before


def follower_fetch(node, offset=0, epoch=-1, log_start_offset=0):
    """Return the Fetch of orders-0 that broker 2 sends to this leader; it waits for an hour."""
    made = messages.FetchRequest
    wanted = made.FetchPartition(0, 0, offset, epoch, log_start_offset, partition_max_bytes=1000)
    asked = made.FetchTopic(topic_id=node.partition().topic_id, partitions=[wanted])
    state = made.ReplicaState(2, node.metadata.image.brokers.by_id[2].epoch)
    return made(max_wait_ms=3_600_000, min_bytes=1, session_epoch=-1, replica_state=state, topics=[asked])


def test_a_follower_that_asks_for_a_topic_before_its_leader_knows_it_is_answered_at_once(node):
    # It waited for the other partitions, for an hour, and was not in sync in this one (1 of 230 starts of a cluster).
    node.create("orders", [1, 2])
    client = CoreClient(node.core)
    request = follower_fetch(node)
    asked = messages.FetchRequest.FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=0)
    unknown = messages.FetchRequest.FetchTopic(topic_id=b"?" * 16, partitions=[asked])
    request.topics = [*request.topics, unknown]
    answer = client.call(request, 17)
    assert [each.partitions[0].error_code for each in answer.responses] == [0, ErrorCode.UNKNOWN_TOPIC_ID]


def test_the_wait_of_a_follower_ends_when_its_next_request_arrives(node):
    node.create("orders", [1, 2])
    client = CoreClient(node.core)
    client.send((follower_fetch(node), 17))
    assert client.take() == []
    nothing = messages.FetchRequest(session_epoch=-1, replica_state=follower_fetch(node).replica_state)
    client.send((nothing, 17))
    assert client.take() == [messages.FetchResponse(), messages.FetchResponse()]
    node.pass_time(1000)
    assert client.take() == []


def delete_by_request(node):
    made = messages.DeleteRecordsRequest
    topic = made.DeleteRecordsTopic("orders", [made.DeleteRecordsPartition(0, 1)])
    CoreClient(node.core).send((made([topic], 1000), 2))
    node.core.end_turn()


def delete_by_retention(node):
    node.core.topics.get("orders").config = replace(node.core.topics.get("orders").config, retention_bytes=0)
    node.pass_time(node.core.config.log_retention_check_interval_ms + 1000)


@pytest.mark.parametrize("delete", [delete_by_request, delete_by_retention])
def test_a_follower_whose_fetch_waits_learns_that_the_leader_has_deleted_records(node, delete):
    # Its fetch waited for an hour, and DeleteRecords with it: REQUEST_TIMED_OUT, on every quiet topic.
    new_leader_with_one_record(node)
    client = CoreClient(node.core)
    fetch = follower_fetch(node, 1, 0)
    fetch.topics[0].partitions[0].current_leader_epoch = 1
    client.send((fetch, 17))
    node.core.end_turn()
    assert client.take() == []
    delete(node)
    (answer,) = client.take()
    (found,) = answer.responses[0].partitions
    assert (found.error_code, found.log_start_offset) == (0, 1)
    client.send((fetch, 17))  # it was sent before that
    node.core.end_turn()
    assert len(client.take()) == 1
    fetch.topics[0].partitions[0].log_start_offset = 1
    client.send((fetch, 17))
    node.core.end_turn()
    assert client.take() == []


def test_a_refused_proposal_is_not_sent_again_in_each_turn():
    # Until the log was synced, each turn read the fetches that wait for it, and such a read proposes. The answer of a
    # controller without ZooKeeper began the next turn: thousands of proposals a second.
    with closing(Node(fsync="interval")) as node:
        node.create("orders", [1, 2])
        node.partition().append_marker(7, 0, 0, node.clock.now(), is_commit=True)
        node.core.appends.record(node.partition())
        node.core.end_turn()
        change(node, "orders", isr=(1,))
        proposed = []

        def refuse(place, proposal, decided) -> None:
            proposed.append(proposal.isr)
            decided(ErrorCode.NETWORK_EXCEPTION)

        node.membership.alter_isr = refuse
        CoreClient(node.core).send((follower_fetch(node, 1, 0), 17))
        for _ in range(5):
            node.core.end_turn()
        assert node.core.appends.unsynced
        assert proposed == [(1, 2)]


def test_a_follower_whose_fetch_waits_is_in_sync_until_there_is_a_record(node):
    # Its fetch waits while there are no records, for longer than replica.lag.time.max.ms: the first record after that
    # made it lag at once, and it left the in-sync replicas.
    node.create("orders", [1, 2])
    CoreClient(node.core).send((follower_fetch(node), 17))
    node.pass_time(60_000)
    node.partition().append_marker(7, 0, 0, node.clock.now(), is_commit=True)
    node.core.appends.record(node.partition())
    node.pass_time(20_000)
    assert node.membership.image.state("orders", 0).isr == (1, 2)
    node.pass_time(30_000)
    assert node.membership.image.state("orders", 0).isr == (1,)


def new_leader_with_one_record(node):
    """Lead orders-0 in a second epoch, with a record that the high watermark has not passed here."""
    node.create("orders", [1, 2])
    node.partition().append_marker(7, 0, 0, node.clock.now(), is_commit=True)
    node.core.appends.record(node.partition())
    node.core.end_turn()
    state = node.metadata.image.state("orders", 0)
    again = state._replace(leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)
    node.publish(Delta(partitions=(Placed(TopicPartition("orders", 0), again),)))
    return CoreClient(node.core)


@pytest.mark.parametrize(("offset", "error"), [(1, ErrorCode.NONE), (2, ErrorCode.OFFSET_OUT_OF_RANGE)])
def test_a_consumer_that_is_ahead_of_a_new_leader_waits_for_its_high_watermark(node, offset, error):
    # It got OFFSET_OUT_OF_RANGE after a crash of all brokers, and read everything again from the beginning.
    client = new_leader_with_one_record(node)
    made = messages.FetchRequest
    asked = made.FetchTopic("orders", partitions=[made.FetchPartition(0, fetch_offset=offset)])
    answer = client.call(made(min_bytes=0, session_epoch=-1, topics=[asked]), 11)
    (found,) = answer.responses[0].partitions
    assert (found.error_code, found.high_watermark, found.records or b"") == (error, -1 if error else 0, b"")


NOT_KNOWN = [
    (-1, 5, ErrorCode.OFFSET_NOT_AVAILABLE, 1),
    (-1, 4, ErrorCode.LEADER_NOT_AVAILABLE, 1),
    (1 << 50, 5, ErrorCode.OFFSET_NOT_AVAILABLE, -1),
    (-3, 7, ErrorCode.OFFSET_NOT_AVAILABLE, 0),
    (-2, 5, ErrorCode.NONE, 0),
]


@pytest.mark.parametrize(("timestamp", "version", "error", "offset"), NOT_KNOWN)
def test_a_new_leader_does_not_know_the_latest_offset_until_its_high_watermark_reaches_its_epoch(
    node, timestamp, version, error, offset
):
    # It answered the high watermark of its checkpoint: consumers read again what they had read.
    client = new_leader_with_one_record(node)
    made = messages.ListOffsetsRequest
    topic = made.ListOffsetsTopic("orders", [made.ListOffsetsPartition(0, timestamp=timestamp)])

    def ask():
        (found,) = client.call(made(-1, topics=[topic]), version).topics[0].partitions
        return found.error_code, found.offset

    assert ask() == (error, -1 if error else offset)
    node.fetched_by(2, "orders", 1)
    assert ask() == (ErrorCode.NONE, offset)


def test_a_fenced_broker_outside_the_isr_does_not_delay_the_high_watermark(node):
    # It left the ISR before the news that it is gone, and a caught-up follower that may join holds it back:
    # a record with acks=all waited for replica.lag.time.max.ms, and its producer got REQUEST_TIMED_OUT.
    node.create("orders", [1, 2, 3])
    for follower in (2, 3):
        node.fetched_by(follower, "orders", 0)
    node.partition().append_marker(7, 0, 0, node.clock.now(), is_commit=True)
    node.core.appends.record(node.partition())
    node.core.end_turn()
    outcomes = []
    node.core.replicas.acknowledgements.wait(ends(node.partition()), 1000, outcomes.append)
    node.fetched_by(2, "orders", 1)
    assert outcomes == []
    node.publish(node.metadata.controller.fence(3))
    assert outcomes == [{node.partition(): ErrorCode.NONE}]
    assert node.partition().log.high_watermark == 1


def append(node, name):
    """Append one record to partition 0 of a topic that this broker leads."""
    node.partition(name).append_marker(7, 0, 0, node.clock.now(), is_commit=True)
    node.core.appends.record(node.partition(name))


@pytest.mark.parametrize("other", ["orders", "payments"])
def test_a_record_that_an_acknowledgement_causes_is_acknowledged_in_the_same_turn(node, other):
    # RuntimeError: dictionary changed size during iteration. A transaction ends like this: its state is replicated,
    # and then its markers are appended.
    for name in ("orders", "payments"):
        node.create(name, [1])
    append(node, "orders")
    outcomes = []

    def acknowledged(outcome):
        append(node, other)
        node.core.replicas.acknowledgements.wait(ends(node.partition(other)), 1000, outcomes.append)

    node.core.replicas.acknowledgements.wait(ends(node.partition()), 1000, acknowledged)
    node.core.end_turn()
    assert outcomes == [{node.partition(other): ErrorCode.NONE}]
    assert node.partition(other).log.high_watermark == node.partition(other).log.log_end_offset


def test_a_new_coordinator_serves_while_it_loads_a_long_log(node, monkeypatch):
    # It loaded up to 64 MiB at once: for that time no client got an answer, and followers left the ISR.
    node.create("t", [1])
    client = CoreClient(node.core)
    commit(client)
    node.fetched_by(2, OFFSETS, node.partition(OFFSETS).log.log_end_offset)
    assert errors(client.take()) == [ErrorCode.NONE]
    began = []
    monkeypatch.setattr(node.core.loader, "load", began.append)
    monkeypatch.setattr(coordinators, "_MOST_AT_ONCE_BYTES", node.partition(OFFSETS).log.size - 1)
    state = node.metadata.image.state(OFFSETS, 0)
    for leader in (2, 1):
        state = state._replace(
            leader=leader, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
        )
        node.publish(Delta(partitions=(Placed(TopicPartition(OFFSETS, 0), state),)))
    assert [each.is_loading for each in began] == [True]
    commit(client)
    assert errors(client.take()) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


@pytest.mark.parametrize("is_early", [True, False], ids=["replicated while loading", "replicated later"])
def test_a_commit_while_a_new_coordinator_loads_overrides_what_is_loaded(monkeypatch, is_early):
    with closing(Node(offsets_commit_while_loading=True)) as node:
        node.create("t", [1])
        client = CoreClient(node.core)
        commit(client)
        node.fetched_by(2, OFFSETS, node.partition(OFFSETS).log.log_end_offset)
        assert errors(client.take()) == [ErrorCode.NONE]
        begun = []
        monkeypatch.setattr(coordinators, "_MOST_AT_ONCE_BYTES", 0)
        monkeypatch.setattr(
            node.core.loader._workers, "loads", lambda *work_and_done: begun.append(work_and_done)
        )
        for leader, epoch in ((2, 1), (1, 2)):
            change(node, OFFSETS, leader=leader, leader_epoch=epoch)

        def replicate() -> None:
            node.fetched_by(2, OFFSETS, node.partition(OFFSETS).log.log_end_offset)

        def load(*arguments) -> None:
            """Load, and commit before the load is over."""
            read(*arguments)
            commit(client, 9)
            if is_early:
                replicate()

        read = loading.load
        monkeypatch.setattr(loading, "load", load)
        ((work, done),) = begun
        work()
        assert errors(client.take()) == [ErrorCode.NONE] * is_early
        done(None)
        node.core.end_turn()
        assert CoreClient(node.core).committed("g") == {("t", 0): 9 if is_early else 5}
        replicate()
        assert errors(client.take()) == [ErrorCode.NONE] * (not is_early)
        assert client.committed("g") == {("t", 0): 9}


def create_request(name):
    made = messages.CreateTopicsRequest
    return made([made.CreatableTopic(name, 1, 1)], 1000)


def test_a_request_for_the_controller_waits_for_its_answer_and_no_other_request_does(node):
    # The broker read the controller's socket until the answer came: for two seconds, while the controller hung.
    waiting = []
    node.membership.when_answering = waiting.append
    admin, client = CoreClient(node.core), CoreClient(node.core)
    admin.send((create_request("orders"), 7))
    admin.turn()
    assert client.call(messages.MetadataRequest([]), 12).brokers
    assert admin.take() == [] and node.core.topics.get("orders") is None
    waiting.pop()()
    admin.turn()
    (answer,) = admin.take()
    assert (answer.topics[0].error_code, waiting) == (0, [])
    assert node.core.topics.get("orders")


@pytest.mark.parametrize(
    ("request_of", "version"),
    [
        (lambda: messages.MetadataRequest([messages.MetadataRequest.Topic(name="orders")]), 8),
        (lambda: messages.FindCoordinatorRequest("g"), 3),
    ],
    ids=["Metadata", "FindCoordinator"],
)
def test_a_request_that_creates_a_topic_waits_for_the_controller_and_the_next_one_does_not(
    node, request_of, version
):
    waiting = []
    node.membership.when_answering = waiting.append
    client = CoreClient(node.core)
    client.send((request_of(), version))
    client.turn()
    assert client.take() == []
    waiting.pop()()
    client.turn()
    assert len(client.take()) == 1 and len(node.core.topics.names()) == 1
    assert client.call(request_of(), version) and not waiting


@pytest.fixture
def forwarding():
    with closing(Node(offsets_forward=True)) as made:
        made.create("t", [1])
        CoreClient(made.core).call(messages.FindCoordinatorRequest("g"), 3)
        lead(made, 2)
        yield made


def lead(node, leader):
    """Let another broker coordinate all groups."""
    node.publish(node.metadata.controller.lead(TopicPartition(OFFSETS, 0), leader))


def forwarded(node, leader=2):
    return [request for request, _ in node.channels[leader].sent if request.SCHEMA.name == "EnvelopeRequest"]


def test_commits_wait_in_their_order_until_the_controller_has_answered_what_was_sent_after_a_silence(
    forwarding, monkeypatch
):
    waiting, is_fenced = [], True
    node, client = forwarding, CoreClient(forwarding.core)
    node.membership.when_answering = waiting.append
    monkeypatch.setattr(InProcessMembership, "may_be_fenced", property(lambda _: is_fenced))
    commit(client, 5)
    other = CoreClient(node.core)
    commit(other, 6)
    waiting.pop()()
    assert (len(waiting), forwarded(node)) == (1, []), "this was the answer to an earlier heartbeat"
    is_fenced = False
    third = CoreClient(node.core)
    commit(third, 7)
    assert forwarded(node) == []
    waiting.pop()()
    sent = [bytes(request.request_data) for request in forwarded(node)]
    assert [[n for n in (5, 6, 7) if n.to_bytes(8) in data] for data in sent] == [[5], [6], [7]]
    assert not waiting


def test_a_commit_gets_an_error_after_a_silence_if_the_controller_is_not_reached(forwarding, monkeypatch):
    node, client, waiting = forwarding, CoreClient(forwarding.core), []
    node.membership.when_answering = waiting.append
    monkeypatch.setattr(InProcessMembership, "may_be_fenced", property(lambda _: True))
    monkeypatch.setattr(InProcessMembership, "is_reachable", property(lambda _: False))
    commit(client)
    waiting.pop()()
    node.core.end_turn()
    assert (errors(client.take()), forwarded(node)) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], [])


def test_a_leader_of_the_past_does_not_judge_the_sequences_of_producers(node, monkeypatch):
    # A broker that had been stopped for longer than its session lacked the batches of the next leader.
    node.create("orders", [1])
    client = CoreClient(node.core)

    def produced(sequence, epoch=3):
        batch = encode_batch(
            [(b"k", b"v", (), 0)], producer_id=7, producer_epoch=epoch, base_sequence=sequence
        )
        request = messages.ProduceRequest
        data = request.TopicProduceData(
            "orders", partition_data=[request.PartitionProduceData(0, bytes(batch))]
        )
        answer = client.call(request(None, 1, 1000, [data]), 7)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    assert produced(0) is ErrorCode.NONE
    monkeypatch.setattr(InProcessMembership, "may_be_fenced", property(lambda _: True))
    assert produced(5) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produced(1, epoch=2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produced(1) is ErrorCode.NONE, "it serves what it leads while it does not reach the controller"
    monkeypatch.undo()
    assert produced(5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produced(2, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_leader_of_the_past_does_not_call_later_offsets_out_of_range(node, monkeypatch):
    # A consumer would begin again at an end of the log.
    node.create("orders", [1])
    client = CoreClient(node.core)

    def fetched(offset):
        request = messages.FetchRequest
        partition = request.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1000)
        answer = client.call(
            request(max_wait_ms=0, topics=[request.FetchTopic("orders", partitions=[partition])]), 11
        )
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    monkeypatch.setattr(InProcessMembership, "may_be_fenced", property(lambda _: True))
    assert fetched(0) is ErrorCode.NONE
    assert fetched(5) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched(-5) is ErrorCode.OFFSET_OUT_OF_RANGE
    monkeypatch.undo()
    assert fetched(5) is ErrorCode.OFFSET_OUT_OF_RANGE


class Gone:
    """The owner of a connection whose peer has closed it; what it has sent is read now."""

    def __init__(self):
        self.is_gone = False

    def has_left(self):
        return self.is_gone

    def flush(self):
        """Nobody reads."""


def test_nothing_of_a_connection_that_its_peer_has_closed_is_passed_on(forwarding):
    client = CoreClient(forwarding.core)
    client.connection.owner = owner = Gone()
    owner.is_gone = True
    commit(client)
    assert forwarded(forwarding) == []
    owner.is_gone = False
    other = CoreClient(forwarding.core)
    commit(other)
    assert len(forwarded(forwarding)) == 1


def test_the_coordinator_decides_nothing_of_a_connection_that_another_broker_has_closed(forwarding):
    node = forwarding
    commit(CoreClient(node.core))
    (envelope,) = forwarded(node)
    lead(node, 1)
    end = node.partition(OFFSETS).log.log_end_offset
    for is_gone in (True, False):
        peer = CoreClient(node.core, broker_client_id(2, "cluster"))
        peer.connection.owner = Gone()
        peer.connection.owner.is_gone = is_gone
        peer.send((envelope, 0))
        node.core.end_turn()
        assert (node.partition(OFFSETS).log.log_end_offset == end) == is_gone


@pytest.mark.parametrize(
    ("error", "code"),
    [(StorageError("full"), ErrorCode.KAFKA_STORAGE_ERROR), (KeyError(1), ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_a_request_that_fails_after_the_controller_has_answered_gets_its_error(
    node, monkeypatch, error, code
):
    def fail(*_):
        raise error

    monkeypatch.setattr(node.core.topics.cluster, "create", fail)
    client = CoreClient(node.core)
    (topic,) = client.call(create_request("orders"), 7).topics
    assert topic.error_code == code
