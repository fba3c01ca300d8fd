"""The table of rules: each finds its sample, none what is healthy, and docs/ has the sentences."""

import re
import time
from dataclasses import replace

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.diagnosis.facts import Facts, Group, Log, Member, Offset, Position
from kafka_offsets.diagnosis.rules import RULES, diagnose
from tests.conftest import GeneratedPart
from tests.diagnosis.samples import HEALTHY, LOG, NOW, PLACE, SAMPLES, STABLE, WORKER
from tests.drivers.core import make_core
from tests.drivers.members import Consumer

_TIME = re.compile(r"\d\d:\d\d:\d\d")


def test_each_rule_has_a_sample_and_the_other_way_round() -> None:
    assert [rule.name for rule in RULES] == list(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_rule_finds_its_sample(name: str) -> None:
    found = {each.name: each for each in diagnose(SAMPLES[name], NOW)}
    assert name in found
    assert found[name].help
    assert found[name].subject in found[name].sentence


def test_nothing_is_found_where_all_is_well() -> None:
    assert not diagnose(HEALTHY, NOW)
    assert not diagnose(HEALTHY, NOW + 3_600_000), "an idle group is none that is stuck"


def test_only_findings_of_a_group_or_of_all_concern_it() -> None:
    facts = SAMPLES["rebalance-waits"]
    assert diagnose(facts, NOW, "billing")
    assert not diagnose(facts, NOW, "reports")
    assert diagnose(SAMPLES["foreign-protocol"], NOW, "billing")


@pytest.mark.parametrize("since_ms", [0, 7000])
def test_a_group_that_has_just_become_stable_has_time(since_ms: int) -> None:
    for name in ("not-fetched", "never-committed", "began-at-the-end", "stuck-or-slow"):
        facts = SAMPLES[name]
        young = [replace(group, since_ms=NOW - since_ms) for group in facts.groups]
        assert not diagnose(replace(facts, groups=young), NOW), name


def test_what_is_not_known_is_not_guessed() -> None:
    facts = replace(HEALTHY, topics=None, logs={})
    unknown = replace(WORKER, topics=None, positions=None, silent_ms=None, removed_in_ms=None)
    groups = [
        replace(STABLE, since_ms=None, members=(unknown, replace(unknown, member_id="b", partitions=())))
    ]
    assert not diagnose(replace(facts, groups=groups), NOW)


def test_an_owner_of_whom_no_fetch_is_known_has_committed_nothing_where_that_is_known() -> None:
    facts = Facts([replace(STABLE, offsets={})], {"orders": 1}, {PLACE: LOG}, asked=frozenset({"billing"}))
    assert str(diagnose(facts, NOW)) == (
        "group 'billing' has committed nothing in orders-0, with 5 records, owned by 'worker-1' at 10.0.0.1"
    )
    for changes in ({"untold": {PLACE}}, {"state": "PreparingRebalance"}):
        assert not diagnose(replace(facts, groups=[replace(STABLE, offsets={}, **changes)]), NOW), changes
    assert not diagnose(replace(facts, asked=frozenset()), NOW), "nobody asks for the group"
    assert not diagnose(replace(facts, logs={PLACE: Log(5, 5, 5)}), NOW), "there is nothing to read"


def test_a_member_that_came_back_is_none_that_was_removed() -> None:
    facts = SAMPLES["member-removed"]
    back = replace(WORKER, member_id="new", client_id="worker-2", host="10.0.0.2")
    assert not diagnose(replace(facts, groups=[replace(STABLE, members=(back,))]), NOW)


def test_a_thousand_groups_of_twenty_members_take_less_than_a_second() -> None:
    """CPU time, most of it of the rules that look at every partition of every group."""
    places = [("orders", index) for index in range(20)]
    members = tuple(
        Member(f"m{place[1]}", "c", "h", None, frozenset({"orders"}), "", (place,), ("range",), 1, 45_000)
        for place in places
    )
    members = tuple(replace(each, positions={each.partitions[0]: Position(0, 5)}) for each in members)
    offsets = {place: Offset(5, NOW - 1000) for place in places}
    groups = [
        Group(f"g{each}", "classic", "Stable", 1, members, NOW - 60_000, offsets=offsets)
        for each in range(1000)
    ]
    incidents = [
        each
        for name in ("commit-refused", "member-removed", "rebalances-repeat")
        for each in SAMPLES[name].incidents
    ]
    facts = Facts(
        groups, {"orders": 20}, {place: Log(0, 5, 5) for place in places}, incidents=incidents * 120
    )
    began = time.process_time()
    diagnose(facts, NOW)
    assert time.process_time() - began < 1


def test_the_page_has_the_sentence_the_cause_and_the_cure_of_each_rule(generated: GeneratedPart) -> None:
    lines = []
    for rule in RULES:
        found = next(each for each in diagnose(SAMPLES[rule.name], NOW) if each.name == rule.name)
        sentence = _TIME.sub("…", found.sentence)
        lines += [
            f"### {rule.name}: {rule.symptom}",
            "",
            f"`{sentence}`",
            "",
            f"{rule.cause} {rule.help}",
            "",
        ]
    generated.check("docs/troubleshooting.md", "findings", "\n".join(lines))


def test_the_place_of_the_sample_is_what_its_group_reads() -> None:
    assert STABLE.owners.keys() == {PLACE}


def test_partitions_that_are_unknown_for_one_reason_are_one_finding() -> None:
    logs = {("orders", index): Log(problem=f"no node leads orders-{index}") for index in range(7)}
    (finding,) = diagnose(replace(HEALTHY, groups=[], logs=logs), NOW)
    assert finding.sentence == (
        "orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more: no node leads it"
    )


def test_a_rebalance_of_a_consumer_group_is_kept_with_who_began_it() -> None:
    core = make_core()
    topic_admin.create_topic(core.broker, "t", 1, {})
    Consumer(core).join()
    (incident,) = core.responses.incidents
    assert (incident.kind, incident.fields) == ("rebalance", {"group": "g", "reason": "'a' joined"})
