"""Consumer groups (KIP-848), one step at a time: targets, records, timers, refused appends.

The answers of ConsumerGroupHeartbeat are in tests/stories/consumer_groups.txt.
"""

from typing import Any

import pytest

from kafka_offsets.coordinator.consumer import draft
from kafka_offsets.coordinator.consumer.topic_hash import group_hash, topic_hash
from kafka_offsets.coordinator.state import consumer_records as records
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.consumer_records import Current, MemberState
from kafka_offsets.coordinator.state.result import CoordinatorRecord
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.drivers.shard import ABC, JOINS, ShardDriver, assigned, id_of, owned


def two_members(driver: ShardDriver) -> tuple[Any, Any]:
    """m1 and m2 that share topic a, at the moment when m1 has given up what m2 waits for."""
    driver.enter_consumer("m1", "a")
    driver.enter_consumer("m2", "a")
    kept = assigned(driver.heartbeat("m1", 2))
    assert kept is not None
    first = driver.heartbeat("m1", 2, topic_partitions=owned(**kept))
    return first, driver.heartbeat("m2", 3)


# ---- what is refused


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
    ],
)
def test_a_blank_id_is_refused_as_an_empty_one(fields: dict[str, Any], message: str) -> None:
    driver = ShardDriver(ABC)
    said = {"member_id": "m1", "member_epoch": 0, **JOINS, **fields}
    answer = driver.heartbeat(said.pop("member_id"), said.pop("member_epoch"), **said)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert not driver.durable


@pytest.mark.parametrize(
    ("length", "character", "error"), [(32767, "x", 0), (32768, "x", -1), (16383, "ü", 0), (16384, "ü", -1)]
)
def test_an_id_that_no_key_can_hold_is_an_error_of_the_server(
    length: int, character: str, error: int
) -> None:
    driver = ShardDriver(ABC)
    said = {"group_id": character * length, **JOINS}
    assert driver.heartbeat_later("m1", 0, **said).error == error
    assert (driver.shard.groups != {}) == (error == 0)


# ---- who has what


def test_the_assignment_is_sent_when_it_changes_and_after_a_full_heartbeat() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a")
    everything = {
        "rebalance_timeout_ms": 5000,
        "subscribed_topic_names": ["a"],
        "topic_partitions": owned(a=[0]),
    }
    assert assigned(driver.heartbeat("m1", 2, **everything)) == {"a": [0, 1, 2]}
    for left_out in everything:
        said = {name: value for name, value in everything.items() if name != left_out}
        assert assigned(driver.heartbeat("m1", 2, **said)) is None
    assert assigned(driver.heartbeat("m1", 2, subscribed_topic_names=["b"], topic_partitions=owned())) == {
        "b": [0, 1, 2]
    }


def test_what_a_member_leaves_out_is_as_before() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a", rack_id="r", server_assignor="range", instance_id="i")
    driver.heartbeat("m1", 2, instance_id="i")
    member = driver.members()["m1"]
    assert (member.instance_id, member.rack_id, member.subscribed_topic_names) == ("i", "r", ["a"])
    assert (member.client_id, member.client_host, member.member_type) == ("c", "/host", 1)
    assert driver.described().assignor_name == "range"
    driver.heartbeat("m1", 2, instance_id="i", rack_id="s", server_assignor="uniform")
    assert (driver.members()["m1"].rack_id, driver.described().assignor_name) == ("s", "uniform")


def test_the_assignor_of_most_members_assigns() -> None:
    driver = ShardDriver(ABC)
    for member, assignor in (("m1", "range"), ("m2", "range"), ("m3", "uniform")):
        driver.enter_consumer(member, "a", "b", server_assignor=assignor)
    target = [assigned(type("", (), {"assignment": m.target_assignment})) for m in driver.members().values()]
    assert target == [{"a": [0], "b": [0]}, {"a": [1], "b": [1]}, {"a": [2], "b": [2]}]
    driver.heartbeat("m1", -1)
    driver.heartbeat("m2", -1)
    assert driver.described().assignor_name == "uniform"


def test_a_member_is_described_with_what_it_has_and_what_it_is_to_give_up_and_shall_have() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a")
    driver.enter_consumer("m2", "a")
    kept = assigned(driver.heartbeat("m1", 2))
    assert kept is not None
    described = driver.described()
    assert (described.group_epoch, described.assignment_epoch, described.group_state) == (3, 3, "Reconciling")
    first, second = described.members
    (topic,) = first.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (id_of("a"), "a", [0, 1, 2])
    (topic,) = first.target_assignment.topic_partitions
    assert topic.partitions == kept["a"]
    assert (first.member_epoch, second.member_epoch) == (2, 3)
    assert not second.assignment.topic_partitions
    driver.topics.delete("a")
    assert not driver.members()["m1"].assignment.topic_partitions


def test_a_description_says_what_the_log_says() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a")
    driver.hold = True
    later = driver.heartbeat_later("m2", 0, **JOINS)
    described = driver.described()
    assert [member.member_id for member in described.members] == ["m1"]
    assert (described.group_id, described.group_epoch, described.group_state) == ("g", 2, "Stable")
    assert [(listed.group_id, listed.group_state) for listed in driver.list_groups()] == [("g", "Stable")]
    driver.hold = False
    driver.sync_log()
    assert later.error == 0
    assert [member.member_id for member in driver.described().members] == ["m1", "m2"]
    assert [(listed.group_id, listed.group_state) for listed in driver.list_groups()] == [
        ("g", "Reconciling")
    ]


def test_what_the_log_refuses_has_not_happened() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a")
    driver.hold = True
    later = driver.heartbeat_later("m2", 0, **JOINS)
    gone = driver.heartbeat_later("m1", -1)
    driver.fail_log(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    driver.hold = False
    assert (later.error, gone.error) == (ErrorCode.COORDINATOR_NOT_AVAILABLE,) * 2
    assert later.answer.error_message is None
    assert [*driver.members()] == ["m1"]
    assert driver.heartbeat("m1", 2).error_code == 0


# ---- topics that change, and expressions


def test_a_topic_that_grows_is_assigned_with_the_next_heartbeat() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a", "new")
    driver.topics.create("a", 4)
    assert assigned(driver.heartbeat("m1", 2)) == {"a": [0, 1, 2, 3]}
    driver.topics.create("new", 1)
    assert assigned(driver.heartbeat("m1", 3)) == {"a": [0, 1, 2, 3], "new": [0]}
    driver.topics.create("other", 1)
    assert driver.heartbeat("m1", 4).member_epoch == 4


def test_an_expression_matches_present_and_new_topics() -> None:
    driver = ShardDriver(ABC)
    answer = driver.enter_consumer("m1", subscribed_topic_names=None, subscribed_topic_regex="[ab]+")
    assert assigned(answer) == {}
    driver.advance(0)
    assert assigned(driver.heartbeat("m1", answer.member_epoch)) == {"a": [0, 1, 2], "b": [0, 1, 2]}
    assert driver.members()["m1"].subscribed_topic_regex == "[ab]+"


def regex_records(driver: ShardDriver) -> list[tuple[str, set[str] | None]]:
    """What the log says of expressions: each with its topics, None when it was deleted."""
    found: list[tuple[str, set[str] | None]] = []
    for record in driver.durable:
        key = stored.parse_key(record.key)
        if isinstance(key, records.ConsumerKey) and key.type == records.REGEX:
            value = None if record.value is None else records.parse_value(key.type, record.value)
            found.append((key.name, {*value.topics} if isinstance(value, records.ResolvedRegex) else None))
    return found


def test_an_expression_is_resolved_again_when_topics_are_created_and_when_it_is_old() -> None:
    driver = ShardDriver(ABC, consumer_regex_refresh_interval_ms=20_000, consumer_regex_pause_ms=5000)
    epoch = driver.enter_consumer(
        "m1", subscribed_topic_names=None, subscribed_topic_regex="[ab]+"
    ).member_epoch
    driver.advance(0)
    assert regex_records(driver) == [("[ab]+", {"a", "b"})]
    driver.topics.create("ab", 1)
    driver.advance(5000)
    epoch = driver.heartbeat("m1", epoch).member_epoch
    assert len(regex_records(driver)) == 1  # it was resolved only just now
    driver.advance(1)
    epoch = driver.heartbeat("m1", epoch).member_epoch
    driver.advance(0)
    assert regex_records(driver)[1:] == [("[ab]+", {"a", "b", "ab"})]
    epoch = driver.heartbeat("m1", epoch).member_epoch
    driver.advance(20_000)
    epoch = driver.heartbeat("m1", epoch).member_epoch
    assert len(regex_records(driver)) == 2
    driver.advance(1)
    driver.heartbeat("m1", epoch)
    driver.advance(0)
    assert regex_records(driver)[2:] == [("[ab]+", {"a", "b", "ab"})]


def test_an_expression_is_forgotten_when_no_member_uses_it() -> None:
    driver = ShardDriver(ABC)
    for member in "m1", "m2":
        driver.enter_consumer(member, subscribed_topic_names=None, subscribed_topic_regex="a+")
        driver.advance(0)
    assert regex_records(driver) == [("a+", {"a"})]
    epoch = driver.members()["m1"].member_epoch
    driver.heartbeat("m1", epoch, subscribed_topic_regex="b+")
    driver.advance(20_000)
    driver.heartbeat("m1", epoch)
    driver.advance(0)
    assert ("a+", None) not in regex_records(driver)
    driver.heartbeat("m2", -1)
    assert regex_records(driver)[-1] == ("a+", None)
    driver.heartbeat(
        "m1", driver.members()["m1"].member_epoch, subscribed_topic_regex="", subscribed_topic_names=["c"]
    )
    assert regex_records(driver)[-1] == ("b+", None)


def test_the_hash_of_the_topics_follows_each_expression() -> None:
    """A topic that two expressions match is subscribed to until neither does."""
    driver = ShardDriver(ABC)
    for member, expression in (("m1", "a+"), ("m2", "a.*")):
        said = {"subscribed_topic_names": None, "subscribed_topic_regex": expression}
        driver.enter_consumer(member, rebalance_timeout_ms=1_000_000, **said)
    for _ in range(3):
        driver.advance(20_000)
        for member in "m1", "m2":
            driver.heartbeat(member, driver.members()[member].member_epoch)
    hash_of_a = group_hash([("a", topic_hash("a", id_of("a"), 3))])

    def stored_hash() -> int:
        key = records.key_bytes(records.ConsumerKey(records.EPOCH, "g"))
        value = next(record.value for record in reversed(driver.durable) if record.key == key) or b""
        epoch = records.parse_value(records.EPOCH, value)
        assert isinstance(epoch, records.GroupEpoch)
        return epoch.metadata_hash

    assert stored_hash() == hash_of_a
    driver.heartbeat("m2", driver.members()["m2"].member_epoch, subscribed_topic_regex="none")
    driver.advance(20_000)
    assert stored_hash() == hash_of_a
    driver.heartbeat("m1", -1)
    assert stored_hash() == 0


def test_topics_as_old_brokers_stored_them_are_deleted_when_the_topics_are_looked_at() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a")
    key = records.key_bytes(records.ConsumerKey(records.PARTITION_METADATA, "g"))
    value = b"\0\0" + messages.encode(messages.ConsumerGroupPartitionMetadataValue(), 0)
    driver.durable.append(CoordinatorRecord(key, value))
    again = driver.restart()
    for _ in range(2):
        assert again.heartbeat("m1", 2).error_code == 0
        assert [record.value for record in again.durable if record.key == key] == [value, None]


# ---- members that go


def test_a_member_without_a_heartbeat_for_its_session_is_removed() -> None:
    driver = ShardDriver(ABC, consumer_session_timeout_ms=10_000)
    driver.enter_consumer("m1", "a")
    driver.advance(9_999)
    assert [*driver.members()] == ["m1"]
    assert driver.heartbeat("m1", 2).error_code == 0
    driver.advance(9_999)
    assert [*driver.members()] == ["m1"]
    driver.advance(1)
    assert not driver.members()
    assert driver.described().group_state == "Empty"


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a", rebalance_timeout_ms=3000)
    driver.enter_consumer("m2", "a")
    driver.heartbeat("m1", 2)
    driver.advance(2_999)
    assert [*driver.members()] == ["m1", "m2"]
    driver.advance(1)
    assert [*driver.members()] == ["m2"]
    assert assigned(driver.heartbeat("m2", 3)) == {"a": [0, 1, 2]}


def test_a_member_that_gave_up_in_time_stays() -> None:
    driver = ShardDriver(ABC)
    two_members(driver)
    driver.advance(20_000)
    assert [*driver.members()] == ["m1", "m2"]


def test_a_restart_gives_sessions_and_rebalances_their_time_again() -> None:
    driver = ShardDriver(ABC, consumer_session_timeout_ms=10_000)
    driver.enter_consumer("m1", "a", rebalance_timeout_ms=3000)
    driver.enter_consumer("m2", "a")
    driver.heartbeat("m1", 2)
    driver.advance(2000)
    again = driver.restart(consumer_session_timeout_ms=10_000)
    again.advance(2999)
    assert [*again.members()] == ["m1", "m2"]
    again.advance(1)
    assert [*again.members()] == ["m2"]
    again.advance(7000)
    assert not again.members()


def test_a_member_in_a_state_of_a_later_version_has_to_join_again() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a")
    strange = Current(2, 1, MemberState.UNKNOWN, {id_of("a"): {0: 2}}, {})
    driver.durable.append(records.record(records.CURRENT, "g", "m1", strange))
    again = driver.restart()
    again.topics.create("a", 4)
    answer = again.heartbeat("m1", 2, topic_partitions=owned(a=[0]))
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
    )
    assert assigned(again.heartbeat("m1", 2, topic_partitions=owned())) == {"a": [0, 1, 2, 3]}


def test_removed_members_have_no_timers() -> None:
    driver = ShardDriver(ABC, consumer_session_timeout_ms=45_000)
    first, _ = two_members(driver)
    assert first.member_epoch == 3
    # A rebalance timeout is 5,000.
    assert driver.shard.timers.next_deadline_ms == driver.clock.now().mono_ms + 45_000
    driver.enter_consumer("m3", "a")
    driver.heartbeat("m1", 3)
    for member in "m1", "m2", "m3":
        assert driver.heartbeat(member, -1).error_code == 0
    assert driver.shard.timers.next_deadline_ms is None


def test_heartbeats_that_count_the_group_on_are_counted() -> None:
    driver = ShardDriver(ABC)
    for count, fields in enumerate(({"member_id": "m1"}, {"member_id": "m2"}), 1):
        driver.enter_consumer(fields["member_id"], "a")
        assert driver.shard.meters.consumer_rebalances == count
    driver.heartbeat("m1", 2)
    assert driver.shard.meters.consumer_rebalances == 2
    driver.topics.create("a", 4)
    driver.heartbeat("m1", 2)
    assert driver.shard.meters.consumer_rebalances == 3


# ---- static members


def test_a_static_member_that_does_not_return_is_removed_after_its_session() -> None:
    driver = ShardDriver(ABC, consumer_session_timeout_ms=10_000)
    driver.enter_consumer("m1", "a", instance_id="i")
    driver.heartbeat("m1", -2, instance_id="i")
    driver.advance(9_999)
    assert [*driver.members()] == ["m1"]
    driver.advance(1)
    assert not driver.members()


def test_a_member_that_takes_a_static_members_place_under_its_own_id_has_one_target() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a")
    driver.enter_consumer("m2", "b", instance_id="i")
    driver.heartbeat("m2", -2, instance_id="i")
    came = driver.enter_consumer("m1", "a", instance_id="i")
    assert (came.error_code, assigned(came)) == (0, {})  # what it had as the other one is released now
    assert assigned(driver.heartbeat("m1", came.member_epoch, instance_id="i")) == {"a": [0, 1, 2]}
    for broker in driver, driver.restart():
        (member,) = broker.described().members
        targets = {topic.topic_name: topic.partitions for topic in member.target_assignment.topic_partitions}
        assert (member.member_id, member.instance_id, targets) == ("m1", "i", {"a": [0, 1, 2]})
        assert assigned(member) == {"a": [0, 1, 2]}


# ---- large groups


@pytest.mark.slow
def test_a_thousand_members_that_join_do_not_take_time_in_the_square_of_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each assignment looks at all members; there was one for each that joined: 17.6 s for 1,500."""
    looked_at = 0
    uniform = draft.ASSIGNORS["uniform"]

    def counting(spec: Any) -> Any:
        nonlocal looked_at
        looked_at += len(spec.members)
        return uniform(spec)

    monkeypatch.setitem(draft.ASSIGNORS, "uniform", counting)
    driver = ShardDriver(ABC)
    driver.topics.create("wide", 1000)
    epochs = {}
    for number in range(1000):
        joined = driver.heartbeat(
            f"m{number}", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["wide"], topic_partitions=[]
        )
        epochs[joined.member_id] = joined.member_epoch
        driver.advance(1)
    assert looked_at < 80 * 1000  # half of 1000 * 1000 before

    driver.advance(1000)
    assert driver.heartbeat("m0", epochs["m0"]).error_code == ErrorCode.NONE
    group = driver.shard.groups["g"]
    assert sorted(p for target in group.targets.values() for p in target[id_of("wide")]) == list(range(1000))
