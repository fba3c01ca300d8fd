"""Moves of a group's offsets: new offsets by a rule of kafka-consumer-groups.sh, or from a file. No I/O."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.terminal import shown
from kafka_offsets.texts import lines_of, where

_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII | re.IGNORECASE
)
_SHORT_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)
_SECONDS = (86_400, 3600, 60, 1)
_ROW = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_FIELD = re.compile(r'[ \t]*+(?:"((?:[^"]|"")*)"|([^",][^,]*?|))[ \t]*(?=,|$)')
_VALUE = re.compile(r"\s*(?=\S)")
_LIMITS = {"partition": 1 << 31, "offset": 1 << 63}
_HEADINGS = re.compile(
    r'(?:"?(?:consumer.?)?group(?:.?id)?"?\s*,\s*)?"?topic"?\s*,\s*"?partition"?\s*,\s*"?(?:new.|current.|committed.)?offset"?',
    re.IGNORECASE,
)


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
    """Parse a duration PnDTnHnMnS, or 7d12h30m15s, whose parts are optional; return ms. Raises ValueError."""
    match = _DURATION.fullmatch(text) or _SHORT_DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(f"{text} is not a duration such as 7d, 1h30m or PT1H30M")
    parts = zip(match.groups(), _SECONDS, strict=True)
    return round(sum(float(count) * seconds for count, seconds in parts if count) * 1000)


def clamped(
    offsets: Mapping[TopicPartition, int],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return offsets; one outside its log is moved to the nearer end."""
    return {
        partition: min(max(offset, first[partition]), end[partition]) for partition, offset in offsets.items()
    }


def shifted(
    committed: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], by: int
) -> dict[TopicPartition, int]:
    """Return committed offsets moved forward, or back if `by` is negative. MoveError for a partition without one."""
    moved = list(partitions)
    missing = [f"{topic}-{partition}" for topic, partition in moved if (topic, partition) not in committed]
    if missing:
        raise MoveError(f"there is no committed offset to shift: {', '.join(missing)}")
    return {topic_partition: committed[topic_partition] + by for topic_partition in moved}


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


def read_rows(text: str, name: str) -> list[Row]:
    """Read what `write_rows` or kafka-consumer-groups.sh --export wrote, also with spaces around what it separates.

    JSON may be one object a line, objects over several lines, or an array; CSV may begin with the names of its columns.
    MoveError names the file, the line and the column.
    """
    rows: list[Row] = []
    seen: set[tuple[str | None, TopicPartition]] = set()
    is_json = text.lstrip()[:1] in ("{", "[")
    for at, row in _json_rows(text, name) if is_json else _csv_rows(text, name):
        if (row.group, row.place) in seen:
            raise MoveError(f"{where(name, text, at)}: {row.place[0]}-{row.place[1]} is there twice")
        seen.add((row.group, row.place))
        rows.append(row)
    return rows


def _csv_rows(text: str, name: str) -> Iterator[tuple[int, Row]]:
    """Yield the rows of CSV, each with its position."""
    for number, (begun, line) in enumerate(lines_of(text)):
        if number == 0 and _HEADINGS.fullmatch(line.strip()):
            continue
        try:
            yield begun, _csv_row(line)
        except _WrongFieldError as error:
            at = where(name, text, begun + error.at)
            raise MoveError(f"{at}: {error}: a line is [GROUP,]TOPIC,PARTITION,OFFSET") from error


def _csv_row(line: str) -> Row:
    fields: list[tuple[int, str]] = []
    at = 0
    while True:
        match = _FIELD.match(line, at)
        if match is None:
            raise _WrongFieldError(at, f"not a field: {shown(line[at:].strip())}")
        quoted, plain = match.groups()
        fields.append(
            (match.start(1 if plain is None else 2), plain if quoted is None else quoted.replace('""', '"'))
        )
        at = match.end()
        if line[at:].strip() == "":
            break
        at += 1
    if len(fields) not in (3, 4):
        raise _WrongFieldError(fields[-1][0], f"{len(fields)} field{'s' * (len(fields) != 1)}")
    (_, topic), partition, offset = fields[-3:]
    group = fields[0][1] if len(fields) == 4 else None
    numbers = [
        _whole(field, *number_at) for field, number_at in zip(_LIMITS, (partition, offset), strict=True)
    ]
    if not topic:
        raise _WrongFieldError(fields[-3][0], "the topic is empty")
    return Row(group, (topic, numbers[0]), numbers[1])


def _json_rows(text: str, name: str) -> Iterator[tuple[int, Row]]:
    """Yield the rows of JSON, each with its position: objects, one after the other or in an array."""
    decoder, at = json.JSONDecoder(), 0
    while match := _VALUE.match(text, at):
        begun = match.end()
        if text[begun] in "[],":
            at = begun + 1
            continue
        try:
            parsed, at = decoder.raw_decode(text, begun)
        except json.JSONDecodeError as error:
            raise MoveError(f"{where(name, text, error.pos)}: not JSON: {error.msg}") from error
        except (ValueError, RecursionError) as error:
            raise MoveError(f"{where(name, text, begun)}: not JSON: {error}") from error
        try:
            yield begun, _json_row(parsed)
        except _WrongFieldError as error:
            raise MoveError(f"{where(name, text, begun)}: {error}") from error


def _json_row(parsed: object) -> Row:
    if not isinstance(parsed, dict):
        raise _WrongFieldError(0, f"not an object with topic, partition and offset: {shown(str(parsed))}")
    group, topic = parsed.get("group"), parsed.get("topic")
    if not isinstance(topic, str) or not topic:
        raise _WrongFieldError(0, f"not an object with the name of a topic: topic is {shown(str(topic))}")
    if group is not None and not isinstance(group, str):
        raise _WrongFieldError(0, f"not the name of a group: {shown(str(group))}")
    numbers = []
    for field in _LIMITS:
        value = parsed.get(field)
        if type(value) is not int:
            raise _WrongFieldError(0, f"not a number: {field} is {shown(str(value))}")
        numbers.append(_whole(field, 0, str(value)))
    return Row(group, (topic, numbers[0]), numbers[1])


def _whole(field: str, at: int, text: str) -> int:
    if not _ROW.fullmatch(text):
        raise _WrongFieldError(at, f"not a number: the {field} is {shown(text)}")
    if not 0 <= int(text) < _LIMITS[field]:
        raise _WrongFieldError(at, f"not a valid {field}: {text}")
    return int(text)


class _WrongFieldError(ValueError):
    """Something in a row that cannot be read, and its position in the line."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at
