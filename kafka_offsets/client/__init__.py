"""Client of a broker, this one or Apache Kafka: a consumer, an admin client, and what they are made of.

`protocol` has the requests, logins and TLS of a connection, bytes in, bytes out; those between brokers use it too.
The public names are `kafka_offsets.client.Consumer`, `Admin`, `ConsumerRecord` and every exception that their methods
raise, loaded on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_offsets.client.admin import Admin
    from kafka_offsets.client.consumer.consumer import Consumer
    from kafka_offsets.client.consumer.exceptions import (
        ConsumeInitOffsetNotKnown,
        InitOffsetNotKnown,
        InvalidPartitionsToCommitOffset,
        InvalidPartitionsToGetOffset,
        LogTruncated,
        OffsetUnknown,
        RecordsDamaged,
        SubscriptionIsEmpty,
        SubscriptionNotValid,
    )
    from kafka_offsets.client.consumer.record import ConsumerRecord
    from kafka_offsets.errors import (
        CommitRefusedError,
        ConfigError,
        ConnectionLostError,
        KafkaOffsetsError,
        ListenerError,
        ProtocolError,
        RefusedError,
    )

__all__ = [
    "Admin",
    "CommitRefusedError",
    "ConfigError",
    "ConnectionLostError",
    "ConsumeInitOffsetNotKnown",
    "Consumer",
    "ConsumerRecord",
    "InitOffsetNotKnown",
    "InvalidPartitionsToCommitOffset",
    "InvalidPartitionsToGetOffset",
    "KafkaOffsetsError",
    "ListenerError",
    "LogTruncated",
    "OffsetUnknown",
    "ProtocolError",
    "RecordsDamaged",
    "RefusedError",
    "SubscriptionIsEmpty",
    "SubscriptionNotValid",
]

_HOMES = {
    "Admin": "kafka_offsets.client.admin",
    "Consumer": "kafka_offsets.client.consumer.consumer",
    "ConsumerRecord": "kafka_offsets.client.consumer.record",
} | dict.fromkeys(
    (
        "CommitRefusedError",
        "ConfigError",
        "ConnectionLostError",
        "KafkaOffsetsError",
        "ListenerError",
        "ProtocolError",
        "RefusedError",
    ),
    "kafka_offsets.errors",
)


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = _HOMES.get(name, "kafka_offsets.client.consumer.exceptions")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return __all__
