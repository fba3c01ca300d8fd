"""Rows of `lag` and `groups describe`: the partitions that groups read, with what is not known said in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from kafka_offsets import lag as rule
from kafka_offsets.client.admin_requests.groups import GroupFacts, read_groups
from kafka_offsets.client.cluster import WHOLE_TOPIC, ClusterClient, ListedGroup, LogRange
from kafka_offsets.client.connection import PATIENCE_S
from kafka_offsets.client.coordinator import Member
from kafka_offsets.commands.groups.facts import group_of
from kafka_offsets.commands.options.connections import Refusals, chosen_groups, listed_groups, reason_of
from kafka_offsets.diagnosis.facts import Facts, Log
from kafka_offsets.diagnosis.findings import Finding
from kafka_offsets.diagnosis.rules import diagnose
from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.protocol.topic_partition import TopicPartition

_PLACE = ("topic", "partition", "offset", "end", "lag", "skipped")

Row = dict[str, Any]


def with_names(known: str | None, names: str) -> str:
    """Return the names of findings in a cell with further ones, each once."""
    return ", ".join(dict.fromkeys([*(known.split(", ") if known else ()), *names.split(", ")]))


def be_patient(options: Any) -> None:
    """Let tables that show what the others know wait two seconds for one broker of several."""
    options.connections.retries.patience_s = PATIENCE_S


def of_each_group(
    options: Any,
    logs: Logs,
    rows_of: Callable[[GroupFacts], list[Row]],
    *,
    described: bool,
    explained: bool = True,
) -> list[Row]:
    """Return the rows of all chosen groups; one that cannot be read has a row that says so, unless it is alone.

    described  whether groups without members are described too, of which only offsets are known otherwise
    explained  whether the rows are `offset_rows`, which have what the diagnosis finds
    """
    listed: list[ListedGroup] = []
    if options.all_groups and not (options.groups or options.more_groups):
        listed = listed_groups(logs.cluster, logs.refusals)
        groups = [entry.group for entry in listed]
    else:
        groups = chosen_groups(options)
    rows: list[Row] = []
    facts = list(read_groups(options.connections, logs.cluster, groups, () if described else listed))
    if explained:
        logs.diagnose([told for _, told in facts if isinstance(told, GroupFacts)])
    for group, told in facts:
        if isinstance(told, GroupFacts):
            rows += rows_of(told)
        elif len(groups) == 1 and not options.all_groups:
            raise told
        else:
            logs.refusals.add_group(group, told)
            rows.append({"group": group, **dict.fromkeys(_PLACE), "is_there": True, "error": reason_of(told)})
    return rows


def offset_rows(logs: Logs, facts: GroupFacts) -> list[Row]:
    """Return a row for each partition that the group reads, and for each member without partitions.

    A partition without an offset and a member has a row if it has records.
    """
    committed, errors = facts.committed, facts.refused
    logs.refusals.add_offsets(facts.group, errors)
    members = facts.description.members
    owners = {partition: member for member in members for partition in member.assigned}
    named = {*committed, *owners, *errors}
    ranges = logs.of(rule.topics_read(named), named)
    has_records = (
        partition
        for partition, log_range in ranges.items()
        if log_range is None or log_range.end > log_range.start
    )
    rows = []
    for partition in sorted({*named, *has_records}):
        offset = committed[partition].offset if partition in committed else None
        log_range = ranges.get(partition)
        row = {
            "topic": partition[0],
            "partition": partition[1],
            "offset": offset,
            "end": log_range and log_range.end,
            "lag": None,
            "skipped": None,
            "is_there": partition in ranges,
        }
        if partition in errors:
            row["error"] = f"{errors[partition].name} ({errors[partition].value})"
        elif log_range is not None:
            row["lag"] = rule.lag(offset, log_range.start, log_range.end)
            row["skipped"] = rule.skipped(offset, log_range.start)
        if log_range is None and partition in ranges:
            row["error"] = logs.reason(partition)
        rows.append(row | _owner(owners.get(partition)))
    rows += [dict.fromkeys(_PLACE) | _owner(member) for member in members if not member.assigned]
    _explain(logs, facts, rows)
    return rows


def _explain(logs: Logs, facts: GroupFacts, rows: list[Row]) -> None:
    """Add to rows of a group what the diagnosis finds in what is known of it, and report the sentences.

    A finding about the group as a whole stands at the members without partitions, if there are any.
    """
    idle = [row for row in rows if row["topic"] is None]
    for finding in logs.findings.get(facts.group, ()):
        logs.refusals.add_like(f"findings of {finding.name}", facts.group, finding.sentence, counts=False)
        at = [row for row in rows if (row["topic"], row["partition"]) in finding.partitions]
        for row in at or idle or rows:
            row["why"] = with_names(row.get("why"), finding.name)


class Logs:
    """The ranges of the logs of a cluster, each asked for once.

    refusals  gets the partitions whose range is not known
    findings  what the diagnosis finds, by group
    """

    def __init__(self, cluster: ClusterClient, refusals: Refusals) -> None:
        self.refusals = refusals
        self.cluster = cluster
        self._ranges: dict[str, dict[TopicPartition, LogRange | None]] = {}
        self._whole: set[str] = set()
        self._reasons: dict[TopicPartition, str] = {}
        self._topics: dict[str, int] | None = None
        self.findings: dict[str | None, list[Finding]] = {}

    def of(
        self, topics: Iterable[str], named: Iterable[TopicPartition]
    ) -> dict[TopicPartition, LogRange | None]:
        """Return the range of each partition of topics, None where it is not known; of a deleted topic nothing.

        named  the partitions that a topic has at least, of which the brokers tell nothing
        """
        names = list(topics)
        new = [topic for topic in names if topic not in self._ranges]
        if new:
            errors: dict[TopicPartition, KafkaOffsetsError] = {}
            log_ranges = self.cluster.log_ranges(new, errors)
            self.refusals.add_log_ends(errors)
            self._reasons |= {partition: reason_of(error) for partition, error in errors.items()}
            self._whole.update(topic for topic, partition in errors if partition == WHOLE_TOPIC)
            for topic in new:
                self._ranges[topic] = {
                    partition: log_range
                    for partition, log_range in log_ranges.items()
                    if partition[0] == topic
                }
                self._ranges[topic] |= {
                    partition: None
                    for partition in errors
                    if partition[0] == topic and partition[1] != WHOLE_TOPIC
                }
        ranges = {
            partition: log_range for topic in names for partition, log_range in self._ranges[topic].items()
        }
        return ranges | {partition: None for partition in named if partition[0] in self._whole}

    def diagnose(self, facts: Iterable[GroupFacts]) -> None:
        """Diagnose groups together, and ask for their logs; what does not exist the command says itself."""
        groups = [group for group in map(group_of, facts) if group.exists]
        read = {topic for group in groups for topic in rule.topics_read({*group.offsets, *group.owners})}
        logs = {
            partition: Log(log_range.start, log_range.end)
            for partition, log_range in self.of(sorted(read), ()).items()
            if log_range is not None
        }
        members = [group for group in groups if group.members]
        subscribed = sorted({topic for group in members for topic in group.topics or ()})
        topics = self._topics_for(subscribed) if members else None
        told = Facts(groups, topics, logs, asked=frozenset(group.group_id for group in groups))
        for finding in diagnose(told, time.time_ns() // 1_000_000):
            if finding.name == "never-committed":
                continue  # a row with an owner and without an offset says so
            self.findings.setdefault(finding.group, []).append(finding)

    def _topics_for(self, subscribed: Iterable[str]) -> dict[str, int]:
        """Return the topics of the cluster, and those subscribed ones that exist for others."""
        if self._topics is None:
            self._topics = self.cluster.topics()
        hidden = [topic for topic in subscribed if topic not in self._topics]
        if hidden:
            self.of(hidden, ())
            self._topics |= {topic: 0 for topic in hidden if topic in self._whole}
        return self._topics

    def reason(self, place: TopicPartition) -> str:
        """Return why the range of a partition is not known."""
        return self._reasons.get(place) or self._reasons[place[0], WHOLE_TOPIC]


def _owner(member: Member | None) -> Row:
    return {
        "member": member and member.member_id,
        "instance": member and member.instance_id,
        "host": member and member.host,
        "client": member and member.client_id,
    }
