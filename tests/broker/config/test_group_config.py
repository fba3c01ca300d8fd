"""The configuration of single groups: what is answered is Kafka 4.3.1's, asked of one with the same configuration."""

from typing import Any

import pytest

from kafka_offsets.broker.config.group import GroupConfigs
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.errors import ConfigError, ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import Files, MemoryFiles
from tests.broker.groups.test_expiry import after
from tests.cases import each_case
from tests.drivers.core import CoreClient, make_core
from tests.drivers.members import Consumer

GROUP, SET, DELETE, APPEND, SUBTRACT = 32, 0, 1, 2, 3
SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


def broker(files: Files | None = None) -> BrokerCore:
    return make_core(
        files,
        group_consumer_min_session_timeout_ms=1000,
        group_consumer_session_timeout_ms=20_000,
        group_consumer_min_heartbeat_interval_ms=100,
        group_consumer_heartbeat_interval_ms=3000,
        group_consumer_assignment_interval_ms=1000,
    )


def alter(
    core: BrokerCore, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> tuple[int, Any]:
    request = messages.IncrementalAlterConfigsRequest
    made = [request.AlterableConfig(*change) for change in changes]
    asked = request([request.AlterConfigsResource(GROUP, "g", made)], validate_only)
    (answer,) = CoreClient(core).call(asked, 1).responses
    return answer.error_code, answer.error_message


def described(core: BrokerCore, group: str = "g") -> dict[str, tuple[str, int, list[tuple[str, str, int]]]]:
    request = messages.DescribeConfigsRequest
    asked = request([request.DescribeConfigsResource(GROUP, group, None)], include_synonyms=True)
    (answer,) = CoreClient(core).call(asked, 4).results
    assert (answer.error_code, answer.error_message) == (0, "")
    assert not any(each.read_only or each.config_type != 3 for each in answer.configs)
    return {
        each.name: (each.value, each.config_source, [(s.name, s.value, s.source) for s in each.synonyms])
        for each in answer.configs
    }


def test_a_group_has_the_brokers_values_and_over_them_its_own() -> None:
    core = broker()
    ours = {  # where the defaults differ, see docs/configuration.md
        SESSION: ("20000", 4, [(f"group.{SESSION}", "20000", 4), (f"group.{SESSION}", "45000", 5)]),
        INTERVAL: ("3000", 4, [(f"group.{INTERVAL}", "3000", 4), (f"group.{INTERVAL}", "500", 5)]),
        ASSIGNMENT: ("1000", 4, [(f"group.{ASSIGNMENT}", "1000", 4), (f"group.{ASSIGNMENT}", "0", 5)]),
    }
    assert described(core) == ours
    assert alter(core, (SESSION, SET, "46000")) == (0, None)
    value, source, synonyms = described(core)[SESSION]
    assert (value, source, synonyms) == ("46000", 8, [(SESSION, "46000", 8), *ours[SESSION][2]])
    assert described(core, "another") == ours
    assert alter(core, (SESSION, DELETE, None), ("zzz", DELETE, None)) == (0, None)
    assert described(core) == ours


@each_case(
    ("changes", "message"),
    [
        ([(SESSION, SET, "x")], f"Invalid value x for configuration {SESSION}: Not a number of type INT"),
        ([(SESSION, SET, "0")], f"Invalid value 0 for configuration {SESSION}: Value must be at least 1"),
        (
            [(SESSION, SET, "1")],
            f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            [(SESSION, SET, "99999")],
            f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            [(SESSION, SET, "1"), (INTERVAL, SET, "1")],
            f"{INTERVAL} must be greater than or equal to group.consumer.min.heartbeat.interval.ms",
        ),
        (
            [(INTERVAL, SET, "46000")],
            f"{INTERVAL} must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
        (
            [(SESSION, SET, "1"), (ASSIGNMENT, SET, "999999")],
            f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            [(ASSIGNMENT, SET, "15001")],
            f"{ASSIGNMENT} must be less than or equal to group.consumer.max.assignment.interval.ms",
        ),
        (
            [(ASSIGNMENT, SET, "-1")],
            f"Invalid value -1 for configuration {ASSIGNMENT}: Value must be at least 0",
        ),
        ([(SESSION, SET, "1500")], f"{SESSION} must be greater than {INTERVAL}"),
        ([(SESSION, SET, "1500"), (INTERVAL, SET, "1500")], f"{SESSION} must be greater than {INTERVAL}"),
        ([(SESSION, SET, "x"), ("nonsense", SET, "1")], "Unknown group config name: nonsense"),
        ([(SESSION, APPEND, "3000")], f"Can't APPEND to key {SESSION} because its type is not LIST."),
        ([(SESSION, SUBTRACT, "3000")], f"Can't SUBTRACT to key {SESSION} because its type is not LIST."),
    ],
)
def test_what_kafka_refuses_is_refused_in_its_words(
    changes: list[tuple[str, int, str]], message: str
) -> None:
    core = broker()
    before = described(core)
    assert alter(core, *changes) == (ErrorCode.INVALID_CONFIG, message)
    assert described(core) == before


def test_what_is_only_validated_does_not_count() -> None:
    core = broker()
    assert alter(core, (SESSION, SET, "46000"), validate_only=True) == (0, None)
    assert described(core)[SESSION][0] == "20000"


def beat(core: BrokerCore, member: str, epoch: int = 0) -> Any:
    consumer = Consumer(core, member)
    return consumer.ask(member_epoch=epoch) if epoch else consumer.join()


def test_it_counts_from_the_next_heartbeat_on() -> None:
    core = broker()
    assert beat(core, "a").heartbeat_interval_ms == 3000
    assert alter(core, (SESSION, SET, "2000"), (INTERVAL, SET, "1500"))[0] == 0
    after(core, 3000)
    answer = beat(core, "a", 2)
    assert (answer.error_code, answer.heartbeat_interval_ms) == (0, 1500)
    after(core, 1999)
    assert beat(core, "a", 2).error_code == 0
    after(core, 2000)
    assert beat(core, "a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_it_survives_a_restart() -> None:
    core = broker(MemoryFiles())
    beat(core, "a")
    assert alter(core, (SESSION, SET, "2000"), (INTERVAL, SET, "1500"))[0] == 0
    core.close()
    again = broker(core.directory.files)
    assert described(again)[SESSION][:2] == ("2000", 8)
    beat(again, "a", 2)
    after(again, 2000)
    assert beat(again, "a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_the_brokers_keys_do_not_allow_any_more_does_not_count() -> None:
    core = broker(MemoryFiles())
    assert alter(core, (INTERVAL, SET, "150"))[0] == 0
    core.close()
    core = make_core(core.directory.files)
    assert beat(core, "a").heartbeat_interval_ms == 150
    core.close()
    strict = make_core(core.directory.files, group_consumer_min_heartbeat_interval_ms=200)
    assert beat(strict, "a").heartbeat_interval_ms == 500
    assert alter(strict, (INTERVAL, DELETE, None)) == (0, None)


def test_so_many_groups_have_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_offsets.broker.config.group.MOST_GROUPS", 2)
    core = broker()
    groups: GroupConfigs = core.group_configs
    for name in ("a", "b"):
        groups.set(name, {INTERVAL: "1500"})
    groups.check("a", {INTERVAL: "1600"})
    with pytest.raises(ConfigError, match="2 groups have a configuration"):
        groups.check("c", {INTERVAL: "1500"})


def test_alter_configs_does_not_know_loggers() -> None:
    """IncrementalAlterConfigs does."""
    request = messages.AlterConfigsRequest
    resources = [request.AlterConfigsResource(8, name, []) for name in ("1", "x")]
    answered = CoreClient(make_core()).call(request(resources), 2).responses
    unknown = ErrorCode.INVALID_REQUEST, "Unknown resource type 8"
    assert [(each.error_code, each.error_message) for each in answered] == [unknown] * 2
