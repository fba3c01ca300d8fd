"""kafka-python and kio as judges: what we write they read as the same values, and what they write we read.

Both are made from Kafka's own message definitions and share nothing with our codecs or with each other. Every message
and version that a judge knows is judged. What they cannot do, found here; `fit` in judges.py keeps values away from it:

- kio 0.6: an error code that it does not know is an exception, so the answers of a newer broker cannot be read.
- kio 0.6: a time before 1970 is an exception, and so is -1, "no time", where kio did not foresee it, as in
  DescribeTransactionsResponse. Times are floats of seconds inside, so that milliseconds are lost far in the future.
- kio 0.6: infinite numbers are refused.
- kafka-python 3.0: an ApiVersionsResponse with any error is read as version 0, whatever the version asked for.
- Both forget tagged fields that they do not know, so none are drawn.
"""

from typing import Any

import pytest
from hypothesis import given, settings

from kafka_offsets.protocol import messages
from kafka_offsets.testing import strategies
from tests.properties.every_message import NAMES, examples, layouts, versions
from tests.properties.judges import KafkaPython, Kio

JUDGES: dict[str, Any] = {"kio": Kio(), "kafka-python": KafkaPython()}

RETIRED = {
    "OffsetCommitRequest": {0, 1},
    "OffsetCommitResponse": {0, 1},
    "OffsetFetchRequest": {0},
    "OffsetFetchResponse": {0},
}
"""Versions that Kafka 4 and with it both judges have dropped (KIP-896)."""

JUDGED = [
    (judge, name, known)
    for judge, other in JUDGES.items()
    for name, alike in layouts()
    if (known := [version for version in alike if other.knows(messages.find(name), version)])
]
"""The judge, the message, and versions with the same bytes, for all of which one value is drawn."""


@pytest.mark.parametrize(
    ("judge", "name", "alike"), [pytest.param(*each, id="{}-{}-{}".format(*each)) for each in JUDGED]
)
def test_another_implementation_reads_and_writes_the_same_values(
    judge: str, name: str, alike: list[int]
) -> None:
    cls = messages.find(name)
    other = JUDGES[judge]

    @settings(max_examples=examples(name, alike[0]) // 2)
    @given(strategies.message(cls, alike[0]))
    def agrees(value: Any) -> None:
        for version in alike:
            other.fit(value, version)
            assert other.read(cls, version, messages.encode(value, version)) == value
            theirs = other.write(value, version)
            assert messages.decode(cls, theirs, version) == (value, len(theirs))

    agrees()


def test_every_request_and_response_is_judged_in_every_version() -> None:
    judged = {(name, version) for _, name, alike in JUDGED for version in alike}
    missing = {
        (name, version)
        for name in NAMES
        if messages.find(name).SCHEMA.kind in ("request", "response")
        for version in set(versions(name)) - RETIRED.get(name, set())
        if (name, version) not in judged
    }
    assert not missing
