"""Argument types: texts of the command line as values. argparse reports an ArgumentTypeError with the option's name."""

import argparse
import re
from collections.abc import Callable, Iterable
from typing import Any

from kafka_offsets.client.commits import MAX_OFFSET, MAX_PARTITION
from kafka_offsets.client.connection import parse_address, parse_addresses
from kafka_offsets.client.moves import parse_duration, parse_time
from kafka_offsets.protocol.topic_partition import TopicPartition

_PLACE_AND_OFFSET = re.compile(r"(.+):(-?[0-9]+)=(-?[0-9]+)", re.ASCII | re.DOTALL)


def typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser whose ValueError becomes the message of the command line."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except (ValueError, OverflowError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


addresses, time, duration = map(typed, (parse_addresses, parse_time, parse_duration))


def address(text: str) -> str:
    """Return HOST:PORT, checked and unchanged."""
    typed(parse_address)(text)
    return text


def servers(text: str) -> str:
    """Return HOST:PORT[,HOST:PORT…], checked and unchanged."""
    addresses(text)
    return text


def period(text: str) -> tuple[str, int]:
    """Return a duration as it was written, and in ms."""
    return text, duration(text)


def some_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a parser of names with commas between them, in any case; an empty text is no names."""
    allowed = {name.lower() for name in names}

    def parsed(text: str) -> list[str]:
        chosen = [name.strip().lower() for name in text.split(",")] if text else []
        for name in chosen:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(names)}")
        return chosen

    return parsed


def whole_number(text: str) -> int:
    """Return a number from 0 on."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0 on")


def seconds(text: str) -> int:
    """Return a number of seconds in ms."""
    return whole_number(text) * 1000


def milliseconds(text: str) -> int:
    """Return a duration, or a number of ms, in ms."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else int(duration(text))


def minutes(text: str) -> int:
    """Return a duration, or a number of minutes, in ms."""
    return int(text) * 60_000 if text.isascii() and text.isdigit() and len(text) < 15 else int(duration(text))


def interval(text: str) -> str:
    """Return an interval of Spark; a duration such as 1h30m becomes one."""
    try:
        left = parse_duration(text) // 1000
    except ValueError:
        return text  # in the words of Spark, such as 10 minutes
    parts = []
    for unit, seconds in (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count} {unit}{'s' * (count != 1)}")
    if not parts:
        raise argparse.ArgumentTypeError(f"{text} is less than a second")
    return " ".join(parts)


def offset(text: str) -> tuple[TopicPartition, int]:
    """Parse TOPIC:PARTITION=OFFSET."""
    partition, number = _place_and_offset(text)
    if not 0 <= number <= MAX_OFFSET:
        raise argparse.ArgumentTypeError(f"{text}: an offset is from 0 to {MAX_OFFSET}")
    return partition, number


def expected_offset(text: str) -> tuple[TopicPartition, int]:
    """Parse TOPIC:PARTITION=OFFSET; -1 means no committed offset."""
    partition, number = _place_and_offset(text)
    if not -1 <= number <= MAX_OFFSET:
        raise argparse.ArgumentTypeError(f"{text}: an offset is from 0 to {MAX_OFFSET}, or -1 for nothing")
    return partition, number


def _place_and_offset(text: str) -> tuple[TopicPartition, int]:
    match = _PLACE_AND_OFFSET.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is not TOPIC:PARTITION=OFFSET")
    partition, number = _number(match[2], text), _number(match[3], text)
    if not 0 <= partition <= MAX_PARTITION:
        raise argparse.ArgumentTypeError(f"{text}: a partition is from 0 to {MAX_PARTITION}")
    return (match[1], partition), number


def _number(digits: str, text: str) -> int:
    try:
        return int(digits)
    except ValueError as error:  # Python limits the number of digits
        raise argparse.ArgumentTypeError(f"{text[:40]}…: the number is too large") from error


def topic(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Parse TOPIC, which is all of its partitions (None), or several partitions after a colon, with commas between."""
    name, colon, partitions = text.partition(":")
    try:
        if name:
            numbers = tuple(int(number) for number in partitions.split(",")) if colon else ()
            if not all(0 <= number <= MAX_PARTITION for number in numbers):
                raise argparse.ArgumentTypeError(f"{text}: a partition is from 0 to {MAX_PARTITION}")
            return name, numbers if colon else None
    except ValueError:
        pass  # reported below
    raise argparse.ArgumentTypeError(f"{text} is not TOPIC or TOPIC:PARTITION,PARTITION…")


def key_and_value(text: str) -> tuple[str, str]:
    """Parse KEY=VALUE; the value may be empty."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise argparse.ArgumentTypeError(f"{text} is not KEY=VALUE")
    return key.strip(), value
