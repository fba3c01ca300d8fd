"""Brokers of several processes and their controller, message by message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.errors import ErrorCode, ProtocolError, StorageError
from kafka_offsets.metadata.controller import PlacedTopic
from kafka_offsets.metadata.image import ClusterImage, TopicPartition
from kafka_offsets.metadata.json_form import to_json
from kafka_offsets.metadata.remote_requests import EXECUTES
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.metadata.store import AnotherControllerError
from kafka_offsets.replication.elections import IsrProposal
from kafka_offsets.replication.partition_state import NO_LEADER
from kafka_offsets.security.credential import ScramCredential
from tests.metadata.remote_cluster import RemoteBroker, RemoteCluster

ORDERS = TopicPartition("orders", 0)
NEW = PlacedTopic("orders", b"i" * 16, [[1, 2, 3]], {"retention.ms": "1"})


@pytest.fixture
def cluster() -> RemoteCluster:
    """Three brokers with one topic that all of them have."""
    made = RemoteCluster().start()
    made.brokers[1].membership.create([NEW])
    made.receive()
    return made


def state(image: ClusterImage):
    found = image.state(*ORDERS)
    assert found is not None
    return found


def same(found: ClusterImage, expected: ClusterImage) -> bool:
    """Whether a broker knows all that it may know: the next producer id is the controller's own."""
    return (found.brokers, found.topics, found.settings) == (
        expected.brokers,
        expected.topics,
        expected.settings,
    )


def test_no_broker_takes_part_before_all_that_are_awaited_have_registered() -> None:
    cluster = RemoteCluster()
    for broker_id in (2, 3):
        cluster.brokers[broker_id].register()
    cluster.receive()
    assert not cluster.service.is_complete
    assert not any(broker.membership.is_reachable for broker in cluster.brokers.values())
    with pytest.raises(StorageError, match="broker 2 does not reach the controller"):
        cluster.brokers[2].membership.allocate_producer_ids()
    cluster.brokers[1].register()
    cluster.receive()
    for broker in cluster.brokers.values():
        assert broker.membership.is_reachable
        assert broker.membership.image.live == {1, 2, 3}


def test_every_broker_has_the_image_of_the_controller_after_each_request(cluster: RemoteCluster) -> None:
    first = cluster.brokers[1].membership
    settings = ClusterSettings(
        {"g": {"consumer.session.timeout.ms": "1"}},
        {frozenset({("user", None)}): {"producer_byte_rate": 1.5}},
        {("alice", 1): ScramCredential(4096, b"salt", b"stored", b"server")},
    )
    first.alter_settings(settings)
    first.configure("orders", {"retention.ms": "2"})
    first.grow({"orders": [[2, 3], [3, 1]]})
    assert first.reassign(ORDERS, [2, 3]) is ErrorCode.NONE
    assert first.elect([ORDERS, TopicPartition("none", 0)], unclean=False) == {
        ORDERS: ErrorCode.ELECTION_NOT_NEEDED,  # broker 2 leads since it is the first replica
        TopicPartition("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert same(first.image, cluster.controller.image)  # what it has requested is there when it returns
    cluster.receive()
    for broker in cluster.brokers.values():
        assert same(broker.membership.image, cluster.controller.image)
        assert len(broker.membership.image.topics["orders"].partitions) == 3
    first.delete(["orders"])
    cluster.receive()
    assert not any(broker.membership.image.topics for broker in cluster.brokers.values())


def test_producer_ids_are_never_given_twice(cluster: RemoteCluster) -> None:
    blocks = [broker.membership.allocate_producer_ids() for broker in cluster.brokers.values()]
    assert len({*blocks[0], *blocks[1], *blocks[2]}) == sum(map(len, blocks))


def test_a_broker_learns_of_changes_in_their_order_before_the_answer(cluster: RemoteCluster) -> None:
    second = cluster.brokers[2]
    cluster.brokers[3].membership.configure("orders", {"retention.ms": "3"})
    second.membership.configure("orders", {"retention.ms": "2"})
    values = [topic.configs["retention.ms"] for delta in second.changes for topic in delta.created]
    assert values[-2:] == ["3", "2"]


def test_changes_wait_while_producer_ids_are_allocated(cluster: RemoteCluster) -> None:
    """A coordinator is in the middle of a decision then."""
    second = cluster.brokers[2]
    cluster.brokers[3].membership.configure("orders", {"retention.ms": "3"})
    before = len(second.changes)
    assert second.membership.allocate_producer_ids()
    assert len(second.changes) == before
    (make,) = second.soon_calls
    make()
    assert same(second.membership.image, cluster.controller.image)
    assert len(second.changes) == before + 1


def test_held_changes_come_before_later_ones(cluster: RemoteCluster) -> None:
    second, third = cluster.brokers[2], cluster.brokers[3]
    third.membership.configure("orders", {"retention.ms": "3"})
    second.membership.allocate_producer_ids()
    third.membership.configure("orders", {"retention.ms": "4"})
    second.receive()
    second.soon_calls[0]()
    assert same(second.membership.image, cluster.controller.image)


def test_changes_are_held_no_longer_if_waiting_fails(
    cluster: RemoteCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = cluster.brokers[2]

    def fail(is_done: object) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(second, "wait", fail)
        with pytest.raises(RuntimeError, match="a defect"):
            second.membership.allocate_producer_ids()
    cluster.brokers[3].membership.configure("orders", {"retention.ms": "3"})
    with pytest.raises(ProtocolError, match="was not requested"):  # the late answer
        second.receive()
    second.receive()
    assert same(second.membership.image, cluster.controller.image)


def test_a_proposal_whose_answer_is_wrong_fails(cluster: RemoteCluster) -> None:
    first = cluster.brokers[1]
    errors: list[ErrorCode] = []
    first.loses = True
    first.membership.alter_isr(ORDERS, IsrProposal(1, 0, 0, (1, 2)), errors.append)
    (number,) = first.membership._deciding
    with pytest.raises(ProtocolError, match="error"):
        first.membership.receive(first, to_json({"answer": number, "error": "none"}))
    first.membership.lost()  # as the link does after a ProtocolError
    assert errors == [ErrorCode.NETWORK_EXCEPTION]


def test_a_broker_resigns_and_joins_an_isr_only_by_a_later_fetch(cluster: RemoteCluster) -> None:
    first = cluster.brokers[1].membership
    epoch = first.image.brokers.by_id[1].epoch
    cluster.store.error = StorageError("No space left on device")
    first.resign()
    cluster.receive()
    assert state(first.image).leader == 1
    cluster.store.error = None
    first.resign()
    cluster.receive()
    for broker in cluster.brokers.values():
        assert (state(broker.membership.image).leader, state(broker.membership.image).isr) == (2, (2, 3))
        assert broker.membership.image.is_up(1), "it serves what others do not have in sync"
    stale = IsrProposal(2, 1, state(first.image).partition_epoch, (2, 3, 1), (-1, -1, epoch))
    errors: list[ErrorCode] = []
    cluster.brokers[2].membership.alter_isr(ORDERS, stale, errors.append)
    cluster.receive()
    assert errors == [ErrorCode.INELIGIBLE_REPLICA], "the fetch came before it resigned"
    assert first.image.brokers.by_id[1].epoch > epoch
    cluster.brokers[1].disconnect()
    first.resign()  # nothing happens


def test_the_last_in_sync_replica_does_not_resign(cluster: RemoteCluster) -> None:
    for broker_id in (2, 3):
        cluster.brokers[broker_id].disconnect()
    before = cluster.controller.image.copy()
    cluster.brokers[1].membership.resign()
    cluster.receive()
    assert same(cluster.controller.image, before)
    assert state(cluster.controller.image).leader == 1


def test_other_replicas_lead_after_a_connection_is_lost(cluster: RemoteCluster) -> None:
    assert state(cluster.controller.image).leader == 1
    cluster.brokers[1].disconnect()
    cluster.receive()
    for broker_id in (2, 3):
        found = state(cluster.brokers[broker_id].membership.image)
        assert (found.leader, set(found.isr)) == (2, {2, 3})
    assert state(cluster.brokers[1].membership.image).leader == 1  # as in Kafka: it does not know better


def test_a_broker_that_is_cut_off_fails_at_once_and_catches_up_later(cluster: RemoteCluster) -> None:
    first = cluster.brokers[1]
    epoch = cluster.controller.image.brokers.by_id[1].epoch
    errors: list[ErrorCode] = []
    proposal = IsrProposal(1, 0, 0, (1, 2))
    first.membership.alter_isr(ORDERS, proposal, errors.append)
    first.disconnect()
    first.membership.alter_isr(ORDERS, proposal, errors.append)
    assert errors == [ErrorCode.NETWORK_EXCEPTION, ErrorCode.NETWORK_EXCEPTION]
    with pytest.raises(StorageError, match="does not reach the controller"):
        first.membership.delete(["orders"])
    cluster.brokers[2].membership.create([PlacedTopic("new", b"n" * 16, [[2]], {})])
    first.connect()
    first.register(was_clean=False)
    first.receive()
    assert same(first.membership.image, cluster.controller.image)
    assert cluster.controller.image.brokers.by_id[1].epoch == epoch, "the same process keeps its epoch"
    assert {topic.name for topic in first.changes[-1].created} == {"new", "orders"}


def test_another_process_of_a_broker_has_another_epoch(cluster: RemoteCluster) -> None:
    epoch = cluster.controller.image.brokers.by_id[1].epoch
    cluster.brokers[1].disconnect()
    again = RemoteBroker(cluster.service, 1, "second")
    again.register(was_clean=False)
    again.receive()
    assert again.membership.image.brokers.by_id[1].epoch > epoch
    assert same(again.membership.image, cluster.controller.image)


def test_two_processes_cannot_be_one_broker(cluster: RemoteCluster) -> None:
    other = RemoteBroker(cluster.service, 1, "second")
    other.register()
    assert not other.is_connected
    with pytest.raises(ProtocolError, match="refuses this broker: another process is broker 1 already"):
        other.receive()
    assert cluster.controller.image.is_up(1), "the first one is not concerned"


def test_a_connection_of_the_same_process_replaces_the_earlier_one(cluster: RemoteCluster) -> None:
    """The controller may learn later than the broker that a connection is lost."""
    first = cluster.brokers[1]
    earlier = first.session
    first.membership.lost()
    first.connect()
    first.register()
    first.receive()
    cluster.service.lost(earlier)
    assert cluster.controller.image.is_up(1)
    assert state(first.membership.image).leader_epoch == 0, "it leads on"
    assert same(first.membership.image, cluster.controller.image)


WRONG_ANSWERS = [
    ("reassign", {}),
    ("reassign", {"error": "none"}),
    ("unregister", {}),
    ("elect", {}),
    ("elect", {"errors": [{"topic": "orders", "partition": 0}]}),
    ("elect", {"errors": [{"topic": "others", "partition": 0, "error": 0}]}),
    ("elect", {"errors": [1]}),
    ("allocate_producer_ids", {}),
    ("allocate_producer_ids", {"first": 7}),
    ("allocate_producer_ids", {"first": 7, "end": 7}),
    ("create", {"failed": 1}),
]
REQUESTS = {
    "reassign": lambda member: member.reassign(ORDERS, [1, 2]),
    "unregister": lambda member: member.unregister(3),
    "elect": lambda member: member.elect([ORDERS], unclean=False),
    "allocate_producer_ids": lambda member: member.allocate_producer_ids(),
    "create": lambda member: member.create([NEW]),
}


@pytest.mark.parametrize(("name", "answer"), WRONG_ANSWERS)
def test_a_wrong_answer_fails_the_request_and_then_loses_the_connection(
    cluster: RemoteCluster, name: str, answer: dict[str, object]
) -> None:
    """The request of a client is under way: the connection is lost after it."""
    second = cluster.brokers[2]
    second.loses = True
    second.arriving.append(to_json({"answer": 1, **answer}))
    with pytest.raises(
        StorageError, match=f"the controller's answer to {name} is wrong: .* is (missing|not )"
    ):
        REQUESTS[name](second.membership)
    assert second.membership.is_reachable
    (lose,) = second.soon_calls
    with pytest.raises(ProtocolError, match=f"the answer to {name} is wrong"):
        lose()


def test_what_the_controller_decides_waits_until_it_answers(cluster: RemoteCluster) -> None:
    second, decided = cluster.brokers[2], []
    second.membership.when_answering(lambda: decided.append(second.membership.is_reachable))
    assert not decided and not second.soon_calls
    second.receive()
    (call,) = second.soon_calls
    assert not decided, "the broker may be in the middle of another decision"
    call()
    second.receive()
    assert decided == [True] and len(second.soon_calls) == 1


def test_what_the_controller_decides_is_refused_when_it_is_lost(cluster: RemoteCluster) -> None:
    second, decided = cluster.brokers[2], []
    second.membership.when_answering(lambda: decided.append(second.membership.is_reachable))
    second.disconnect()
    (call,) = second.soon_calls
    call()
    second.membership.when_answering(lambda: decided.append(second.membership.is_reachable))
    assert decided == [False, False], "the last one at once"


def test_a_broker_that_is_down_is_removed_at_every_other_one(cluster: RemoteCluster) -> None:
    cluster.brokers[1].disconnect()
    second = cluster.brokers[2].membership
    assert second.unregister(1) is ErrorCode.NONE
    cluster.receive()
    for broker_id in (2, 3):
        assert set(cluster.brokers[broker_id].membership.image.brokers.by_id) == {2, 3}
    assert second.unregister(1) is second.unregister(-1) is ErrorCode.BROKER_ID_NOT_REGISTERED
    again = RemoteBroker(cluster.service, 1, "second")
    again.register()
    again.receive()
    assert again.membership.image.live == {1, 2, 3}


@pytest.mark.parametrize("requester", [1, 2])
def test_a_broker_that_runs_is_removed_until_its_next_start(cluster: RemoteCluster, requester: int) -> None:
    """Also if it has passed the request of an administrator on itself: its client gets the answer."""
    first = cluster.brokers[1]
    assert cluster.brokers[requester].membership.unregister(1) is ErrorCode.NONE
    cluster.receive()
    for broker in cluster.brokers.values():
        image = broker.membership.image
        assert (set(image.brokers.by_id), state(image).leader) == ({2, 3}, 2), "it knows who leads now, too"
    first.disconnect()
    cluster.receive()
    first.connect()
    first.register()
    cluster.brokers[3].membership.configure("orders", {"retention.ms": "2"})
    cluster.receive()
    assert first.membership.image.topics == cluster.controller.image.topics
    assert 1 not in cluster.controller.image.brokers.by_id
    first.disconnect()
    again = RemoteBroker(cluster.service, 1, "second")
    again.register()
    again.receive()
    assert again.membership.is_reachable
    cluster.receive()
    assert cluster.brokers[3].membership.image.live == {1, 2, 3}


def test_a_broker_is_not_removed_while_the_store_refuses_it(cluster: RemoteCluster) -> None:
    cluster.store.error = StorageError("no space")
    with pytest.raises(StorageError, match="no space"):
        cluster.brokers[2].membership.unregister(1)
    cluster.store.error = None
    cluster.brokers[1].membership.configure("orders", {"retention.ms": "2"})
    assert cluster.brokers[1].membership.is_reachable


def test_a_broker_of_another_cluster_is_refused(cluster: RemoteCluster) -> None:
    other = RemoteBroker(cluster.service, 4)
    other.register(cluster_id="other")
    with pytest.raises(ProtocolError, match="broker 4 belongs to cluster other, not cluster"):
        other.receive()
    assert 4 not in cluster.controller.image.brokers.by_id


def test_a_broker_that_leaves_sees_that_others_lead(cluster: RemoteCluster) -> None:
    first = cluster.brokers[1]
    first.membership.leave()
    assert state(first.membership.image).leader == 2
    changes = len(cluster.brokers[2].changes)
    first.disconnect()
    cluster.receive()
    assert len(cluster.brokers[2].changes) == changes + 1


def test_the_isr_is_altered_for_the_leader_alone(cluster: RemoteCluster) -> None:
    errors: list[ErrorCode] = []
    found = state(cluster.controller.image)
    proposal = IsrProposal(1, found.leader_epoch, found.partition_epoch, (1, 2))
    cluster.brokers[2].membership.alter_isr(ORDERS, proposal, errors.append)  # says that it were broker 1
    cluster.receive()
    assert errors == [ErrorCode.INVALID_REQUEST]
    cluster.brokers[1].membership.alter_isr(ORDERS, proposal, errors.append)
    assert len(errors) == 1, "the broker does not wait"
    cluster.receive()
    assert errors[1:] == [ErrorCode.NONE]
    assert state(cluster.brokers[3].membership.image).isr == (1, 2)


@pytest.fixture
def many(cluster: RemoteCluster) -> RemoteCluster:
    """Brokers 1 and 2 lead 20 partitions each, and their proposals wait."""
    replicas = [[1, 2, 3], [2, 3, 1]] * 20
    cluster.brokers[1].membership.create([PlacedTopic("many", b"m" * 16, replicas, {})])
    cluster.receive()
    cluster.store.saved.clear()
    for broker in cluster.brokers.values():
        broker.gathers = True
    return cluster


def propose_all(cluster: RemoteCluster, errors: dict[TopicPartition, list[ErrorCode]]) -> None:
    for place, found in cluster.controller.image.placed():
        if place.topic == "many":
            proposal = IsrProposal(found.leader, found.leader_epoch, found.partition_epoch, found.isr[:2])
            decided = errors.setdefault(place, []).append
            cluster.brokers[found.leader].membership.alter_isr(place, proposal, decided)


def test_proposals_of_all_brokers_are_one_change(many: RemoteCluster) -> None:
    errors: dict[TopicPartition, list[ErrorCode]] = {}
    propose_all(many, errors)
    propose_all(many, errors)  # of an epoch that the first ones will have ended
    assert many.service.has_proposals
    many.service.decide_proposals()
    many.receive()
    (saved,) = many.store.saved
    assert len(saved.partitions) == 40
    assert [*errors.values()] == [[ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]] * 40
    for broker in many.brokers.values():
        assert same(broker.membership.image, many.controller.image)
        assert len(broker.changes[-1].partitions) == 40


def test_proposals_are_decided_before_later_requests_and_losses(many: RemoteCluster) -> None:
    for end in (
        lambda: many.brokers[1].membership.configure("many", {"a": "1"}),
        many.brokers[3].disconnect,
        many.service.elect_preferred_leaders,
    ):
        errors: dict[TopicPartition, list[ErrorCode]] = {}
        propose_all(many, errors)
        end()
        assert not many.service.has_proposals
        many.receive()
        assert len(errors) == 40
        assert all(len(each) == 1 for each in errors.values())


def test_proposals_that_the_store_refuses_fail(many: RemoteCluster) -> None:
    errors: dict[TopicPartition, list[ErrorCode]] = {}
    propose_all(many, errors)
    many.store.error = StorageError("no space")
    many.service.decide_proposals()
    many.receive()
    assert [*errors.values()] == [[ErrorCode.NETWORK_EXCEPTION]] * 40
    assert many.store.saved == []


def test_a_disconnected_broker_gets_no_answer_to_its_proposals(many: RemoteCluster) -> None:
    errors: dict[TopicPartition, list[ErrorCode]] = {}
    propose_all(many, errors)
    many.brokers[1].disconnect()
    many.receive()
    assert {place.partition % 2 for place, each in errors.items() if each == [ErrorCode.NONE]} == {1}
    assert len(many.store.saved[0].partitions) == 40, "what it has sent while it led counts"


def test_preferred_leaders_lead_again_when_they_are_in_sync(cluster: RemoteCluster) -> None:
    cluster.brokers[1].disconnect()
    again = RemoteBroker(cluster.service, 1, "second")
    again.register()
    cluster.service.elect_preferred_leaders()
    assert state(cluster.controller.image).leader == 2, "broker 1 is not in sync"
    found = state(cluster.controller.image)
    proposal = IsrProposal(2, found.leader_epoch, found.partition_epoch, (1, 2, 3))
    cluster.brokers[2].receive()
    cluster.brokers[2].membership.alter_isr(ORDERS, proposal, lambda error: None)
    cluster.service.elect_preferred_leaders()
    cluster.receive()
    assert state(cluster.brokers[3].membership.image).leader == 1


# -- races


def test_a_topic_that_two_brokers_create_is_that_of_the_first(cluster: RemoteCluster) -> None:
    first, second = cluster.brokers[1].membership, cluster.brokers[2].membership
    first.create([PlacedTopic("new", b"1" * 16, [[1]], {})])
    with pytest.raises(StorageError, match="another broker has created new in the meantime"):
        second.create([PlacedTopic("other", b"o" * 16, [[1]], {}), PlacedTopic("new", b"2" * 16, [[1]], {})])
    assert second.image.topics["new"].topic_id == b"1" * 16, "the refused one knows it by then"
    assert "other" not in cluster.controller.image.topics, "all or none"


def test_a_topic_grows_once_if_two_brokers_add_partitions(cluster: RemoteCluster) -> None:
    first, second = cluster.brokers[1].membership, cluster.brokers[2].membership
    first.grow({"orders": [[1]]})
    with pytest.raises(StorageError, match="another broker has changed orders in the meantime"):
        second.grow({"orders": [[1]]})
    assert len(second.image.topics["orders"].partitions) == 2


def test_a_topic_that_was_deleted_and_created_again_is_another_one(cluster: RemoteCluster) -> None:
    first, second = cluster.brokers[1].membership, cluster.brokers[2].membership
    first.delete(["orders"])
    first.create([NEW._replace(topic_id=b"2" * 16)])
    with pytest.raises(StorageError, match="another broker has changed orders in the meantime"):
        second.delete(["orders"])
    assert "orders" in cluster.controller.image.topics


# -- the store


@pytest.mark.parametrize("value", ["0", "-1", "2147483648", "9" * 5000, "two", ""])
def test_a_smallest_isr_that_kafka_does_not_accept_is_refused(cluster: RemoteCluster, value: str) -> None:
    second = cluster.brokers[2]
    with pytest.raises(ProtocolError, match=r"min\.insync\.replicas is no number from 1 to 2147483647"):
        second.membership.configure("orders", {"min.insync.replicas": value})
    assert not second.is_connected
    assert cluster.controller.image.topics["orders"].configs == {"retention.ms": "1"}


@pytest.mark.parametrize("value", ["1", " 2", "+2", "2147483647"])
def test_a_smallest_isr_that_kafka_accepts_is_kept(cluster: RemoteCluster, value: str) -> None:
    cluster.brokers[2].membership.configure("orders", {"min.insync.replicas": value})
    assert cluster.controller.image.topics["orders"].configs == {"min.insync.replicas": value}


def test_what_the_store_refuses_fails_at_the_broker_and_changes_nothing(cluster: RemoteCluster) -> None:
    cluster.store.error = StorageError("no space", "cluster-metadata")
    before = cluster.controller.image.copy()
    with pytest.raises(StorageError, match="no space"):
        cluster.brokers[1].membership.delete(["orders"])
    assert cluster.controller.image == before
    cluster.store.error = None
    cluster.brokers[1].membership.delete(["orders"])


def test_a_broker_that_could_not_be_fenced_is_fenced_later(cluster: RemoteCluster) -> None:
    cluster.store.error = StorageError("no space")
    cluster.brokers[1].disconnect()
    assert cluster.service.has_absent
    assert [str(error) for error in cluster.service.fence_absent()] == ["no space"]
    assert cluster.controller.image.is_up(1)
    cluster.store.error = None
    assert cluster.service.fence_absent() == []
    assert not cluster.service.has_absent
    assert state(cluster.controller.image).leader == 2


def test_brokers_that_do_not_return_to_a_new_controller_are_fenced(cluster: RemoteCluster) -> None:
    from kafka_offsets.metadata.controller import Controller
    from kafka_offsets.metadata.controller_service import ControllerService

    controller = Controller(cluster.controller.image.copy())
    service = ControllerService(controller, "cluster")
    for broker_id in (1, 2):
        broker = cluster.brokers[broker_id]
        broker.membership.lost()
        broker.service = service
        broker.connect()
        broker.register(was_clean=False)
        broker.receive()
    assert set(state(controller.image).isr) == {1, 2, 3}, "their processes have lost nothing"
    service.fence_absent()
    cluster.brokers[1].receive()
    assert set(state(cluster.brokers[1].membership.image).isr) == {1, 2}


@pytest.mark.parametrize(
    "step", ["request", "loss", "loss after a proposal", "leave", "register", "election"]
)
def test_a_controller_that_is_deposed_closes_every_connection(cluster: RemoteCluster, step: str) -> None:
    cluster.store.error = AnotherControllerError("broker 2 is the controller")
    before = cluster.controller.image.copy()
    if step == "request":
        with pytest.raises(StorageError, match="does not reach the controller"):
            cluster.brokers[1].membership.delete(["orders"])
    elif step == "loss":
        cluster.brokers[1].disconnect()
    elif step == "loss after a proposal":
        cluster.brokers[1].gathers = True
        cluster.brokers[1].membership.alter_isr(ORDERS, IsrProposal(1, 0, 0, (1,)), lambda error: None)
        cluster.brokers[1].disconnect()
    elif step == "election":
        cluster.store.error = None
        cluster.controller.lead(ORDERS, 2)
        before = cluster.controller.image.copy()
        cluster.store.error = AnotherControllerError("broker 2 is the controller")
        with pytest.raises(AnotherControllerError):
            cluster.service.elect_preferred_leaders()
    elif step == "leave":
        cluster.brokers[1].membership.leave()
    else:
        RemoteBroker(cluster.service, 4).register()
    assert cluster.deposed == 1
    assert not any(broker.is_connected for broker in cluster.brokers.values())
    for broker in cluster.brokers.values():
        cluster.service.lost(broker.session)
    assert cluster.controller.image == before, "it has fenced no broker"


def test_a_connection_that_deposes_the_controller_gets_no_image(cluster: RemoteCluster) -> None:
    """To take its broker back shows that another controller decides."""
    cluster.brokers[1].disconnect()
    cluster.store.error = AnotherControllerError("broker 2 is the controller")
    again = RemoteBroker(cluster.service, 1)
    again.register()
    assert cluster.deposed == 1
    assert (again.receive(), again.is_connected) == ([], False)


def test_a_deposed_controller_closes_later_connections(cluster: RemoteCluster) -> None:
    cluster.store.error = AnotherControllerError("broker 2 is the controller")
    cluster.brokers[1].disconnect()
    cluster.store.error = None
    before = cluster.controller.image.copy()
    later = RemoteBroker(cluster.service, 1)
    later.register()
    assert (later.receive(), later.is_connected) == ([], False)
    assert cluster.controller.image == before


# -- any bytes


MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "request": st.sampled_from([*EXECUTES, "?", 7]),
        "number": st.integers(-1, 5),
        "answer": st.integers(-1, 5),
        "name": st.sampled_from(["orders", "new"]),
        "topics": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["orders", "new"])},
                optional={
                    "topic_id": st.sampled_from(["aWlpaWlpaWlpaWlpaWlpaQ==", "", 7]),
                    "replicas": st.lists(st.lists(st.integers(-1, 4), max_size=3), max_size=2),
                    "configs": st.dictionaries(
                        st.sampled_from(["min.insync.replicas", "a"]), st.sampled_from(["1", "x", ""])
                    ),
                    "partitions": st.integers(-1, 3),
                },
            ),
            max_size=2,
        ),
        "topic": st.sampled_from(["orders", "none", None]),
        "partition": st.integers(-1, 2),
        "replicas": st.none() | st.lists(st.integers(-1, 4), max_size=3),
        "places": st.lists(st.just({"topic": "orders", "partition": 0}), max_size=2),
        "unclean": st.booleans(),
        "isr": st.lists(st.integers(-1, 4), max_size=3),
        "broker_epochs": st.lists(st.integers(-1, 4), max_size=3),
        "leader_epoch": st.integers(-1, 2),
        "partition_epoch": st.integers(-1, 2),
        "settings": st.none() | st.just({"groups": {}, "quotas": [], "credentials": []}),
        "leave": st.just(True),
        "heartbeat": st.just(True),
        "register": st.none() | st.just({"id": 1}),
        "delta": st.none() | st.just({"partitions": [{"topic": "x"}]}) | st.just({}),
        "image": st.none() | st.just({}),
    },
)


@given(st.lists(st.binary(max_size=20) | MESSAGES.map(to_json), max_size=4))
def test_whatever_a_broker_sends_concerns_its_own_connection_alone(sent: list[bytes]) -> None:
    cluster = RemoteCluster().start()
    cluster.brokers[1].membership.create([NEW])
    for message in sent:
        cluster.brokers[1].send(message)
    others = [cluster.brokers[2], cluster.brokers[3]]
    for broker in others:
        broker.receive()
        broker.membership.configure("a", {}) if "a" in broker.membership.image.topics else None
        assert broker.is_connected
        assert same(broker.membership.image, cluster.controller.image)
    cluster.controller.fence(2)  # it still decides


@given(st.binary(max_size=20) | MESSAGES.map(to_json))
def test_whatever_the_controller_sends_is_done_or_refused(message: bytes) -> None:
    cluster = RemoteCluster(1).start()
    broker = cluster.brokers[1]
    try:
        broker.membership.receive(broker, message)
    except ProtocolError:
        broker.disconnect()
        broker.connect()
        broker.register()
        broker.receive()
        assert same(broker.membership.image, cluster.controller.image)


def test_a_registration_that_the_store_refuses_may_be_tried_again(cluster: RemoteCluster) -> None:
    fourth = RemoteBroker(cluster.service, 4)
    cluster.store.error = StorageError("no space")
    fourth.register()
    with pytest.raises(ProtocolError, match="no space"):
        fourth.receive()
    cluster.store.error = None
    fourth.connect()
    fourth.register()
    fourth.receive()
    assert fourth.membership.image.is_up(4)


def test_all_brokers_down_and_one_back_after_a_crash(cluster: RemoteCluster) -> None:
    """The last leader leads again, although its process may have lost records: no other replica has more."""
    for broker in cluster.brokers.values():
        broker.disconnect()
    assert state(cluster.controller.image).leader == NO_LEADER
    for broker_id in (1, 2, 3):
        again = RemoteBroker(cluster.service, broker_id, "second")
        again.register(was_clean=False)
    assert state(cluster.controller.image).leader == 3
