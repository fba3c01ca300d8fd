"""Client of a broker, this one or Apache Kafka: a consumer, an admin client, and what they are made of.

`protocol` has the requests, logins and TLS of a connection, bytes in, bytes out; those between brokers use it too.
`kafka_offsets.client.Consumer`, `Admin` and the exceptions of the consumer are the public names, loaded on first use.
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

__all__ = [
    "Admin",
    "ConsumeInitOffsetNotKnown",
    "Consumer",
    "ConsumerRecord",
    "InitOffsetNotKnown",
    "InvalidPartitionsToCommitOffset",
    "InvalidPartitionsToGetOffset",
    "LogTruncated",
    "OffsetUnknown",
    "RecordsDamaged",
    "SubscriptionIsEmpty",
    "SubscriptionNotValid",
]

_NOT_IN_EXCEPTIONS = {
    "Admin": "kafka_offsets.client.admin",
    "Consumer": "kafka_offsets.client.consumer.consumer",
    "ConsumerRecord": "kafka_offsets.client.consumer.record",
}


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = _NOT_IN_EXCEPTIONS.get(name, "kafka_offsets.client.consumer.exceptions")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return __all__
