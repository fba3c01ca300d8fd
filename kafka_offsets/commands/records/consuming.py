"""`kafka-offsets consume`: writes the records of a topic to standard output, committed ones only."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping

from kafka_offsets.client import Consumer
from kafka_offsets.client.cluster import EARLIEST, LATEST, ClusterClient
from kafka_offsets.client.consumer.record import ConsumerRecord
from kafka_offsets.commands.records.formats import Render, as_json, parse_format
from kafka_offsets.errors import ConfigError, unknown_partition
from kafka_offsets.protocol.topic_partition import TopicPartition

KEYS = _GROUP, _RESET = "group.id", "auto.offset.reset"
"""Client properties that say the same as options."""

_RESETS = {
    "earliest": "earliest",
    "smallest": "earliest",
    "beginning": "earliest",
    "latest": "latest",
    "largest": "latest",
    "end": "latest",
    "none": "none",
    "error": "none",
}
"""Values of auto.offset.reset, those of librdkafka included, and Kafka's name of each."""

_POLL_MS = 500
_AT_ONCE = 500


class _ConsumerWithPositions(Consumer):
    """A consumer that tells how far it has read."""

    def has_reached(self, ends: dict[TopicPartition, int]) -> bool:
        """Return whether everything before these offsets was returned, of the partitions that are still consumed."""
        positions, held = self._positions.consumed(), self._positions.table
        return self._is_assigned and all(
            positions.get(partition, -1) >= end for partition, end in ends.items() if partition in held
        )

    def read_again(self, records: list[ConsumerRecord]) -> None:
        """Move back to these records: what is not written is not consumed, so a group does not commit it."""
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault((record.topic, record.partition), record.offset)
        if first:
            self.position([(*partition, offset) for partition, offset in first.items()])


def parse_start(text: str) -> tuple[str, int]:
    """Parse where to start: beginning, end, an offset, -N before the end, s@MS. ValueError for anything else."""
    if text in ("beginning", "end"):
        return text, 0
    kind = "time" if text.startswith("s@") else "before the end" if text.startswith("-") else "offset"
    digits = text.removeprefix("s@").removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise ValueError(f"{text} is none of beginning, end, OFFSET, -COUNT and s@MILLISECONDS")
    return kind, int(digits)


def apply_keys(options: argparse.Namespace, given: Mapping[str, str]) -> list[str]:
    """Set `options.group`, `start` and `reset` by the properties of `KEYS`; return those without effect.

    A group has its own partitions and offsets: -p and -o are without group.id, as --group overrides it. ConfigError.
    """
    unused = []
    if options.group is None and _GROUP in given:
        if options.partition is None and options.start is None:
            options.group = given[_GROUP]
        else:
            unused.append(_GROUP)
    options.reset = None
    if _RESET in given:
        value = given[_RESET].strip().lower()
        if value not in _RESETS:
            raise ConfigError(f"{_RESET} is {given[_RESET]}: one of {', '.join(_RESETS)} is needed")
        options.reset = _RESETS[value]
    if options.reset is not None and options.group is None and options.start is None:
        if options.reset == "none":
            raise ConfigError(
                f"{_RESET} is {given[_RESET]}, and nothing says where to start: name it with -o"
            )
        options.start = ("beginning" if options.reset == "earliest" else "end"), 0
    return unused


def consume(options: argparse.Namespace) -> int:
    """Write records until there are enough, or all partitions are read with --exit, or Ctrl-C."""
    render = _render(options)
    if options.group is not None and (options.partition is not None or options.start is not None):
        raise ConfigError("-p and -o are without --group: a group has its partitions and offsets")
    with options.connections.cluster() as cluster:
        partitions = _places(options, cluster.leaders([options.topic]))
        starts = (
            {}
            if options.group is not None
            else _starts(options.start or ("beginning", 0), cluster, partitions)
        )
        # Read before the first record: what is produced in the meantime does not keep --exit from its end.
        ends = (
            cluster.offsets_at(dict.fromkeys(partitions, LATEST), committed_only=True) if options.exit else {}
        )
    with _ConsumerWithPositions(_properties(options)) as consumer:
        if options.group is not None:
            consumer.subscribe(options.topic)
            assigned = set(consumer.get_partitions())
            ends = {
                topic_partition: end for topic_partition, end in ends.items() if topic_partition in assigned
            }
        for (topic, partition), offset in starts.items():
            consumer.subscribe(topic, partition, offset)
        _write(consumer, render, options.count, ends if options.exit else None)
    return 0


def _render(options: argparse.Namespace) -> Render:
    if options.json:
        return as_json
    null = b"NULL" if options.null else b""
    if options.format is not None:
        return parse_format(options.format, null)
    end = (options.delimiter or "\\n").replace("%", "%%")
    if options.key_delimiter is None:
        return parse_format(f"%s{end}", null)
    return parse_format("%k" + options.key_delimiter.replace("%", "%%") + f"%s{end}", null)


def _places(options: argparse.Namespace, leaders: Iterable[TopicPartition]) -> list[TopicPartition]:
    partitions = sorted(leaders)
    if options.partition is None:
        return partitions
    if (options.topic, options.partition) not in partitions:
        raise ConfigError(
            unknown_partition(options.topic, options.partition, {options.topic: len(partitions)})
        )
    return [(options.topic, options.partition)]


def _starts(
    start: tuple[str, int], cluster: ClusterClient, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the first offset to read of each partition, within its log."""
    kind, number = start
    first, end = (cluster.offsets_at(dict.fromkeys(partitions, which)) for which in (EARLIEST, LATEST))
    if kind == "beginning":
        return first
    if kind == "end":
        return end
    if kind == "time":
        at = cluster.offsets_at(dict.fromkeys(partitions, number))
        return {partition: end[partition] if offset < 0 else offset for partition, offset in at.items()}
    targets = {partition: number if kind == "offset" else end[partition] - number for partition in partitions}
    return {
        partition: min(max(offset, first[partition]), end[partition]) for partition, offset in targets.items()
    }


def _properties(options: argparse.Namespace) -> dict[str, object]:
    properties: dict[str, object] = options.client_properties | {
        "isolation.level": "read_committed",
        "max.poll.records": min(options.count or _AT_ONCE, _AT_ONCE),
        "default.api.timeout.ms": round(options.connections.timeout_s * 1000),
        "allow.auto.create.topics": False,
    }
    if options.group is not None:
        properties |= {_GROUP: options.group, _RESET: "earliest"}
    if options.reset is not None:
        properties[_RESET] = options.reset
    return properties


def _write(
    consumer: _ConsumerWithPositions,
    render: Render,
    count: int | None,
    ends: dict[TopicPartition, int] | None,
) -> None:
    """Write records until `count` or the ends are reached."""
    written = 0
    output = sys.stdout.buffer
    while (count is None or written < count) and (ends is None or not consumer.has_reached(ends)):
        records: list[ConsumerRecord] = consumer.poll(_POLL_MS)
        batch = records if count is None else records[: count - written]
        try:
            for record in batch:
                output.write(render(record))
            output.flush()
        except (
            BaseException
        ):  # such as a full disk, a closed pipe or Ctrl-C: the next run writes these records again
            consumer.read_again(records)
            raise
        consumer.read_again(records[len(batch) :])
        written += len(batch)
