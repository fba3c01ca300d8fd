"""`kafka-offsets produce`: makes records of the lines of standard input, or of a file."""

from __future__ import annotations

import argparse
import io
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import cast

from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.client.settings import ConnectionSettings
from kafka_offsets.commands.records.formats import unescaped
from kafka_offsets.commands.records.reading import RecordReader
from kafka_offsets.errors import ConfigError, ErrorCode, RefusedError
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.testing.seeding import NewRecord, choose_partitions

COMPRESSIONS = {each.name.lower(): each for each in Compression}

_AT_ONCE, _AT_ONCE_BYTES = 1000, 512 << 10
_OVERHEAD_BYTES = 24  # lengths, offset and time of a record or header take at most this much
_IDLE_S = 60.0
"""After a pause of this length it connects again: brokers close idle connections, see connections.max.idle.ms."""

_PAUSE_S = 0.1
_NOT_READY = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


def produce(options: argparse.Namespace) -> int:
    """Produce every line as a record. RefusedError names the partition that refuses a batch."""
    connections: ConnectionSettings = options.connections
    with ExitStack() as connected, _input(options) as lines:
        cluster = connected.enter_context(connections.cluster())
        until_s = time.monotonic() + connections.timeout_s
        partition_count = _partition_count(cluster, options.topic, until_s)
        if options.partition is not None and options.partition >= partition_count:
            raise ConfigError(
                f"topic {options.topic} has no partition {options.partition}: it has {partition_count}"
            )
        turns = itertools.cycle(range(partition_count))
        used_s = time.monotonic()
        for records in _batches(options, RecordReader(lines, unescaped(options.delimiter))):
            if time.monotonic() - used_s > _IDLE_S:
                connected.close()
                cluster = connected.enter_context(connections.cluster())
            _send(cluster, options, records, turns, partition_count)
            used_s = time.monotonic()
    return 0


def _input(options: argparse.Namespace) -> io.BufferedReader:
    if options.file is None:
        return cast("io.BufferedReader", sys.stdin.buffer)
    try:
        return open(options.file, "rb")
    except OSError as error:
        raise ConfigError(f"{options.file}: {error.strerror}") from error


def _partition_count(cluster: ClusterClient, topic: str, until: float) -> int:
    """Return the number of partitions; the broker may create the topic, and needs a moment for that."""
    while True:
        try:
            found = cluster.leaders([topic], create=True)
            if found and min(found.values()) >= 0:
                return len(found)
            error = RefusedError(f"topic {topic}", ErrorCode.LEADER_NOT_AVAILABLE)
        except RefusedError as refused:
            error = refused
        if error.error_code not in _NOT_READY or time.monotonic() > until:
            raise error
        time.sleep(_PAUSE_S)


def _batches(options: argparse.Namespace, reader: RecordReader) -> Iterator[list[NewRecord]]:
    """Yield lists of records: full ones, and those whose first record has waited for the linger time."""
    found: list[NewRecord] = []
    size, due_s = 0, math.inf
    record = _record(options)
    while (values := reader.read(max(0.0, due_s - time.monotonic()) if found else None)) is not None:
        for each in map(record, values):
            more = _most_bytes(each)
            if found and (size + more > _AT_ONCE_BYTES or len(found) >= _AT_ONCE):
                yield found
                found, size = [], 0
            if not found:
                due_s = time.monotonic() + options.linger / 1000
            found.append(each)
            size += more
        if found and time.monotonic() >= due_s:
            yield found
            found, size = [], 0
    if found:
        yield found


def _record(options: argparse.Namespace) -> Callable[[bytes], NewRecord]:
    """Return a function that makes a record of what stands between two delimiters."""
    key_delimiter = None if options.key_delimiter is None else unescaped(options.key_delimiter)
    key = None if options.key is None else options.key.encode()
    headers = tuple((name, value.encode()) for name, value in options.header)

    def record(line: bytes) -> NewRecord:
        """Return the record, with the time at which it was read."""
        own_key, value = key, line
        if key_delimiter is not None and key_delimiter in line:
            own_key, _, value = line.partition(key_delimiter)
        null = options.null and not value
        return NewRecord(
            own_key, None if null else value, headers, options.partition, round(time.time() * 1000)
        )

    return record


def _most_bytes(record: NewRecord) -> int:
    """Return how many bytes a record takes in a batch, at most."""
    own = len(record.key or b"") + len(record.value or b"") + _OVERHEAD_BYTES
    return own + sum(len(name) + len(value or b"") + _OVERHEAD_BYTES for name, value in record.headers)


def _send(
    cluster: ClusterClient,
    options: argparse.Namespace,
    records: list[NewRecord],
    turns: Iterator[int],
    partition_count: int,
) -> None:
    placed = [
        each._replace(partition=next(turns)) if each.key is None and each.partition is None else each
        for each in records
    ]
    batches = {}
    for partition, some in choose_partitions(placed, partition_count).items():
        rows = [(each.key, each.value, each.headers, each.timestamp or 0) for each in some]
        compression = COMPRESSIONS[options.compression]
        batches[options.topic, partition] = bytes(encode_batch(rows, compression=compression))
    answered = cluster.produce(batches)
    for (topic, partition), offset in sorted(answered.items()):
        if options.json:
            print(json.dumps({"topic": topic, "partition": partition, "offset": offset}), flush=True)
