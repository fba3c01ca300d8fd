"""The table of rules: each finds its sample, none what is healthy, and docs/ has the sentences."""

import re
from dataclasses import replace

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.diagnosis.facts import Facts, Group, Log, Transaction
from kafka_offsets.diagnosis.rules import RULES, diagnose
from kafka_offsets.incidents import REFUSED, Incident
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
    assert not diagnose(replace(SAMPLES["only-markers"], asked=frozenset()), NOW), "nobody asks for the group"


def test_only_findings_of_a_group_or_of_all_concern_it() -> None:
    facts = SAMPLES["rebalance-waits"]
    assert diagnose(facts, NOW, "billing")
    assert not diagnose(facts, NOW, "reports")
    assert diagnose(SAMPLES["foreign-protocol"], NOW, "billing")


def test_a_group_that_nobody_joined_has_the_last_reason_for_which_it_was_refused() -> None:
    (full,) = SAMPLES["group-full"].incidents
    errors = "GROUP_MAX_SIZE_REACHED", "INVALID_SESSION_TIMEOUT", "GROUP_AUTHORIZATION_FAILED"
    refused = [
        Incident(REFUSED, {**full.fields, "group": "reports", "error": error}, NOW) for error in errors
    ]
    facts = replace(HEALTHY, groups=[Group("reports", exists=False)], incidents=refused)
    (finding,) = (finding for finding in diagnose(facts, NOW) if finding.name == "nobody-joined")
    assert finding.sentence.count(" was refused ") == 1
    assert "GROUP_AUTHORIZATION_FAILED" in finding.sentence


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


def test_of_transactions_that_may_hold_an_offset_each_is_named_once_one_takes_long() -> None:
    """A broker does not tell of which group the offsets in a transaction are."""
    long, brief = SAMPLES["offset-held"].transactions[0], Transaction("tx-2", 8, "Ongoing", NOW - 100, 60_000)
    alone = replace(SAMPLES["offset-held"], transactions=[])
    assert str(diagnose(alone, NOW)).endswith(
        "(UNSTABLE_OFFSET_COMMIT): the transaction of producer 7 holds it"
    )
    groups = [replace(alone.groups[0], held={PLACE: (7, 8)})]
    facts = replace(alone, groups=groups, transactions=[long, brief])
    (finding,) = diagnose(facts, NOW)
    text = str(finding).partition("(UNSTABLE_OFFSET_COMMIT): ")[2]
    assert text.startswith("one of these holds it: the transaction of 'tx-1' (producer 7, ")
    assert ", the transaction of 'tx-2' (producer 8, " in text
    assert not diagnose(replace(facts, transactions=[replace(long, started_ms=NOW - 900), brief]), NOW)


def test_the_page_has_the_sentence_the_cause_and_the_cure_of_each_rule(generated: GeneratedPart) -> None:
    lines = []
    for rule in RULES:
        found = next(each for each in diagnose(SAMPLES[rule.name], NOW) if each.name == rule.name)
        sentence = _TIME.sub("…", found.sentence)
        lines += [f"### {rule.name}: {rule.symptom}", "", f"`{sentence}`", ""]
        lines += [f"{rule.cause} {rule.help}", ""]
    generated.check("docs/troubleshooting.md", "findings", "\n".join(lines))


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
