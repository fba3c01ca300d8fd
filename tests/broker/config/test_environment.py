"""Variables of Docker images: what each image's own mean, and what is said of those that mean nothing here."""

import io
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from kafka_offsets import cli
from kafka_offsets.broker.config import images
from kafka_offsets.broker.config.advice import OF_TOPICS, advice_on
from kafka_offsets.broker.config.configured_values import is_known
from kafka_offsets.broker.config.environment import environment_settings
from kafka_offsets.broker.config.images import InitialTopic, initial_topics
from kafka_offsets.broker.config.keys import KEYS, Config
from kafka_offsets.broker.config.listeners import Listener
from kafka_offsets.broker.config.topic import TOPIC_KEYS
from kafka_offsets.errors import ConfigError
from kafka_offsets.testing import KafkaContainer
from tests.broker.config.test_config import refusal
from tests.cases import each_case
from tests.test_serve_options import serve

Addresses = list[tuple[Listener, Listener | None]]
EVERY = "0.0.0.0"


def addresses(variables: dict[str, str]) -> Addresses:
    loaded = Config.load(environment_settings(variables, KEYS))
    return [(each.listener, each.advertised) for each in loaded.endpoints()]


MAP = {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"}


@each_case(
    ("variables", "found"),
    [
        (
            {
                "KAFKA_ADVERTISED_PROTOCOL_NAME": "OUTSIDE",
                "KAFKA_ADVERTISED_HOST_NAME": "host",
                "KAFKA_ADVERTISED_PORT": "9094",
                "KAFKA_PROTOCOL_NAME": "INSIDE",
                **MAP,
            },
            [
                (Listener("", 9094), Listener("host", 9094)),
                (Listener("", 9092), Listener("", 9092)),
            ],
        ),
        (
            {"KAFKA_PROTOCOL_NAME": "INSIDE", "KAFKA_HOST_NAME": "kafka", "KAFKA_PORT": "9093", **MAP},
            [(Listener("kafka", 9093), Listener("kafka", 9093))],
        ),
        (
            {"KAFKA_ADVERTISED_PROTOCOL_NAME": "OUTSIDE", "KAFKA_PORT": "9093", **MAP},
            [(Listener("", 9093), Listener("", 9093))],
        ),
        (
            {"KAFKA_PROTOCOL_NAME": "INSIDE", "KAFKA_ADVERTISED_LISTENERS": "OUTSIDE://kafka:29092", **MAP},
            [(Listener(EVERY, 29092), Listener("kafka", 29092))],
        ),
        (
            {
                "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092",
                "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
            },
            [(Listener("", 9092), Listener("kafka", 9092))],
        ),
        (
            {"KAFKA_LISTENERS": "PLAINTEXT://:1", "KAFKA_CFG_LISTENERS": "PLAINTEXT://:2"},
            [(Listener("", 2), None)],
        ),
        (
            {"KAFKA_ADVERTISED_HOST_NAME": "localhost", "KAFKA_ADVERTISED_PORT": "32771"},
            [(Listener("", 9092), Listener("localhost", 32771))],
        ),
        (
            {"KAFKA_ADVERTISED_HOST_NAME": "kafka", "KAFKA_PORT": "9093"},
            [(Listener("", 9093), Listener("kafka", 9093))],
        ),
        (
            {
                "KAFKA_ADVERTISED_HOST_NAME": "ignored",
                "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092",
            },
            [(Listener(EVERY, 29092), Listener("kafka", 29092))],
        ),
        (
            {"ADVERTISED_HOST": "127.0.0.1", "ADVERTISED_PORT": "9093"},
            [(Listener("", 9092), Listener("127.0.0.1", 9093))],
        ),
        ({"ADV_HOST": "127.0.0.1"}, [(Listener("", 9092), Listener("127.0.0.1", 9092))]),
        ({"ADV_HOST": "here", "BROKER_PORT": "7"}, [(Listener("", 7), Listener("here", 7))]),
        (
            {"ADVERTISED_LISTENERS": "A://a:1,B://b:2", "SECURITY_PROTOCOL_MAP": "A:PLAINTEXT,B:PLAINTEXT"},
            [(Listener(EVERY, 1), Listener("a", 1)), (Listener(EVERY, 2), Listener("b", 2))],
        ),
        ({"NUM_PARTITIONS": "3", "BROKER_PORT": "7"}, [(Listener("127.0.0.1", 9092), None)]),
    ],
)
def test_each_image_s_variables_for_addresses_are_understood(
    variables: dict[str, str], found: Addresses
) -> None:
    assert addresses(variables) == found


@each_case(
    ("keys", "found"),
    [
        ({"host.name": "h", "port": "7"}, (Listener("h", 7), None)),
        ({"port": 7}, (Listener("", 7), None)),
        ({"advertised.host.name": "h"}, (Listener("127.0.0.1", 9092), Listener("h", 9092))),
        ({"port": 7, "advertised.port": 8}, (Listener("", 7), Listener("", 8))),
        ({"listeners": "PLAINTEXT://:5", "port": 7}, (Listener("", 5), None)),
    ],
)
def test_keys_for_addresses_that_kafka_had_until_3_0_are_understood(
    keys: dict[str, object], found: tuple[Listener, Listener | None]
) -> None:
    """They were unknown keys."""
    loaded = Config.load(keys)
    assert (loaded.listener(), loaded.endpoints()[0].advertised) == found


def test_users_and_tls_of_bitnami_are_keys() -> None:
    found = environment_settings(
        {
            "KAFKA_CLIENT_USERS": "alice,bob",
            "KAFKA_CLIENT_PASSWORDS": "a=b,c",
            "KAFKA_INTER_BROKER_USER": "admin",
            "KAFKA_INTER_BROKER_PASSWORD": "d",
            "KAFKA_TLS_TYPE": "PEM",
            "KAFKA_TLS_CLIENT_AUTH": "none",
            "KAFKA_CERTIFICATE_PASSWORD": "e",
            "ALLOW_PLAINTEXT_LISTENER": "yes",
        },
        KEYS,
    )
    assert found == {
        "sasl.users": r"alice=a\=b,bob=c,admin=d",
        "sasl.inter.broker.user": "admin",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.client.auth": "none",
        "ssl.keystore.password": "e",
        "ssl.key.password": "e",
        "ssl.truststore.password": "e",
    }
    with pytest.raises(ConfigError) as caught:
        environment_settings({"KAFKA_CLIENT_USERS": "a,b", "KAFKA_CLIENT_PASSWORDS": "hush"}, KEYS)
    assert str(caught.value) == "KAFKA_CLIENT_USERS has 2 users, and KAFKA_CLIENT_PASSWORDS 1 passwords"


WITH_TLS = {
    "KAFKA_ADVERTISED_LISTENERS": "SSL://localhost:9093",
    "KAFKA_SSL_KEYSTORE_FILENAME": "server.jks",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "store",
    "KAFKA_SSL_KEY_CREDENTIALS": "key",
}


def test_files_of_the_image_s_folder_are_the_keystore_and_its_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_SECRETS", tmp_path)
    (tmp_path / "store").write_text("one\n")
    with pytest.raises(ConfigError) as caught:
        environment_settings(WITH_TLS, KEYS)
    assert str(caught.value) == (
        f"KAFKA_SSL_KEY_CREDENTIALS: {tmp_path}/key: No such file or directory; or set KAFKA_SSL_KEY_PASSWORD"
    )
    (tmp_path / "key").write_text("two")
    found = environment_settings(WITH_TLS, KEYS)
    assert {name: value for name, value in found.items() if name.startswith("ssl.")} == {
        "ssl.keystore.location": f"{tmp_path}/server.jks",
        "ssl.keystore.password": "one",
        "ssl.key.password": "two",
    }
    plain = WITH_TLS | {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092"}
    assert not any(name.startswith("ssl.") for name in environment_settings(plain, KEYS))
    named = plain | {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:SSL"}
    assert environment_settings(named, KEYS)["ssl.key.password"] == "two"


@each_case(
    "options",
    [
        "-Djava.security.auth.login.config=/etc/jaas.conf",
        "-Xmx1G -Djava.security.auth.login.config==/etc/jaas.conf -Dzookeeper.sasl.client=false",
        '-Djava.security.auth.login.config="/etc/jaas.conf"',
        "-Djava.security.auth.login.config=file:/etc/jaas.conf",
    ],
)
def test_the_jaas_file_of_kafka_opts_is_a_key(options: str) -> None:
    assert environment_settings({"KAFKA_OPTS": options}, KEYS) == {
        "java.security.auth.login.config": "/etc/jaas.conf"
    }


def test_the_jaas_file_that_bitnami_s_image_would_write_is_not_read() -> None:
    options = "-Djava.security.auth.login.config=/opt/bitnami/kafka/config/kafka_jaas.conf"
    variables = {"KAFKA_OPTS": options, "KAFKA_CLIENT_USERS": "a", "KAFKA_CLIENT_PASSWORDS": "b"}
    assert environment_settings(variables, KEYS) == {"sasl.users": "a=b"}


@each_case(
    ("text", "topics"),
    [
        ("", []),
        ("orders", [InitialTopic("orders", None)]),
        ("orders:3:1, bills:1:1:compact", [InitialTopic("orders", 3), InitialTopic("bills", 1, "compact")]),
        ("a.b-c_d:2\n  e:1:1\n", [InitialTopic("a.b-c_d", 2), InitialTopic("e", 1)]),
        ("a:1:1;b:1:1", [InitialTopic("a", 1), InitialTopic("b", 1)]),
    ],
)
def test_topics_are_created_from_a_variable(text: str, topics: list[InitialTopic]) -> None:
    assert initial_topics({"KAFKA_CREATE_TOPICS": text, "CREATE_TOPICS": "true"}) == topics
    assert initial_topics({"CREATE_TOPICS": "orders:3:1"}) == [InitialTopic("orders", 3)]


def test_a_topic_that_cannot_be_understood_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        initial_topics({"KAFKA_CREATE_TOPICS": "a:1:1,b:0:1"})
    assert str(caught.value) == "KAFKA_CREATE_TOPICS: NAME:PARTITIONS:REPLICAS:POLICY is needed, not b:0:1"


def test_serve_creates_the_topics_of_its_variables() -> None:
    variables = {"KAFKA_CREATE_TOPICS": "orders:3:1,bills:1:1:compact", "KAFKA_NUM_PARTITIONS": "2"}
    with serve("--env", "--port", "0", "--topic", "t", variables=variables) as served:
        assert served.partitions("bills", "t") == [("bills", 0), ("t", 0), ("t", 1)]
        assert len(served.partitions("orders")) == 3
    with KafkaContainer(env=variables | {"KAFKA_ADVERTISED_HOST_NAME": "kafka"}) as container:
        assert container.get_bootstrap_server().startswith("127.0.0.1:")
        assert container.broker.consume_all("bills") == container.broker.consume_all("orders") == []


def test_variables_without_effect_are_named_with_what_to_write(caplog: pytest.LogCaptureFixture) -> None:
    variables = {
        "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
        "KAFKA_PROTOCOL_NAME": "OUTSIDE",
        "KAFKA_REST_HOST_NAME": "rest",
        "KAFKA_RETENTION_MS": "1",
        "KAFKA_GROUP_ID": "g",
        "KAFKA_SERVICE_HOST": "10.0.0.1",
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_ENABLE_KRAFT": "yes",
        "HOSTNAME_COMMAND": "hostname -f",
        "HOME": "/root",
    }
    assert environment_settings(variables, KEYS) == {}
    assert caplog.messages == [
        "HOSTNAME_COMMAND has no effect: write KAFKA_ADVERTISED_LISTENERS",
        (
            "KAFKA_BOOTSTRAP_SERVERS has no effect: write listeners, and advertised.listeners for the addresses that "
            "clients receive"
        ),
        "KAFKA_GROUP_ID has no effect: it is a key of clients, and a broker has none for it",
        "KAFKA_PROTOCOL_NAME has no effect: write KAFKA_LISTENERS and KAFKA_ADVERTISED_LISTENERS",
        "KAFKA_REST_HOST_NAME has no effect: there is no REST proxy here",
        (
            "KAFKA_RETENTION_MS has no effect: it is a key of topics; a broker has log.retention.ms for topics that do "
            "not set it"
        ),
        "these variables name no key of a broker: KAFKA_PORT, KAFKA_SERVICE_HOST",
    ]


@each_case(
    ("name", "advice"),
    [
        ("acks", "write min.insync.replicas"),
        ("quota.producer.default", "no key: set the quota producer_byte_rate of the default client"),
        ("auto.offset.reset", "it is a key of clients, and a broker has none for it"),
        (
            "cleanup.policy",
            "it is a key of topics; a broker has log.cleanup.policy for topics that do not set it",
        ),
    ],
)
def test_a_key_of_others_is_refused_with_what_to_write(name: str, advice: str) -> None:
    assert refusal({name: "1"}).startswith(f"unknown configuration key {name}: {advice}")


def test_what_a_broker_has_for_a_key_of_topics_is_what_topics_use() -> None:
    assert OF_TOPICS.items() <= {name: key.broker_key for name, key in TOPIC_KEYS.items()}.items()
    assert all(is_known(name, KEYS) for name in OF_TOPICS.values())
    assert not any(is_known(name, KEYS) for name in OF_TOPICS), "advice on a key that is taken is never given"
    assert advice_on("no.such.key") == ""


@each_case("name", ["kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"])
def test_the_authorizers_that_kafka_had_with_zookeeper_are_the_standard_one(name: str) -> None:
    assert Config.load({"authorizer.class.name": name}).authorizer() is not None


def test_the_listener_that_wurstmeister_s_image_names_for_brokers_is_theirs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = {
        "KAFKA_ADVERTISED_PROTOCOL_NAME": "OUTSIDE",
        "KAFKA_ADVERTISED_PORT": "9094",
        "KAFKA_PROTOCOL_NAME": "INSIDE",
    }
    assert environment_settings(names | MAP, KEYS)["inter.broker.listener.name"] == "INSIDE"
    assert not caplog.messages
    own = {"KAFKA_INTER_BROKER_LISTENER_NAME": "OUTSIDE"}
    assert environment_settings(names | MAP | own, KEYS)["inter.broker.listener.name"] == "OUTSIDE"


def test_a_listener_of_the_controller_needs_no_name_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    variables = {
        "KAFKA_LISTENERS": "PLAINTEXT://kafka:9092,CONTROLLER://kafka:9093",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093",
    }
    assert addresses(variables) == [(Listener("kafka", 9092), None)]
    assert "not served" not in caplog.text
    variables["KAFKA_CONTROLLER_LISTENER_NAMES"] = "PLAINTEXT"
    variables["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] = "CONTROLLER:PLAINTEXT"
    assert addresses(variables) == [(Listener("kafka", 9093), None)]


def test_serve_says_which_listener_nobody_can_use() -> None:
    variables = {
        "KAFKA_LISTENERS": "A://127.0.0.1:0,B://127.0.0.1:0,C://127.0.0.1:0",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "A:PLAINTEXT,B:SASL_PLAINTEXT,C:SASL_PLAINTEXT",
        "KAFKA_LISTENER_NAME_C_PLAIN_SASL_JAAS_CONFIG": 'x required user_a="b";',
        "KAFKA_LISTENER_NAME_B_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-256",
    }
    with serve("--env", variables=variables) as served:
        said = [*served.before, *served.end().splitlines()]  # the log has a thread of its own
    (warning,) = [line for line in said if "nobody can log in" in line]
    assert "nobody can log in at the listener B: set sasl.users" in warning


@each_case("name", ["ldap.java.naming.provider.url", "confluent.license", "replica.lag.max.messages"])
def test_keys_of_vendors_and_of_old_brokers_have_no_effect(name: str) -> None:
    assert Config.load({name: "1"}) == Config()


REDPANDA = (
    "redpanda start --smp 1 --overprovisioned --node-id 0 "
    "--kafka-addr internal://0.0.0.0:9092,external://0.0.0.0:19092"
)


@each_case(
    ("words", "variables"),
    [
        (
            f"{REDPANDA} --advertise-kafka-addr internal://redpanda:9092,external://localhost:19092",
            (
                "KAFKA_LISTENERS=INTERNAL://0.0.0.0:9092,EXTERNAL://0.0.0.0:19092 "
                "KAFKA_ADVERTISED_LISTENERS=INTERNAL://redpanda:9092,EXTERNAL://localhost:19092 "
                "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"
            ),
        ),
        ("redpanda start --advertise-kafka-addr=kafka", "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka:9092"),
    ],
)
def test_the_flags_of_redpanda_are_answered_with_variables(words: str, variables: str) -> None:
    said = io.StringIO()
    with pytest.raises(SystemExit), redirect_stderr(said):
        cli.main(["serve", *words.split()])
    assert f"instead of the flags of Redpanda give --env, with {variables} (see " in said.getvalue()
    settings = dict(each.split("=", 1) for each in variables.split())
    assert Config.load(environment_settings(settings, KEYS)).endpoints()
