"""The controller of a cluster: who leads after brokers come, go, and report their in-sync replicas."""

import pytest

from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.metadata.controller import Controller, PlacedTopic
from kafka_offsets.metadata.image import NO_BROKER, ClusterImage, Delta, TopicPartition
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.metadata.store import MemoryStore
from kafka_offsets.replication.elections import IsrProposal
from kafka_offsets.replication.partition_state import NO_LEADER

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def controller() -> Controller:
    """Three brokers, and a topic with one partition that all of them have."""
    made = Controller(ClusterImage(), min_isr=1)
    for broker_id in (1, 2, 3):
        made.register(broker_id, "host", 9000 + broker_id)
    made.create([PlacedTopic("orders", bytes(16), made.image.place(1, 3), {})])
    return made


def state(controller: Controller):
    found = controller.image.state(*ORDERS)
    assert found is not None
    return found


def test_replicas_are_placed_round_robin(controller: Controller) -> None:
    assert controller.image.place(4, 2) == [[1, 2], [2, 3], [3, 1], [1, 2]]
    assert controller.image.place(1, 9) == [[1, 2, 3]]
    assert controller.image.place(1, 2, first=2) == [[3, 1]]


def test_the_first_broker_that_is_up_is_the_controller(controller: Controller) -> None:
    assert controller.image.brokers.controller_id == 1
    controller.fence(1)
    assert controller.image.brokers.controller_id == 2
    controller.register(1, "host", 9001)
    assert controller.image.brokers.controller_id == 2
    for broker_id in (1, 2, 3):
        controller.fence(broker_id)
    assert controller.image.brokers.controller_id == NO_BROKER


def test_another_in_sync_replica_leads_after_the_leader_has_stopped(controller: Controller) -> None:
    before = state(controller)
    delta = controller.fence(1)
    after = state(controller)
    assert (after.leader, set(after.isr), after.leader_epoch) == (2, {2, 3}, before.leader_epoch + 1)
    assert [placed.topic_partition for placed in delta.partitions] == [ORDERS]


def test_the_last_replica_leads_again_when_it_is_back(controller: Controller) -> None:
    for broker_id in (1, 2, 3):
        controller.fence(broker_id)
    assert state(controller).leader == NO_LEADER
    controller.register(1, "host", 9001)
    assert state(controller).leader == NO_LEADER  # it may lack records
    controller.register(3, "host", 9003)
    assert state(controller).leader == 3


def test_a_replica_that_may_lack_records_leads_if_the_topic_allows_it(controller: Controller) -> None:
    controller.configure("orders", {"unclean.leader.election.enable": "true"})
    for broker_id in (1, 2, 3):
        controller.fence(broker_id)
    controller.register(1, "host", 9001)
    assert (state(controller).leader, state(controller).isr) == (1, (1,))


def test_a_broker_has_a_new_epoch_after_each_start(controller: Controller) -> None:
    before = controller.image.brokers.by_id[2].epoch
    controller.fence(2)
    controller.register(2, "host", 9002)
    assert controller.image.brokers.by_id[2].epoch > before


def test_a_broker_that_is_down_is_removed_and_keeps_its_replicas(controller: Controller) -> None:
    assert controller.unregister(9) == (ErrorCode.BROKER_ID_NOT_REGISTERED, Delta())
    controller.fence(1)
    before = state(controller)
    error, delta = controller.unregister(1)
    assert (error, state(controller)) == (ErrorCode.NONE, before)
    assert delta.brokers is not None and set(delta.brokers.by_id) == {2, 3}
    assert controller.image.place(1, 3) == [[2, 3]]
    assert controller.unregister(1)[0] is ErrorCode.BROKER_ID_NOT_REGISTERED
    controller.register(1, "host", 9001)
    assert controller.image.live == {1, 2, 3}


def test_a_broker_that_is_up_is_removed_as_if_it_had_died(controller: Controller) -> None:
    error, delta = controller.unregister(1)
    assert error is ErrorCode.NONE
    assert (state(controller).leader, set(state(controller).isr)) == (2, {2, 3})
    assert [placed.topic_partition for placed in delta.partitions] == [ORDERS]
    assert controller.image.brokers.controller_id == 2
    assert (controller.unregister(2)[0], controller.unregister(3)[0]) == (ErrorCode.NONE, ErrorCode.NONE)
    assert controller.image.brokers == (NO_BROKER, {})
    assert state(controller).leader == NO_LEADER


def test_the_leader_changes_its_in_sync_replicas(controller: Controller) -> None:
    known = state(controller)
    error, delta = controller.alter_isr(
        ORDERS, IsrProposal(1, known.leader_epoch, known.partition_epoch, (1, 3))
    )
    assert (error, state(controller).isr) == (ErrorCode.NONE, (1, 3))
    assert delta.partitions[0].state.partition_epoch == known.partition_epoch + 1
    assert state(controller).elr == ()


def test_a_replica_that_leaves_an_isr_which_is_too_small_then_stays_eligible(controller: Controller) -> None:
    controller.configure("orders", {"min.insync.replicas": "3"})
    known = state(controller)
    controller.alter_isr(ORDERS, IsrProposal(1, known.leader_epoch, known.partition_epoch, (1, 3)))
    assert (state(controller).isr, state(controller).elr) == ((1, 3), (2,))


@pytest.mark.parametrize(
    ("leader", "epoch", "partition_epoch", "isr", "expected"),
    [
        (2, 0, 0, (2,), ErrorCode.INVALID_REQUEST),
        (1, 0, -1, (1,), ErrorCode.INVALID_UPDATE_VERSION),
        (1, -1, 0, (1,), ErrorCode.FENCED_LEADER_EPOCH),
        (1, 1, 0, (1,), ErrorCode.NOT_CONTROLLER),
    ],
)
def test_a_report_of_the_past_changes_nothing(
    controller: Controller,
    leader: int,
    epoch: int,
    partition_epoch: int,
    isr: tuple[int, ...],
    expected: ErrorCode,
) -> None:
    before = state(controller)
    error, delta = controller.alter_isr(ORDERS, IsrProposal(leader, epoch, partition_epoch, isr))
    assert (error, bool(delta), state(controller)) == (expected, False, before)


def test_a_broker_that_is_down_is_not_in_sync(controller: Controller) -> None:
    controller.fence(3)
    known = state(controller)
    proposal = IsrProposal(1, known.leader_epoch, known.partition_epoch, (1, 2, 3))
    assert controller.alter_isr(ORDERS, proposal)[0] is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.parametrize("value", ["abc", "", "0", "-1", "2147483648", "1.5"])
def test_a_topic_with_a_wrong_min_insync_replicas_has_the_default(value: str) -> None:
    """A store that other programs write may have anything: everything is decided nevertheless."""
    controller = Controller(ClusterImage(), min_isr=2)
    for broker_id in (1, 2, 3):
        controller.register(broker_id, "host", 9000 + broker_id)
    controller.create([PlacedTopic("orders", bytes(16), [[1, 2, 3]], {"min.insync.replicas": value})])
    controller.fence(1)
    assert (state(controller).isr, state(controller).elr) == ((2, 3), ())
    controller.fence(2)
    assert (state(controller).isr, state(controller).elr) == ((3,), (2,))


def test_elections_answer_as_elect_leaders_does(controller: Controller) -> None:
    nowhere = TopicPartition("orders", 7)
    errors, _ = controller.elect([ORDERS, nowhere])
    assert errors == {
        ORDERS: ErrorCode.ELECTION_NOT_NEEDED,
        nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    controller.fence(1)
    assert controller.elect([ORDERS])[0] == {ORDERS: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    for broker_id in (2, 3):
        controller.fence(broker_id)
    assert controller.elect([ORDERS], unclean=True)[0] == {ORDERS: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    controller.register(1, "host", 9001)
    assert controller.elect([ORDERS], unclean=True)[0] == {ORDERS: ErrorCode.NONE}
    assert state(controller).leader == 1


def test_replicas_move_and_a_move_is_cancelled(controller: Controller) -> None:
    controller.create([PlacedTopic("bills", b"b" * 16, [[1]], {})])
    bills = TopicPartition("bills", 0)
    assert controller.reassign(bills, None)[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    controller.reassign(bills, [2])
    moving = controller.image.state(*bills)
    assert moving is not None and (set(moving.replicas), moving.adding, moving.removing) == (
        {1, 2},
        (2,),
        (1,),
    )
    controller.reassign(bills, None)
    back = controller.image.state(*bills)
    assert back is not None and (back.replicas, back.is_reassigning) == ((1,), False)


def test_producer_ids_are_given_once(controller: Controller) -> None:
    first, second = controller.allocate_producer_ids(), controller.allocate_producer_ids()
    assert not set(first) & set(second)


def test_an_old_image_is_brought_up_to_date(controller: Controller) -> None:
    old = controller.image.copy()
    controller.create([PlacedTopic("bills", b"b" * 16, [[1]], {})])
    controller.delete(["orders"])
    controller.fence(2)
    old.apply(controller.image.since(old))
    assert (old.brokers, old.topics) == (controller.image.brokers, controller.image.topics)


def test_a_topic_that_was_created_again_replaces_the_old_one(controller: Controller) -> None:
    old = controller.image.copy()
    controller.delete(["orders"])
    controller.create([PlacedTopic("orders", b"n" * 16, [[2]], {})])
    delta = controller.image.since(old)
    assert [topic.topic_id for topic in delta.deleted] == [bytes(16)]
    old.apply(delta)
    assert old.topics["orders"].topic_id == b"n" * 16


def test_a_broker_that_may_have_lost_records_leads_only_if_no_other_may_have_them(
    controller: Controller,
) -> None:
    for broker_id in (1, 2, 3):
        controller.fence(broker_id)
    assert state(controller).elr == (3,)
    controller.register(3, "host", 9003, was_clean=False)
    assert (state(controller).leader, state(controller).elr) == (3, ())  # the last leader, uncleanly


def test_an_eligible_replica_that_may_have_lost_records_waits_for_another(controller: Controller) -> None:
    controller.configure("orders", {"min.insync.replicas": "2"})
    for broker_id in (1, 2, 3):
        controller.fence(broker_id)
    assert state(controller).elr == (2, 3)
    controller.register(2, "host", 9002, was_clean=False)
    assert (state(controller).leader, state(controller).elr) == (NO_LEADER, (3,))
    controller.register(3, "host", 9003)
    assert state(controller).leader == 3


class RefusingStore(MemoryStore):
    """Refuses everything while `is_full`."""

    is_full = False

    def save(self, delta: Delta) -> None:
        if self.is_full:
            raise StorageError("no space")

    def save_producer_ids(self, next_id: int) -> None:
        if self.is_full:
            raise StorageError("no space")


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.register(3, "host", 9103, was_clean=False),
        lambda made: made.fence(1),
        lambda made: made.create([PlacedTopic("new", bytes(16), [[1]], {})]),
        lambda made: made.delete(["orders"]),
        lambda made: made.configure("orders", {"retention.ms": "1"}),
        lambda made: made.lead(ORDERS, 2),
        lambda made: made.reassign(ORDERS, [2, 3]),
        lambda made: made.alter_isr(ORDERS, IsrProposal(1, 0, 0, (1, 2))),
        lambda made: made.alter_settings(ClusterSettings(groups={"g": {"a": "1"}})),
        lambda made: made.allocate_producer_ids(),
    ],
)
def test_what_the_store_refuses_has_not_happened(change) -> None:
    store = RefusingStore()
    made = Controller(store.load(), store=store)
    for broker_id in (1, 2, 3):
        made.register(broker_id, "host", 9000 + broker_id)
    made.create([PlacedTopic("orders", bytes(16), made.image.place(1, 3), {})])
    before = made.image.copy()
    store.is_full = True
    with pytest.raises(StorageError, match="no space"):
        change(made)
    assert made.image == before
    store.is_full = False
    change(made)
    assert made.image != before


def test_a_broker_that_may_have_lost_records_is_registered_in_one_change(controller: Controller) -> None:
    """What it leaves and what it may lead again reach the store and the brokers together."""
    before = controller.image.copy()
    delta = controller.register(2, "host", 9002, was_clean=False)
    before.apply(delta)
    assert before == controller.image
    assert 2 not in state(controller).isr
