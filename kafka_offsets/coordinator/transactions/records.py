"""Records of `__transaction_state`: their keys and values, byte for byte as Kafka writes them.

Source: TransactionLogKey/Value.json and TransactionLog of Kafka 4.3.
"""

import struct
from typing import NamedTuple

from kafka_offsets.coordinator.transactions.decisions import Transaction, TransactionState
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages

VALUE_VERSION = 1
"""The version of values since transaction.version 1, the first that takes tagged fields."""

_INT16 = struct.Struct(">h")
_KEY_TYPE = 0


class UnknownRecord(NamedTuple):
    """A key of a type, or a value of a version, that a later Kafka may have written: skipped, as in Kafka."""

    what: str


def encode_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id's records."""
    key = messages.TransactionLogKey(transactional_id=transactional_id)
    return _INT16.pack(_KEY_TYPE) + messages.encode(key, 0)


def parse_key(key: bytes) -> str | UnknownRecord:
    """Return the transactional id of a key. Raises ProtocolError."""
    if len(key) < 2:
        raise ProtocolError(f"a key of {len(key)} bytes has no record type")
    (type_,) = _INT16.unpack_from(key)
    if type_ != _KEY_TYPE:
        return UnknownRecord(f"a key of type {type_}")
    parsed, _ = messages.decode(messages.TransactionLogKey, key, 0, 2)
    return str(parsed.transactional_id)


def encode_value(transaction: Transaction) -> bytes:
    """Return the value that holds a transaction. An id without a transaction has no list of partitions."""
    schema = messages.TransactionLogValue
    partitions = None
    if transaction.state is not TransactionState.EMPTY:
        by_topic: dict[str, list[int]] = {}
        for topic, index in transaction.partitions:
            by_topic.setdefault(topic, []).append(index)
        partitions = [schema.PartitionsSchema(topic, indexes) for topic, indexes in by_topic.items()]
    value = schema(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    return _INT16.pack(VALUE_VERSION) + messages.encode(value, VALUE_VERSION)


def parse_value(value: bytes) -> Transaction | UnknownRecord:
    """Return the transaction of a value of any known version. Raises ProtocolError."""
    if len(value) < 2:
        raise ProtocolError(f"a value of {len(value)} bytes has no version")
    (version,) = _INT16.unpack_from(value)
    if version not in messages.TransactionLogValue.SCHEMA.versions:
        return UnknownRecord(f"a value of version {version}")
    parsed, _ = messages.decode(messages.TransactionLogValue, value, version, 2)
    try:
        state = TransactionState(parsed.transaction_status)
    except ValueError as error:
        raise ProtocolError(f"a transaction in state {parsed.transaction_status}") from error
    return Transaction(
        producer_id=parsed.producer_id,
        producer_epoch=parsed.producer_epoch,
        timeout_ms=parsed.transaction_timeout_ms,
        state=state,
        updated_ms=parsed.transaction_last_update_timestamp_ms,
        start_ms=parsed.transaction_start_timestamp_ms,
        partitions=tuple(
            (named.topic, index)
            for named in parsed.transaction_partitions or ()
            for index in named.partition_ids
        ),
        previous_producer_id=parsed.previous_producer_id,
        next_producer_id=parsed.next_producer_id,
        client_version=parsed.client_transaction_version,
    )
