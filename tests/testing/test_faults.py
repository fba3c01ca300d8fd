"""`Faults`: what each of them does to a request, where its error stands, and that nothing of it stays behind."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker, ErrorCode, testing
from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ConnectionLostError, StorageError
from kafka_offsets.protocol import messages, records
from kafka_offsets.testing.clock import ManualClock
from kafka_offsets.testing.faults import releases
from kafka_offsets.testing.faults.control import Faults
from kafka_offsets.testing.faults.fault import Fault
from tests.testing.fault_requests import commit, connect, fetch, fetched, produce, produced

NOT_COORDINATOR, NOT_LEADER = ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_LEADER_OR_FOLLOWER
LOADING, NONE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"connections.max.idle.ms": -1, "fetch.first.wait.ms": 0}) as broker:
        broker.create_topic("t", 3)
        broker.create_topic("u", 1)
        yield broker


@pytest.fixture
def faults(broker: Broker) -> Faults:
    return Faults(broker)


@pytest.fixture
def client(broker: Broker) -> Iterator[Connection]:
    with connect(broker) as client:
        yield client


def test_a_wait_for_a_fault_ends_with_it(faults: Faults, client: Connection) -> None:
    fault = faults.error("OffsetCommit", NOT_COORDINATOR)
    outcomes: list[str] = []

    def wait() -> None:
        with pytest.raises(TimeoutError) as caught:
            fault.wait(2, timeout=100)
        outcomes.append(str(caught.value))

    waiting = threading.Thread(target=wait)
    waiting.start()
    commit(client)
    fault.remove()
    waiting.join(20)
    assert outcomes == ["<fault error: OffsetCommit NOT_COORDINATOR, struck once, over>"]


def test_faults_are_numbered(faults: Faults) -> None:
    assert [each.number for each in (faults.drop(), faults.drop(), faults.slow_disk(1))] == [1, 2, 3]


# -- errors ------------------------------------------------------------------------------------------------------


def test_an_error_strikes_the_next_n_requests_and_nothing_is_done(
    broker: Broker, faults: Faults, client: Connection
) -> None:
    fault = faults.error("OffsetCommit", NOT_COORDINATOR, n=2)
    assert faults.active == [fault]
    assert [commit(client) for _ in range(2)] == [{("t", 0): 16}] * 2
    assert broker.committed("g") == {}
    assert (fault.hits, fault.is_active, faults.active, faults.struck) == (2, False, [], [fault])
    assert commit(client) == {("t", 0): 0}
    assert broker.committed("g")["t", 0].offset == 5


def test_an_error_strikes_a_commit_that_repeats_earlier_ones(
    broker: Broker, faults: Faults, client: Connection
) -> None:
    # The connection still looked it up among the commits that it had repeated: UNKNOWN_SERVER_ERROR.
    assert [commit(client, offset=offset) for offset in range(3)] == [{("t", 0): 0}] * 3
    faults.error("OffsetCommit", NOT_COORDINATOR, n=1)
    assert [commit(client, offset=offset) for offset in (3, 4)] == [{("t", 0): 16}, {("t", 0): 0}]
    assert broker.committed("g")["t", 0].offset == 4


def test_errors_are_given_in_their_order_and_none_passes_one_request(
    faults: Faults, client: Connection
) -> None:
    fault = faults.error("OffsetCommit", [LOADING, NONE, NOT_COORDINATOR])
    assert [commit(client)["t", 0] for _ in range(4)] == [14, 0, 16, 0]
    assert fault.hits == 2


def test_a_fault_is_named_by_what_makes_it(faults: Faults) -> None:
    made = [faults.close("Produce"), faults.close("Produce", before=False)]
    assert [repr(fault) for fault in made] == [
        "<fault close: Produce before it is done, struck 0 times>",
        "<fault close: Produce when it is done, struck 0 times>",
    ]


def test_a_fault_ends_with_its_block_and_is_named_with_what_it_did(
    faults: Faults, client: Connection
) -> None:
    with faults.error("OffsetCommit", NOT_COORDINATOR, group="g") as fault:
        commit(client)
        assert repr(fault) == "<fault error: OffsetCommit NOT_COORDINATOR group='g', struck once>"
        assert repr(faults) == f"<faults: {fault!r}>"
    assert repr(fault).endswith("struck once, over>")
    assert repr(faults) == "<faults: none>"
    assert commit(client)["t", 0] == 0
    fault.remove()


def test_a_fault_strikes_the_group_client_and_topic_that_it_names(faults: Faults, client: Connection) -> None:
    with faults.error("OffsetCommit", NOT_COORDINATOR, group="other"):
        assert commit(client)["t", 0] == 0
    with faults.error("OffsetCommit", NOT_COORDINATOR, client_id="somebody"):
        assert commit(client)["t", 0] == 0
    with faults.error("OffsetCommit", NOT_COORDINATOR, client_id="kafka-offsets"):
        assert commit(client)["t", 0] == 16
    with faults.error("OffsetCommit", ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="u"):
        assert commit(client, "g", 5, ("t", 0), ("t", 1))["t", 0] == 0


def test_an_error_of_a_partition_leaves_the_others_of_its_request_alone(
    broker: Broker, faults: Faults, client: Connection
) -> None:
    places = [("t", 0), ("t", 1), ("u", 0), ("t", 2)]
    with faults.error("OffsetCommit", ErrorCode.OFFSET_METADATA_TOO_LARGE, topic="t", partition=1) as fault:
        found = commit(client, "g", 7, *places)
    assert found == {("t", 0): 0, ("t", 1): 12, ("t", 2): 0, ("u", 0): 0}
    assert list(found) == [("t", 0), ("t", 1), ("t", 2), ("u", 0)]
    assert sorted(broker.committed("g")) == [("t", 0), ("t", 2), ("u", 0)]
    assert fault.hits == 1


def test_an_error_of_a_partition_finds_its_topic_by_the_name_of_the_field_or_by_its_id(
    faults: Faults, client: Connection
) -> None:
    """OffsetForLeaderEpoch calls the name of a topic `topic`; Produce gives the id alone from version 13 on."""
    epochs = messages.OffsetForLeaderEpochRequest
    topics = [
        epochs.OffsetForLeaderTopic(name, [epochs.OffsetForLeaderPartition(each, -1, 0) for each in indexes])
        for name, indexes in (("t", (0, 1)), ("u", (0,)))
    ]
    with faults.error("OffsetForLeaderEpoch", NOT_LEADER, topic="t", partition=1):
        answer = client.call(epochs(topics=topics), 4)
    assert [
        (topic.topic, each.partition, each.error_code) for topic in answer.topics for each in topic.partitions
    ] == [("t", 0, 0), ("t", 1, 6), ("u", 0, 0)]

    named = client.call(messages.MetadataRequest([messages.MetadataRequest.Topic(name="t")]), 12)
    batch = bytes(records.encode_batch([(b"k", b"v", (), 1_700_000_000_000)]))
    data = [messages.ProduceRequest.PartitionProduceData(each, batch) for each in (0, 1)]
    topic_id = named.topics[0].topic_id
    topic = messages.ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=data)
    with faults.error("Produce", NOT_LEADER, topic="t", partition=0):
        answer = client.call(messages.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 13)
    assert [each.topic_id for each in answer.responses] == [topic_id]
    assert produced(answer) == [(0, 6), (1, 0)]


def test_faults_on_several_partitions_of_one_request_add_up(faults: Faults, client: Connection) -> None:
    faults.error("Produce", NOT_LEADER, topic="t", partition=0)
    faults.error("Produce", ErrorCode.MESSAGE_TOO_LARGE, topic="t", partition=2)
    assert produced(produce(client, 0, 1, 2)) == [(0, 6), (1, 0), (2, 10)]
    faults.clear()
    assert produced(produce(client, 0, 1, 2)) == [(0, 0), (1, 0), (2, 0)]


def test_a_producer_that_wants_no_answer_loses_its_connection(broker: Broker, faults: Faults) -> None:
    with faults.error("Produce", NOT_LEADER, topic="t", partition=0) as fault, connect(broker) as client:
        with pytest.raises(ConnectionLostError):
            produce(client, 0, 1, acks=0)
        assert fault.hits == 1
    with connect(broker) as client:
        assert [len(fetch(client, each).responses[0].partitions[0].records) > 0 for each in (0, 1)] == [
            False,
            True,
        ]


def test_an_error_of_one_group_leaves_the_others_of_its_request_alone(
    broker: Broker, faults: Faults, client: Connection
) -> None:
    for group in "abc":
        broker.commit(group, {("t", 0): 1})
    request = messages.OffsetFetchRequest
    topics = [request.Topics("t", partition_indexes=[0])]
    asked = request(groups=[request.Group(group, topics=topics) for group in "abc"])
    with faults.coordinator_moved("b"):
        answer = client.call(asked, 8)
    assert [(group.group_id, group.error_code) for group in answer.groups] == [("a", 0), ("b", 16), ("c", 0)]
    assert answer.groups[2].topics[0].partitions[0].committed_offset == 1
    with faults.error("OffsetFetch", ErrorCode.UNSTABLE_OFFSET_COMMIT, topic="t", partition=0, group="a"):
        answer = client.call(asked, 8)
    found = [group.topics[0].partitions[0] for group in answer.groups]
    assert [(each.error_code, each.committed_offset) for each in found] == [(88, -1), (0, 1), (0, 1)]


def test_a_partition_of_metadata_or_a_topic_of_it_is_refused(faults: Faults, client: Connection) -> None:
    asked = messages.MetadataRequest([messages.MetadataRequest.Topic(name=name) for name in "tu"])
    with faults.error("Metadata", ErrorCode.LEADER_NOT_AVAILABLE, topic="t", partition=1):
        answer = client.call(asked, 8)
        assert [(each.error_code, each.leader_id) for each in answer.topics[0].partitions] == [
            (0, 1),
            (5, -1),
            (0, 1),
        ]
    everything = messages.MetadataRequest(None)
    with faults.error("Metadata", ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="u"):
        answer = client.call(asked, 8)
        assert [(each.error_code, len(each.partitions)) for each in answer.topics] == [(0, 3), (29, 0)]
        assert [each.error_code for each in client.call(everything, 8).topics] == [0, 29]


def test_a_partition_of_offset_delete_is_refused_where_its_answer_has_it(
    broker: Broker, faults: Faults, client: Connection
) -> None:
    broker.commit("g", {("t", 0): 1, ("t", 1): 1})
    request = messages.OffsetDeleteRequest
    asked = request("g", [request.Topic("t", [request.Partition(0), request.Partition(1)])])
    with faults.error("OffsetDelete", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, topic="t", partition=0):
        answer = client.call(asked, 0)
    assert [each.error_code for each in answer.topics[0].partitions] == [86, 0]
    assert list(broker.committed("g")) == [("t", 0)]


def test_a_fetch_is_refused_by_partition_also_in_a_session_that_does_not_name_it(
    faults: Faults, client: Connection
) -> None:
    produce(client, 0, 1)
    opened = fetch(client, 0, 1, session=(0, 0))
    session = opened.session_id
    assert fetched(opened) == {0: 0, 1: 0}
    assert session
    with faults.leader_moved("t", 1) as fault:
        answer = fetch(client, session=(session, 1))
        assert fetched(answer)[1] == 6
        assert fault.hits == 1
    assert fetched(fetch(client, session=(session, 2)))[1] == 0
    with faults.error("Fetch", ErrorCode.FETCH_SESSION_ID_NOT_FOUND, n=1):
        assert fetch(client, session=(session, 3)).error_code == 70


def test_a_parked_fetch_is_sent_again_when_its_leader_moves(broker: Broker, faults: Faults) -> None:
    answers: list[dict[int, int]] = []

    def read() -> None:
        with connect(broker) as client:
            while not answers or 6 not in answers[-1].values():
                answers.append(fetched(fetch(client, 0, wait_ms=60_000)))

    reading = threading.Thread(target=read)
    reading.start()
    faults.leader_moved("t", 0, n=1).wait()
    reading.join()
    assert answers[-1] == {0: 6}


def waiting_fetch(broker: Broker, faults: Faults, answers: list[Any]) -> threading.Thread:
    """Begin to fetch again and again, until the connection is lost; return once the first one waits."""

    def read() -> None:
        with connect(broker) as client, suppress(ConnectionLostError):
            while True:
                answers.append(fetch(client, 0, wait_ms=60_000))

    reading = threading.Thread(target=read)
    with faults.observe("Fetch") as seen:
        reading.start()
        seen.wait()
    return reading


@pytest.mark.parametrize(
    "make",
    [
        lambda faults: faults.drop("Fetch"),
        lambda faults: faults.half_answer("Fetch"),
        lambda faults: faults.close("Fetch", topic="t"),
        lambda faults: faults.close("Fetch", before=False),
        lambda faults: faults.delay("Fetch", ms=60_000),
        lambda faults: faults.delay(ms=60_000, before=True),
        lambda faults: faults.control("Fetch", lambda call: Future()),
    ],
    ids=["drop", "half_answer", "close", "close after", "delay", "delay before", "control"],
)
def test_a_fault_is_not_passed_by_a_fetch_that_waits(
    broker: Broker, faults: Faults, make: Callable[[Faults], Fault]
) -> None:
    answers: list[Any] = []
    reading = waiting_fetch(broker, faults, answers)
    fault = make(faults)
    broker.produce("t", ["a"], partition=0)
    fault.wait()
    faults.close_connections()
    reading.join()
    assert [fetched(answer) for answer in answers] == [{0: 0}]
    assert not answers[0].responses[0].partitions[0].records


def test_an_observer_changes_nothing(broker: Broker, faults: Faults, client: Connection) -> None:
    answers: list[Any] = []
    reading = waiting_fetch(broker, faults, answers)
    seen, refused = faults.observe(group="g", n=3), faults.error("OffsetCommit", NOT_COORDINATOR, n=1)
    assert [commit(client)["t", 0] for _ in range(2)] == [16, 0]
    assert (seen.hits, refused.hits) == (2, 1)
    assert commit(client, "h")["t", 0] == 0
    assert repr(seen) == "<fault observe: every API group='g', struck 2 of 3 times>"
    assert answers == [], "the fetch still waits"
    faults.close_connections()
    reading.join()


@pytest.mark.parametrize("api", [api.name for api in SERVED if api.name != "ApiVersions"])
def test_every_api_has_an_answer_to_an_error(faults: Faults, client: Connection, api: str) -> None:
    row = next(row for row in SERVED if row.name == api)
    with faults.error(api, ErrorCode.CLUSTER_AUTHORIZATION_FAILED) as fault:
        for version in range(row.min_version, row.max_version + 1):
            if row.codecs(version) is not None:
                client.call(row.request(acks=1) if api == "Produce" else row.request(), version)
    if api != "Fetch":  # which is refused by partition, and has none here
        assert fault.hits > 0


def test_a_coordinator_that_moved_or_loads_says_so_to_groups_and_transactions(
    faults: Faults, client: Connection
) -> None:
    with faults.coordinator_loading():
        assert commit(client)["t", 0] == 14
        assert client.call(messages.HeartbeatRequest("g", 1, "m"), 1).error_code == 0
        assert client.call(messages.EndTxnRequest("x", 1, 0, True), 1).error_code == 14
        assert client.call(messages.InitProducerIdRequest(None, 1000), 1).error_code == 0
        assert client.call(messages.ListGroupsRequest(), 3).error_code == 14
        assert client.call(messages.ListTransactionsRequest(), 0).error_code == 14
    with faults.coordinator_loading("g"):
        assert client.call(messages.ListGroupsRequest(), 3).error_code == 14
        assert client.call(messages.ListTransactionsRequest(), 0).error_code == 0
    with faults.coordinator_moved("g"):
        assert client.call(messages.ListGroupsRequest(), 3).error_code == 0
    with faults.coordinator_moved(transactional_id="x") as fault:
        assert commit(client)["t", 0] == 0
        assert client.call(messages.InitProducerIdRequest("x", 1000), 1).error_code == 16
        assert client.call(messages.InitProducerIdRequest("y", 1000), 1).error_code == 0
        assert fault.hits == 1


# -- answers and connections ---------------------------------------------------------------------------------------


def test_a_dropped_answer_leaves_what_was_asked_done_and_the_connection_silent(
    broker: Broker, faults: Faults, client: Connection
) -> None:
    with faults.drop("OffsetCommit", n=1) as fault, connect(broker, timeout_s=0.2) as cut_off:
        with pytest.raises(ConnectionLostError, match="timed out"):
            commit(cut_off)
        fault.wait()
        assert fault.hits == 1
        assert broker.committed("g")["t", 0].offset == 5
        assert commit(client)["t", 0] == 0


@pytest.mark.parametrize("is_before", [True, False])
def test_a_connection_is_closed_before_or_after_what_was_asked_is_done(
    broker: Broker, faults: Faults, client: Connection, is_before: bool
) -> None:
    with faults.close("OffsetCommit", before=is_before, n=1), pytest.raises(ConnectionLostError):
        commit(client)
    assert (broker.committed("g") == {}) is is_before


def test_half_an_answer_is_the_first_half_of_its_bytes(broker: Broker, faults: Faults) -> None:
    with connect(broker) as client, faults.half_answer("Fetch"):
        produce(client, 0)
        with pytest.raises(ConnectionLostError):
            fetch(client, 0)
        assert client._socket.recv(1) == b""


@pytest.mark.parametrize("is_before", [True, False])
def test_a_delay_passes_by_the_brokers_clock_before_or_after_the_request_is_done(is_before: bool) -> None:
    with Broker(clock=(clock := ManualClock())) as broker, connect(broker) as client:
        broker.create_topic("t")
        faults = Faults(broker)
        with faults.delay("OffsetCommit", ms=5000, before=is_before, n=1) as fault:
            answers: list[Any] = []
            waiting = threading.Thread(target=lambda: answers.append(commit(client)))
            waiting.start()
            fault.wait()
            clock.advance(4999)
            assert (broker.committed("g") == {}) is is_before
            assert not answers
            clock.advance(1)
            waiting.join()
            assert answers == [{("t", 0): 0}]


def test_a_broker_that_is_down_takes_no_connection_until_it_is_up(broker: Broker, faults: Faults) -> None:
    with connect(broker) as client:
        commit(client)
        with faults.down() as fault:
            with pytest.raises(ConnectionLostError):
                commit(client)
            with connect(broker) as refused, pytest.raises(ConnectionLostError):
                commit(refused)
            assert fault.hits == 1
    with connect(broker) as client:
        assert commit(client)["t", 0] == 0
        assert faults.close_connections("nobody") == 0
        assert faults.close_connections("kafka-offsets") == 1
        with pytest.raises(ConnectionLostError):
            commit(client)


# -- control -------------------------------------------------------------------------------------------------------


def first_coordinator(call: Any) -> Any:
    return messages.FindCoordinatorResponse(node_id=7, host="elsewhere", port=99)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (lambda call: None, 0),
        (lambda call: NOT_COORDINATOR if call.request.group_id == "g" else None, 16),
        (lambda call: RuntimeError("broken"), -1),
        (lambda call: call.nothing, -1),
        (lambda call: "nonsense", -1),
    ],
)
def test_a_function_receives_each_request_and_decides_its_outcome(
    faults: Faults, client: Connection, verdict: Callable[[Any], Any], expected: int
) -> None:
    with faults.control("OffsetCommit", verdict) as fault:
        assert commit(client)["t", 0] == expected
        assert fault.hits == 1


def test_a_fault_also_concerns_requests_whose_responses_are_kept(faults: Faults, client: Connection) -> None:
    def node_of(group: str) -> int:
        answer = client.call(messages.FindCoordinatorRequest(group), 0)
        assert not answer.error_code
        node_id: int = answer.node_id
        return node_id

    def one_of_two(call: Any) -> Any:
        return first_coordinator(call) if call.request.key == "g" else None

    assert {node_of(group) for group in "gg"} == {1}
    with faults.control("FindCoordinator", one_of_two):
        assert [node_of(group) for group in "gh"] == [7, 1]
    with faults.error("FindCoordinator", LOADING, client_id="another"):
        assert {node_of(group) for group in "gh"} == {1}
    assert {node_of(group) for group in "gh"} == {1}


def test_a_function_answers_itself_or_closes_the_connection(faults: Faults, client: Connection) -> None:
    seen: list[Any] = []

    def count(call: Any) -> None:
        seen.append((call.api, call.version, call.client_id, call.request.group_id))

    with faults.control("OffsetCommit", count), faults.error("OffsetCommit", LOADING):
        assert commit(client)["t", 0] == 14
    assert seen == [("OffsetCommit", 8, "kafka-offsets", "g")]
    with faults.control("FindCoordinator", first_coordinator):
        assert client.call(messages.FindCoordinatorRequest("g"), 0).node_id == 7
    with faults.control(8, lambda call: ConnectionError()), pytest.raises(ConnectionLostError):
        commit(client)


@pytest.mark.parametrize(
    ("result", "expected"), [(None, 0), (NOT_COORDINATOR, 16), (ValueError("broken"), -1)]
)
def test_a_request_waits_for_a_future_while_others_are_served(
    broker: Broker, faults: Faults, client: Connection, result: Any, expected: int
) -> None:
    waits: Future[Any] = Future()
    with faults.control("OffsetCommit", lambda call: waits, n=1) as fault:
        answers: list[Any] = []
        waiting = threading.Thread(target=lambda: answers.append(commit(client)))
        waiting.start()
        fault.wait()
        with connect(broker) as other:
            assert commit(other, "other")["t", 0] == 0
        assert not answers
        if isinstance(result, Exception):
            waits.set_exception(result)
        else:
            waits.set_result(result)
        waiting.join()
        assert answers == [{("t", 0): expected}]


# -- versions ------------------------------------------------------------------------------------------------------


def test_a_broker_pretends_to_be_a_release(broker: Broker, faults: Faults, client: Connection) -> None:
    commit(client)
    with faults.release("2.8") as fault:
        with pytest.raises(ConnectionLostError):
            commit(client)
        with connect(broker) as old:
            answer = old.call(
                messages.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3
            )
            versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            assert (versions[0], versions[1], versions[8], versions[9]) == ((0, 9), (4, 12), (0, 8), (0, 7))
            assert 68 not in versions
            assert (answer.supported_features, answer.finalized_features) == ([], [])
            assert fault.hits == 1
            assert commit(old)["t", 0] == 0
            with pytest.raises(ConnectionLostError):
                old.call(messages.ConsumerGroupHeartbeatRequest("g"), 0)
        with connect(broker) as newer:
            answer = newer.call(messages.ApiVersionsRequest(), 0)
            assert answer.error_code == 0
    with connect(broker) as client:
        assert client.latest_version(68) == 1
        assert client.latest_version(18) == 4
    with faults.withhold("OffsetCommit", after_version=7), faults.withhold(68), connect(broker) as client:
        assert (client.latest_version(8), client.latest_version(68)) == (7, -1)


def test_the_releases_know_every_api_and_the_last_of_them_serves_what_this_broker_does() -> None:
    assert {api.name: releases.last_version(api.name, (4, 3)) for api in SERVED} == {
        api.name: api.max_version for api in SERVED
    }


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda faults: faults.release("5.0"), "not known"),
        (lambda faults: faults.release("new"), "no release|not a release"),
        (lambda faults: faults.release("2.9"), "not known"),
        (
            lambda faults: faults.error("Comit", NOT_COORDINATOR),
            "no API that is served; these are: Produce, ",
        ),
        (lambda faults: faults.error("OffsetComit", NOT_COORDINATOR), "did you mean OffsetCommit"),
        (lambda faults: faults.error("Heartbeat", NOT_COORDINATOR, topic="t"), "Heartbeat names no topic"),
        (lambda faults: faults.drop(["Fetch", "Metadata"], group="g"), "Fetch, Metadata names no group"),
        (lambda faults: faults.close("JoinGroup", transactional_id="x"), "names no transactional_id"),
        (lambda faults: faults.delay(ms=1, node=2), "there is no node 2, only 1"),
        (lambda faults: faults.error("Fetch", NONE), "would serve every request"),
        (lambda faults: faults.drop("Fetch", n=0), "is 1 or more"),
        (lambda faults: faults.drop("Fetch", partition=0), "of which topic"),
        (lambda faults: faults.disk_error("explode"), "no operation"),
        (lambda faults: faults.error("Fetch", 9999), "9999 is no error code"),
        (lambda faults: faults.error("Fetch", ["NONE", "NOPE"]), "NOPE is no error code"),
        (
            lambda faults: faults.error("Fetch", "not_cordinator"),
            "not_cordinator is no error code of Kafka; did you mean NOT_COORDINATOR",
        ),
        (
            lambda faults: faults.withhold("OffsetCommit", after_version=99),
            "after version 99; .*: OffsetCommit 10",
        ),
        (
            lambda faults: faults.withhold(["OffsetCommit", "OffsetFetch"], after_version=99),
            "the last versions are: OffsetCommit 10, OffsetFetch 10$",
        ),
        (lambda faults: faults.delay(ms=-1), "a delay is 1 to 253402300799999 ms, not -1"),
        (lambda faults: faults.delay(ms=10**30), "a delay is 1 to 253402300799999 ms, not 1000"),
        (lambda faults: faults.slow_disk(-1), "-1 ms is not slow"),
        (lambda faults: faults.slow_disk(0), "0 ms is not slow"),
        (lambda faults: faults.disk_full(free_bytes=-1), "no -1 bytes free"),
    ],
)
def test_what_is_no_fault_is_refused(faults: Faults, wrong: Callable[[Faults], Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        wrong(faults)
    assert faults.active == []


@pytest.mark.parametrize("wrong", [1.5, None, [None]])
def test_an_error_that_is_no_code_is_refused_with_what_is_one(faults: Faults, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"such as ErrorCode.NOT_COORDINATOR or 16, not (1.5|None)"):
        faults.error("Fetch", wrong)
    assert faults.active == []


def test_an_error_is_given_by_its_number_as_well(faults: Faults, client: Connection) -> None:
    with faults.error("OffsetCommit", 16, n=1), faults.error("OffsetCommit", [14, 0]):
        assert [commit(client)["t", 0] for _ in range(3)] == [16, 14, 0]


def test_an_error_is_given_by_its_name_as_well(faults: Faults, client: Connection) -> None:
    with faults.error("OffsetCommit", "NOT_COORDINATOR", n=1):
        assert [commit(client)["t", 0] for _ in range(2)] == [16, 0]


@pytest.mark.parametrize(
    "put_in",
    [
        lambda faults: faults.release("1.0"),
        lambda faults: faults.withhold(["Produce", "OffsetCommit"]),
        lambda faults: faults.error(["Produce", "OffsetCommit"], NOT_COORDINATOR),
        lambda faults: faults.close(),
        lambda faults: faults.half_answer(),
        lambda faults: faults.drop(),
        lambda faults: faults.delay(ms=60_000),
        lambda faults: faults.down(),
    ],
)
@pytest.mark.parametrize("brokers", [1, 3])
def test_what_a_test_asks_of_its_own_broker_is_done_whatever_clients_meet(
    brokers: int, put_in: Callable[[Faults], Any]
) -> None:
    made = testing.Broker() if brokers == 1 else testing.Cluster(brokers=brokers)
    with made as broker, put_in(broker.faults) as fault:
        assert broker.produce("t", ["x"]) == {("t", 0): 1}
        broker.commit("g", {("t", 0): 1})
        broker.assert_committed("g", {("t", 0): 1})
        assert fault.hits == 0


# -- nothing stays ---------------------------------------------------------------------------------------------------


def test_a_broker_without_faults_has_its_own_table_and_files_again(broker: Broker, faults: Faults) -> None:
    core = broker._running().core
    own, files = {row.name: row for row in core.broker.apis}, core.directory.files
    added = [
        faults.error("OffsetCommit", NOT_COORDINATOR),
        faults.delay(ms=1),
        faults.down(),
        faults.release("2.8"),
        faults.disk_full(),
    ]
    assert faults.active == added
    assert vars(files)["open"]
    faults.clear()
    assert {row.name: row for row in core.broker.apis} == own
    assert "open" not in vars(files)
    assert broker._running().refuses is None


def test_only_apis_that_a_fault_concerns_have_another_row(broker: Broker, faults: Faults) -> None:
    core = broker._running().core
    with faults.error("OffsetCommit", NOT_COORDINATOR):
        assert [row.name for row in core.broker.apis if row != SERVED.by_key[row.key]] == ["OffsetCommit"]


def test_faults_of_a_broker_that_has_stopped_are_over() -> None:
    with Broker() as broker:
        fault = Faults(broker).error("Fetch", NOT_LEADER)
    fault.remove()
    assert not fault.is_active
    with pytest.raises(RuntimeError, match="not running"):
        Faults(broker).drop()


def test_a_broker_for_tests_keeps_its_faults_when_it_is_restored_or_started_again() -> None:
    broker = testing.Broker()
    with broker:
        broker.create_topic("t")
        snapshot = broker.snapshot()
        moved = broker.faults.coordinator_moved("g")
        broker.restore(snapshot)
        with connect(broker) as client:
            assert commit(client)["t", 0] == 16
    with broker:
        broker.create_topic("t")
        with connect(broker) as client:
            assert commit(client)["t", 0] == 16
            moved.remove()
            assert commit(client)["t", 0] == 0
        assert broker.faults.named == [moved]
        assert moved.hits == 2


@pytest.mark.parametrize("operation", ["append", "sync", "open", "remove", "rename"])
def test_a_fault_of_the_disk_ends_when_the_broker_stops(operation: str) -> None:
    broker = testing.Broker({"fsync": "commit"})
    with broker:
        broker.create_topic("t")
        fault = broker.faults.disk_error(operation)
        full = broker.faults.disk_full()
        moved = broker.faults.coordinator_moved("g")
        with connect(broker) as client:
            assert commit(client, "other")["t", 0] != 0
    assert not fault.is_active
    assert not full.is_active
    assert broker.faults.active == [moved]


def test_a_broker_goes_back_to_a_snapshot_on_a_disk_that_fails() -> None:
    with testing.Broker({"fsync": "commit"}) as broker:
        broker.create_topic("t")
        snapshot = broker.snapshot()
        with broker.faults.disk_error("sync", path="__consumer_offsets") as fault:
            with connect(broker) as client:
                assert commit(client)["t", 0] == 16
            broker.faults.disk_full(path="log-start")
            broker.restore(snapshot)
            assert fault.is_active
            with connect(broker) as client:
                assert commit(client)["t", 0] == 16
        broker.restore(snapshot)
        with connect(broker) as client:
            assert commit(client)["t", 0] == 0


def test_an_error_of_a_real_disk_is_raised_when_the_broker_stops(tmp_path: Path) -> None:
    broker = testing.Broker(data_directory=tmp_path / "data")
    broker.start()
    broker.faults.disk_full()
    (tmp_path / "data").rename(tmp_path / "gone")
    with pytest.raises(StorageError):
        broker.stop()


def test_producers_of_a_partition_that_has_moved_are_described_elsewhere(
    faults: Faults, client: Connection
) -> None:
    asked = messages.DescribeProducersRequest
    with faults.leader_moved("t", 1) as fault:
        answer = client.call(asked([asked.TopicRequest("t", [0, 1]), asked.TopicRequest("u", [0])]), 0)
    assert fault.hits == 1
    assert [[each.error_code for each in topic.partitions] for topic in answer.topics] == [
        [NONE, NOT_LEADER],
        [NONE],
    ]


def test_a_topic_is_found_among_those_that_an_old_version_deletes(faults: Faults, client: Connection) -> None:
    with faults.error("DeleteTopics", ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="t"):
        answer = client.call(messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 3)
        assert [each.error_code for each in answer.responses] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        answer = client.call(messages.DeleteTopicsRequest(topic_names=["u"], timeout_ms=1000), 3)
        assert [each.error_code for each in answer.responses] == [NONE]
