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
from tests.differential.stories import STORIES, Stories, StoryError, file_of, part, setting_of, stored
from tests.stories.record import comparable, difference, has_silence, is_no_answer, prepare

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
    answered = {name: played(name, told) for name, told in Stories({"new.txt": asked + end}).items()}
    assert file_of(answered) == f"{asked}----\na UNKNOWN_MEMBER_ID\n"


def test_an_answer_that_is_held_back_to_the_end_is_no_event() -> None:
    text = "a Fetch v4 max_wait_ms=9000 min_bytes=1 topics=[orders partitions=[0]]\n----\n"
    assert len(played("x", Stories({"new.txt": f"# x\n\n{text}"})["x"])) == 1


def test_what_the_broker_has_not_made_up_is_not_sent_as_if_it_had() -> None:
    """The request differs from the text, which says of each id who makes it."""
    told = Stories(
        {"new.txt": "# x\n\na Heartbeat v3 group_id=$group member_id=a-#1\n----\na UNKNOWN_MEMBER_ID\n"}
    )["x"]
    assert played("x", told) != told


def test_a_quiet_request_that_is_refused_is_an_error() -> None:
    with pytest.raises(AssertionError, match="'error_code': 25"):
        played("x", Stories({"new.txt": "# x\n\nquietly a Heartbeat v3 group_id=$group\n"})["x"])


def test_a_new_block_stands_after_a_recorded_one() -> None:
    recorded = "a Heartbeat v3 group_id=$group\n----\na UNKNOWN_MEMBER_ID\n"
    new = (
        "quietly b Heartbeat v3 group_id=$group\na Heartbeat v3 group_id=$group\nb Heartbeat v3 group_id=x\n"
    )
    told = Stories({"new.txt": f"# x\n\n{recorded}\n{new}"})["x"]
    assert [event[::2] if len(event) == 2 else event[0] for event in told[2:]] == [
        "quietly b", "a", ["a"], "b", ["b"]
    ]  # fmt: skip
    assert [event[1] for event in told[4::2]] == ["?", "?"]


BEAT = "a Heartbeat v3 group_id=$group\n"


@pytest.mark.parametrize(
    ("text", "line", "wrong"),
    [
        ("a Heartbeet v3 group_id=$group", 3, "no API is called Heartbeet: Heartbeat?"),
        ("a Heartbeat v3 group=$group", 3, "no field is called 'group': HeartbeatRequest v3 has group_id, "),
        (
            "a Heartbeat v2 group_instance_id=one",
            3,
            "HeartbeatRequest v2 has group_id, generation_id, member_id",
        ),
        ("a Heartbeat v3 group_id=$grup", 3, "$grup is neither $group nor $slug"),
        ("a Heartbeat v3 group_id=$group group_id=x", 3, "group_id is given twice"),
        ('a Heartbeat v3 group_id="x y', 3, '"x has no second quote'),
        ("a Heartbeat v3 group_id=x/y", 3, "x/y is no value"),
        ("a Heartbeat v3 group_id=", 3, "a value is missing before 'the end'"),
        ("a Heartbeat v3 generation_id=one", 3, "one is no number"),
        ("a Heartbeat v0-v3 group_id=$group", 3, "the versions v0-v3 are not those of the title, none"),
        ("a Heartbeat group_id=$group", 3, "neither a request, `CLIENT Api vN FIELD=VALUE`, nor a command"),
        ("my client Heartbeat v3", 3, "a client's name has no space"),
        (f"{BEAT}a ?", 4, "answers stand below `----`"),
        (f"{BEAT}----\nb ?", 5, "b awaits no answer here"),
        (f"{BEAT}----\na ?\na ?", 6, "a awaits no answer here"),
        (f"{BEAT}----\na ?\n{BEAT}", 6, "before a request or a command there is an empty line"),
        (f"{BEAT}----\na", 5, "write `?` for one that is to come"),
        (f"{BEAT}----\na wait", 5, "'wait' is no error code"),
        ("a OffsetCommit v9 topics=orders", 3, "topics is a list: [, not 'orders'"),
        (
            "a OffsetCommit v9 topics=[orders partitions=[0]",
            3,
            "in a list , or ] is missing before 'the end'",
        ),
        ("a OffsetCommit v9 topics=[orders partitions=[0]]]", 3, "] is one too many"),
        ("a OffsetCommit v9 topics=[orders\n  pages]", 3, "name is given twice, as 'orders' and 'pages'"),
        (f"{BEAT}pause 1", 4, "write `pause N ms`"),
        ("topic mine", 3, "write `topic NAME partitions=N"),
        ("until orders", 3, "write `until NAME has N partitions` or "),
        ("setting fast", 3, "NAME is one of default, new, "),
        (f"{BEAT}\nsetting new", 5, "a setting is the first line"),
        (f"{BEAT}# y", 4, "a title has an empty line above it"),
        ("", 1, "a situation without a request"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_title(text: str, line: int, wrong: str) -> None:
    with pytest.raises(StoryError, match=re.escape(wrong)) as told:
        Stories({"new.txt": f"# x z\n\n{text}\n"})["x z"]
    assert str(told.value).startswith(f"new.txt, line {line}, in `x z`: ")
    if text:
        shown = str(told.value).splitlines()[-1].strip()
        assert shown in " ".join(text.split()) or shown in text


def test_a_mistake_in_a_title_is_told_with_file_and_line() -> None:
    for text, wrong in (
        (f"# x\n\n{BEAT}\n# x\n\n{BEAT}", "new.txt, line 5: a title occurs twice: x"),
        (f"#x\n\n{BEAT}", "new.txt, line 1: above the first title"),
    ):
        with pytest.raises(StoryError, match=wrong):
            Stories({"new.txt": text})


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("until mine has 2 partitions", "x: not so after 10 s: until mine has 2 partitions"),
        ("topic mine partitions=1 cleanup=compact", "x: topic mine: INVALID_CONFIG: "),
        ("cluster kill node 1", "`cluster kill node 1`: "),
    ],
)
def test_a_command_that_fails_is_told_with_the_title(text: str, wrong: str) -> None:
    broker = OwnBroker(SETTINGS["default"])
    with pytest.raises(AssertionError, match=wrong):
        Player(broker, "x").play(Stories({"new.txt": f"# x\n\n{text}\n"})["x"])
    broker.close()


def test_what_cannot_be_read_again_is_not_recorded() -> None:
    """The text says `waits`, the answer comes, and a later line awaits it in vain."""
    text = f"# x\n\n{BEAT}----\na waits\n\npause 1 ms\n----\na ?\n"
    broker = OwnBroker(SETTINGS["default"])
    prepare(Client(Play(broker, "prepare", ()), "prepare"))
    events = Player(broker, "x").play(Stories({"new.txt": text})["x"])
    broker.close()
    assert [is_no_answer(event) for event in events] == [False, False, False, True]


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
    counts = f"{len(KAFKAS):,} situations", f"{len(KAFKAS) - len(DIFFERENT):,} are answered alike"
    assert [count for count in counts if count not in text] == [], "docs/differences.md counts the situations"
    assert counts[0] in CHANGES.read_text(encoding="utf-8"), f"CHANGES.md counts the situations: {counts[0]}"
