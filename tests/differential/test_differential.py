"""Every situation of tests/stories, played with our broker: it answers as Apache Kafka 4.3.1 did.

The answers were recorded from a real broker: `make differential`. `DIFFERENT` names the situations
in which we differ, each with a piece of docs/differences.md that says so.
"""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.protocol import messages
from tests.differential.brokers import OwnBroker
from tests.differential.play import Client, Play
from tests.differential.player import Player
from tests.differential.stories import STORIES, Stories, file_of, part, setting_of, stored
from tests.differential.table import PARTS, SETTINGS
from tests.stories.record import comparable, difference, has_silence, prepare

REPOSITORY = Path(__file__).resolve().parents[2]
DIFFERENCES = REPOSITORY / "docs" / "differences.md"
CHANGES = REPOSITORY / "CHANGES.md"

DIFFERENT = {
    "DeleteRecords up to an offset inside a batch of a transaction: the last stable offset": (
        "the last stable offset is that of the batch, before the log start offset"
    ),
    "OffsetDelete: a subscription to more topics than it has bytes": "claims more topics than it has bytes",
    "members that join again, unchanged and changed, in each state of the group": (
        "if a member is removed while its request waits, the request never gets a response"
    ),
    "GROUP_MAX_SIZE_REACHED: a group of three members at most": (
        "after a member is refused because the group is full, the others wait for the rebalance timeout"
    ),
    "JoinGroup that names a protocol twice": "a join that names a protocol twice",
    "Fetch with limits smaller than a batch (v4)": "fills a limit up with the beginning of a batch",
    "Fetch with limits smaller than a batch (v11)": "fills a limit up with the beginning of a batch",
    "Fetch with limits smaller than a batch (v18)": "fills a limit up with the beginning of a batch",
    "a static consumer changes its group instance id": "an instance id that a member no longer has",
    "a group instance id that a consumer no longer has is taken by another": (
        "an instance id that a member no longer has"
    ),
    "the last SCRAM password of a mechanism is removed as another is set": (
        "depending on the two names, the other is kept and not described"
    ),
}
"""Situation to what docs/differences.md says of it."""

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


def what_differs(name: str) -> str:
    """Return in what our answers to a situation differ from Kafka's, "" if they are the same."""
    setting = setting_of(KAFKAS[name])
    broker = OwnBroker(SETTINGS[setting])
    if setting != "new":
        prepare(Client(Play(broker, "prepare", ()), "prepare"))
    events = Player(broker, name).play(KAFKAS[name])
    ours, kafkas = comparable(events, KAFKAS[name]), comparable(KAFKAS[name], KAFKAS[name])
    broker.close()
    if name in DIFFERENT:
        return f"{name} is no longer different: {DIFFERENT[name]}" if ours == kafkas else ""
    return "" if ours == kafkas else difference(name, ours, kafkas)


def test_each_title_occurs_once() -> None:
    assert sum(len(part(name)) for name in PARTS) == len(KAFKAS)


@pytest.mark.parametrize("name", PARTS)
def test_a_file_is_what_the_recorder_writes(name: str) -> None:
    """What was read from it is written as it was: nothing of an answer gets lost between its text and its values."""
    assert file_of(dict(part(name))) == (STORIES / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("end", ["", "----\na ?\n"])
def test_a_new_situation_has_requests_alone_or_answers_to_come(end: str) -> None:
    """The recorder puts Kafka's answer there, as this test does ours."""
    ((name, told),) = Stories(
        [f"# a new one (v3)\n\na Heartbeat v3 group_id=$group generation_id=1\n{end}"]
    ).items()
    broker = OwnBroker(SETTINGS["default"])
    prepare(Client(Play(broker, "prepare", ()), "prepare"))
    answered = Player(broker, name).play(told)
    broker.close()
    written = file_of({name: answered})
    assert (
        written == f"# {name}\n\na Heartbeat v3 group_id=$group generation_id=1\n----\na UNKNOWN_MEMBER_ID\n"
    )


def test_an_unknown_command_and_an_unknown_field_are_refused() -> None:
    broker = OwnBroker(SETTINGS["default"])
    for text in ("until orders", "a Heartbeat v3 group=$group"):
        with pytest.raises((AssertionError, KeyError)):
            Player(broker, "x").play(Stories([f"# x\n\n{text}\n"])["x"])
    broker.close()


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
    assert [reason for reason in DIFFERENT.values() if reason not in text] == []
    assert f"{len(KAFKAS):,} situations" in text
    assert f"{len(KAFKAS) - len(DIFFERENT):,} are answered alike" in text
    assert f"{len(KAFKAS):,} situations" in CHANGES.read_text(encoding="utf-8")
