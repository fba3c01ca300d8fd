"""`why`: what is stuck, a sentence each, and what usually helps."""

from __future__ import annotations

import argparse
import json
import time

from kafka_offsets.client.admin_requests.groups import GroupFacts, read_groups
from kafka_offsets.client.connection import PATIENCE_S
from kafka_offsets.commands.groups.facts import group_of, whole_facts
from kafka_offsets.commands.options.connections import REFUSED, Refusals, chosen_groups, listed_groups
from kafka_offsets.diagnosis.facts import Group
from kafka_offsets.diagnosis.findings import Finding
from kafka_offsets.diagnosis.rules import diagnose
from kafka_offsets.terminal import note


def why(options: argparse.Namespace) -> int:
    """Print what is stuck in groups, in all if none is named; the exit code is 1 if something is."""
    refusals = Refusals()
    options.connections.retries.patience_s = PATIENCE_S
    options.all_groups = not (options.groups or options.more_groups)
    began_ms = time.time_ns() // 1_000_000
    with options.connections.cluster() as cluster:
        if options.all_groups:
            names = [group.group for group in listed_groups(cluster, refusals)]
        else:
            names = chosen_groups(options)
        groups: list[Group] = []
        for name, told in read_groups(options.connections, cluster, names):
            if isinstance(told, GroupFacts):
                groups.append(group_of(told))
                refusals.add_offsets(name, told.refused)
            elif len(names) == 1 and not options.all_groups:
                raise told
            else:
                refusals.add_group(name, told)
        facts = whole_facts(cluster, groups, refusals, () if options.all_groups else names)
    refusals.say()
    findings = diagnose(facts, began_ms)
    for finding in findings:
        print(
            json.dumps(_as_json(finding)) if options.json else f"{finding.sentence}\n    {finding.help}",
            flush=True,
        )
    if not findings and not refusals.code and not options.json:
        note("a client's requests tell of nothing that is stuck; `lag` shows how far groups are behind")
    return REFUSED if findings else refusals.code


def _as_json(finding: Finding) -> dict[str, str | None]:
    return {
        "finding": finding.name,
        "about": finding.about,
        "subject": finding.subject,
        "group": finding.group,
        "sentence": finding.sentence,
        "help": finding.help,
    }
