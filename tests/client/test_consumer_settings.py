"""The properties of a consumer, and what may be subscribed together."""

import re

import pytest

from kafka_offsets.client import SubscriptionNotValid
from kafka_offsets.client.consumer.settings import KEYS, parse_settings
from kafka_offsets.client.consumer.subscription import ConsumerSubscription
from kafka_offsets.errors import ConfigError
from tests.cases import each_case

BOOTSTRAP = {"bootstrap.servers": "h:1"}


def test_the_defaults_are_kafkas() -> None:
    """Source: Kafka 4.3, ConsumerConfig."""
    settings = parse_settings(BOOTSTRAP)
    assert settings.auto_offset_reset == "latest"
    assert settings.partition_assignment_strategy == ("range", "cooperative-sticky")
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (45_000, 3_000)
    assert (settings.max_poll_records, settings.max_partition_fetch_bytes) == (500, 1_048_576)
    assert settings.enable_auto_commit and settings.auto_commit_interval_ms == 5_000


def test_values_are_texts_or_pythons_own() -> None:
    texts = {"enable.auto.commit": "FALSE", "fetch.min.bytes": "7", "bootstrap.servers": "a:1,[::1]:2"}
    values = {"enable.auto.commit": False, "fetch.min.bytes": 7, "bootstrap.servers": ["a:1", "[::1]:2"]}
    assert parse_settings(texts) == parse_settings(values)


@pytest.mark.parametrize(
    "written",
    [
        "sticky",
        "org.apache.kafka.clients.consumer.StickyAssignor",
        ["StickyAssignor"],
    ],
)
def test_assignors_have_kafkas_names_or_those_of_javas_classes(written: object) -> None:
    settings = parse_settings({**BOOTSTRAP, "partition.assignment.strategy": written})
    assert settings.partition_assignment_strategy == ("sticky",)
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    found = parse_settings({**BOOTSTRAP, "partition.assignment.strategy": f"range, {java}"})
    assert found.partition_assignment_strategy == ("range", "cooperative-sticky")


@each_case(
    ("properties", "reason"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "nowhere"}, "bootstrap.servers='nowhere': nowhere is not HOST:PORT"),
        ({"group.idd": "g"}, "unknown keys of a consumer: group.idd; did you mean group.id?"),
        ({"security.protocol": "TLS"}, "security.protocol is TLS: one of PLAINTEXT, SSL, "),
        ({"fetch.min.bytes": "many"}, "fetch.min.bytes='many'"),
        ({"fetch.min.bytes": True}, "fetch.min.bytes=True"),
        ({"session.timeout.ms": 1 << 31}, "is not between 1 and 2147483647"),
        ({"auto.offset.reset": "middle"}, "is none of latest, earliest, none"),
        ({"partition.assignment.strategy": "mine"}, "names mine, which is none of range"),
        ({"partition.assignment.strategy": "range,range"}, "names an assignor twice"),
        ({"partition.assignment.strategy": []}, "is empty"),
        ({"enable.auto.commit": "yes"}, "is neither true nor false"),
        ({"group.id": ""}, "is not a text"),
        ({"group.instance.id": "i"}, "group.instance.id without group.id"),
        ({"heartbeat.interval.ms": 45_000}, "heartbeat.interval.ms is not less than session.timeout.ms"),
        (
            {"group.protocol": "consumer", "session.timeout.ms": 1000},
            "session.timeout.ms is a key of group.protocol=classic",
        ),
        ({"group.remote.assignor": "range"}, "group.remote.assignor is a key of group.protocol=consumer"),
    ],
)
def test_what_cannot_be_used_is_named(properties: dict[str, object], reason: str) -> None:
    given = properties if "bootstrap.servers" in properties or not properties else BOOTSTRAP | properties
    with pytest.raises(ConfigError, match=re.escape(reason)):
        parse_settings(given)


def test_every_default_is_a_value_that_could_be_given() -> None:
    for key, (parse, default) in KEYS.items():
        if default is not None and key != "bootstrap.servers":
            assert parse(default) == default, key


# Subscriptions


def test_topics_and_patterns_add_up() -> None:
    subscription = ConsumerSubscription()
    assert subscription.is_empty
    subscription.add_topics(["a"])
    subscription.add_topics([re.compile("b.*"), "a", re.compile("b.*")])
    assert len(subscription.patterns) == 1
    names = ["b", "bb", "cb", "__consumer_offsets"]
    assert subscription.matched(names, frozenset()) == {"a", "b", "bb"}
    subscription.add_topics([re.compile(".*")])
    assert subscription.matched(names, frozenset({"__consumer_offsets"})) == {"a", "b", "bb", "cb"}


def test_topics_and_partitions_exclude_each_other() -> None:
    subscription = ConsumerSubscription()
    subscription.add_partition("a", 0)
    with pytest.raises(SubscriptionNotValid):
        subscription.add_topics(["a"])
    other = ConsumerSubscription()
    other.add_topics(["a"])
    with pytest.raises(SubscriptionNotValid):
        other.add_partition("a", 0)
    assert (subscription.topics, other.partitions) == (frozenset(), {}), "nothing has changed"


def test_a_partition_keeps_its_offset_until_another_is_given() -> None:
    subscription = ConsumerSubscription()
    subscription.add_partition("a", 0, 5)
    subscription.add_partition("a", 0)
    assert subscription.partitions == {("a", 0): 5}
    subscription.add_partition("a", 0, 7)
    assert subscription.partitions == {("a", 0): 7}


@pytest.mark.parametrize("arguments", [("a", -1), ("a", 1 << 31), ("", 0), ("a", 0, -1), ("a", 0, 1 << 63)])
def test_impossible_numbers_are_refused(arguments: tuple[str, int]) -> None:
    with pytest.raises(SubscriptionNotValid):
        ConsumerSubscription().add_partition(*arguments)


@pytest.mark.parametrize(
    ("topics", "error"),
    [
        ([], SubscriptionNotValid),
        ([""], SubscriptionNotValid),
        ([3], TypeError),
        ([re.compile(b"a")], TypeError),
    ],
)
def test_what_names_no_topic_is_refused(topics: list[object], error: type[Exception]) -> None:
    with pytest.raises(error):
        ConsumerSubscription().add_topics(topics)  # type: ignore[arg-type]
