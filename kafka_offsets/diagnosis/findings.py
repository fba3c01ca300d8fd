"""Findings: what a rule says, and how it says times, spans, partitions and names."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from kafka_offsets.diagnosis.facts import Group, TopicPartition, Transaction
from kafka_offsets.incidents import Incident

_MOST_NAMED = 5


class Finding(NamedTuple):
    """Something that is stuck, or that explains why.

    name      of the rule, such as `rebalance-waits`
    about     group, member, topic, partition, transaction, client or broker
    subject   its name
    sentence  what is so, with the evidence: since when, until when, who, how many
    help      what usually helps; set by the table of rules
    group     the group that it concerns; None: any
    partitions  that it is about, of those that the group reads; none: the group as a whole
    """

    name: str
    about: str
    subject: str
    sentence: str
    help: str = ""
    group: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        return self.sentence


class Findings(tuple[Finding, ...]):
    """Findings, the most important first; `str` gives a line for each."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(finding.sentence for finding in self)


def of_group(group: Group, sentence: str, *partitions: TopicPartition) -> Finding:
    """Return a finding about a group, or about partitions that it reads."""
    return Finding("", "group", group.group_id, sentence, group=group.group_id, partitions=partitions)


def of_client(incident: Incident, sentence: str) -> Finding:
    """Return a finding about the client of an incident."""
    group = incident.text("group") or None
    return Finding("", "client", incident.text("client") or incident.text("host"), sentence, group=group)


def refusal_of(incident: Incident) -> str:
    """Return when and with which error and message a request was refused: `at 08:10:36: INVALID_REQUEST`."""
    message = f" ({incident.text('message')})" if incident.text("message") else ""
    return f"{when(incident)}: {incident.text('error')}{message}"


def is_member(group: Group, incident: Incident) -> bool:
    """Whether the client of an incident is a member now."""
    client = incident.text("client"), incident.text("host")
    return any((member.client_id, member.host) == client for member in group.members)


def clock(wall_ms: int) -> str:
    """Return the time of the day; the number itself where a manual clock is beyond the calendar."""
    try:
        return datetime.fromtimestamp(wall_ms / 1000).strftime("%H:%M:%S")  # noqa: DTZ006 - as logs say it
    except (OverflowError, ValueError, OSError):
        return f"{wall_ms} ms"


def since(group: Group) -> str:
    """Return since when a group has its state, as words that follow it; "" where that is not known."""
    return "" if group.since_ms is None else f" since {clock(group.since_ms)}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: 1 record, 2 records."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def place(partition: TopicPartition) -> str:
    """Return the name of a partition: orders-0."""
    return f"{partition[0]}-{partition[1]}"


def listed(names: Iterable[object], most: int = _MOST_NAMED) -> str:
    """Return the first names with commas between them, and how many more there are."""
    all_names = [str(name) for name in names]
    more = len(all_names) - most
    return ", ".join(all_names[:most]) + (f" and {more:,} more" if more > 0 else "")


def when(incident: Incident) -> str:
    """Return how often something happened, and when: `at 08:10:36`, or `4 times from 08:10:36 to 08:10:40`."""
    if incident.count == 1:
        return f"at {clock(incident.last_ms)}"
    return f"{incident.count} times from {clock(incident.first_ms)} to {clock(incident.last_ms)}"


def who(incident: Incident) -> str:
    """Return the client of an incident as a member is called."""
    client, host = incident.text("client"), incident.text("host")
    return f"{client!r} at {host}" if client and host else repr(client) if client else f"a client at {host}"


def transaction_text(transaction: Transaction) -> str:
    """Say whose transaction this is, since when it is open, and until when at most."""
    name, producer_id = transaction.transactional_id, transaction.producer_id
    said = f"the transaction of {name!r} (producer {producer_id}, {transaction.state})"
    if transaction.started_ms < 0:
        return said
    end_ms = transaction.started_ms + transaction.timeout_ms
    until = f", until {clock(end_ms)} at most" if transaction.timeout_ms else ""
    return f"{said}, open since {clock(transaction.started_ms)}{until}"
