"""The configuration of a topic, compared with what a real broker accepted, refused and described."""

import json
from typing import Any

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.topic import TOPIC_KEYS, TopicConfig, check_topic_configs, describe_topic
from kafka_offsets.broker.config.types import ConfigSource, Key, Synonym, Type, text_of
from kafka_offsets.errors import ConfigError
from tests.cases import each_case
from tests.conftest import DATA, GeneratedPart


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / "config" / name).read_text().splitlines()]


KAFKA = [row for row in recorded("kafka_keys.jsonl") if row["scope"] == "topic"]
VALUES = {row["name"]: row for row in recorded("topic_values.jsonl")}
PUBLIC = [key for key in TOPIC_KEYS.values() if not key.is_internal]


def refusal(overrides: dict[str, str | None]) -> str:
    with pytest.raises(ConfigError) as caught:
        check_topic_configs(overrides)
    return str(caught.value)


def test_the_keys_are_kafkas_in_kafkas_order_with_kafkas_defaults() -> None:
    def default(key: Key) -> str:
        if key.kind is Type.LIST:
            return f"[{text_of(key.kafka_default)}]"
        return text_of(key.kafka_default) or "null"

    ours = [(key.name, key.kind.name, default(key)) for key in TOPIC_KEYS.values()]
    assert ours == [(row["name"], row["type"], row["default"]) for row in KAFKA]


@each_case("name", VALUES)
def test_what_kafka_accepts_is_accepted(name: str) -> None:
    for value in VALUES[name]["accepted"]:
        check_topic_configs({name: value})


@each_case("name", VALUES)
def test_what_kafka_refuses_is_refused_in_the_same_words(name: str) -> None:
    for reason, values in VALUES[name]["refused"].items():
        for value in values:
            message = refusal({name: value})
            if message.startswith("Invalid value"):
                message = message.partition(f" for configuration {name}: ")[2]
            assert message == reason, value


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"segment.bytes": " 5 "},
            "Invalid value 5 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            {"preallocate": " 1 "},
            "Invalid value  1  for configuration preallocate: Expected value to be either true or false",
        ),
        (
            {"cleanup.policy": "delete,foo"},
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ({"cleanup.policy": "compact,"}, "Configuration 'cleanup.policy' values must not be empty."),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        # The first wrong one is told in the order of the table, unknown names before all values.
        (
            {"retention.ms": "bad", "segment.bytes": "5"},
            "Invalid value 5 for configuration segment.bytes: Value must be at least 1048576",
        ),
        ({"segment.bytes": "5", "nope": "1"}, "Unknown topic config name: nope"),
        ({"retention.ms": None, "nope": "1"}, "Null value not supported for topic configs: retention.ms"),
    ],
)
def test_refusals_recorded_in_full(overrides: dict[str, str | None], message: str) -> None:
    assert refusal(overrides) == message


def test_a_topic_takes_the_brokers_value_until_it_has_its_own() -> None:
    config = Config.load({"log.segment.bytes": "2000000", "message.max.bytes": 77})
    topic = TopicConfig.of(config, {"max.message.bytes": "78"})
    assert (topic.segment_bytes, topic.max_message_bytes, topic.retention_ms) == (2_000_000, 78, 604_800_000)
    assert TopicConfig.of(Config(), {}) == TopicConfig()


def test_values_have_the_types_of_their_keys() -> None:
    overrides = {
        "cleanup.policy": "compact, delete",
        "min.cleanable.dirty.ratio": "1d",
        "preallocate": "TRUE",
        "message.timestamp.type": "LogAppendTime",
    }
    topic = TopicConfig.of(Config(), overrides)
    assert topic.cleanup_policy == ("compact", "delete")
    assert topic.min_cleanable_dirty_ratio == 1.0
    assert topic.preallocate is True
    assert topic.message_timestamp_type == "LogAppendTime"


def test_small_segments_are_had_by_the_internal_key_as_in_kafka() -> None:
    assert TopicConfig.of(Config(), {}).effective_segment_bytes == 1 << 30
    assert TopicConfig.of(Config(), {"internal.segment.bytes": "1000"}).effective_segment_bytes == 1000
    assert "internal.segment.bytes" not in {each.name for each in describe_topic(Config(), {})}
    assert "internal.segment.bytes" in {
        each.name for each in describe_topic(Config(), {"internal.segment.bytes": "1000"})
    }


def test_a_topic_is_described_as_kafka_describes_it() -> None:
    ours = {
        each.name: each for each in describe_topic(Config.load(profile="kafka"), {"segment.bytes": "2000000"})
    }
    assert sorted(ours) == [row["name"] for row in recorded("described_topic.jsonl")]
    for row in recorded("described_topic.jsonl"):
        each = ours[row["name"]]
        # Kafka 4 has a dynamic default for min.insync.replicas beside the static one; here there is the static one.
        synonyms = [tuple(synonym) for synonym in row["synonyms"] if synonym[2] != 3]
        source = 5 if row["source"] == 3 else row["source"]
        described = (each.value, each.read_only, each.source, each.kind, list(each.synonyms))
        assert described == (row["value"], row["read_only"], source, row["type"], synonyms), each.name
        assert each.documentation


def test_a_value_set_for_the_broker_is_the_topics_static_default() -> None:
    config = Config.load({"log.segment.bytes": "2000000"})
    inherited = next(each for each in describe_topic(config, {}) if each.name == "segment.bytes")
    assert (inherited.value, inherited.source) == ("2000000", ConfigSource.STATIC_BROKER)
    assert inherited.synonyms == (
        Synonym("log.segment.bytes", "2000000", ConfigSource.STATIC_BROKER),
        Synonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    )


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({}, 168 * HOUR),
        ({"log.retention.hours": "1"}, HOUR),
        ({"log.retention.hours": "1", "log.retention.minutes": "5"}, 300_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "5", "log.retention.ms": "7"}, 7),
        ({"log.retention.minutes": "5", "log.retention.ms": "-1"}, -1),
        ({"log.retention.hours": "-3"}, -1),
        ({"log.retention.ms": str(1 << 40)}, 1 << 40),
    ],
)
def test_the_finest_of_the_brokers_keys_for_retention_counts(
    given: dict[str, str], retention_ms: int
) -> None:
    config = Config.load(given)
    assert TopicConfig.of(config, {}).retention_ms == retention_ms
    assert TopicConfig.of(config, {"retention.ms": "9"}).retention_ms == 9


@pytest.mark.parametrize(
    ("given", "segment_ms"),
    [
        ({}, 168 * HOUR),
        ({"log.roll.hours": "2"}, 2 * HOUR),
        ({"log.roll.hours": "2", "log.roll.ms": "12345"}, 12345),
    ],
)
def test_the_finest_of_the_brokers_keys_for_rolling_counts(given: dict[str, str], segment_ms: int) -> None:
    assert TopicConfig.of(Config.load(given), {}).segment_ms == segment_ms


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        (
            {"log.retention.minutes": "0"},
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        (
            {"log.roll.hours": "0"},
            "Invalid value 0 for configuration log.roll.hours: Value must be at least 1",
        ),
    ],
)
def test_a_time_of_nothing_is_refused_as_kafka_does(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.load(given)
    assert str(caught.value) == message


def test_keys_in_other_units_are_described_after_the_one_that_counts_and_not_without_it() -> None:
    config = Config.load({"log.retention.ms": 5, "log.roll.hours": 2})
    described = {found.name: found for found in describe_topic(config, {})}
    retention, rolling = described["retention.ms"], described["segment.ms"]
    assert (retention.value, retention.source) == ("5", ConfigSource.STATIC_BROKER)
    assert [(each.name, each.value, each.source) for each in retention.synonyms] == [
        ("log.retention.ms", "5", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    assert (rolling.value, rolling.source, rolling.synonyms) == ("7200000", ConfigSource.DEFAULT, ())


def test_the_page_of_topic_keys_is_printed_from_the_table(generated: GeneratedPart) -> None:
    rows = [
        "| key | type | default | allowed | has an effect | broker's key | meaning |",
        "|---|---|---|---|---|---|---|",
    ]
    for key in PUBLIC:
        default = text_of(key.default)
        rows.append(
            f"| `{key.name}` | {key.kind.name.lower()} | {f'`{default}`' if default else ''} | {key.range_text} "
            f"| {'yes' if key.is_enforced else 'stored only'} | {f'`{key.broker_key}`' if key.broker_key else ''} "
            f"| {key.doc} |"
        )
    generated.check("docs/configuration.md", "topic keys", "\n".join(rows))
