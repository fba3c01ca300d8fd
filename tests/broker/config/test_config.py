"""The configuration of a broker: what can be set, from where, and what is refused in which words."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.broker.config.configured_values import _ALIASES
from kafka_offsets.broker.config.environment import environment_settings
from kafka_offsets.broker.config.keys import KEYS, Config, config_table
from kafka_offsets.broker.config.listeners import Endpoint, Listener, known_form
from kafka_offsets.broker.config.properties import read_properties
from kafka_offsets.broker.config.types import ConfigSource, Key, Synonym, Type, text_of
from kafka_offsets.broker.config.unfollowed_keys import _NAMES, UNFOLLOWED
from kafka_offsets.errors import ConfigError
from tests.cases import each_case
from tests.conftest import DATA, REPOSITORY, GeneratedPart

RECORDED = [json.loads(line) for line in (DATA / "config" / "kafka_keys.jsonl").read_text().splitlines()]
KAFKA = {row["name"]: row for row in RECORDED if row["scope"] == "broker"}

# Kafka has no default that would make sense here: a required id, every interface, a directory of the system.
OTHER_DEFAULTS = {"node.id", "listeners"}
# A bound that Kafka does not state, because it fails later or never uses such a value.
OTHER_RANGES = {
    "authorizer.class.name",
    "offsets.topic.compression.codec",
    "offset.metadata.max.bytes",
    "group.min.session.timeout.ms",
    "group.max.session.timeout.ms",
    "group.initial.rebalance.delay.ms",
    "default.replication.factor",
    "group.consumer.migration.policy",
    "ssl.keystore.type",
    "ssl.truststore.type",
    "ssl.enabled.protocols",
}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(
    overrides: dict[str, object] | None = None, path: Path | None = None, profile: str | None = None
) -> str:
    with pytest.raises(ConfigError) as caught:
        Config.load(overrides, path, profile)
    return str(caught.value)


def java_text(value: object) -> str:
    """What Java prints for a value: lists in brackets."""
    text = text_of(value)
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else "null" if text is None else text


def java_range(key: Key) -> str:
    if key.choices:
        return f"[{', '.join(key.choices)}]"
    if key.at_least is None:
        return ""
    return f"[{key.at_least},...{'' if key.at_most is None else f',{key.at_most}'}]"


def test_without_anything_given_every_key_has_its_default() -> None:
    assert Config.load() == Config()
    assert Config().offsets_topic_num_partitions == 50
    assert Config().given == frozenset()


def test_the_table_lists_every_attribute_by_kafkas_name() -> None:
    assert [key.name for key in config_table()] == list(KEYS)
    for key in config_table():
        assert key.name.replace(".", "_") == key.attribute
        assert Config().value(key.name) == getattr(Config(), key.attribute) == key.default


OF_THE_AUTHORIZER = ("super.users", "allow.everyone.if.no.acl.found")
"""Keys that Kafka's StandardAuthorizer reads by itself: they are in no table of Kafka."""


@each_case(
    "key",
    [key for key in config_table() if not key.is_ours and key.name not in OF_THE_AUTHORIZER],
    ids=lambda key: key.name,
)
def test_a_key_of_kafkas_has_kafkas_type_default_and_range(key: Key) -> None:
    recorded = KAFKA[key.name]
    assert key.kind.name == recorded["type"]
    if key.name not in OTHER_DEFAULTS:
        assert java_text(key.kafka_default) == recorded["default"]
    if key.name not in OTHER_RANGES:
        assert java_range(key) == recorded["range"]


@each_case("key", [key for key in config_table() if key.is_ours], ids=lambda key: key.name)
def test_a_key_of_ours_is_none_of_kafkas(key: Key) -> None:
    assert key.name not in KAFKA


@each_case("key", config_table(), ids=lambda key: key.name)
def test_every_default_is_allowed_also_as_text(key: Key) -> None:
    for default in (key.default, key.kafka_default):
        if default is not None:
            assert key.parse(default) == key.parse(text_of(default)) == default


def test_some_defaults_differ_from_kafkas_and_the_profile_restores_them() -> None:
    differing = {
        key.name: (key.default, key.kafka_default)
        for key in config_table()
        if key.default != key.kafka_default
    }
    assert differing == {
        "group.initial.rebalance.delay.ms": (0, 3000),
        "group.min.session.timeout.ms": (100, 6000),
        "group.consumer.assignment.interval.ms": (0, 1000),
        "group.consumer.heartbeat.interval.ms": (500, 5000),
        "group.consumer.min.heartbeat.interval.ms": (100, 5000),
        "group.consumer.min.session.timeout.ms": (100, 45_000),
        "group.consumer.regex.pause.ms": (500, 10_000),
        "auto.create.topics.delay.ms": (0, 100),
        "log.message.timestamp.after.max.ms": (2**63 - 1, 3_600_000),
        "coordinator.warm": (True, False),
        "fetch.wait.ends.at.next.request": (True, False),
        "fetch.first.wait.ms": (5, 0),
        "sasl.enabled.mechanisms": (("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), ("GSSAPI",)),
        "sasl.mechanism.inter.broker.protocol": ("PLAIN", "GSSAPI"),
    }
    restored = Config.load(profile="kafka")
    assert restored.profile == "kafka"
    for name, (_, kafkas) in differing.items():
        assert restored.value(name) == restored.default_of(name) == kafkas


def test_set_keys_override_the_profile() -> None:
    loaded = Config.load({"profile": "kafka", "group.min.session.timeout.ms": "10"})
    assert loaded.group_min_session_timeout_ms == 10
    assert loaded.group_initial_rebalance_delay_ms == 3000


def test_the_profile_may_be_in_the_file_and_the_argument_overrides_it(tmp_path: Path) -> None:
    path = written(tmp_path, "profile = kafka\n")
    assert Config.load(properties_file=path).group_initial_rebalance_delay_ms == 3000
    assert Config.load(properties_file=path, profile="test").group_initial_rebalance_delay_ms == 0
    assert Config.load({"profile": "kafka"}, path, "test").group_initial_rebalance_delay_ms == 3000


def test_overrides_override_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    path = written(tmp_path, "num.partitions=3\ngroup.max.size=7\n")
    loaded = Config.load({"num.partitions": 5}, path)
    assert (loaded.num_partitions, loaded.group_max_size, loaded.message_max_bytes) == (5, 7, 1_048_588)
    assert loaded.given == {"num.partitions", "group.max.size"}


@pytest.mark.parametrize(
    ("name", "value", "parsed"),
    [
        ("num.partitions", "3", 3),
        ("num.partitions", " 3 ", 3),
        ("num.partitions", "+3", 3),
        ("num.partitions", 3, 3),
        ("auto.create.topics.enable", "FALSE", False),
        ("auto.create.topics.enable", False, False),
        ("fsync", " commit ", "commit"),
        ("connections.max.idle.ms", "-1", -1),
        ("group.max.size", 2_147_483_647, 2_147_483_647),
        ("log.dirs", "/tmp/a", ("/tmp/a",)),
        ("log.dirs", ["/tmp/a"], ("/tmp/a",)),
    ],
)
def test_a_value_is_given_as_text_or_as_what_it_is(name: str, value: object, parsed: object) -> None:
    assert Config.load({name: value}).value(name) == parsed


@each_case(
    ("name", "value", "message"),
    [
        ("num.partitions", "0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ("num.partitions", "x", "Invalid value x for configuration num.partitions: Not a number of type INT"),
        ("num.partitions", "", "Invalid value  for configuration num.partitions: Not a number of type INT"),
        (
            "num.partitions",
            1.5,
            "Invalid value 1.5 for configuration num.partitions: Not a number of type INT",
        ),
        (
            "num.partitions",
            True,
            "Invalid value True for configuration num.partitions: Not a number of type INT",
        ),
        (
            "num.partitions",
            None,
            "Invalid value None for configuration num.partitions: Not a number of type INT",
        ),
        (
            "group.max.size",
            1 << 31,
            "Invalid value 2147483648 for configuration group.max.size: Not a number of type INT",
        ),
        (
            "offsets.topic.replication.factor",
            "32768",
            "Invalid value 32768 for configuration offsets.topic.replication.factor: Not a number of type SHORT",
        ),
        (
            "offsets.topic.compression.codec",
            "5",
            "Invalid value 5 for configuration offsets.topic.compression.codec: Value must be no more than 4",
        ),
        (
            "auto.create.topics.enable",
            "yes",
            "Invalid value yes for configuration auto.create.topics.enable: Expected value to be either true or false",
        ),
        (
            "auto.create.topics.enable",
            1,
            "Invalid value 1 for configuration auto.create.topics.enable: Expected value to be either true or false",
        ),
        (
            "fsync",
            "always",
            "Invalid value always for configuration fsync: String must be one of: never, interval, commit",
        ),
        (
            "log.dirs",
            "a,b",
            "Invalid value [a, b] for configuration log.dirs: exactly one directory is used",
        ),
        ("log.dirs", "a,", "Configuration 'log.dirs' values must not be empty."),
        (
            "listeners",
            "OTHER://:9093",
            (
                "Invalid value [OTHER://:9093] for configuration listeners: "
                "OTHER://:9093 has none of the protocols PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
            ),
        ),
        (
            "listeners",
            "PLAINTEXT://:1,PLAINTEXT://:2",
            (
                "Invalid value [PLAINTEXT://:1, PLAINTEXT://:2] for configuration listeners: "
                "each listener needs a name of its own"
            ),
        ),
    ],
)
def test_a_bad_value_is_refused_with_its_key_and_what_is_allowed(
    name: str, value: object, message: str
) -> None:
    assert refusal({name: value}) == message


@pytest.mark.parametrize("digits", ["9" * 5000, "٣", "1_0", "0x10", "--1"])
def test_only_plain_decimal_digits_are_a_number(digits: str) -> None:
    assert refusal({"num.partitions": digits}).endswith("Not a number of type INT")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("group.min.sesion.timeout.ms", "; did you mean group.min.session.timeout.ms?"),
        ("Num.Partitions", "; did you mean num.partitions?"),
        ("broker.ids", "; did you mean broker.id?"),
        ("xyzzy", ""),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(name: str, nearest: str) -> None:
    assert refusal({name: "1"}) == f"unknown configuration key {name}{nearest}"


def test_every_key_of_kafka_is_either_followed_or_known_as_one_that_is_not() -> None:
    followed = {name for name in KAFKA if name in KEYS or name in _ALIASES}
    assert KAFKA.keys() - UNFOLLOWED == followed, "keys in neither list, or in both"
    assert KAFKA.keys() >= UNFOLLOWED, "not keys of Kafka"
    assert set(_ALIASES.values()) <= KEYS.keys()
    names = _NAMES.split()
    assert names == sorted(set(names)), "a key is listed twice, or not in order"


def test_keys_of_kafka_that_have_no_effect_are_named_in_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was an "unknown configuration key", so that no server.properties of Kafka was taken."""
    path = written(tmp_path, "num.partitions=3\n\nnum.network.threads=many\n")
    loaded = Config.load({"process.roles": "broker"}, path)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "these keys of Kafka have no effect here: num.network.threads, process.roles")
    ]
    assert (loaded.num_partitions, loaded.given) == (3, {"num.partitions"})


def test_what_is_wrong_in_a_file_is_reported_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "# a comment\n\nnum.partition=3\n")
    assert refusal(path=path) == (
        f"{path} line 3: unknown configuration key num.partition; did you mean num.partitions?"
    )
    path = written(tmp_path, "fsync=\\\n  never\nnum.partitions=many\n")
    assert refusal(path=path) == (
        f"{path} line 3: Invalid value many for configuration num.partitions: Not a number of type INT"
    )


def test_a_file_that_cannot_be_read_is_reported_by_name(tmp_path: Path) -> None:
    assert refusal(path=tmp_path / "absent") == f"{tmp_path / 'absent'}: No such file or directory"
    assert refusal(path=tmp_path) == f"{tmp_path}: Is a directory"
    path = tmp_path / "binary"
    path.write_bytes(b"num.partitions=\xff")
    assert refusal(path=path) == f"{path} line 1 column 16: not UTF-8: 0xff"


def test_old_names_are_taken_and_two_names_with_two_values_are_not() -> None:
    loaded = Config.load({"broker.id": "7", "log.dir": "/data"})
    assert (loaded.node_id, loaded.data_directory()) == (7, Path("/data"))
    assert loaded.given == {"node.id", "log.dirs"}
    assert Config.load({"broker.id": 7, "node.id": 7}).node_id == 7
    assert refusal({"broker.id": 7, "node.id": 8}) == "broker.id is 7 but node.id is 8: set only one"


def test_session_timeouts_that_no_member_could_meet_are_refused() -> None:
    assert refusal({"group.max.session.timeout.ms": 99}) == (
        "group.min.session.timeout.ms (100) > group.max.session.timeout.ms (99)"
    )


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://localhost:9092", Listener("localhost", 9092)),
        ("plaintext://:0", Listener("", 0)),
        ("PLAINTEXT://[::1]:65535", Listener("::1", 65535)),
    ],
)
def test_a_listener_is_a_host_and_a_port(text: str, listener: Listener) -> None:
    assert Config.load({"listeners": text}).listener() == listener


@pytest.mark.parametrize(
    "text", ["", "localhost:9092", "PLAINTEXT://localhost", "PLAINTEXT://h:x", "PLAINTEXT://h:65536"]
)
def test_anything_else_is_no_listener(text: str) -> None:
    assert re.search(r"is needed|no port", known_form((text,)) or "")


STOCK = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
"""config/server.properties of Kafka 4.3.1, without its comments."""


def test_the_file_that_kafka_ships_is_accepted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its listener for controllers was refused: exactly one listener was served."""
    loaded = Config.load(properties_file=written(tmp_path, STOCK))
    assert loaded.listener() == Listener("", 9092)
    assert loaded.endpoints()[0].advertised == Listener("localhost", 9092)
    assert loaded.data_directory() == Path("/tmp/kraft-combined-logs")
    (warning,) = caplog.messages
    assert warning.startswith(
        "these keys of Kafka have no effect here: process.roles, controller.quorum.bootstrap."
    )


COMPOSED = {
    "listeners": "PLAINTEXT://0.0.0.0:29092,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:9092",
    "advertised.listeners": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
}
WITH_B = "SASL_PLAINTEXT:SASL_PLAINTEXT,A:PLAINTEXT,B:PLAINTEXT"
WITH_SASL = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:sasl_plaintext"


def test_all_listeners_for_clients_are_served(caplog: pytest.LogCaptureFixture) -> None:
    secured = COMPOSED | {"listener.security.protocol.map": WITH_SASL}
    loaded = Config.load(secured)
    first, second = (Listener("0.0.0.0", port) for port in (29092, 9092))
    assert loaded.endpoints() == (
        Endpoint("PLAINTEXT", "PLAINTEXT", first, Listener("broker", 29092)),
        Endpoint("PLAINTEXT_HOST", "SASL_PLAINTEXT", second, Listener("localhost", 9092)),
    )
    assert (loaded.listener(), loaded.endpoints()[0].advertised) == (first, Listener("broker", 29092))
    assert not caplog.messages


def test_a_key_of_one_listener_and_mechanism_overrides_that_of_the_listener_and_that_of_all() -> None:
    key = "connections.max.reauth.ms"
    given = {key: 1, f"listener.name.a.{key}": "2", f"listener.name.a.plain.{key}": "3"}
    loaded = Config.load(given)
    found = [loaded.of_listener(*asked) for asked in (("A", key, "PLAIN"), ("a", key, "X"), ("b", key))]
    assert found == [3, 2, 1]
    assert loaded.given == set(given)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("listener.name.a.sasl.enabled", "unknown configuration key listener.name.a.sasl.enabled"),
        ("listener.name", "unknown configuration key listener.name"),
    ],
)
def test_an_unknown_key_of_a_listener_is_refused(name: str, message: str) -> None:
    assert refusal({name: "x"}).startswith(message)


NOT_SERVED = (
    "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based on "
    "currently configured listeners are PLAINTEXT,PLAINTEXT_HOST"
)
NOT_ENABLED = (
    "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used for "
    "inter-broker communication"
)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
        (
            {"inter.broker.listener.name": "NOWHERE"},
            (
                "Listener with name NOWHERE defined in inter.broker.listener.name not found in "
                "listener.security.protocol.map."
            ),
        ),
        ({"inter.broker.listener.name": "CONTROLLER"}, NOT_SERVED),
        ({"security.inter.broker.protocol": "SSL"}, NOT_SERVED),
        (
            {
                "listener.security.protocol.map": WITH_SASL,
                "inter.broker.listener.name": "PLAINTEXT_HOST",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
                "listener.name.plaintext_host.sasl.enabled.mechanisms": "PLAIN",
            },
            NOT_ENABLED,
        ),
        (
            {
                "listener.security.protocol.map": WITH_SASL,
                "inter.broker.listener.name": "PLAINTEXT_HOST",
                "profile": "kafka",
                "sasl.enabled.mechanisms": "PLAIN",
            },
            NOT_ENABLED,
        ),
    ],
)
def test_a_listener_between_brokers_that_cannot_be_used_is_refused_as_by_kafka(
    changed: dict[str, object], message: str
) -> None:
    assert refusal(COMPOSED | changed) == message


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({}, "PLAINTEXT"),
        ({"inter.broker.listener.name": "plaintext_host"}, "PLAINTEXT_HOST"),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "PLAINTEXT"),
    ],
)
def test_the_listener_between_brokers_is_the_named_one_or_that_of_the_protocol(
    changed: dict[str, object], name: str
) -> None:
    assert Config.load(COMPOSED | changed).inter_broker_endpoint().name == name


def test_passwords_are_shown_nowhere() -> None:
    given = {
        "sasl.users": "alice=hush",
        "listener.name.a.plain.sasl.jaas.config": 'x required user_a="hush";',
    }
    loaded = Config.load(given)
    described = {each.name: each for each in loaded.describe()}["sasl.users"]
    assert (described.value, described.is_sensitive, described.kind) == (None, True, Type.PASSWORD)
    assert described.synonyms == (Synonym("sasl.users", None, ConfigSource.STATIC_BROKER),)
    assert loaded.sasl_users is not None and loaded.sasl_users.value == "alice=hush"
    assert "hush" not in f"{loaded!r} {loaded} {loaded.describe()} {loaded.of_listeners}"
    assert refusal({"sasl.users": ("hush",)}) == (
        "Invalid value [hidden] for configuration sasl.users: Expected value to be a string"
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"listeners": "CONTROLLER://:9093"},
            (
                "listeners is CONTROLLER://:9093: none of them is for clients; a service that is a controller is not "
                "needed"
            ),
        ),
        (
            {"advertised.listeners": "PLAINTEXT_HOST://localhost:9092,OUTSIDE://localhost:9093"},
            (
                "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
                "Found PLAINTEXT_HOST,OUTSIDE. The valid options based on the current configuration are "
                "PLAINTEXT,PLAINTEXT_HOST"
            ),
        ),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
            (
                "Invalid value [PLAINTEXT://0.0.0.0:9092] for configuration advertised.listeners: cannot use the "
                "nonroutable meta-address 0.0.0.0. Use a routable IP address."
            ),
        ),
        (
            {"listeners": "PLAINTEXT://:9092,PLAINTEXT_HOST://localhost:9092"},
            (
                "Invalid value [PLAINTEXT://:9092, PLAINTEXT_HOST://localhost:9092] for configuration listeners: each "
                "listener needs a port of its own, and two have 9092"
            ),
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:TLS"},
            (
                "Invalid value PLAINTEXT:TLS for configuration listener.security.protocol.map: NAME:PROTOCOL is "
                "needed, with one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not PLAINTEXT:TLS"
            ),
        ),
    ],
)
def test_listeners_that_serve_no_client_are_refused(changed: dict[str, object], message: str) -> None:
    assert refusal(COMPOSED | changed) == message


def test_a_listener_without_an_address_for_clients_is_named_and_not_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The configuration was refused; Kafka starts, and tells clients there of no broker."""
    loaded = Config.load(COMPOSED | {"advertised.listeners": "PLAINTEXT_HOST://localhost:9092"})
    assert [each.name for each in loaded.endpoints()] == ["PLAINTEXT_HOST"]
    assert caplog.messages == [
        "the listener PLAINTEXT is not served: advertised.listeners has no address for its clients"
    ]


def test_a_key_for_a_listener_that_does_not_exist_is_named(caplog: pytest.LogCaptureFixture) -> None:
    keys = {
        "listener.name.sasl.plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.b.ssl.key.password": "x",
    }
    Config.load({"listeners": "SASL_PLAINTEXT://:1,B://:2", "listener.security.protocol.map": WITH_B, **keys})
    assert caplog.messages == [
        (
            "these keys are for no listener of SASL_PLAINTEXT,B: listener.name.sasl.plaintext.sasl.enabled.mechanisms "
            "(in a variable, a listener with a _ in its name is written with __)"
        )
    ]


def test_two_listeners_may_share_a_port_of_ipv4_and_ipv6() -> None:
    loaded = Config.load(
        {"listeners": "A://127.0.0.1:9092,B://[::1]:9092", "listener.security.protocol.map": WITH_B}
    )
    assert [each.listener for each in loaded.endpoints()] == [
        Listener("127.0.0.1", 9092),
        Listener("::1", 9092),
    ]


ONLY_ADVERTISED = "PLAINTEXT://kafka:29092, PLAINTEXT_HOST://localhost:9092,SIX://[fe80::1]:9093"


def test_without_listeners_the_ports_are_those_of_the_advertised_ones_as_in_the_images() -> None:
    """The first one was bound, at its own port; all clients were given the first address."""
    found = environment_settings({"KAFKA_ADVERTISED_LISTENERS": ONLY_ADVERTISED}, KEYS)
    assert found["listeners"] == "PLAINTEXT://0.0.0.0:29092, PLAINTEXT_HOST://0.0.0.0:9092,SIX://0.0.0.0:9093"
    protocols = "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT,SIX:PLAINTEXT"
    loaded = Config.load({**found, "listener.security.protocol.map": protocols})
    assert [(each.name, each.listener, each.advertised) for each in loaded.endpoints()] == [
        ("PLAINTEXT", Listener("0.0.0.0", 29092), Listener("kafka", 29092)),
        ("PLAINTEXT_HOST", Listener("0.0.0.0", 9092), Listener("localhost", 9092)),
        ("SIX", Listener("0.0.0.0", 9093), Listener("fe80::1", 9093)),
    ]


def test_variables_of_a_listener_are_its_keys(caplog: pytest.LogCaptureFixture) -> None:
    """They were said to name no key, though --set takes the same keys."""
    variables = {
        "KAFKA_LISTENER_NAME_CLIENT_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_LISTENER_NAME_SASL__PLAINTEXT_PLAIN_SASL_JAAS_CONFIG": 'x required user_a="b";',
        "KAFKA_LISTENER_NAME_CLIENT_SCRAM___SHA___256_SASL_JAAS_CONFIG": "x required;",
        "KAFKA_LISTENER_NAME_CLIENT_NO_KEY": "1",
    }
    assert list(environment_settings(variables, KEYS)) == [
        "listener.name.client.sasl.enabled.mechanisms",
        "listener.name.client.scram-sha-256.sasl.jaas.config",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config",
    ]
    assert caplog.messages == ["these variables name no key of a broker: KAFKA_LISTENER_NAME_CLIENT_NO_KEY"]


def test_variables_of_the_docker_images_are_keys(caplog: pytest.LogCaptureFixture) -> None:
    variables = {
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092",
        "KAFKA_BROKER_ID": "7",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_OFFSETS_HTTP_TOKEN": "s3cret",
        "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_INTER_BROKER_PROTOCOL_VERSION": "3.9",
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KAFKA_A__B___C_D": "1",
        "CLUSTER_ID": "x",
    }
    found = environment_settings(variables, KEYS)
    assert caplog.messages == ["these variables name no key of a broker: KAFKA_A__B___C_D, KAFKA_PORT"]
    assert found.pop("confluent.license.topic.replication.factor") == "1"
    loaded = Config.load(found)
    assert (loaded.num_partitions, loaded.node_id, loaded.listener()) == (3, 7, Listener("", 9092))
    assert caplog.messages[1] == (
        "these keys of Kafka have no effect here: inter.broker.protocol.version, process.roles"
    )


def test_underscores_in_variables_follow_the_rule_of_the_images() -> None:
    assert environment_settings({"KAFKA_CONFLUENT_A__B___C_D": "1"}, KEYS) == {"confluent.a_b-c.d": "1"}


def test_addresses_and_directory_come_out_ready_for_use() -> None:
    assert Config().listener() == Listener("127.0.0.1", 9092)
    assert Config().endpoints()[0].advertised is None
    assert Config().data_directory() is None
    loaded = Config.load({"advertised.listeners": "PLAINTEXT://kafka.test:19092"})
    assert loaded.endpoints()[0].advertised == Listener("kafka.test", 19092)


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().num_partitions = 2  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        Config().no_such_key = 2  # type: ignore[attr-defined]


def test_a_broker_describes_a_key_with_the_source_of_its_value() -> None:
    described = {each.name: each for each in Config.load({"num.partitions": "4"}).describe()}
    assert list(described) == list(KEYS)
    given, default, absent = (described[name] for name in ("num.partitions", "group.max.size", "log.dirs"))
    assert (given.value, given.kind, given.source, given.read_only) == (
        "4",
        Type.INT,
        ConfigSource.STATIC_BROKER,
        True,
    )
    assert given.synonyms == (
        Synonym("num.partitions", "4", ConfigSource.STATIC_BROKER),
        Synonym("num.partitions", "1", ConfigSource.DEFAULT),
    )
    assert (default.value, default.source) == ("2147483647", ConfigSource.DEFAULT)
    assert (absent.value, absent.synonyms) == (None, ())
    assert described["auto.create.topics.enable"].value == "true"
    assert described["listeners"].value == "PLAINTEXT://127.0.0.1:9092"
    assert all(each.documentation for each in described.values())


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a=b", [("a", "b")]),
        ("a = b \n", [("a", "b ")]),
        ("a:b", [("a", "b")]),
        ("a : b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("=b", [("", "b")]),
        ("a==b", [("a", "=b")]),
        ("a = b=c:d", [("a", "b=c:d")]),
        ("# a=b\n! c=d\n  # e=f\n\n \t\na=b#c", [("a", "b#c")]),
        ("a=b,\\\n   c,\\\n\td\ne=f", [("a", "b,c,d"), ("e", "f")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\\\\\\n c", [("a", "b\\c")]),
        ("a=b\\\n# c", [("a", "b# c")]),
        ("a=b\\", [("a", "b")]),
        ("a\\=b\\:c\\ d=e", [("a=b:c d", "e")]),
        ("a=\\t\\n\\r\\f\\q\\u00e9", [("a", "\t\n\r\fqé")]),
        ("a=é", [("a", "é")]),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("", []),
    ],
)
def test_a_properties_file_is_read_as_java_reads_it(
    tmp_path: Path, text: str, read: list[tuple[str, str]]
) -> None:
    path = tmp_path / "sample.properties"
    path.write_bytes(text.encode())
    assert [(key, value) for _, key, value in read_properties(path)] == read


def test_a_malformed_escape_is_reported_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "a=b\nc=\\u12\n")
    with pytest.raises(ConfigError) as caught:
        read_properties(path)
    assert str(caught.value) == f"{path} line 2: malformed \\uXXXX escape"


def test_the_page_of_keys_is_printed_from_the_table(generated: GeneratedPart) -> None:
    rows = ["| key | type | default | Kafka's default | allowed | meaning |", "|---|---|---|---|---|---|"]
    for key in config_table():
        kafkas = "(ours)" if key.is_ours and key.default == key.kafka_default else cell(key.kafka_default)
        if not key.is_ours and key.kafka_default == key.default:
            kafkas = "same" if key.name not in OTHER_DEFAULTS else "see below"
        rows.append(
            f"| `{key.name}` | {key.kind.name.lower()} | {cell(key.default)} | {kafkas} "
            f"| {key.range_text} | {key.doc} |"
        )
    generated.check("docs/configuration.md", "broker keys", "\n".join(rows))


def test_the_page_of_keys_lists_every_default_that_the_profile_restores() -> None:
    page = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
    profiles = page.partition("## Profiles")[2].partition("\n## ")[0]
    listed = [tuple(row.split(" | ")[:3]) for row in profiles.splitlines() if row.startswith("| `")]
    assert sorted(listed) == sorted(
        (f"| `{key.name}`", text_of(key.default), text_of(key.kafka_default))
        for key in config_table()
        if key.default != key.kafka_default
    )


def cell(value: Any) -> str:
    text = text_of(value)
    return "" if not text else f"`{text}`"
