"""The election of a controller in ZooKeeper, and the registration of brokers."""

import json
from collections.abc import Callable

import pytest

from kafka_offsets.zookeeper import election
from kafka_offsets.zookeeper.cluster_changes import ControllerTerm
from kafka_offsets.zookeeper.cluster_znodes import Endpoints, encode_broker
from kafka_offsets.zookeeper.election import Election, View
from kafka_offsets.zookeeper.operations import UnavailableError
from kafka_offsets.zookeeper.requests import Multi, SessionState
from tests.drivers.cluster_session import PlayedSession
from tests.drivers.zookeeper import MemoryServer


class Candidate:
    """One broker: its session, and what it has seen."""

    def __init__(self, server: MemoryServer, broker_id: int) -> None:
        self.server = server
        self.session = PlayedSession(server)
        self.views: list[View] = []
        endpoints = Endpoints({"PLAINTEXT": ("127.0.0.1", 9000 + broker_id)}, {"PLAINTEXT": "PLAINTEXT"})
        self.election = Election(self.session, "c", broker_id, endpoints, self.views.append)
        self.session.on_state = self.election.changed

    def start(self) -> "Candidate":
        self.session.start()
        return self

    @property
    def view(self) -> View:
        return self.views[-1]


@pytest.fixture
def server() -> MemoryServer:
    made = MemoryServer()
    session = PlayedSession(made)
    session.start()
    session.run(election.join("c"))
    return made


def started(server: MemoryServer, *ids: int) -> list[Candidate]:
    return [Candidate(server, broker_id).start() for broker_id in ids]


def texts(server: MemoryServer) -> dict[str, dict]:
    return {path: json.loads(text) for path, text in server.texts("/brokers/ids").items()}


def test_the_first_broker_is_elected_and_all_see_where_it_serves(server: MemoryServer) -> None:
    first, second = started(server, 1, 2)
    assert first.view.term is not None and first.view.term.epoch == 1
    assert second.view == View(is_registered=True, controller=1)
    announce(first, 700)
    assert second.view == View(is_registered=True, controller=1, address=("127.0.0.1", 700))
    assert first.view.address == ("127.0.0.1", 700)
    assert server.nodes["/controller_epoch"].data == b"1"
    found = texts(server)
    assert found["1"]["endpoints"] == ["PLAINTEXT://127.0.0.1:9001", "CONTROLLER://127.0.0.1:700"]
    assert (found["2"]["host"], found["2"]["port"], found["2"]["version"]) == ("127.0.0.1", 9002, 5)


def test_the_controller_sees_brokers_join_and_leave(server: MemoryServer) -> None:
    first, second = started(server, 1, 2)
    assert first.view.live == {1, 2}
    third = Candidate(server, 3).start()
    assert first.view.live == {1, 2, 3}
    second.session.stop()
    assert first.view.live == {1, 3}
    assert third.view.live == frozenset()


def test_the_end_of_the_controllers_session_elects_another_one(server: MemoryServer) -> None:
    first, second = started(server, 1, 2)
    announce(first, 700)
    first.session.stop()
    assert second.view.term is not None and second.view.term.epoch == 2
    assert second.view.address is None


def test_a_broker_whose_session_has_expired_registers_again(server: MemoryServer) -> None:
    first, second = started(server, 1, 2)
    second.session.expire()
    assert second.view == View(is_registered=True, controller=1)
    assert first.view.live == {1, 2}
    assert not second.views[-2].is_registered


def test_an_expired_controller_has_a_new_term_if_it_is_elected_again(server: MemoryServer) -> None:
    (only,) = started(server, 1)
    before = only.view.term
    only.session.expire()
    assert [view.term and view.term.epoch for view in only.views] == [1, None, 2]
    assert only.view.term != before


def test_a_lost_connection_changes_nothing(server: MemoryServer, caplog: pytest.LogCaptureFixture) -> None:
    first, second = started(server, 1, 2)
    term = first.view.term
    first.session.client.disconnect()
    assert "ZooKeeper cannot be reached" in caplog.text
    assert first.view.term == term
    first.session.client.connect()
    assert first.view.term == term and second.view.controller == 1
    assert server.nodes["/controller_epoch"].data == b"1"


def test_a_broker_waits_for_the_end_of_an_earlier_session(
    server: MemoryServer, caplog: pytest.LogCaptureFixture
) -> None:
    (earlier,) = started(server, 1)
    (later,) = started(server, 1)
    assert later.views == []
    assert "another session with ZooKeeper is broker 1" in caplog.text
    earlier.session.stop()
    assert later.view.is_registered and later.view.term is not None


def test_a_controller_that_resigns_is_elected_in_a_new_epoch(server: MemoryServer) -> None:
    (only,) = started(server, 1)
    announce(only, 700)
    assert only.view.term is not None
    only.election.resign(only.view.term)
    assert only.view.term.epoch == 2 and only.view.address is None


def test_a_controller_of_an_earlier_epoch_resigns_in_vain(server: MemoryServer) -> None:
    first, second = started(server, 1, 2)
    term = first.view.term
    assert term is not None
    first.session.expire()
    assert second.view.term is not None
    first.election.resign(term)
    assert second.view.term.epoch == 2 and first.view.controller == 2


def test_an_operator_deletes_the_controller_to_elect_another_one(server: MemoryServer) -> None:
    first, second = started(server, 1, 2)
    server.delete("/controller")
    terms = [each.view.term for each in (first, second)]
    assert [term.epoch for term in terms if term is not None] == [2]


@pytest.mark.parametrize("how", ["deleted", "expired"])
def test_the_address_of_a_term_that_has_ended_is_not_that_of_the_next_one(
    server: MemoryServer, how: str
) -> None:
    # The broker kept it until its next controller had loaded the metadata, and every broker tried to connect there.
    (only,) = started(server, 1)
    term = announce(only, 700)
    if how == "deleted":
        server.delete("/controller")
    else:
        only.session.expire()
    assert only.view.term is not None and only.view.term.epoch == 2
    assert [view.address for view in only.views if view.term not in (None, term)] == [None]
    assert texts(server)["1"]["endpoints"] == ["PLAINTEXT://127.0.0.1:9001"]
    only.election.announce(term, ("127.0.0.1", 700))  # by the former controller, late
    assert only.view.address is None
    announce(only, 701)
    assert only.view.address == ("127.0.0.1", 701)


def announce(candidate: Candidate, port: int) -> ControllerTerm:
    """Register where the elected broker serves the metadata; return its term."""
    term = candidate.view.term
    assert term is not None
    candidate.election.announce(term, ("127.0.0.1", port))
    return term


@pytest.mark.parametrize("fate", ["applied", "dropped"])
def test_lost_answers_elect_one_controller(server: MemoryServer, fate: str) -> None:
    candidate = Candidate(server, 1)
    client = candidate.session.client
    for _ in range(3):
        client.lose_next.extend([fate])
        candidate.session.start()
        client.disconnect()
    client.connect()
    (other,) = started(server, 2)
    assert candidate.view.term is not None and other.view.term is None


def test_what_cannot_be_understood_is_reported_and_tried_again(
    server: MemoryServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.put("/controller", b"nothing")
    (only,) = started(server, 1)
    assert "broker 1 cannot take part in the cluster: ZooKeeper: /controller: " in caplog.text
    for call in list(only.session.due):
        call()
    assert caplog.text.count("cannot take part") == 1
    server.delete("/controller")
    for call in list(only.session.due):
        call()
    assert only.view.term is not None


def test_a_race_has_one_winner(server: MemoryServer) -> None:
    first, second = Candidate(server, 1), Candidate(server, 2)

    def overtake(request: object) -> None:
        if isinstance(request, Multi) and any(change.path == "/controller" for change in request.changes):
            first.session.client.before = lambda request: None
            second.start()

    first.session.client.before = overtake
    first.start()
    assert second.view.term is not None and second.view.term.epoch == 1
    assert first.view == View(is_registered=True, controller=2)


def test_a_stopped_election_looks_no_longer(server: MemoryServer) -> None:
    first, second = started(server, 1, 2)
    seen = len(second.views)
    second.election.stop()
    first.session.stop()
    assert len(second.views) == seen
    assert "/controller" not in server.nodes


@pytest.mark.parametrize("change", ["emptied", "of another cluster"])
def test_a_zookeeper_that_is_not_of_the_cluster_is_not_followed(
    server: MemoryServer, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    # Its topics are not those of this cluster: a broker that takes them over deletes its own.
    first, second = started(server, 1, 2)
    for path in list(server.nodes):
        if path != "/":
            server.delete(path)
    if change == "of another cluster":
        other = PlayedSession(server)
        other.start()
        other.run(election.join("other"))
    for candidate in (first, second):
        candidate.session.expire()
        assert not candidate.view.is_registered
    assert "/controller" not in server.nodes
    wanted = "this znode is missing" if change == "emptied" else "it is of cluster other, not c"
    assert f"broker 1 cannot take part in the cluster: ZooKeeper: /cluster/id: {wanted}" in caplog.text


def test_a_znode_that_cannot_be_written_is_reported(
    server: MemoryServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.delete("/brokers/ids")
    (only,) = started(server, 1)
    assert only.views == []
    assert "ZooKeeper: /brokers/ids/1: this znode cannot be written" in caplog.text


def test_a_term_that_has_ended_resigns_without_an_effect_on_the_next_one(server: MemoryServer) -> None:
    """A computer sleeps: the controller gives up, its session expires, and it is elected again before it resigns."""
    (only,) = started(server, 1)
    earlier = only.view.term
    assert earlier is not None
    only.session.expire()
    announce(only, 701)
    only.election.resign(earlier)
    assert only.view.term is not None and only.view.term.epoch == 2
    assert only.view.address == ("127.0.0.1", 701), "brokers find the controller"


def test_a_controller_resigns_again_if_the_connection_was_lost(server: MemoryServer) -> None:
    (only,) = started(server, 1)
    term, client = only.view.term, only.session.client
    assert term is not None
    client.lose_next.append("dropped")
    only.election.resign(term)
    assert only.view.term == term
    for call in only.session.due[:]:
        call()
    assert only.view.term is not None and only.view.term.epoch == 2


def test_a_broker_looks_again_if_the_news_of_a_lost_answer_is_late(server: MemoryServer) -> None:
    """kazoo reports states in one thread and answers in another."""
    candidate = Candidate(server, 1)
    begun: list[Callable[[View | Exception], None]] = []
    candidate.session.begin = lambda wanted, ended: begun.append(ended)  # type: ignore[method-assign]
    candidate.election.poll()
    candidate.election.changed(SessionState.CONNECTED)
    begun[0](UnavailableError())
    assert len(begun) == 2


@pytest.mark.parametrize("times", [1, 3])
def test_a_broker_looks_again_if_answers_are_lost_while_the_session_lasts(
    server: MemoryServer, times: int
) -> None:
    """An answer that takes too long is lost, and the connection is not: no state of the session changes."""
    candidate = Candidate(server, 1)
    client = candidate.session.client
    client.lose_next.extend(["dropped"] * times)
    candidate.start()
    for _ in range(times - 1):
        candidate.election.poll()
    assert candidate.views == []
    (call,) = candidate.session.due
    call()
    assert candidate.view.term is not None


def test_a_broker_looks_again_if_a_request_cannot_be_sent(server: MemoryServer) -> None:
    candidate = Candidate(server, 1)
    client = candidate.session.client

    def fail(request: object) -> None:
        raise RuntimeError("the client cannot send")

    client.before = fail
    candidate.start()
    client.before = lambda request: None
    for call in candidate.session.due[:]:
        call()
    assert candidate.view.term is not None


def test_a_broker_registers_all_its_listeners_with_their_protocols() -> None:
    listeners = {"CLIENTS": ("10.0.0.1", 9092), "INTERNAL": ("10.0.0.1", 9192)}
    protocols = {"CLIENTS": "SASL_SSL", "INTERNAL": "SSL"}
    found = json.loads(encode_broker(Endpoints(listeners, protocols, ("10.0.0.1", 700), "SSL"), 5))
    assert (found["host"], found["port"]) == ("10.0.0.1", 9092)
    assert found["endpoints"] == [
        "CLIENTS://10.0.0.1:9092",
        "INTERNAL://10.0.0.1:9192",
        "CONTROLLER://10.0.0.1:700",
    ]
    assert found["listener_security_protocol_map"] == protocols | {"CONTROLLER": "SSL"}
