"""Consumer groups (KIP-848), one step at a time: what is refused, who has what, when a member is given up.

Error codes and texts are those of GroupMetadataManager and GroupCoordinatorService of Kafka 4.3.
"""

from typing import Any

import pytest

from kafka_offsets.coordinator import stored
from kafka_offsets.coordinator.consumer import draft, records
from kafka_offsets.coordinator.consumer.records import Current, MemberState
from kafka_offsets.coordinator.consumer.topic_hash import group_hash, topic_hash
from kafka_offsets.coordinator.result import Record
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.drivers.shard import ABC, ShardDriver, assigned, id_of, owned, subscription

JOINS = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": ["a"], "topic_partitions": []}


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
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"topic_partitions": owned(a=[0])}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_a_request_that_says_too_little_is_refused(fields: dict[str, Any], message: str) -> None:
    driver = ShardDriver(ABC)
    said = {"member_id": "m1", "member_epoch": 0, **JOINS, **fields}
    answer = driver.heartbeat(said.pop("member_id"), said.pop("member_epoch"), **said)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert not driver.durable


@pytest.mark.parametrize("epoch", [-1, 1])
def test_only_a_member_that_joins_with_version_0_may_have_no_id_yet(epoch: int) -> None:
    driver = ShardDriver(ABC)
    assert driver.heartbeat("", epoch, version=0).error_message == "MemberId can't be empty."
    joined = driver.heartbeat("", 0, version=0, **JOINS)
    assert joined.error_code == 0
    assert joined.member_id and not joined.member_id.startswith("-")
    assert [*driver.members()] == [joined.member_id]


def test_an_assignor_that_the_broker_does_not_have_is_refused_with_those_that_it_has() -> None:
    answer = ShardDriver(ABC).heartbeat("m1", 0, server_assignor="sticky", **JOINS)
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert (
        answer.error_message == "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
    )


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


def test_heartbeats_and_goodbyes_need_a_consumer_group() -> None:
    driver = ShardDriver(ABC)
    for epoch, message in ((1, "Consumer group g not found."), (-1, "Group g not found.")):
        answer = driver.heartbeat("m1", epoch)
        assert (answer.error_code, answer.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, message)
    driver.stable()
    for epoch in 1, -1:
        answer = driver.heartbeat("m1", epoch)
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.error_message == "Group g is not a consumer group."


def test_a_full_group_takes_nobody_else_and_those_that_it_has_go_on() -> None:
    driver = ShardDriver(ABC, consumer_max_size=1)
    assert driver.enter_consumer("m1", "a").error_code == 0
    answer = driver.enter_consumer("m2", "a")
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert driver.heartbeat("m1", 2).error_code == 0
    assert driver.enter_consumer("m1", "b").error_code == 0


def test_a_member_is_fenced_by_an_epoch_that_is_not_its_own() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a")
    for epoch, which in ((7, "greater"), (1, "smaller")):
        answer = driver.heartbeat("m1", epoch)
        assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert answer.error_message == (
            f"The consumer group member has a {which} member epoch ({epoch}) than the one known by the group "
            "coordinator (2). The member must abandon all its partitions and rejoin."
        )
    assert driver.heartbeat("m1", 0, **JOINS).member_epoch == 2


def test_the_epoch_before_is_taken_from_a_member_that_has_no_more_than_it_may() -> None:
    """The answer with the new epoch may have been lost."""
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a")
    assert driver.heartbeat("m1", 2, subscribed_topic_names=["a", "b"]).member_epoch == 3
    for has in (owned(), owned(a=[0, 1, 2]), owned(a=[1], b=[0])):
        assert driver.heartbeat("m1", 2, topic_partitions=has).member_epoch == 3
    for more in (None, owned(a=[0, 3]), owned(c=[0]), owned(a=[0], c=[0])):
        answer = driver.heartbeat("m1", 2, topic_partitions=more)
        assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert "has a smaller member epoch (2)" in answer.error_message


# ---- who has what


def test_a_member_alone_has_everything_and_the_second_one_gets_its_share_once_it_is_given_up() -> None:
    driver = ShardDriver(ABC)
    joined = driver.enter_consumer("m1", "a")
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("m1", 2, 5000)
    assert assigned(joined) == {"a": [0, 1, 2]}
    second = driver.enter_consumer("m2", "a")
    assert (second.member_epoch, assigned(second)) == (3, {})
    told = driver.heartbeat("m1", 2)
    kept = assigned(told)
    assert kept is not None and told.member_epoch == 2 and len(kept["a"]) == 2
    assert assigned(driver.heartbeat("m2", 3)) is None
    assert driver.described().group_state == "Reconciling"
    assert driver.heartbeat("m1", 2, topic_partitions=owned(**kept)).member_epoch == 3
    assert assigned(driver.heartbeat("m2", 3)) == {"a": [*({0, 1, 2} - {*kept["a"]})]}
    assert driver.described().group_state == "Stable"


def test_the_assignment_is_said_when_it_changes_and_to_who_says_everything_again() -> None:
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
    assert later.answer.error_message == "The coordinator is not available."
    assert [*driver.members()] == ["m1"]
    assert driver.heartbeat("m1", 2).error_code == 0


def test_groups_that_are_none_are_described_as_such() -> None:
    driver = ShardDriver(ABC)
    nothing = driver.described()
    assert (nothing.error_code, nothing.error_message, nothing.group_id) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g not found.",
        "g",
    )
    assert driver.described("").error_code == ErrorCode.INVALID_GROUP_ID
    driver.stable()
    assert driver.described().error_message == "Group g is not a consumer group."


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


def test_an_expression_means_the_topics_that_match_it_now_and_those_that_come() -> None:
    driver = ShardDriver(ABC)
    answer = driver.enter_consumer("m1", subscribed_topic_names=None, subscribed_topic_regex="[ab]+")
    assert assigned(answer) == {}
    driver.advance(0)
    assert assigned(driver.heartbeat("m1", answer.member_epoch)) == {"a": [0, 1, 2], "b": [0, 1, 2]}
    assert driver.members()["m1"].subscribed_topic_regex == "[ab]+"


def test_a_word_that_is_no_expression_is_refused() -> None:
    answer = ShardDriver(ABC).enter_consumer("m1", subscribed_topic_names=None, subscribed_topic_regex="[")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def regex_records(driver: ShardDriver) -> list[tuple[str, set[str] | None]]:
    """What the log says of expressions: each with its topics, None when it was deleted."""
    found: list[tuple[str, set[str] | None]] = []
    for record in driver.durable:
        key = stored.parse_key(record.key)
        if isinstance(key, records.ConsumerKey) and key.type == records.REGEX:
            value = None if record.value is None else records.parse_value(key.type, record.value)
            found.append((key.name, {*value.topics} if isinstance(value, records.ResolvedRegex) else None))
    return found


def test_an_expression_is_resolved_again_when_topics_come_and_when_it_is_old() -> None:
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


def test_an_expression_is_forgotten_when_nobody_uses_it_any_more() -> None:
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
    driver.durable.append(Record(key, value))
    again = driver.restart()
    for _ in range(2):
        assert again.heartbeat("m1", 2).error_code == 0
        assert [record.value for record in again.durable if record.key == key] == [value, None]


# ---- members that go


def test_a_member_that_leaves_is_no_member_and_its_partitions_go_to_the_others() -> None:
    driver = ShardDriver(ABC)
    two_members(driver)
    gone = driver.heartbeat("m1", -1)
    assert (gone.error_code, gone.member_id, gone.member_epoch) == (0, "m1", -1)
    assert assigned(driver.heartbeat("m2", 3)) == {"a": [0, 1, 2]}
    assert driver.heartbeat("m1", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("m1", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_not_heard_of_for_its_session_is_given_up() -> None:
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


def test_a_member_that_does_not_give_up_in_time_is_given_up() -> None:
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


def test_nothing_is_timed_any_more_of_members_that_are_gone() -> None:
    driver = ShardDriver(ABC, consumer_session_timeout_ms=45_000)
    first, _ = two_members(driver)
    assert first.member_epoch == 3
    assert (
        driver.shard.next_deadline_ms == driver.clock.now().mono_ms + 45_000
    )  # a rebalance timeout is 5,000
    driver.enter_consumer("m3", "a")
    driver.heartbeat("m1", 3)
    for member in "m1", "m2", "m3":
        assert driver.heartbeat(member, -1).error_code == 0
    assert driver.shard.next_deadline_ms is None


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


def test_a_static_member_that_leaves_for_a_while_keeps_its_partitions_for_who_comes_back() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a", instance_id="i")
    gone = driver.heartbeat("m1", -2, instance_id="i")
    assert (gone.error_code, gone.member_epoch) == (0, -2)
    driver.enter_consumer("m2", "a")
    assert assigned(driver.heartbeat("m2", 3)) is None
    back = driver.enter_consumer("m3", "a", instance_id="i")
    assert back.error_code == 0
    assert [*driver.members()] == ["m2", "m3"]
    answer = driver.heartbeat("m1", 2, instance_id="i")
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_that_is_there_is_not_taken_over_and_one_that_is_not_is_unknown() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a", instance_id="i")
    assert driver.enter_consumer("m2", "a", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.heartbeat("m1", 2, instance_id="j").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("m2", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat("m2", -1, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat("m1", -1, instance_id="i").error_code == 0
    assert not driver.members()


def test_a_static_member_that_does_not_come_back_is_given_up_with_its_session() -> None:
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


# ---- members that speak the classic protocol


CLASSIC = {"protocols": {"range": subscription("a")}}


def mixed(driver: ShardDriver, *instances: str | None) -> list[str]:
    """A consumer group of m1 and of classic members; return their ids."""
    driver.enter_consumer("m1", "a")
    ids = []
    for instance in instances:
        if instance is None:
            ids.append(driver.enter(**CLASSIC).answer.member_id)
        else:
            ids.append(driver.join(instance=instance, **CLASSIC).answer.member_id)
    return ids


@pytest.mark.parametrize("version", [0, 2])
def test_a_classic_member_leaves_a_consumer_group_with_an_old_request(version: int) -> None:
    driver = ShardDriver(ABC)
    (member,) = mixed(driver, None)
    assert driver.leave("nobody", version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.leave(member, version=version).error_code == 0
    assert [*driver.members()] == ["m1"]
    assert driver.beat(member, 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_leave_together_are_answered_each_for_itself() -> None:
    driver = ShardDriver(ABC)
    first, second, _ = mixed(driver, None, "i", "j")
    answer = driver.leave((first, None), ("x", "i"), ("", "j"), ("", "k"), ("nobody", None))
    assert answer.error_code == 0
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in answer.members] == [
        (first, None, 0),
        ("x", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("", "j", 0),
        ("", "k", ErrorCode.UNKNOWN_MEMBER_ID),
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert [*driver.members()] == ["m1", second]


def test_a_classic_member_joins_syncs_and_is_told_when_it_has_to_join_again() -> None:
    driver = ShardDriver(ABC)
    (member,) = mixed(driver, None)
    assert driver.members()[member].member_type == 0
    assert driver.beat(member, 3) == 0  # it waits for m1, and has nothing to do itself
    got = driver.sync(member, 3)
    assert (got.error, got.answer.protocol_type, got.answer.protocol_name) == (0, "consumer", "range")
    kept = assigned(driver.heartbeat("m1", 2))
    assert kept is not None
    assert driver.heartbeat("m1", 2, topic_partitions=owned(**kept)).member_epoch == 3
    assert driver.beat(member, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.join(member, **CLASSIC).answer
    assert (again.error_code, again.generation_id, again.leader) == (0, 3, "")
    left = ({0, 1, 2} - {*kept["a"]}).pop()
    assert driver.sync(member, 3).answer.assignment == (
        b"\0\1\0\0\0\1\0\1a\0\0\0\1" + left.to_bytes(4) + b"\xff\xff\xff\xff"
    )
    assert driver.beat(member, 3) == 0


def test_a_classic_member_is_refused_with_what_is_not_its_own() -> None:
    driver = ShardDriver(ABC)
    dynamic, static = mixed(driver, None, "i")
    assert driver.beat(dynamic, 8) == ErrorCode.ILLEGAL_GENERATION
    assert driver.beat("nobody", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("m1", 2) == ErrorCode.UNKNOWN_MEMBER_ID  # it does not speak this protocol
    assert driver.beat(dynamic, 4, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert driver.sync(static, 4, instance="j").error == ErrorCode.UNKNOWN_MEMBER_ID
    for said in ({"protocol": "roundrobin"}, {"protocol_type": "connect"}):
        assert driver.sync(static, 4, instance="i", **said).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.sync(static, 4, instance="i").error == 0


def test_a_classic_member_that_joins_needs_an_id_and_a_protocol_that_the_others_speak() -> None:
    driver = ShardDriver(ABC)
    mixed(driver, None)
    refused = driver.join(**CLASSIC).answer
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED and refused.member_id
    assert driver.join(version=3, **CLASSIC).answer.error_code == 0
    for wrong in ({"protocols": {"roundrobin": subscription("a")}}, {**CLASSIC, "protocol_type": "connect"}):
        assert driver.join("x", **wrong).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.join("x", protocols={"range": b"\0"}).error == ErrorCode.UNKNOWN_SERVER_ERROR
    both = {"protocols": {"roundrobin": subscription("a"), "range": subscription("a")}}
    assert driver.join("", instance="i", **both).error == 0


@pytest.mark.parametrize(("version", "timeout_ms"), [(0, 7000), (1, 9000)])
def test_a_member_that_names_no_rebalance_timeout_has_that_of_its_session(
    version: int, timeout_ms: int
) -> None:
    """JoinGroup of version 0 has no field for it (KIP-62)."""
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a")
    joined = driver.join(version=version, session_ms=7000, rebalance_ms=9000, **CLASSIC).answer
    for _ in range(2):
        driver.advance(timeout_ms // 2 - 1)
        assert driver.beat(joined.member_id, joined.generation_id) == 0
    driver.advance(2)
    assert joined.member_id not in driver.members()  # it has not asked for its assignment


def test_nobody_joins_with_the_classic_protocol_where_groups_do_not_migrate() -> None:
    driver = ShardDriver(ABC, consumer_migration_policy="disabled")
    driver.enter_consumer("m1", "a")
    assert driver.join("x", **CLASSIC).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_is_given_up_with_its_session_and_when_it_does_not_sync_or_join_in_time() -> None:
    driver = ShardDriver(ABC, consumer_session_timeout_ms=60_000)
    driver.enter_consumer("m1", "a")
    options = {**CLASSIC, "session_ms": 10_000, "rebalance_ms": 4000}
    silent = driver.enter(**options).answer.member_id
    driver.advance(3_999)
    assert silent in driver.members()
    driver.advance(1)
    assert silent not in driver.members()
    synced = driver.enter(**options).answer
    driver.advance(3_999)
    assert driver.sync(synced.member_id, synced.generation_id).error == 0
    driver.advance(9_999)
    assert driver.beat(synced.member_id, synced.generation_id) == 0
    driver.advance(9_999)
    assert synced.member_id in driver.members()
    driver.advance(1)
    assert synced.member_id not in driver.members()


def test_the_group_is_a_classic_one_when_the_last_consumer_leaves() -> None:
    driver = ShardDriver(ABC)
    member, other = mixed(driver, None, "i")
    driver.heartbeat("m1", -1)
    group = driver.group()
    assert {*group.members} == {member, other}
    assert group.state.value == "PreparingRebalance"
    assert driver.described().error_message == "Group g is not a consumer group."
    assert driver.beat(member, 4) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_group_stays_a_consumer_group_where_the_policy_says_so() -> None:
    driver = ShardDriver(ABC, consumer_migration_policy="upgrade")
    (member,) = mixed(driver, None)
    driver.heartbeat("m1", -1)
    assert [*driver.members()] == [member]


@pytest.mark.parametrize(("most", "becomes_classic"), [(2, True), (1, False)])
def test_the_group_stays_a_consumer_group_when_it_is_too_large_for_a_classic_one(
    most: int, becomes_classic: bool
) -> None:
    driver = ShardDriver(ABC, group_max_size=most)
    members = mixed(driver, None, "i")
    driver.heartbeat("m1", -1)
    assert (driver.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND) == becomes_classic
    assert [*driver.members()] == ([] if becomes_classic else members)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"consumer_migration_policy": "disabled"}, "because online upgrade is disabled."),
        ({"consumer_migration_policy": "downgrade"}, "because online upgrade is disabled."),
        (
            {"consumer_max_size": 1},
            "because the group size exceeds the consumer group maximum size.",
        ),
    ],
)
def test_a_classic_group_that_may_not_be_upgraded_says_why(settings: dict[str, Any], reason: str) -> None:
    driver = ShardDriver(ABC, **settings)
    driver.stable(2)
    answer = driver.enter_consumer("m1", "a")
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == f"Cannot upgrade classic group g to consumer group {reason}"


def test_a_classic_group_of_others_than_consumers_is_not_upgraded() -> None:
    driver = ShardDriver(ABC)
    driver.enter(protocol_type="connect")
    assert driver.enter_consumer("m1", "a").error_message == (
        "Cannot upgrade classic group g to consumer group "
        "because the group does not use the consumer embedded protocol."
    )


def assignment(topic: str, *partitions: int, user_data: bytes | None = None) -> bytes:
    """A consumer's assignment, version 1."""
    data = b"\xff\xff\xff\xff" if user_data is None else len(user_data).to_bytes(4) + user_data
    numbers = b"".join(partition.to_bytes(4) for partition in partitions)
    return b"\0\1\0\0\0\1\0\1" + topic.encode() + len(partitions).to_bytes(4) + numbers + data


def test_members_of_a_classic_group_go_on_with_what_they_have_when_it_is_upgraded() -> None:
    driver = ShardDriver(ABC)
    joined = driver.enter(**CLASSIC).answer
    member, generation = joined.member_id, joined.generation_id
    assert driver.sync(member, generation, {member: assignment("a", 0, 1, 2)}).error == 0
    answer = driver.enter_consumer("m1", "a")
    assert (answer.error_code, answer.member_epoch, assigned(answer)) == (0, generation + 1, {})
    described = driver.members()[member]
    assert (described.member_epoch, described.member_type, described.client_id) == (generation, 0, "c")
    assert [(t.topic_name, t.partitions) for t in described.assignment.topic_partitions] == [("a", [0, 1, 2])]
    assert driver.beat(member, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_rack_of_a_classic_member_is_known_in_a_consumer_group() -> None:
    said = messages.ConsumerProtocolSubscription(["a"], rack_id="r")
    in_a_rack = {"range": b"\0\3" + messages.encode(said, 3)}
    driver = ShardDriver(ABC)
    joined = driver.enter(protocols=in_a_rack).answer
    driver.sync(joined.member_id, joined.generation_id, {joined.member_id: assignment("a", 0, 1, 2)})
    driver.enter_consumer("m1", "a")
    assert driver.members()[joined.member_id].rack_id == "r"
    driver.join(joined.member_id, **CLASSIC)  # of a version that has no racks
    assert driver.members()[joined.member_id].rack_id == "r"
    other = driver.join(version=3, protocols=in_a_rack).answer
    assert driver.members()[other.member_id].rack_id == "r"


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (b"of 0", "because the embedded consumer protocol is malformed."),
        (b"\0", "because the embedded consumer protocol is malformed."),
        (
            assignment("a", 0, user_data=b"mine"),
            (
                "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
                "default assignor before re-attempting the upgrade."
            ),
        ),
    ],
)
def test_a_classic_group_with_an_assignment_that_is_not_understood_stays_as_it_is(
    stored: bytes, reason: str
) -> None:
    driver = ShardDriver(ABC)
    joined = driver.enter(**CLASSIC).answer
    driver.sync(joined.member_id, joined.generation_id, {joined.member_id: stored})
    answer = driver.enter_consumer("m1", "a")
    assert answer.error_message == f"Cannot upgrade classic group g to consumer group {reason}"
    assert driver.beat(joined.member_id, joined.generation_id) == 0


# ---- a log that refuses what would change the kind of a group


def test_a_group_that_was_to_be_upgraded_goes_on_as_a_classic_one_when_the_log_refuses() -> None:
    driver = ShardDriver(ABC)
    member, other = driver.stable(2, **CLASSIC, session_ms=10_000)
    driver.sync(member, 2)
    driver.group().members[member].assignment = driver.group().members[other].assignment = b""
    driver.hold = True
    later = driver.heartbeat_later("m1", 0, **JOINS)
    assert [*driver.shard.groups["g"].subscriptions] == [other, member, "m1"]  # type: ignore[union-attr]
    driver.fail_log()
    driver.hold = False
    assert later.error == ErrorCode.NOT_COORDINATOR
    assert {*driver.group().members} == {member, other}
    driver.advance(9_999)
    assert driver.beat(member, 2) == 0
    driver.advance(1)
    assert {*driver.group().members} == {member}  # the session of the other one has ended


def test_a_rebalance_that_an_upgrade_was_to_end_begins_anew_when_the_log_refuses() -> None:
    driver = ShardDriver(ABC)
    (member,) = driver.stable(1, **CLASSIC)
    driver.group().members[member].assignment = b""
    joining = driver.join(driver.join(**CLASSIC).answer.member_id, **CLASSIC)
    assert joining.is_parked
    driver.hold = True
    later = driver.heartbeat_later("m1", 0, **JOINS)
    driver.fail_log()
    driver.hold = False
    assert (later.error, joining.error) == (ErrorCode.NOT_COORDINATOR,) * 2
    assert driver.group().state.value == "PreparingRebalance"
    assert driver.beat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.join(member, **CLASSIC).is_parked
    driver.advance(10_000)
    assert {*driver.group().members} == {member}


def test_those_that_wait_in_a_classic_group_are_told_to_join_again_when_it_is_upgraded() -> None:
    driver = ShardDriver(ABC)
    (member,) = driver.stable(1, **CLASSIC)
    driver.group().members[member].assignment = b""
    joining = driver.join(driver.join(**CLASSIC).answer.member_id, **CLASSIC)
    answer = driver.enter_consumer("m1", "a")
    assert (answer.error_code, joining.error) == (0, ErrorCode.REBALANCE_IN_PROGRESS)
    assert [*driver.members()] == [joining.answer.member_id, member, "m1"]


def test_the_members_of_an_upgraded_group_are_written_in_the_order_of_kafkas_hash_maps() -> None:
    """Ids that share a slot of both maps are turned round: with them, Kafka assigned other partitions than we did."""
    first, second = "a-483cc79d-ab24-4dde-9df6-235a575cdff1", "b-03a23296-d15c-444f-b06c-02127c909b62"
    made = iter((first, second))
    driver = ShardDriver(ABC)
    driver.shard.new_member_id = lambda _: next(made)
    members = driver.stable(2, **CLASSIC)
    for member in driver.group().members.values():
        member.assignment = b""
    assert members == [first, second]
    driver.enter_consumer("m1", "a")
    assert [*driver.members()] == [second, first, "m1"]


def test_a_group_that_was_to_be_downgraded_goes_on_as_a_consumer_group_when_the_log_refuses() -> None:
    driver = ShardDriver(ABC, consumer_session_timeout_ms=60_000)
    (member,) = mixed(driver, None)
    driver.sync(member, 3)
    driver.hold = True
    later = driver.heartbeat_later("m1", -1)
    assert driver.group().state.value == "PreparingRebalance"
    joining = driver.join(member, **CLASSIC)
    driver.fail_log()
    driver.hold = False
    driver.tick()
    assert (later.error, joining.error) == (ErrorCode.NOT_COORDINATOR,) * 2
    assert [*driver.members()] == ["m1", member]
    assert driver.heartbeat("m1", 2, topic_partitions=owned()).error_code == 0
    assert driver.beat(member, 3) in (0, ErrorCode.REBALANCE_IN_PROGRESS)
    driver.advance(10_000)  # its session is the one that it asked for
    assert [*driver.members()] == ["m1"]


def test_who_waits_in_a_group_that_could_not_be_downgraded_hears_so_at_once() -> None:
    driver = ShardDriver(ABC, consumer_session_timeout_ms=60_000)
    members = mixed(driver, None, None, None)
    driver.hold = True
    driver.heartbeat_later("m1", -1)
    waiting = [driver.join(member, **CLASSIC) for member in members[:2]]
    assert all(joining.is_parked for joining in waiting)
    driver.fail_log()
    driver.hold = False
    driver.tick()
    assert [joining.error for joining in waiting] == [ErrorCode.NOT_COORDINATOR] * 2
    assert [*driver.members()] == ["m1", *members]


def test_what_a_downgraded_member_has_is_written_for_it_to_read() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a", instance_id="i")
    driver.heartbeat("m1", -2, instance_id="i")
    back = driver.join(instance="i", **CLASSIC).answer
    group = driver.group()
    assert (back.error_code, group.generation, group.state.value) == (0, back.generation_id, "Stable")
    got = driver.sync(back.member_id, back.generation_id, instance="i")
    assert got.answer.assignment == assignment("a", 0, 1, 2)
    assert group.is_subscribed_to("a")
    assert not group.is_subscribed_to("b")
    again = driver.restart()
    assert {*again.group().members} == {back.member_id}


# ---- large groups


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
