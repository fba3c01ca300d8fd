"""Expected records: does a topic hold exactly these, and where is the first difference?

The records of a partition have an order, those of different partitions have none: expected records match if they can be
dealt to the partitions so that each gets its own in its order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafka_offsets.testing.contents.seeding import (
    ConsumedRecord,
    Data,
    NewRecord,
    data_of,
    elements_of,
    is_value,
    records_of,
)

_MOST_STATES = 100_000
"""Equal records in several partitions can be dealt in many ways: so many are tried."""

_LONGEST, _MOST_SHOWN = 200, 10


class Pattern(NamedTuple):
    """What a key or a value must be.

    data  bytes, None for null
    json  the canonical form of JSON with the same meaning, None if only the bytes count
    """

    data: Data
    json: str | None

    @classmethod
    def of(cls, given: Any) -> Pattern:
        """Return the pattern of what a test writes: bytes as they are, text, null, everything else as JSON.

        Text that is an object or an array of JSON stands for it: tests without a library for JSON write it so.
        """
        data = data_of(given)
        is_json = not isinstance(given, (bytes, bytearray, memoryview, str)) or given[:1] in ("{", "[")
        return cls(data, _canonical(data) if is_json and data is not None else None)

    def matches(self, data: Data) -> bool:
        """Whether a key or a value is this one."""
        return data == self.data or (
            self.json is not None and data is not None and self.json == _canonical(data)
        )


class ExpectedRecord(NamedTuple):
    """A record that is expected; what is None, or an absent pattern, is not compared."""

    key: Pattern | None
    value: Pattern | None
    headers: tuple[tuple[str, Pattern], ...] | None
    partition: int | None = None
    timestamp: int | None = None

    def matches(self, found: ConsumedRecord) -> bool:
        """Whether a record is this one."""
        return (
            self.partition in (None, found.partition)
            and self.timestamp in (None, found.timestamp)
            and (self.value is None or self.value.matches(found.value))
            and (self.key is None or self.key.matches(found.key))
            and (self.headers is None or self._matches_headers(found.headers))
        )

    def _matches_headers(self, headers: tuple[tuple[str, Data], ...]) -> bool:
        """Whether there are these headers and no others, those of one name in their order."""
        assert self.headers is not None
        expected = sorted(self.headers, key=lambda header: header[0])
        there = sorted(headers, key=lambda header: header[0])
        return len(expected) == len(there) and all(
            name == other and pattern.matches(data)
            for (name, pattern), (other, data) in zip(expected, there, strict=True)
        )

    def __str__(self) -> str:
        text = [
            f"{name} {_shown(pattern.data)}"
            for name, pattern in (("key", self.key), ("value", self.value))
            if pattern is not None
        ]
        if self.headers is not None:
            text.append(_headers_shown([(name, pattern.data) for name, pattern in self.headers]))
        text += [f"partition {self.partition}"] if self.partition is not None else []
        text += [f"timestamp {self.timestamp}"] if self.timestamp is not None else []
        return ", ".join(text)


def expected_of(given: Any) -> list[ExpectedRecord]:
    """Return the records that a test expects, written as `produce` takes them. Raises as `records_of`."""
    elements = elements_of(given)
    return [_expected(each, record) for each, record in zip(elements, records_of(elements), strict=True)]


def _expected(given: Any, record: NewRecord) -> ExpectedRecord:
    if isinstance(given, (NewRecord, ConsumedRecord)):
        given = {"key": given.key, "value": given.value, "headers": given.headers}
    elif isinstance(given, tuple):
        given = {"key": given[0], "value": given[1]}
    elif not isinstance(given, Mapping) or is_value(given):
        given = {"value": given}
    headers = given.get("headers")
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return ExpectedRecord(
        Pattern.of(given["key"]) if "key" in given else None,
        Pattern.of(given["value"]),
        None if headers is None else tuple((str(name), Pattern.of(value)) for name, value in pairs),
        record.partition,
        record.timestamp,
    )


def filter_of(key: Any, value: Any, headers: Mapping[str, Any] | None) -> ExpectedRecord:
    """Return what chooses records by their key, value and some of their headers; None chooses all."""
    return ExpectedRecord(
        None if key is None else Pattern.of(key),
        None if value is None else Pattern.of(value),
        None if headers is None else tuple((name, Pattern.of(each)) for name, each in headers.items()),
    )


def chosen(records: Sequence[ConsumedRecord], wanted: ExpectedRecord) -> list[ConsumedRecord]:
    """Return the records with this key, this value and these headers among others."""
    own = wanted._replace(headers=None)
    return [
        record
        for record in records
        if own.matches(record)
        and all(
            any(name == other and pattern.matches(data) for other, data in record.headers)
            for name, pattern in wanted.headers or ()
        )
    ]


def differences(expected: Sequence[ExpectedRecord], found: Sequence[ConsumedRecord]) -> list[str]:
    """Return what the first difference is, in lines; none if the records are exactly the expected ones."""
    if not expected:
        more = [f"and {len(found) - _MOST_SHOWN} more"] if len(found) > _MOST_SHOWN else []
        return [_record_shown(record) for record in found[:_MOST_SHOWN]] + more
    queues: dict[int, list[ConsumedRecord]] = {}
    for record in found:
        queues.setdefault(record.partition, []).append(record)
    dealt = _deal(expected, list(queues.values()))
    count = sum(dealt)
    heads = [queue[at] for at, queue in zip(dealt, queues.values(), strict=True) if at < len(queue)]
    if count == len(expected) and not heads:
        return []
    lines = [f"{count} of {len(expected)} match, {len(found)} {'is' if len(found) == 1 else 'are'} there"]
    if count == len(expected):
        return [*lines, *(f"not expected: {_record_shown(head)}" for head in heads)]
    missing = expected[count]
    lines.append(f"expected: {missing} (record {count})")
    lines += [f"found: {_record_shown(head)}{_difference(missing, head)}" for head in heads]
    return lines if heads else [*lines, "found: no more"]


def _deal(expected: Sequence[ExpectedRecord], queues: Sequence[Sequence[ConsumedRecord]]) -> tuple[int, ...]:
    """Deal the expected records to partitions as far as possible; return how many each has got."""
    best = start = (0,) * len(queues)
    waiting, seen = [start], {start}
    while waiting:
        state = waiting.pop()
        count = sum(state)
        if count > sum(best):
            best = state
        if count == len(expected):
            return state
        for number in reversed(range(len(queues))):
            at = state[number]
            if at == len(queues[number]) or not expected[count].matches(queues[number][at]):
                continue
            after = (*state[:number], at + 1, *state[number + 1 :])
            if after not in seen:
                seen.add(after)
                waiting.append(after)
        if len(seen) > _MOST_STATES:
            raise ValueError(
                f"{len(expected)} expected records can be dealt to {len(queues)} partitions in too many ways: "
                "name the partitions, or compare one at a time"
            )
    return best


def _canonical(data: Data) -> str | None:
    """Return JSON in one form for each meaning: keys in order, 1.0 as 1.

    None if only the bytes count: they are no JSON, or nested too deeply for Python.
    """
    try:
        return json.dumps(json.loads(data or b"", parse_float=_number), sort_keys=True)
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else value


def _difference(expected: ExpectedRecord, record: ConsumedRecord) -> str:
    """Return where two values of JSON differ first, as an end of a line; nothing for other records."""
    if expected.value is None or expected.value.json is None or expected.value.matches(record.value):
        return ""
    try:
        path = _path(json.loads(expected.value.json), json.loads(record.value or b""), "value")
    except (ValueError, RecursionError):
        return ""
    return f"; {path}" if path else ""


def _path(expected: Any, found: Any, where: str) -> str:
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in [*expected, *(name_found for name_found in found if name_found not in expected)]:
            if name not in found:
                return f"{where}.{name} is missing"
            if name not in expected:
                return f"{where}.{name} is not expected"
            if inner := _path(expected[name], found[name], f"{where}.{name}"):
                return inner
        return ""
    if isinstance(expected, list) and isinstance(found, list):
        for index, (expected_element, element) in enumerate(zip(expected, found, strict=False)):
            if inner := _path(expected_element, element, f"{where}[{index}]"):
                return inner
        return (
            ""
            if len(expected) == len(found)
            else f"{where} has {len(found)} elements, expected {len(expected)}"
        )
    same = _canonical(json.dumps(expected).encode()) == _canonical(json.dumps(found).encode())
    return "" if same else f"{where} is {json.dumps(found)}, expected {json.dumps(expected)}"


def _record_shown(record: ConsumedRecord) -> str:
    text = f"{record.topic}-{record.partition} at {record.offset}: "
    if record.key is not None:
        text += f"key {_shown(record.key)}, "
    text += f"value {_shown(record.value)}"
    return text + (f", {_headers_shown(record.headers)}" if record.headers else "")


def _headers_shown(headers: Sequence[tuple[str, Data]]) -> str:
    return "headers " + ", ".join(f"{name} {_shown(data)}" for name, data in headers)


def _shown(data: Data) -> str:
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = repr(data)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(data)} bytes)"
