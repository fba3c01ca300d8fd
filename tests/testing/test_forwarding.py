"""Forwarding: a broker passes commits, fetches and deletions of offsets on to the coordinator of their group."""

import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import kafka_offsets
from kafka_offsets.broker.cluster import forwarding
from kafka_offsets.broker.core.api_table import api_of
from kafka_offsets.broker.wire.channel import Channel, broker_client_id
from kafka_offsets.client import commits
from kafka_offsets.client import connection as client_connection
from kafka_offsets.client.connection import Connection
from kafka_offsets.client.protocol import decode_response, encode_request
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Cluster
from kafka_offsets.testing.clock import ManualClock
from kafka_offsets.testing.server.events import Event
from tests.drivers.core import CoreClient, make_core

PLACE = ("orders", 0)
GROUPS = [f"group-{number}" for number in range(6)]


@pytest.fixture
def cluster():
    with Cluster({"offsets.forward": "true"}, record=True) as running:
        running.create_topic("orders")
        yield running


def ask(cluster: Cluster, node: int, request: messages.MessageValue, version: int):
    found = next(each for each in cluster.nodes if each.id == node)
    with Connection(found.host, found.port, 20) as connection:
        return connection.call(request, version)


def commit(cluster: Cluster, node: int, group: str, offset: int) -> int:
    answer = ask(cluster, node, commits.request(group, {PLACE: offset}, {}), commits.VERSION)
    return answer.topics[0].partitions[0].error_code


def fetched(cluster: Cluster, node: int, groups: list[str]) -> dict[str, int]:
    made = messages.OffsetFetchRequest
    answer = ask(cluster, node, made(groups=[made.Group(group, topics=None) for group in groups]), 8)
    return {
        group.group_id: group.error_code or group.topics[0].partitions[0].committed_offset
        for group in answer.groups
    }


def elsewhere(cluster: Cluster, group: str) -> int:
    return cluster.coordinator(group) % 3 + 1


def test_any_broker_takes_a_commit(cluster: Cluster) -> None:
    for number, group in enumerate(GROUPS):
        assert commit(cluster, elsewhere(cluster, group), group, number) == 0
    assert {group: cluster.committed(group)[PLACE].offset for group in GROUPS} == {
        group: number for number, group in enumerate(GROUPS)
    }


class _Together:
    """Channels that keep what is sent until there are `count` requests; then each channel sends its own."""

    def __init__(self, channel_to: Callable[[int], Channel], count: int) -> None:
        self._channel_to, self._left = channel_to, count
        self._held: dict[Channel, list[Callable[[], None]]] = {}

    def __call__(self, node_id: int) -> Any:
        channel = self._channel_to(node_id)
        self._held[channel] = []
        real_send = channel.send

        def send(*request: Any) -> None:
            self._held[channel].append(partial(real_send, *request))
            self._left -= 1
            if not self._left:
                for waiting in reversed(self._held.values()):
                    for each in waiting:
                        each()

        channel.send = send  # type: ignore[method-assign]
        return channel


def _commit_all(cluster: Cluster, node: int, group: str, offsets: range) -> list[int]:
    """Commit several offsets over one connection without waiting; return the error codes."""
    found = next(each for each in cluster.nodes if each.id == node)
    answer = messages.OffsetCommitRequest
    with (
        socket.create_connection((found.host, found.port), 20) as connected,
        connected.makefile("rb") as received,
    ):
        for offset in offsets:
            request = commits.request(group, {PLACE: offset}, {})
            connected.sendall(encode_request(request, commits.VERSION, offset, "client"))
        errors = []
        for offset in offsets:
            (size,) = struct.unpack(">i", received.read(4))
            response = decode_response(answer, commits.VERSION, received.read(size), offset)
            errors.append(response.topics[0].partitions[0].error_code)
        return errors


def test_the_commits_of_one_connection_stay_in_their_order(cluster: Cluster) -> None:
    """A client that commits asynchronously does not wait for the answer before its next commit."""
    cluster.commit("billing", {PLACE: 0})
    offsets, other = range(1, 13), elsewhere(cluster, "billing")

    def hold(server: Any) -> None:
        peers = server._network.server(other).core.replicas.peers
        peers._channel_to = _Together(peers._channel_to, len(offsets))

    cluster._call(hold)  # type: ignore[attr-defined]
    assert _commit_all(cluster, other, "billing", offsets) == [0] * len(offsets)
    assert cluster.committed("billing")[PLACE].offset == offsets[-1]


def test_any_broker_answers_a_fetch_of_several_groups_in_their_order(cluster: Cluster) -> None:
    for number, group in enumerate(GROUPS):
        cluster.commit(group, {PLACE: number})
    for node in (1, 2, 3):
        assert list(fetched(cluster, node, GROUPS).items()) == [(group, n) for n, group in enumerate(GROUPS)]


def test_any_broker_takes_a_deletion(cluster: Cluster) -> None:
    cluster.commit("billing", {PLACE: 3})
    made = messages.OffsetDeleteRequest
    request = made("billing", [made.Topic("orders", [made.Partition(0)])])
    answer = ask(cluster, elsewhere(cluster, "billing"), request, 0)
    assert (answer.error_code, cluster.committed("billing")) == (0, {})


def test_brokers_that_serve_an_older_release_pass_requests_on(cluster: Cluster) -> None:
    cluster.commit("billing", {PLACE: 3})
    made = messages.OffsetDeleteRequest
    request = made("billing", [made.Topic("orders", [made.Partition(0)])])
    with cluster.faults.release("2.4"):
        assert ask(cluster, elsewhere(cluster, "billing"), request, 0).error_code == 0
    assert cluster.committed("billing") == {}


def test_other_requests_go_to_the_coordinator_alone(cluster: Cluster) -> None:
    cluster.commit("billing", {PLACE: 3})
    request = messages.HeartbeatRequest("billing", 1, "somebody")
    assert ask(cluster, elsewhere(cluster, "billing"), request, 4).error_code == ErrorCode.NOT_COORDINATOR


def test_nothing_is_passed_on_unless_it_is_configured() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        assert commit(cluster, elsewhere(cluster, "billing"), "billing", 3) == ErrorCode.NOT_COORDINATOR


def test_a_group_without_a_coordinator_is_not_available() -> None:
    configs = {"offsets.forward": "true", "offsets.topic.replication.factor": 1}
    with Cluster(configs) as cluster:
        cluster.create_topic("orders")
        cluster.commit("billing", {PLACE: 3})
        other = elsewhere(cluster, "billing")
        cluster.kill(cluster.coordinator("billing"))
        assert commit(cluster, other, "billing", 4) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        # Consumers before Kafka 3.9 do not retry COORDINATOR_NOT_AVAILABLE in the answer to a fetch.
        assert fetched(cluster, other, ["billing"]) == {"billing": ErrorCode.NOT_COORDINATOR}


def test_a_coordinator_that_cannot_be_reached_is_not_available(cluster: Cluster) -> None:
    cluster.commit("billing", {PLACE: 3})
    coordinator, other = cluster.coordinator("billing"), elsewhere(cluster, "billing")
    cluster.partition({coordinator, 6 - coordinator - other}, other)
    assert commit(cluster, other, "billing", 4) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.heal()
    assert commit(cluster, other, "billing", 5) == 0


def test_a_request_of_a_broker_is_not_passed_on_again(cluster: Cluster) -> None:
    """Two brokers that disagree on the coordinator do not send it in a circle."""
    cluster.commit("billing", {PLACE: 3})
    coordinator, other = cluster.coordinator("billing"), elsewhere(cluster, "billing")
    cluster.partition({coordinator, 6 - coordinator - other}, other)
    # A node that is cut off from the metadata does not learn that the coordinator has moved.
    cluster.move_coordinator("billing", to=6 - coordinator - other)
    cluster._call(lambda server: server._network.heal())  # type: ignore[attr-defined]
    assert commit(cluster, other, "billing", 4) == ErrorCode.NOT_COORDINATOR
    cluster.heal()
    assert commit(cluster, other, "billing", 5) == 0


@pytest.mark.parametrize(
    "client_id", ["broker-1", "broker-", "broker-of-stocks", "broker-1@another cluster", ""]
)
def test_a_client_may_have_the_name_of_a_broker(
    cluster: Cluster, client_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client id that began with `broker-` was taken for another broker, and got NOT_COORDINATOR."""
    if not client_id:
        client_id = broker_client_id(1, cluster._call(lambda server: server._cluster_id))  # type: ignore[attr-defined]
    monkeypatch.setattr(client_connection, "_CLIENT_ID", client_id)
    assert commit(cluster, elsewhere(cluster, "billing"), "billing", 7) == 0


def test_a_late_answer_is_abandoned() -> None:
    clock = ManualClock()
    with (
        Cluster({"offsets.forward": "true"}, clock=clock, record=True) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        cluster.create_topic("orders")
        cluster.commit("billing", {PLACE: 3})
        other = elsewhere(cluster, "billing")
        cluster.slow(other, 60_000)
        error = pool.submit(commit, cluster, other, "billing", 4)
        cluster.wait_for(Event("it came", lambda core: len(cluster.requests.of(node=other)) or None, str))
        clock.advance(seconds=5)
        assert error.result(20) == ErrorCode.COORDINATOR_NOT_AVAILABLE


class Waiting:
    """A client that has sent a commit to a node and has no answer yet."""

    def __init__(self, cluster: Cluster, node: int, group: str, offset: int) -> None:
        found = next(each for each in cluster.nodes if each.id == node)
        self._socket = socket.create_connection((found.host, found.port), 20)
        request = commits.request(group, {PLACE: offset}, {})
        self._socket.sendall(encode_request(request, commits.VERSION, 1, "client"))

    def leave(self) -> None:
        self._socket.close()

    def error(self) -> int:
        with self._socket, self._socket.makefile("rb") as received:
            (size,) = struct.unpack(">i", received.read(4))
            frame = received.read(size)
        answer = decode_response(messages.OffsetCommitRequest, commits.VERSION, frame, 1)
        return answer.topics[0].partitions[0].error_code


def settled(cluster: Cluster, node: int) -> dict[Any, Any]:
    """Return what is committed once a node has passed on something newer than all that it had to pass on."""
    assert commit(cluster, node, "billing", 100) == 0
    return {group: cluster.committed(group).get(PLACE) for group in ("billing", "late")}


Groups = tuple[Cluster, ManualClock, int, int]


@pytest.fixture
def groups() -> Iterator[Groups]:
    """A cluster whose groups have one coordinator, and another node."""
    clock = ManualClock()
    configs = {
        "offsets.forward": "true",
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
    }
    with Cluster(configs, clock=clock) as cluster:
        cluster.create_topic("orders")
        cluster.commit("late", {PLACE: 1})
        yield cluster, clock, cluster.coordinator("late"), elsewhere(cluster, "late")


def test_nothing_of_a_closed_connection_is_passed_on(groups: Groups) -> None:
    """A stopped broker found a commit in a socket that its client had closed, and passed it on after a later one."""
    cluster, _, coordinator, other = groups
    cluster.pause(other)
    Waiting(cluster, other, "late", 2).leave()
    assert commit(cluster, coordinator, "late", 4) == 0
    cluster.resume(other)
    assert settled(cluster, other)["late"].offset == 4


def test_a_broker_that_was_fenced_passes_nothing_on_until_the_controller_answers(groups: Groups) -> None:
    cluster, clock, coordinator, other = groups
    cluster.pause(other)
    waiting = Waiting(cluster, other, "late", 2)
    clock.advance(seconds=15)
    assert commit(cluster, coordinator, "late", 4) == 0
    cluster.resume(other)
    assert waiting.error() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert settled(cluster, other)["late"].offset == 4


def test_a_commit_that_the_client_was_told_had_failed_is_not_decided_when_the_coordinator_reads_it(
    groups: Groups,
) -> None:
    """Between stopping and its session's end a coordinator read the abandoned commit of one broker after a later
    commit that another broker had passed on: a group went backwards.
    """
    cluster, clock, coordinator, other = groups
    cluster.pause(coordinator)
    waiting = Waiting(cluster, other, "late", 2)
    while not passed_on(cluster, other):
        pass
    clock.advance(seconds=5)
    assert waiting.error() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.resume(coordinator)
    assert settled(cluster, other)["late"].offset == 1


def test_a_commit_whose_client_has_left_is_not_decided_when_the_coordinator_reads_it(groups: Groups) -> None:
    cluster, _, coordinator, other = groups
    cluster.pause(coordinator)
    waiting = Waiting(cluster, other, "late", 2)
    while not passed_on(cluster, other):
        pass
    waiting.leave()
    while passed_on(cluster, other):
        pass
    cluster.resume(coordinator)
    assert settled(cluster, other)["late"].offset == 1


def passed_on(cluster: Cluster, node: int) -> int:
    """Return how many channels a node has for its clients."""
    return cluster._call(  # type: ignore[attr-defined]
        lambda server: len(server._network.server(node).core.replicas.peers._of_clients)
    )


def test_a_client_may_find_the_coordinator_by_itself(cluster: Cluster) -> None:
    for group in GROUPS:
        coordinator = cluster.coordinator(group)
        home = "__consumer_offsets", kafka_offsets.partition_for(group, 50)
        assert cluster.leader(*home) == coordinator


class Silent:
    """The membership of a broker whose controller does not answer."""

    may_be_fenced, is_reachable = True, True

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def when_answering(self, decide: Callable[[], None]) -> None:
        self.calls.append(decide)


def test_those_that_wait_for_the_controller_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    client = CoreClient(make_core())
    core, membership = client.core.broker, Silent()
    passed_on = forwarding.Forwarding(membership)  # type: ignore[arg-type]
    failed: list[int] = []
    monkeypatch.setattr(forwarding, "_MOST_UNDER_WAY", 2)
    monkeypatch.setattr(forwarding, "pass_on", lambda _, context, __: failed.append(context.correlation_id))
    api, request = api_of(core.apis, 8), commits.request("late", {PLACE: 1}, {})
    for number in range(4):
        context = RequestContext(client.connection, api.key, commits.VERSION, number, "client", "", request)
        passed_on.decide(core, api, request, context, lambda _: core.node.id + 1)
    assert failed == [2, 3]
    membership.is_reachable = False
    for decide in membership.calls:
        decide()
    assert failed == [2, 3, 0, 1]
