"""Combinations: values of a configuration that exclude each other, with Kafka's messages."""

from collections.abc import Collection
from typing import Any, Protocol

from kafka_offsets.errors import ConfigError


class Values(Protocol):
    """A configuration: the value of each key, and the times that follow from several keys."""

    def value(self, name: str) -> Any:
        """Return the value of a key."""

    @property
    def given(self) -> Collection[str]:
        """The keys that are set."""

    def inter_broker_endpoint(self) -> object:
        """Raise ConfigError if brokers of a cluster could not reach each other."""

    @property
    def roll_ms(self) -> int:
        """The age at which a log rolls to a new segment."""

    @property
    def retention_ms(self) -> int:
        """The age at which old segments are deleted."""


def check_together(config: Values) -> None:
    """Raise ConfigError for values that exclude each other."""
    if config.value("offset.storage") == "zookeeper" and not config.value("zookeeper.connect"):
        raise ConfigError("offset.storage=zookeeper needs zookeeper.connect")
    if config.value("zookeeper.group.metadata.enable") and config.value("offset.storage") != "zookeeper":
        raise ConfigError("zookeeper.group.metadata.enable needs offset.storage=zookeeper")
    if config.roll_ms < 1:
        raise ConfigError("log.roll.ms must be greater than or equal to 1")
    if config.retention_ms == 0:
        raise ConfigError("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    low, high = config.value("group.min.session.timeout.ms"), config.value("group.max.session.timeout.ms")
    if low > high:
        raise ConfigError(f"group.min.session.timeout.ms ({low}) > group.max.session.timeout.ms ({high})")
    for name in ("session.timeout", "heartbeat.interval"):
        least, value, most = (
            config.value(f"group.consumer.{which}{name}.ms") for which in ("min.", "", "max.")
        )
        if not least <= value <= most:
            raise ConfigError(f"group.consumer.{name}.ms ({value}) is not between {least} and {most}")
    interval_ms, timeout_ms = (
        config.value("group.consumer.heartbeat.interval.ms"),
        config.value("group.consumer.session.timeout.ms"),
    )
    if interval_ms >= timeout_ms:
        raise ConfigError(
            f"group.consumer.heartbeat.interval.ms ({interval_ms}) >= group.consumer.session.timeout.ms ({timeout_ms})"
        )
    _check_inter_broker(config)


def _check_inter_broker(config: Values) -> None:
    """Raise ConfigError for what is set of the listener between brokers; the default matters in a cluster alone."""
    set_names = [
        name
        for name in ("inter.broker.listener.name", "security.inter.broker.protocol")
        if name in config.given
    ]
    if len(set_names) > 1:
        raise ConfigError(f"Only one of {' and '.join(set_names)} should be set.")
    if set_names:
        config.inter_broker_endpoint()
