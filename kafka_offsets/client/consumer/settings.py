"""Settings of the consumer: Kafka's keys, with Kafka's defaults, parsed and checked."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka_offsets.assignors.assignors import ASSIGNORS
from kafka_offsets.client.connection import Address, parse_addresses
from kafka_offsets.client.security import ClientSecurity, take_security
from kafka_offsets.errors import ConfigError, nearest_name

Parse = Callable[[Any], Any]

_JAVA_ASSIGNORS = "org.apache.kafka.clients.consumer."


class ConsumerSettings(NamedTuple):
    """The settings of a consumer; each has the name of its key, with `_` for `.`; times are in ms.

    security  what security.protocol, ssl.* and sasl.* say
    """

    bootstrap_servers: tuple[Address, ...]
    client_id: str
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    partition_assignment_strategy: tuple[str, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    isolation_level: str
    check_crcs: bool
    exclude_internal_topics: bool
    allow_auto_create_topics: bool
    metadata_max_age_ms: int
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    reconnect_backoff_ms: int
    security: ClientSecurity

    @property
    def is_read_committed(self) -> bool:
        """Whether records of open and aborted transactions are excluded."""
        return self.isolation_level == "read_committed"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("is not a text")
    return value


def _whole(least: int) -> Parse:
    def parse(value: object) -> int:
        number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else -1
        if not least <= number < 1 << 31:
            raise ValueError(f"is not between {least} and {(1 << 31) - 1}")
        return number

    return parse


def _truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError("is neither true nor false")


def _one_of(*names: str) -> Parse:
    def parse(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in names:
            raise ValueError(f"is none of {', '.join(names)}")
        return value.lower()

    return parse


def _addresses(value: object) -> tuple[Address, ...]:
    return tuple(parse_addresses(value if isinstance(value, str) else ",".join(map(str, _listed(value)))))


def _assignors(value: object) -> tuple[str, ...]:
    names = [_assignor(str(name).strip()) for name in _listed(value)]
    if not names:
        raise ValueError("is empty")
    if len(set(names)) < len(names):
        raise ValueError("names an assignor twice")
    return tuple(names)


def _assignor(name: str) -> str:
    """Return the assignor of a name, or of the name of Java's class."""
    for assignor in ASSIGNORS:
        java_name = assignor.replace("-", "") + "assignor"
        if name == assignor or name.removeprefix(_JAVA_ASSIGNORS).lower() == java_name:
            return assignor
    raise ValueError(f"names {name}, which is none of {', '.join(ASSIGNORS)}")


def _listed(value: object) -> list[Any]:
    if isinstance(value, str):
        return value.split(",")
    if isinstance(value, list | tuple):
        return list(value)
    raise ValueError("is neither a text nor a list")


_REQUIRED = object()
KEYS: dict[str, tuple[Parse, Any]] = {
    "bootstrap.servers": (_addresses, _REQUIRED),
    "client.id": (_text, "kafka-offsets"),
    "group.id": (_text, None),
    "group.instance.id": (_text, None),
    "group.protocol": (_one_of("classic", "consumer"), "classic"),
    "group.remote.assignor": (_text, None),
    "partition.assignment.strategy": (_assignors, ("range", "cooperative-sticky")),
    "session.timeout.ms": (_whole(1), 45_000),
    "heartbeat.interval.ms": (_whole(1), 3_000),
    "max.poll.interval.ms": (_whole(1), 300_000),
    "max.poll.records": (_whole(1), 500),
    "enable.auto.commit": (_truth, True),
    "auto.commit.interval.ms": (_whole(0), 5_000),
    "auto.offset.reset": (_one_of("latest", "earliest", "none"), "latest"),
    "fetch.min.bytes": (_whole(0), 1),
    "fetch.max.bytes": (_whole(0), 50 << 20),
    "fetch.max.wait.ms": (_whole(0), 500),
    "max.partition.fetch.bytes": (_whole(0), 1 << 20),
    "isolation.level": (_one_of("read_uncommitted", "read_committed"), "read_uncommitted"),
    "check.crcs": (_truth, True),
    "exclude.internal.topics": (_truth, True),
    "allow.auto.create.topics": (_truth, True),
    "metadata.max.age.ms": (_whole(0), 300_000),
    "request.timeout.ms": (_whole(0), 30_000),
    "default.api.timeout.ms": (_whole(0), 60_000),
    "retry.backoff.ms": (_whole(0), 100),
    "reconnect.backoff.ms": (_whole(0), 50),
}
"""The keys, each with its parser and its default. They are Kafka's, and so are the defaults."""

_CLASSIC_ONLY = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")


def parse_settings(properties: Mapping[str, object]) -> ConsumerSettings:
    """Parse the properties of a consumer. ConfigError for an unknown key and for a value that cannot be used."""
    properties = dict(properties)
    security = take_security(properties)
    unknown = properties.keys() - KEYS.keys()
    if unknown:
        named = ", ".join(f"{key}{nearest_name(key, KEYS)}" for key in sorted(map(str, unknown)))
        raise ConfigError(f"unknown keys of a consumer: {named}")
    fields: dict[str, Any] = {}
    for key, (parse, default) in KEYS.items():
        value = properties.get(key, default)
        if value is _REQUIRED:
            raise ConfigError(f"{key} is missing")
        try:
            fields[key.replace(".", "_")] = parse(value) if key in properties else value
        except ValueError as error:
            raise ConfigError(f"{key}={value!r}: {error}") from error
    settings = ConsumerSettings(**fields, security=security)
    _check(settings, properties)
    return settings


def _check(settings: ConsumerSettings, properties: Mapping[str, object]) -> None:
    """Check the keys that depend on each other."""
    if settings.group_protocol == "consumer":
        wrong = [key for key in _CLASSIC_ONLY if key in properties]
        if wrong:
            raise ConfigError(f"{wrong[0]} is a key of group.protocol=classic: the broker decides it")
    elif settings.group_remote_assignor is not None:
        raise ConfigError("group.remote.assignor is a key of group.protocol=consumer")
    elif settings.heartbeat_interval_ms >= settings.session_timeout_ms:
        raise ConfigError("heartbeat.interval.ms is not less than session.timeout.ms")
    if settings.group_id is None and properties.get("group.instance.id") is not None:
        raise ConfigError("group.instance.id without group.id")
