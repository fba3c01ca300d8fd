"""Inner channels: what is lost, and what is reported of it."""

from collections import deque

import pytest

from kafka_offsets.broker.network.inner_channel import InnerChannel
from kafka_offsets.protocol import messages
from tests.drivers.core import make_core


class PlayedServer:
    """The server of a node; a test counts its turns."""

    def __init__(self) -> None:
        self.turns = 0

    def request_turn(self) -> None:
        self.turns += 1


class PlayedNetwork:
    """A network that delivers when the test says so."""

    def __init__(self) -> None:
        self.servers = {1: PlayedServer()}
        self.under_way = deque()
        self.is_cut = False

    def server(self, node_id):
        return self.servers.get(node_id)

    def carry(self, source, target, deliver):
        if self.is_cut and source != target:
            return False
        self.under_way.append(deliver)
        return True

    def deliver(self) -> None:
        while self.under_way:
            self.under_way.popleft()()


@pytest.fixture
def network():
    return PlayedNetwork()


def send(channel, answers) -> None:
    channel.send(messages.ApiVersionsRequest(), 0, answers.append)


def answer_all(core, network) -> None:
    core.end_turn()
    for connected in core.responses.take_output():
        connected.owner.flush()
    network.deliver()


@pytest.mark.parametrize("is_cut", [True, False], ids=["the network is cut", "the node is down"])
def test_a_request_that_does_not_arrive_is_reported_later_and_once(network, is_cut):
    network.is_cut, answers = is_cut, []
    channel = InnerChannel(network, 1, "broker-1", 2)
    send(channel, answers)
    assert answers == []
    network.deliver()
    assert answers == [None]
    assert network.servers[1].turns == 1


def test_a_loss_from_before_a_close_is_not_reported_after_it(network):
    # A follower that closes the channel sends its next Fetch on it: the late report ended that one, and a second Fetch
    # was sent while the first was under way.
    network.is_cut, answers = True, []
    channel = InnerChannel(network, 1, "broker-1", 2)
    send(channel, answers)
    channel.close()
    network.deliver()
    assert answers == []
    send(channel, answers)
    network.deliver()
    assert answers == [None]


def test_a_second_loss_does_not_hide_the_first(network):
    network.is_cut, answers = True, []
    channel = InnerChannel(network, 1, "broker-1", 2)
    send(channel, answers)
    send(channel, answers)
    network.deliver()
    assert answers == [None, None]


def test_what_waits_at_the_other_broker_when_a_connection_is_lost_answers_no_later_request(network):
    """Both brokers drop the connection: a response on it would be taken for that of a request after the loss."""
    core = make_core()
    target = network.servers[2] = PlayedServer()
    target.core, target.served = core, lambda: core.broker.apis
    answers = []
    channel = InnerChannel(network, 1, "broker-1", 2)
    channel.send(messages.ApiVersionsRequest(), 0, lambda answer: answers.append(("lost", answer)))
    network.deliver()
    (connection,) = core.connections
    network.is_cut = True
    channel.send(messages.ApiVersionsRequest(), 0, lambda answer: answers.append(("refused", answer)))
    network.is_cut = False
    channel.send(messages.ApiVersionsRequest(), 0, lambda answer: answers.append(("next", answer)))
    network.deliver()
    assert connection not in core.connections
    answer_all(core, network)
    assert [(name, answer is None) for name, answer in answers] == [
        ("lost", True),
        ("refused", True),
        ("next", False),
    ]


def test_a_restart_of_the_other_broker_loses_the_requests_that_it_had_and_the_one_that_finds_it_out(network):
    """The new broker knows nothing of the earlier request: its first response would be taken for that one's."""
    answers = []
    channel = InnerChannel(network, 1, "broker-1", 2)
    for run in range(2):
        target = network.servers[2] = PlayedServer()
        target.core, target.served = make_core(), lambda core=target: core.core.broker.apis
        for number in range(2 - run):
            channel.send(
                messages.ApiVersionsRequest(),
                0,
                lambda answer, name=(run, number): answers.append((name, answer)),
            )
        network.deliver()
    assert answers == [((0, 0), None), ((0, 1), None), ((1, 0), None)]
    answers.clear()
    for name in ("first", "second"):  # both are sent before they connect
        channel.send(
            messages.ApiVersionsRequest(), 0, lambda answer, name=name: answers.append((name, answer))
        )
    network.deliver()
    answer_all(target.core, network)
    assert [(name, answer is None) for name, answer in answers] == [("first", False), ("second", False)]
