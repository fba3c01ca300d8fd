"""Moves of a group's offsets: new offsets by a rule of kafka-consumer-groups.sh, or from a file. No I/O."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.protocol.topic_partition import TopicPartition

_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII | re.IGNORECASE
)
_SECONDS = (86_400, 3600, 60, 1)
_ROW = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class MoveError(KafkaOffsetsError):
    """Offsets that cannot be moved as requested."""


class Row(NamedTuple):
    """A line of an exported file; a line without a group is for the requested group."""

    group: str | None
    place: TopicPartition
    offset: int


def parse_time(text: str) -> int:
    """Parse a time such as 2026-01-31T23:59:00, in UTC unless a UTC offset follows; return ms. Raises ValueError."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text} is not a time such as 2026-01-31T23:59:00") from error
    return round((when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Parse a duration PnDTnHnMnS, whose parts are optional; return ms. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(f"{text} is not a duration such as PT1H30M or P7D")
    parts = zip(match.groups(), _SECONDS, strict=True)
    return round(sum(float(count) * seconds for count, seconds in parts if count) * 1000)


def clamped(
    offsets: Mapping[TopicPartition, int],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return offsets; one outside its log is moved to the nearer end."""
    return {place: min(max(offset, first[place]), end[place]) for place, offset in offsets.items()}


def shifted(
    committed: Mapping[TopicPartition, int], places: Iterable[TopicPartition], by: int
) -> dict[TopicPartition, int]:
    """Return committed offsets moved forward, or back if `by` is negative. MoveError for a partition without one."""
    wanted = list(places)
    missing = [f"{topic}-{partition}" for topic, partition in wanted if (topic, partition) not in committed]
    if missing:
        raise MoveError(f"there is no committed offset to shift: {', '.join(missing)}")
    return {place: committed[place] + by for place in wanted}


def write_rows(rows: Iterable[Row], *, as_json: bool) -> Iterator[str]:
    """Return the lines of a file that `read_rows` reads: JSON objects, or [GROUP,]TOPIC,PARTITION,OFFSET."""
    for group, (topic, partition), offset in rows:
        if as_json:
            yield json.dumps({"group": group, "topic": topic, "partition": partition, "offset": offset})
        else:
            named = [topic] if group is None else [group, topic]
            yield ",".join([*map(_quoted, named), str(partition), str(offset)])


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def read_rows(lines: Iterable[str], name: str) -> list[Row]:
    """Read what `write_rows` or kafka-consumer-groups.sh --export wrote. MoveError names the file and the line."""
    rows: list[Row] = []
    seen: set[tuple[str | None, TopicPartition]] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = _read_json(line) if line.lstrip().startswith("{") else _read_csv(line)
        if row is None:
            raise MoveError(
                f"{name} line {number}: not [GROUP,]TOPIC,PARTITION,OFFSET, nor an object of these"
            )
        if (row.group, row.place) in seen:
            raise MoveError(f"{name} line {number}: {row.place[0]}-{row.place[1]} is there twice")
        seen.add((row.group, row.place))
        rows.append(row)
    return rows


def _read_csv(line: str) -> Row | None:
    try:
        (fields,) = csv.reader([line.strip()], strict=True)
    except (csv.Error, ValueError):
        return None
    if len(fields) not in (3, 4) or not all(_ROW.fullmatch(field) for field in fields[-2:]):
        return None
    topic, partition, offset = fields[-3:]
    return _row(fields[0] if len(fields) == 4 else None, topic, int(partition), int(offset))


def _read_json(line: str) -> Row | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    group, topic = found.get("group"), found.get("topic")
    partition, offset = found.get("partition"), found.get("offset")
    is_text = isinstance(topic, str) and (group is None or isinstance(group, str))
    if not is_text or type(partition) is not int or type(offset) is not int:
        return None
    return _row(group, topic, partition, offset)


def _row(group: str | None, topic: str, partition: int, offset: int) -> Row | None:
    if not topic or not 0 <= partition < 1 << 31 or not 0 <= offset < 1 << 63:
        return None
    return Row(group, (topic, partition), offset)
