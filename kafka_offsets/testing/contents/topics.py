"""Topics that a broker begins with, as a test writes them: `Broker(topics=…)`, the marker, the factory and HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.protocol.topic_partition import names_in

Topics = Mapping[str, int | Mapping[str, Any]] | Iterable[str]
"""Names, or a dict of names to numbers of partitions or to `{"partitions": 3, "config": {"cleanup.policy": …}}`."""

_FIELDS = ("partitions", "config")


class NewTopic(NamedTuple):
    """A topic to create; `config` has Kafka's keys for topics."""

    name: str
    partitions: int = 1
    config: Mapping[str, Any] = MappingProxyType({})


def topics_of(given: Topics | None) -> list[NewTopic]:
    """Return the topics that a test has written. TypeError or ValueError names the topic that is not one."""
    if given is None:
        return []
    if not isinstance(given, Mapping):
        return [NewTopic(name) for name in names_in(given, "topics")]
    names_in(given, "topics")
    return [_topic(name, each) for name, each in given.items()]


def _topic(name: str, given: object) -> NewTopic:
    if isinstance(given, Mapping):
        unknown = [field for field in given if field not in _FIELDS]
        if unknown:
            raise TypeError(
                f'topic {name!r}: {unknown[0]!r} is neither "partitions" nor "config", which has Kafka\'s keys'
            )
        partitions, config = given.get("partitions", 1), given.get("config", {})
    else:
        partitions, config = given, {}
    if not isinstance(partitions, int) or isinstance(partitions, bool):
        raise TypeError(
            f'topic {name!r}: a number of partitions is expected, or {{"partitions": 3, "config": {{…}}}}, '
            f"not {partitions!r}"
        )
    if partitions < 1:
        raise ValueError(f"topic {name!r}: 1 or more partitions, not {partitions}")
    if not isinstance(config, Mapping):
        raise TypeError(f"topic {name!r}: its config is a dict of Kafka's keys to values, not {config!r}")
    return NewTopic(name, partitions, config)


def create_missing(core: BrokerCore, topics: Iterable[NewTopic]) -> None:
    """Create those topics that do not exist. Raises ValueError or StorageError. Runs in the broker's thread."""
    for topic in topics:
        if core.topics.get(topic.name) is None:
            topic_admin.create_topic(core.broker, topic.name, topic.partitions, topic.config)
