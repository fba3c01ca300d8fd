"""Every situation of tests/stories, played with our broker: it answers as Apache Kafka 4.3.1 did.

The answers were recorded from a real broker: `make differential`. `DIFFERENT` names the situations
in which we differ, each with a piece of docs/differences.md that says so.
"""

import re
from collections import defaultdict
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

import pytest

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.protocol import messages
from tests.differential.brokers import OwnBroker
from tests.differential.play import Client, Event, Play
from tests.differential.player import Player
from tests.differential.settings import PARTS, SETTINGS
from tests.differential.stories import STORIES, Stories, events_of, file_of, part, setting_of, stored
from tests.stories.record import comparable, difference, has_silence, prepare

REPOSITORY = Path(__file__).resolve().parents[2]
DIFFERENCES = REPOSITORY / "docs" / "differences.md"
CHANGES = REPOSITORY / "CHANGES.md"

DIFFERENT = {
    "DeleteRecords up to an offset inside a batch of a transaction: the last stable offset": (
        2,
        "the last stable offset is that of the batch, before the log start offset",
    ),
    "OffsetDelete: a subscription to more topics than it has bytes": (
        1,
        "claims more topics than it has bytes",
    ),
    "a member that joins twice before the others": (
        1,
        "if a member joins again while its earlier join waits, the earlier one never gets a response",
    ),
    "members that join again, unchanged and changed, in each state of the group": (
        1,
        "if a member is removed while its request waits, the request never gets a response",
    ),
    "GROUP_MAX_SIZE_REACHED: a group of three members at most": (
        1,
        "after a member is refused because the group is full, the others wait for the rebalance timeout",
    ),
    "JoinGroup that names a protocol twice": (1, "a join that names a protocol twice"),
    "Fetch with limits smaller than a batch (v4)": (2, "fills a limit up with the beginning of a batch"),
    "Fetch with limits smaller than a batch (v11)": (2, "fills a limit up with the beginning of a batch"),
    "Fetch with limits smaller than a batch (v18)": (2, "fills a limit up with the beginning of a batch"),
    "a static consumer changes its group instance id": (3, "an instance id that a member no longer has"),
    "a group instance id that a consumer no longer has is taken by another": (
        4,
        "an instance id that a member no longer has",
    ),
    "the last SCRAM password of a mechanism is removed as another is set": (
        1,
        "depending on the two names, the other is kept and not described",
    ),
}
"""Situation to the number of answers that differ, and what docs/differences.md says of them."""

KAFKAS = stored()
VERSION = re.compile(r" \(v\d+\)$")
NAMES: dict[str, list[str]] = defaultdict(list)
"""The names of a situation in every version by its title."""
for each in KAFKAS:
    NAMES[VERSION.sub("", each)].append(each)


@pytest.mark.parametrize("title", NAMES)
def test_the_answers_are_kafkas(title: str) -> None:
    failures = [wrong for name in NAMES[title] if (wrong := what_differs(name))]
    assert not failures, "\n\n".join(failures)


def played(name: str, told: list[Event]) -> list[Event]:
    """Return what happens as ours plays a situation."""
    setting = setting_of(told)
    with closing(OwnBroker(SETTINGS[setting])) as broker:
        if setting != "new":
            prepare(Client(Play(broker, "prepare", ()), "prepare"))
        return Player(broker, name).play(told)


def what_differs(name: str) -> str:
    """Return in what our answers to a situation differ from Kafka's, "" if they are the same."""
    both = played(name, KAFKAS[name]), KAFKAS[name]
    ours, kafkas = (comparable(events, KAFKAS[name]) for events in both)
    known, reason = DIFFERENT.get(name, (0, ""))
    found = sum(our != their for our, their in zip_longest(ours, kafkas))
    if found == known:
        return ""
    told = difference(name, ours, kafkas) if found else f"{name}: {reason}"
    return f"{found} events differ, {known} are documented: {told}"


def test_each_title_occurs_once() -> None:
    assert sum(len(part(name)) for name in PARTS) == len(KAFKAS)


@pytest.mark.parametrize("name", PARTS)
def test_a_file_is_what_the_recorder_writes(name: str) -> None:
    """What was read from it is written as it was: nothing of an answer gets lost between its text and its values."""
    assert file_of(dict(part(name))) == (STORIES / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("end", ["", "----\na ?\n", "----\n"])
def test_a_new_situation_has_requests_alone_or_answers_to_come(end: str) -> None:
    """The recorder puts Kafka's answer there, as this test does ours; one that the text forgets comes at the end."""
    asked = "# a new one (v3)\n\na Heartbeat v3 group_id=$group generation_id=1\n"
    answered = {name: played(name, told) for name, told in Stories([asked + end]).items()}
    assert file_of(answered) == f"{asked}----\na UNKNOWN_MEMBER_ID\n"


def test_an_answer_that_is_held_back_to_the_end_is_no_event() -> None:
    text = "a Fetch v4 max_wait_ms=9000 min_bytes=1 topics=[orders partitions=[0]]\n----\n"
    assert len(played("x", events_of("x", text))) == 1


def test_what_the_broker_has_not_made_up_is_not_sent_as_if_it_had() -> None:
    """The request differs from the text, which says of each id who makes it."""
    told = events_of("x", "a Heartbeat v3 group_id=$group member_id=a-#1\n----\na UNKNOWN_MEMBER_ID\n")
    assert played("x", told) != told


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("until orders", "no such command: until orders"),
        ("pause 5 s", "no such command: pause 5 s"),
        ("pause 5 ms\nsetting new", "no such command: setting new"),
        ("topic t 3", "no such command: topic t 3"),
        ("quietly a Heartbeat v3 group_id=$group", "'error_code': 25"),
    ],
)
def test_a_command_that_does_nothing_is_refused(text: str, reason: str) -> None:
    with pytest.raises(AssertionError, match=reason) as caught:
        played("a story", events_of("a story", text))
    assert caught.value.__notes__[0].startswith("a story: [")


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises((AssertionError, KeyError)):
        events_of("x", "a Heartbeat v3 group=$group")


def test_kafka_answered_everything_it_was_asked() -> None:
    silent = [name for name, events in KAFKAS.items() if has_silence(events)]
    assert silent == [name for name in silent if name in DIFFERENT]


def test_what_kafka_serves_and_ours_does_not_is_a_row_of_the_differences() -> None:
    """One row names it all, beginning with UpdateFeatures; ours advertises nothing that Kafka does not."""
    answer = KAFKAS["ApiVersions: every API in Kafka's versions (v4)"][-1][-1]
    kafkas = {row["api_key"] for row in answer["api_keys"]}
    text = DIFFERENCES.read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith("| UpdateFeatures, ")]
    named = [messages.find(f"{name}Request").SCHEMA.number for name in row.split("|")[1].strip().split(", ")]
    assert kafkas >= SERVED.by_key.keys()
    assert named == sorted(kafkas - SERVED.by_key.keys())


def test_every_difference_is_of_a_situation_and_documented() -> None:
    assert set(DIFFERENT) <= set(KAFKAS)
    text = DIFFERENCES.read_text(encoding="utf-8")
    assert [reason for _, reason in DIFFERENT.values() if reason not in text] == []
    assert f"{len(KAFKAS):,} situations" in text
    assert f"{len(KAFKAS) - len(DIFFERENT):,} are answered alike" in text
    assert f"{len(KAFKAS):,} situations" in CHANGES.read_text(encoding="utf-8")
