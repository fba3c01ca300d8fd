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
from kafka_offsets.errors import ConfigError, unknown_partition
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.testing.contents.seeding import NewRecord, choose_partitions

COMPRESSIONS = {compression.name.lower(): compression for compression in Compression}

_AT_ONCE, _AT_ONCE_BYTES = 1000, 512 << 10
_OVERHEAD_BYTES = 24  # lengths, offset and time of a record or header take at most this much
_IDLE_S = 60.0
"""After a pause of this length it connects again: brokers close idle connections, see connections.max.idle.ms."""

_MOST_SEQUENCE = (1 << 31) - 1


def produce(options: argparse.Namespace) -> int:
    """Produce every line as a record; the first one may create the topic.

    RefusedError names the partition that refuses a batch.
    """
    connections: ConnectionSettings = options.connections
    with ExitStack() as connected, _input(options) as lines:
        cluster = connected.enter_context(connections.cluster())
        cluster.check()  # whoever may not connect is told before the first line is typed
        batches: _BatchMaker | None = None
        used_s = time.monotonic()
        delimiter = None if options.delimiter is None else unescaped(options.delimiter)
        name = "standard input" if options.file is None else str(options.file)
        for records in _batches(options, RecordReader(lines, delimiter, name)):
            if time.monotonic() - used_s > _IDLE_S:
                connected.close()
                cluster = connected.enter_context(connections.cluster())
            if batches is None:
                count = _partition_count(options, cluster)
                batches = _BatchMaker(options, count, cluster.new_producer())
            _report(options, cluster.produce(batches.of(records)))
            if options.tee:
                _tee(records, delimiter or b"\n")
            used_s = time.monotonic()
    return 0


def _partition_count(options: argparse.Namespace, cluster: ClusterClient) -> int:
    count = cluster.created_partitions(options.topic)
    if options.partition is not None and options.partition >= count:
        raise ConfigError(unknown_partition(options.topic, options.partition, {options.topic: count}))
    return count


def _input(options: argparse.Namespace) -> io.BufferedReader:
    if options.file is None:
        return cast("io.BufferedReader", sys.stdin.buffer)
    try:
        return open(options.file, "rb")
    except OSError as error:
        raise ConfigError(f"{options.file}: {error.strerror}") from error


def _batches(options: argparse.Namespace, reader: RecordReader) -> Iterator[list[NewRecord]]:
    """Yield lists of records: full ones, and those whose first record has waited for the linger time."""
    batch: list[NewRecord] = []
    size, due_s = 0, math.inf
    record, left = _record(options), options.count
    while (values := reader.read(max(0.0, due_s - time.monotonic()) if batch else None)) is not None:
        if left is not None:
            values, left = values[:left], left - len(values[:left])
        for new_record in map(record, values):
            more = _most_bytes(new_record)
            if batch and (size + more > _AT_ONCE_BYTES or len(batch) >= _AT_ONCE):
                yield batch
                batch, size = [], 0
            if not batch:
                due_s = time.monotonic() + options.linger / 1000
            batch.append(new_record)
            size += more
        if batch and time.monotonic() >= due_s:
            yield batch
            batch, size = [], 0
        if left == 0:
            break
    if batch:
        yield batch


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


class _BatchMaker:
    """Makes batches of an idempotent producer: what is sent again because an answer was lost, is written once."""

    def __init__(self, options: argparse.Namespace, partition_count: int, producer: tuple[int, int]) -> None:
        self._topic, self._compression = options.topic, COMPRESSIONS[options.compression]
        self._partition_count = partition_count
        self._turns = itertools.cycle(range(partition_count))
        self._producer_id, self._producer_epoch = producer
        self._sequences: dict[int, int] = {}

    def of(self, records: list[NewRecord]) -> dict[TopicPartition, bytes]:
        """Return the batch of each partition. Records without a key and a partition take turns."""
        placed = [
            record._replace(partition=next(self._turns))
            if record.key is None and record.partition is None
            else record
            for record in records
        ]
        return {
            (self._topic, partition): self._batch(partition, partition_records)
            for partition, partition_records in choose_partitions(placed, self._partition_count).items()
        }

    def _batch(self, partition: int, records: list[NewRecord]) -> bytes:
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + len(records)) % (_MOST_SEQUENCE + 1)
        return bytes(
            encode_batch(
                [(record.key, record.value, record.headers, record.timestamp or 0) for record in records],
                compression=self._compression,
                producer_id=self._producer_id,
                producer_epoch=self._producer_epoch,
                base_sequence=sequence,
            )
        )


def _tee(records: list[NewRecord], delimiter: bytes) -> None:
    """Write the values of records to standard output, once they are produced."""
    for record in records:
        sys.stdout.buffer.write((record.value or b"") + delimiter)
    sys.stdout.buffer.flush()


def _report(options: argparse.Namespace, answered: dict[TopicPartition, int]) -> None:
    if options.json:
        for (topic, partition), offset in sorted(answered.items()):
            print(json.dumps({"topic": topic, "partition": partition, "offset": offset}), flush=True)
