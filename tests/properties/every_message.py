"""All messages in all versions, and how many examples a property of each of them is tried with."""

from functools import cache

from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs import codec
from tests.conftest import LONG

LONG_EXAMPLES, TELLING_EXAMPLES, OTHER_EXAMPLES = 1000, 20, 5
"""How many values to try of a message's version: in the long form, in one that tells much, in the versions between."""


def versions(name: str) -> range:
    """The versions that we have of a message."""
    found = messages.find(name).SCHEMA.versions
    return range(found.first, found.last + 1)


NAMES = sorted(messages.names())
EVERY_VERSION = [(name, version) for name in NAMES for version in versions(name)]


def layout(name: str, version: int) -> tuple[str, str]:
    """The source of the compiled encoder and decoder, without the version in the texts of their errors."""
    cls = messages.find(name)
    encode, decode = (
        codec.source(cls.SCHEMA, version, cls.CLASSES, kind).replace(f"{name} v{version}", name)
        for kind in ("encode", "decode")
    )
    return encode, decode


def examples(name: str, version: int) -> int:
    """How many values of a message to try.

    The first and the last version of a message tell most, and the first flexible one.
    """
    if LONG:
        return LONG_EXAMPLES
    known = messages.find(name).SCHEMA
    telling = (known.versions.first, known.versions.last, known.flexible.first)
    return TELLING_EXAMPLES if version in telling else OTHER_EXAMPLES


@cache  # three files ask for it while they are collected
def layouts() -> list[tuple[str, list[int]]]:
    """Each message with the versions whose compiled code is the same, the one that tells most first.

    A value of one is a value of all, with the same bytes. In the long form each version is drawn for alone.
    """
    alike: dict[tuple[object, ...], list[int]] = {}
    for name, version in EVERY_VERSION:
        alike.setdefault((name, version) if LONG else (name, *layout(name, version)), []).append(version)
    return [
        (str(name), sorted(found, key=lambda version: examples(str(name), version), reverse=True))
        for (name, *_), found in alike.items()
    ]
