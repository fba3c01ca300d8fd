"""Seeding: records in and out of a broker without a client, from many Python types and back as values.

`records_of` turns many types into records; `choose_partitions` chooses partitions as Java's producer does;
`read_all` returns the records of a partition that a consumer of committed records sees.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.protocol.records import read_records
from kafka_offsets.storage.segments.stored_batches import StoredBatch

Data = bytes | None
_COLUMNS = ("key", "value", "headers", "partition", "timestamp")

_MURMUR_SEED, _MURMUR_M, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


class NewRecord(NamedTuple):
    """A record to produce. `partition` None: `choose_partitions` chooses it; `timestamp` None: now."""

    key: Data
    value: Data
    headers: tuple[tuple[str, Data], ...] = ()
    partition: int | None = None
    timestamp: int | None = None


class ConsumedRecord(NamedTuple):
    """A record of a topic; key, value and values of headers are bytes or None, the timestamp is in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Data
    value: Data
    headers: tuple[tuple[str, Data], ...]


def records_of(given: Any) -> list[NewRecord]:
    """Return the records that a test passed, in its order.

    A mapping maps keys to values. An element of an iterable is a value, a pair of key and value, or a mapping with
    `value` and optionally `key`, `headers` (a mapping or pairs), `partition` and `timestamp` (ms); a mapping without
    any of these names is a value. A pandas DataFrame has them as columns.
    Keys and values: bytes unchanged, text in UTF-8, None for null, everything else as JSON.
    Raises ValueError or TypeError, naming the record, for any other type.
    """
    what = "row" if hasattr(given, "to_dict") and hasattr(given, "columns") else "record"
    return [_named(f"{what} {number}", _record, each) for number, each in enumerate(elements_of(given))]


def elements_of(given: Any) -> list[Any]:
    """Return the elements of what a test passes as records: pairs of a mapping, rows of a DataFrame as dicts."""
    if hasattr(given, "to_dict") and hasattr(given, "columns"):  # missing values are null
        return list(given.astype(object).where(given.notna(), None).to_dict("records"))
    if isinstance(given, Mapping):
        return list(given.items())
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"records are wanted, a list of them or the like, not {given!r}")
    return list(given)


def _record(what: str, given: Any) -> NewRecord:
    if isinstance(given, NewRecord):
        return given
    if isinstance(given, ConsumedRecord):
        return NewRecord(given.key, given.value, given.headers, None, given.timestamp)
    if isinstance(given, Mapping):
        return _of_mapping(what, given)
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ValueError(f"{what}: a pair of key and value is wanted, not {given!r}")
        return NewRecord(data_of(given[0]), data_of(given[1]))
    return NewRecord(None, data_of(given))


def _named(what: str, make: Callable[[str, Any], NewRecord], given: Any) -> NewRecord:
    """Make a record; a TypeError names it."""
    try:
        return make(what, given)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from error


def is_value(given: Mapping[Any, Any]) -> bool:
    """Whether a mapping is the value of a record: it has none of the names of a record's parts."""
    return not any(name in given for name in _COLUMNS)


def _of_mapping(what: str, given: Mapping[Any, Any]) -> NewRecord:
    if is_value(given):
        return NewRecord(None, data_of(dict(given)))
    unknown = [name for name in given if name not in _COLUMNS]
    if unknown or "value" not in given:
        wrong = f"{unknown[0]!r} is none of {', '.join(_COLUMNS)}" if unknown else "it has no value"
        raise ValueError(
            f'{what}: {wrong}; a value that is a dict with such names is written {{"value": {{…}}}}'
        )
    headers = given.get("headers") or ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    partition, timestamp = given.get("partition"), given.get("timestamp")
    return NewRecord(
        data_of(given.get("key")),
        data_of(given["value"]),
        tuple((str(name), data_of(value)) for name, value in pairs),
        None if partition is None else int(partition),
        None if timestamp is None else _milliseconds(timestamp),
    )


def _milliseconds(timestamp: Any) -> int:
    """Return ms from a number, a datetime or a pandas Timestamp. Raises ValueError if no record can have it."""
    try:
        ms = round(timestamp.timestamp() * 1000) if hasattr(timestamp, "timestamp") else int(timestamp)
    except OverflowError:
        ms = -1
    if not 0 <= ms < 1 << 63:
        raise ValueError(f"a timestamp is 0 to {(1 << 63) - 1} ms, not {timestamp}")
    return ms


def data_of(given: Any) -> Data:
    """Return a key or a value as bytes: text in UTF-8, None for null, everything else but bytes as JSON. TypeError."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given)
    if isinstance(given, str):
        return given.encode()
    if hasattr(given, "item"):  # a number of numpy, as a DataFrame has them
        given = given.item()
    try:
        return json.dumps(given).encode()
    except TypeError as error:
        raise TypeError(
            f"{given!r} is neither bytes nor text, nor can it be written as JSON: {error}"
        ) from error


def choose_partitions(records: Sequence[NewRecord], partition_count: int) -> dict[int, list[NewRecord]]:
    """Return the records by partition, in their order.

    Keys are hashed as in Java's producer and kafka-python. Records without a key go round-robin, from partition 0.
    """
    placed: dict[int, list[NewRecord]] = {}
    turn = 0
    for record in records:
        index = record.partition
        if index is None and record.key is not None:
            index = (murmur2(record.key) & 0x7FFFFFFF) % partition_count
        elif index is None:
            index = turn % partition_count
            turn += 1
        placed.setdefault(index, []).append(record)
    return placed


def murmur2(data: bytes) -> int:
    """Return the 32 bit hash of a key, unsigned. Source: org.apache.kafka.common.utils.Utils.murmur2."""
    hashed = _MURMUR_SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MURMUR_M & _MASK
        word = (word ^ word >> 24) * _MURMUR_M & _MASK
        hashed = (hashed * _MURMUR_M & _MASK) ^ word
    if whole < len(data):
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MURMUR_M & _MASK
    hashed = (hashed ^ hashed >> 13) * _MURMUR_M & _MASK
    return hashed ^ hashed >> 15


def readable_batches(partition: Partition, offset: int | None = None) -> Iterator[tuple[bool, StoredBatch]]:
    """Yield the batches from an offset on, each with whether consumers of committed records see its records.

    They do not see markers and aborted transactions. The first open transaction is the end. Runs in the broker's
    thread. Raises StorageError.
    """
    log, end = partition.log, partition.last_stable_offset
    aborted = partition.producers.aborted_in(log.log_start_offset if offset is None else offset, end)
    for stored in log.batches(offset, verify=False):
        header = stored.header
        if header.base_offset >= end:
            return
        is_aborted = header.is_transactional and any(
            transaction.producer_id == header.producer_id
            and transaction.first_offset <= header.base_offset < transaction.marker_offset
            for transaction in aborted
        )
        yield not header.is_control and not is_aborted, stored


def stored_records(
    core: BrokerCore, topic: str, partition: int | None = None
) -> list[tuple[str, int, int, list[bytes]]] | None:
    """Return topic, partition, log start offset and the batches to read of each partition, or of this one.

    None if there is none. Runs in the broker's thread. Raises StorageError.
    """
    known_topic = core.topics.get(topic)
    count = 0 if known_topic is None else known_topic.partition_count
    chosen = [core.topics.partition(topic, index) for index in range(count) if partition in (None, index)]
    return [
        (
            topic,
            each.index,
            each.log.log_start_offset,
            [bytes(stored.data) for is_seen, stored in readable_batches(each) if is_seen],
        )
        for each in chosen
        if each is not None
    ] or None


def read_all(
    topic: str, partition: int, log_start: int, batches: Iterable[bytes]
) -> Iterator[ConsumedRecord]:
    """Return the records of batches, from the log start offset on."""
    for batch in batches:
        for record in read_records(batch):
            if record.offset >= log_start:
                headers = tuple((header.key, header.value) for header in record.headers)
                yield ConsumedRecord(
                    topic, partition, record.offset, record.timestamp, record.key, record.value, headers
                )
