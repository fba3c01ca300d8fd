"""JAAS files: the login modules of a broker, in the sections of its listeners.

What is refused here is refused by the parser of the JDK 17 too.
"""

from pathlib import Path

import pytest

from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.client import Admin
from kafka_offsets.errors import ConfigError, RefusedError
from kafka_offsets.security.jaas import options_of_file
from kafka_offsets.testing import Broker

FILE = """\
/* Of all listeners { */
KafkaServer {
    org.apache.kafka.common.security.scram.ScramLoginModule required
    username="broker"
    password="broker-hush";
    org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin" // of this broker; for others
    password="admin-hush"
    user_admin="admin-hush"
    user_alice="a;b}c \\"{\\" hush";
};

outside.KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="bob-hush";
};
Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required username="zk" password="zk-hush";
};
"""
OF_ALL = {
    "username": "admin",
    "password": "admin-hush",
    "user_admin": "admin-hush",
    "user_alice": 'a;b}c "{" hush',
}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "kafka_server_jaas.conf"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("listener", "mechanism", "options"),
    [
        ("SASL_PLAINTEXT", "PLAIN", OF_ALL),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256", {"username": "broker", "password": "broker-hush"}),
        ("OUTSIDE", "PLAIN", {"user_bob": "bob-hush"}),
        ("OUTSIDE", "SCRAM-SHA-512", {}),
        ("SASL_PLAINTEXT", "OAUTHBEARER", {}),
    ],
)
def test_a_listener_reads_its_own_section_or_that_of_all(
    file: str, listener: str, mechanism: str, options: dict[str, str]
) -> None:
    assert options_of_file(file, listener, mechanism) == options


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Could not find a 'KafkaServer' or 'a.KafkaServer' entry in the JAAS configuration "),
        (
            "KafkaClient { x required; };",
            "Could not find a 'KafkaServer' or 'a.KafkaServer' entry in the JAAS ",
        ),
        ("KafkaServer { x required password=hush; ", "the last section does not end with };"),
        ("KafkaServer { x required password=hush; }", "the last section does not end with };"),
        (
            "KafkaServer { x required; } Client { y required; };",
            "a section is NAME { module required option=value",
        ),
        ("KafkaServer { x required; };;", "a section is NAME { module required option=value"),
        ("KafkaServer { x required; }; KafkaServer { y required; };", "there are two sections KafkaServer"),
        (
            "KafkaServer { };",
            "Could not find a 'KafkaServer' or 'a.KafkaServer' entry in the JAAS configuration ",
        ),
        (
            'KafkaServer { org.apache.kafka.common.security.plain.PlainLoginModule required a="${user.home}/hush"; };',
            "the option a names a property of Java: write its value instead",
        ),
        (
            "KafkaServer { x required password=hush };",
            "a section is NAME { module required option=value …; };",
        ),
        ("hush; KafkaServer { };", "a section is NAME { module required option=value …; };"),
        (
            "KafkaServer { org.apache.kafka.common.security.plain.PlainLoginModule hush; };",
            "a login module org.apache.kafka.common.security.plain.PlainLoginModule: ",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named_without_its_passwords(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        options_of_file(str(path), "A", "PLAIN")
    assert reason in str(caught.value) and str(path) in str(caught.value)
    assert "hush" not in str(caught.value)


def test_the_first_of_several_values_counts_and_an_empty_section_is_none(tmp_path: Path) -> None:
    path = tmp_path / "jaas.conf"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    path.write_text(
        f"KafkaServer {{ {module} a=b c=d; x required e=f; {module} c=g h=i; }}; a.KafkaServer {{ }};"
    )
    assert options_of_file(str(path), "A", "PLAIN") == {"a": "b", "c": "d", "h": "i"}


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^java\.security\.auth\.login\.config: .*: No such file or directory$"
    ):
        options_of_file(str(tmp_path / "none"), "A", "PLAIN")


def test_the_users_of_the_file_log_in(file: str) -> None:
    """A file that KAFKA_OPTS named was dropped in silence, and nobody could log in."""
    keys = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "java.security.auth.login.config": file}

    def groups(password: str) -> list[object]:
        return list(
            Admin(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.jaas.config": (
                        "org.apache.kafka.common.security.plain.PlainLoginModule required "
                        f'username="alice" password="{password}";'
                    ),
                }
            ).list_groups()
        )

    with Broker(keys) as broker:
        assert groups(r"a;b}c \"{\" hush") == []
        with pytest.raises(RefusedError):
            groups("other")


def test_the_file_has_the_login_of_a_broker_to_others_and_a_key_overrides_it(file: str) -> None:
    keys = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "java.security.auth.login.config": file,
    }
    login = InterBrokerSecurity(Config.load(keys)).login
    assert login is not None and login.user == "admin"
    keys["sasl.jaas.config"] = 'x required username="without a prefix" password="p";'
    login = InterBrokerSecurity(Config.load(keys)).login
    assert login is not None and login.user == "admin"
    keys["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = 'x required username="key" password="k";'
    login = InterBrokerSecurity(Config.load(keys)).login
    assert login is not None and login.user == "key"
