"""All messages in all versions, and how many examples a property of each of them is tried with."""

from hypothesis import settings

from kafka_offsets.protocol import messages

LONG = settings.get_current_profile_name() == "long"


def versions(name: str) -> range:
    """The versions that we have of a message."""
    found = messages.find(name).SCHEMA.versions
    return range(found.first, found.last + 1)


NAMES = sorted(messages.names())
EVERY_VERSION = [(name, version) for name in NAMES for version in versions(name)]


def examples(name: str, version: int) -> int:
    """How many values of a message to try: 1000 in the long form; else 20, and 5 in versions between the telling ones.

    The first and the last version of a message tell most, and the first flexible one.
    """
    if LONG:
        return 1000
    known = messages.find(name).SCHEMA
    return 20 if version in (known.versions.first, known.versions.last, known.flexible.first) else 5
