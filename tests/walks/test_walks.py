"""Walks that were played with a real Kafka, played with ours: it answers as Apache Kafka 4.3.1 did. `make walks`."""

import uuid

import pytest

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.protocol import messages
from tests.conftest import REPOSITORY
from tests.differential.printed import Names
from tests.walks import exemptions
from tests.walks.compare import Difference, difference, play_ours, sendable, shrink
from tests.walks.drawn import Ids, as_kafka_drew, draws
from tests.walks.found import FOUND, heartbeat
from tests.walks.kinds import load, requests
from tests.walks.plan import KINDS, OLDEST, REQUESTS, Draw, Step, Walk, plan
from tests.walks.recorded import Recorded, read, texts, written

load()
TEXTS = texts()
RECORDED = read(TEXTS)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.name)
def test_a_walk_is_answered_as_by_kafka(recorded: Recorded) -> None:
    found = difference(recorded.walk, play_ours(recorded.walk, 1, recorded.drew), recorded.kafkas)
    assert found is None, str(found)


def test_all_steps_of_a_recorded_walk_have_kafkas_answers() -> None:
    assert all(len(recorded.walk.steps) >= len(recorded.kafkas) > 0 for recorded in RECORDED)
    assert (
        sum(len(r.walk.steps) - len(r.kafkas) for r in RECORDED) < sum(len(r.kafkas) for r in RECORDED) / 10
    )


def test_a_file_is_what_the_recorder_writes() -> None:
    assert written(RECORDED) == TEXTS


def test_walks_of_every_kind_are_recorded() -> None:
    drawn = {kind for kind in KINDS if kind.startswith(REQUESTS)}
    plain = {kind for kind in KINDS if "restart" not in kind} - drawn
    recorded = {recorded.walk.kind for recorded in RECORDED}
    assert plain | {*FOUND} < recorded <= {*KINDS, *FOUND}, "make walks WALKS_ARGS=--record"
    assert len(RECORDED) >= 40
    assert len(drawn & recorded) >= 50, "make requests WALKS_ARGS=--record"


def test_requests_of_every_api_are_drawn_in_every_version() -> None:
    """Each can be sent; lists are empty, null, and name a thing twice."""
    seen = ""
    for row in SERVED:
        assert (row.name in requests.LEFT_OUT) != (f"{REQUESTS}{row.name}" in KINDS)
        for version in range(max(row.min_version, OLDEST.get(row.name, 0)), row.max_version + 1):
            draw = Draw(f"{row.name} {version}")
            struct = messages.find(f"{row.name}Request").SCHEMA.struct
            made = [requests.Drawing(draw, row.name, version, "a").struct(struct) for _ in range(20)]
            walk = Walk("any", 1, [Step("a", "a", row.name, version, fields) for fields in made])
            assert sendable(walk) == walk, (row.name, version)
            seen += f"{made}"
    assert "'topics': []" in seen and "'topics': None" in seen
    assert "'groups': ['@g', '@g']" in seen
    assert "{'name': '@t', 'partitions': [0]}, {'name': '@t', 'partitions': [0]}" in seen


def test_what_is_not_drawn_has_a_reason_that_is_a_row_of_the_differences() -> None:
    text = (REPOSITORY / "docs" / "differences.md").read_text(encoding="utf-8")
    reasons = [*requests.NOT_EMPTY.values(), *requests.NOT_TWICE.values()]
    silences = [reason for reason in reasons if "never" in reason]
    assert len(silences) == 4
    assert [reason for reason in silences if reason not in text] == []


def test_a_seed_gives_one_walk() -> None:
    for kind in KINDS:
        walk = sendable(plan(kind, 7))
        assert walk == sendable(plan(kind, 7))
        assert walk != sendable(plan(kind, 8))


def test_ours_draws_the_ids_that_kafka_drew_for_the_same_members_and_topics() -> None:
    ours, kafkas = Names(), Names()
    with draws() as drawn:
        first, unnamed, topic, former = (uuid.uuid4() for _ in range(4))
    for names, member in ((ours, f"a-{first}"), (kafkas, "a-" + "1" * 8 + "-1111" * 3 + "-" + "1" * 12)):
        names.learn(member)
    for names, name, of_topic in (
        (ours, "w1-t", (former.bytes, topic.bytes)),
        (kafkas, "w2-t", (b"f" * 16, b"t" * 16)),
    ):
        for topic_id in of_topic:
            names.learn_topic(name, topic_id)
    given = as_kafka_drew(drawn.ids, Ids.of(ours, "w1-"), Ids.of(kafkas, "w2-"))
    assert given[1] is None
    with draws() as drawn:
        drawn.repeat(given)
        again = [uuid.uuid4() for _ in range(5)]
    assert str(again[0]) == "11111111-1111-1111-1111-111111111111"
    assert [again[2].bytes, again[3].bytes] == [b"t" * 16, b"f" * 16]
    assert len({str(each) for each in (unnamed, again[1], again[4])}) == 3


@pytest.mark.parametrize(
    ("made", "left"),
    [
        ("019a72d1-74c9-df6a-cc01-1cdd9474031b", [0]),
        ("08572976-3a12-917c-1a26-f88938703800", [0, 1]),
        ("z691b06f-6555-abfe-b8c9-817af8be8831", [0]),
        ("z3b97377-b34e-8ece-7e9e-e51d9212824c", [0, 1]),
    ],
)
def test_ours_assigns_as_kafka_does_with_the_member_id_that_kafka_drew(made: str, left: list[int]) -> None:
    """A recorded walk failed one time in twenty, with no id of Kafka's to draw.

    Of three members with four partitions, the first in Kafka's hash map has two. The hash code decides, not which id
    is the lesser one. Kafka 4.3.1 answered so to members that chose these ids.
    """
    owning = {"member_id": "$member.a", "member_epoch": "$epoch.a", "topic_partitions": "$assigned.a"}
    generated = heartbeat("c", member_id="")._replace(version=0)
    steps = [heartbeat("a"), generated, heartbeat("b"), heartbeat("a", **owning)]
    answers = play_ours(Walk("any", 1, steps), 1, Ids({"#2": made}, {}))
    assert answers[1][-1][-1]["member_id"] == "#2"
    assert answers[-1][-1][-1]["assignment"] == {
        "topic_partitions": [{"topic_id": "id of orders", "partitions": left}]
    }


def test_a_recorded_walk_has_the_ids_that_kafka_drew() -> None:
    for recorded in RECORDED:
        assert {("orders", 0), ("pages", 0)} <= recorded.drew.topics.keys(), recorded.name
        if recorded.walk.kind.startswith("classic groups"):
            assert recorded.drew.members, recorded.name


def test_every_exemption_is_a_row_of_the_differences() -> None:
    text = (REPOSITORY / "docs" / "differences.md").read_text(encoding="utf-8")
    assert [row for row in exemptions.ROWS.values() if row not in text] == []
    assert all(callable(getattr(exemptions, name)) for name in exemptions.ROWS)


def test_a_missing_answer_is_a_difference_unless_it_is_exempt() -> None:
    join = Step("a'", "a", "JoinGroup", 0, {})
    asked = ["a'", "JoinGroup v0", {}]
    refused = ["a", {"error_code": 27, "leader": "", "member_id": "a-#1"}]
    silence = ["a", exemptions.NEVER]
    assert exemptions.as_ours(join, [asked, refused], [asked, silence]) == [asked, refused]
    for api in ("Heartbeat", "SyncGroup", "LeaveGroup"):
        other = join._replace(api=api)
        assert exemptions.as_ours(other, [asked, refused], [asked, silence]) == [asked, silence]
    joined = ["a", {"error_code": 0, "leader": "a-#1", "member_id": "a-#1"}]
    assert exemptions.as_ours(join, [asked, joined], [asked, silence]) == [asked, silence]


def test_only_the_beginning_of_a_batch_is_exempt() -> None:
    whole = "\0" * 11 + "\1" + "x"
    ours = {"high_watermark": 1, "records": whole}
    for more in ("\0", whole[:-1]):
        assert exemptions.without_begun_batch(ours, ours | {"records": whole + more}) == ours
    for other in (whole + whole, "", "y" + whole, whole[:-1]):
        kafkas = ours | {"records": other}
        assert exemptions.without_begun_batch(ours, kafkas) == kafkas


def test_a_walk_shrinks_to_the_requests_that_show_its_difference() -> None:
    def find(walk: Walk) -> Difference | None:
        made = [step.client for step in walk.steps]
        if "first" not in made or "last" not in made[made.index("first") :]:
            return None
        steps = walk.steps[: made.index("last") + 1]
        events = [[[step.client, step.api]] for step in steps]
        return Difference(
            walk._replace(steps=steps), [*events[:-1], [["last", 0]]], [*events[:-1], [["last", 1]]]
        )

    names = [*"abcd", "first", *"efgh", "last", *"ijk"]
    walk = Walk("any", 1, [Step(name, name, "Heartbeat", 0, {}) for name in names])
    found = find(walk)
    assert found is not None
    assert [step.client for step in shrink(found, find).walk.steps] == ["first", "last"]


def test_the_requests_that_are_left_become_as_simple_as_they_can() -> None:
    def find(walk: Walk) -> Difference | None:
        (only,) = walk.steps
        named = [
            each.get("partition_index") for topic in only.fields["topics"] for each in topic["partitions"]
        ]
        return Difference(walk, [[["a", 0]]], [[["a", 1]]]) if 7 in named else None

    topics = [
        {"name": name, "partitions": [{"partition_index": index, "offset": 5} for index in (0, number)]}
        for number, name in enumerate("abcdefghij")
    ]
    fields = {"topics": topics, "timeout_ms": 5000}
    found = find(Walk("any", 1, [Step("a", "a", "DeleteRecords", 2, fields)]))
    assert found is not None
    (left,) = shrink(found, find).walk.steps
    assert left.fields == {"topics": [{"name": "h", "partitions": [{"partition_index": 7}]}]}
