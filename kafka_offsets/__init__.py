"""Kafka offset management and group coordination in pure Python: the public names, loaded on first use."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_offsets.broker.partition.compacted import Compacted
    from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
    from kafka_offsets.errors import (
        CommitRefusedError,
        ConfigError,
        ErrorCode,
        KafkaOffsetsError,
        ProtocolError,
        StorageError,
    )
    from kafka_offsets.protocol.java_hash import partition_for
    from kafka_offsets.testing.broker import Broker

__all__ = [
    "Broker",
    "CommitRefusedError",
    "Compacted",
    "ConfigError",
    "ErrorCode",
    "KafkaOffsetsError",
    "OffsetAndMetadata",
    "ProtocolError",
    "StorageError",
    "partition_for",
]

_NOT_IN_ERRORS = {
    "Broker": "kafka_offsets.testing.broker",
    "Compacted": "kafka_offsets.broker.partition.compacted",
    "OffsetAndMetadata": "kafka_offsets.coordinator.state.offset_table",
    "partition_for": "kafka_offsets.protocol.java_hash",
}


def __getattr__(name: str) -> Any:
    """Load a public name, or look up the installed version.

    Programs without a broker, such as `kafka-offsets inspect`, need not import one.
    """
    if name == "__version__":
        return _version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_NOT_IN_ERRORS.get(name, "kafka_offsets.errors")), name)
    return value


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kafka-offsets")
    except PackageNotFoundError:
        return "(not installed)"


def __dir__() -> list[str]:
    return __all__
