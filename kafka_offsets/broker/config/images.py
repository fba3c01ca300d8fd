"""Images: the variables of Docker images of Kafka that are not the name of a key, as keys and topics.

Sources: the scripts that start Kafka in apache/kafka, confluentinc/cp-kafka, bitnami/kafka, wurstmeister/kafka,
spotify/kafka, debezium/kafka, krisgeus/docker-kafka and lensesio/fast-data-dev.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.sasl.users import users_text
from kafka_offsets.texts import TextError, read_text

_SECRETS = Path("/etc/kafka/secrets")
"""The directory in which Confluent's and Apache's images look for the files that variables name."""

_BITNAMI = "/opt/bitnami/"
"""The path at which bitnami/kafka writes a JAAS file from its own variables, which are read here."""

_OF_IMAGES: dict[str, dict[str, str]] = {
    "ADVERTISED_HOST": {  # spotify/kafka, and those made of it
        "ADVERTISED_HOST": "advertised.host.name",
        "ADVERTISED_PORT": "advertised.port",
        "AUTO_CREATE_TOPICS": "auto.create.topics.enable",
        "LOG_RETENTION_BYTES": "log.retention.bytes",
        "LOG_RETENTION_HOURS": "log.retention.hours",
        "NUM_PARTITIONS": "num.partitions",
    },
    "ADVERTISED_HOST_NAME": {  # debezium/kafka
        "ADVERTISED_HOST_NAME": "advertised.host.name",
        "ADVERTISED_PORT": "advertised.port",
        "BROKER_ID": "broker.id",
    },
    "ADVERTISED_LISTENERS": {  # krisgeus/docker-kafka
        "ADVERTISED_LISTENERS": "advertised.listeners",
        "INTER_BROKER": "inter.broker.listener.name",
        "LISTENERS": "listeners",
        "SECURITY_PROTOCOL_MAP": "listener.security.protocol.map",
    },
    "ADV_HOST": {"ADV_HOST": "advertised.host.name", "BROKER_PORT": "port"},  # lensesio/fast-data-dev
}
"""For a variable by which an image is known: the variables that it has then, with their keys."""

_KEYS = {
    "KAFKA_CERTIFICATE_PASSWORD": ("ssl.keystore.password", "ssl.key.password", "ssl.truststore.password"),
    "KAFKA_TLS_CLIENT_AUTH": ("ssl.client.auth",),
    "KAFKA_TLS_TYPE": ("ssl.keystore.type", "ssl.truststore.type"),
}
"""Variables of bitnami/kafka, with the keys that they set."""

_FILES = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
_CREDENTIALS = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}
_USERS = {
    "KAFKA_CLIENT_USERS": "KAFKA_CLIENT_PASSWORDS",
    "KAFKA_INTER_BROKER_USER": "KAFKA_INTER_BROKER_PASSWORD",
}
_TOPICS = ("KAFKA_CREATE_TOPICS", "CREATE_TOPICS")
"""Variables of wurstmeister/kafka and debezium/kafka; other programs may have the second one for something else."""

NAMES_OF_LISTENERS = "KAFKA_ADVERTISED_PROTOCOL_NAME", "KAFKA_PROTOCOL_NAME"
_LISTENERS = "KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"

_SEPARATOR = "KAFKA_CREATE_TOPICS_SEPARATOR"
_LOGIN_FILE = re.compile(r"-Djava\.security\.auth\.login\.config==?(?:file:)?(\"[^\"]*\"|'[^']*'|\S+)")
_TOPIC = re.compile(r"([\w.-]+)(?::([1-9]\d{0,8})(?::\d+(?::(\w+))?)?)?", re.ASCII)
_SEPARATORS = re.compile(r"[^\w.:-]+", re.ASCII)
"""Between the topics of a variable: whatever is in no topic, as the images let their users choose one."""

TAKEN = frozenset({*_KEYS, *_FILES, *_CREDENTIALS, *_USERS, *_USERS.values(), *_TOPICS, _SEPARATOR})
"""The variables that begin with KAFKA_ and are read here."""


class InitialTopic(NamedTuple):
    """A topic that exists from the start.

    partitions      None: the number of `num.partitions`
    cleanup_policy  the key of the topic; None: that of the broker
    """

    name: str
    partitions: int | None
    cleanup_policy: str | None = None

    @property
    def configs(self) -> dict[str, str]:
        """Its keys."""
        return {} if self.cleanup_policy is None else {"cleanup.policy": self.cleanup_policy}


def settings_of_images(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that variables of single images set. Raises ConfigError."""
    settings: dict[str, str] = {}
    for known_by, variables in _OF_IMAGES.items():
        if known_by in environment:
            settings |= {key: environment[name] for name, key in variables.items() if environment.get(name)}
    for name, keys in _KEYS.items():
        if name in environment:
            settings |= dict.fromkeys(keys, environment[name])
    users = [pair for names, passwords in _USERS.items() for pair in _users(environment, names, passwords)]
    if users:
        settings["sasl.users"] = users_text(dict(users))
    if "KAFKA_INTER_BROKER_USER" in environment:
        settings["sasl.inter.broker.user"] = environment["KAFKA_INTER_BROKER_USER"]
    file = _LOGIN_FILE.search(environment.get("KAFKA_OPTS", ""))
    path = "" if file is None else file[1].strip("\"'")
    if path and (Path(path).exists() or not path.startswith(_BITNAMI)):
        settings["java.security.auth.login.config"] = path
    return settings


def named_listeners(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the keys for the two listeners that variables of wurstmeister/kafka name, until April 2018.

    KAFKA_ADVERTISED_PROTOCOL_NAME is the listener at the advertised host and port, KAFKA_PROTOCOL_NAME that of brokers,
    at KAFKA_PORT. As in its script, only with KAFKA_LISTENER_SECURITY_PROTOCOL_MAP. A list of listeners says more.
    Source: start-kafka.sh and README.md of wurstmeister/kafka-docker.
    """
    if "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP" not in environment:
        return {}
    of_clients, of_brokers = (environment.get(name, "") for name in NAMES_OF_LISTENERS)
    of_brokers = of_brokers or of_clients
    if not of_brokers or not environment.keys().isdisjoint(_LISTENERS):
        return {}
    address = (
        f"{of_brokers}://{environment.get('KAFKA_HOST_NAME', '')}:{environment.get('KAFKA_PORT', '9092')}"
    )
    listeners, advertised = [address], [address]
    port = environment.get("KAFKA_ADVERTISED_PORT")
    if of_clients and port:
        listeners.insert(0, f"{of_clients}://:{port}")
        advertised.insert(0, f"{of_clients}://{environment.get('KAFKA_ADVERTISED_HOST_NAME', '')}:{port}")
    return {
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(advertised),
        "inter.broker.listener.name": of_brokers,
    }


def files_of_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the keys for the keystore and the truststore that variables name by files of the image's folder.

    Raises ConfigError for a file of a password that cannot be read.
    """
    settings = {
        key: str(_SECRETS / environment[name]) for name, key in _FILES.items() if environment.get(name)
    }
    for name, key in _CREDENTIALS.items():
        if not environment.get(name):
            continue
        try:
            settings[key] = read_text(_SECRETS / environment[name]).rstrip("\n")
        except TextError as error:
            raise ConfigError(f"{name}: {error}; or set KAFKA_{key.upper().replace('.', '_')}") from error
    return settings


def initial_topics(environment: Mapping[str, str]) -> list[InitialTopic]:
    """Return the topics of KAFKA_CREATE_TOPICS, NAME:PARTITIONS:REPLICAS:POLICY, of which the end may be absent.

    Raises ConfigError for anything else.
    """
    topics = []
    for variable in _TOPICS:
        value = environment.get(variable, "")
        if not variable.startswith("KAFKA_") and ":" not in value:
            continue
        for text in filter(None, _SEPARATORS.split(value)):
            match = _TOPIC.fullmatch(text)
            if match is None:
                raise ConfigError(f"{variable}: NAME:PARTITIONS:REPLICAS:POLICY is needed, not {text}")
            topics.append(InitialTopic(match[1], None if match[2] is None else int(match[2]), match[3]))
    return topics


def _users(environment: Mapping[str, str], names: str, passwords: str) -> list[tuple[str, str]]:
    """Return the users of one variable with their passwords, which are in another one."""
    if names not in environment or passwords not in environment:
        return []
    users, secrets = (re.split("[,;]", environment[name]) for name in (names, passwords))
    if len(users) != len(secrets):
        raise ConfigError(f"{names} has {len(users)} users, and {passwords} {len(secrets)} passwords")
    return list(zip(users, secrets, strict=True))
