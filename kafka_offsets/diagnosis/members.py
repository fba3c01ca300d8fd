"""Rules about the members of groups: who is missing, who waits for whom, who was removed or refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from kafka_offsets.clock import duration_text
from kafka_offsets.diagnosis.facts import ASKED_WITHIN_MS, Facts, Group, Member
from kafka_offsets.diagnosis.findings import (
    Finding,
    clock,
    counted,
    is_member,
    listed,
    of_client,
    of_group,
    place,
    refusal_of,
    since,
    when,
    who,
)
from kafka_offsets.errors import nearest_name, unknown
from kafka_offsets.incidents import LEFT, REBALANCE, REMOVED, REPLACED, WHY_REMOVED, Incident

_REBALANCES, _REBALANCES_WITHIN_MS = 4, 30_000
"""A group repeats its rebalances if one reason comes so much more often than it has members."""

_SILENT_MS = 3_000
"""A member that heartbeats is silent for so long without being slow: the default interval of clients."""

_WAITING_STATES = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}

_WHAT_IS_AWAITED = {
    "join": "to join again",
    "assignment": "to send the assignment, as the leader",
    "sync": "to ask for its assignment",
    "heartbeat": "to ask for its new assignment",
    "revocation": "to give up partitions that others are to get",
}


def nobody_joined(facts: Facts, now: int) -> Iterator[Finding]:
    """No client has asked to join it, or each was refused."""
    for group in facts.groups:
        if not (group.unavailable or group.exists or group.members):
            asked = facts.refused(group=group.group_id)[-1:]
            said = "".join(f"; {who(refusal)} was refused {refusal_of(refusal)}" for refusal in asked)
            others = [other for other in facts.others if other != group.group_id]
            yield of_group(group, unknown("group", group.group_id, others, said))


def empty_with_lag(facts: Facts, now: int) -> Iterator[Finding]:
    """The broker removed all members of the group."""
    last = {incident.text("group"): incident for incident in facts.incidents_of(REMOVED)}
    for group in facts.groups:
        if group.members or group.state != "Empty" or group.group_id not in last:
            continue
        lags = (log.end - max(entry.offset, log.start) for _, entry, log in facts.offsets_of(group))
        if lag := sum(max(each, 0) for each in lags):
            said = f"{group} has no members{since(group)} and lags by {lag}"
            yield of_group(group, f"{said}; the last to be removed was {who(last[group.group_id])}")


def topic_missing(facts: Facts, now: int) -> Iterator[Finding]:
    """The topic does not exist, and is not created on request.

    A client that reads others may ask for what it does not need, unless the name is near to that of a topic.
    """
    members = (member for group in facts.groups for member in group.members)
    reading = {(member.client_id, member.host) for member in members if member.partitions}
    refusals = _of_missing_topics(facts, now, "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION")
    for name, refusal in {each.text("topic"): each for each in refusals}.items():
        topics, client = facts.topics or {}, (refusal.text("client"), refusal.text("host"))
        if name and "," not in name and (client not in reading or nearest_name(name, topics)):
            asked_by = f", and {who(refusal)} asked for it {when(refusal)}"
            yield Finding("", "topic", name, unknown("topic", name, topics, asked_by))


def creation_refused(facts: Facts, now: int) -> Iterator[Finding]:
    """A client asked to create it with what the broker refuses."""
    for refusal in _of_missing_topics(facts, now, api="CreateTopics"):
        said = f"topic {refusal.text('topic')} was not created for {who(refusal)}, {refusal_of(refusal)}"
        yield Finding("", "topic", refusal.text("topic"), said)


def _of_missing_topics(facts: Facts, now: int, *errors: str, **fields: str) -> list[Incident]:
    """Return what was refused a moment ago for topics that do not exist."""
    refusals = facts.refused(*errors, after_ms=now - ASKED_WITHIN_MS, **fields)
    known = facts.topics
    return [] if known is None else [each for each in refusals if each.text("topic") not in known]


def subscription_matches_nothing(facts: Facts, now: int) -> Iterator[Finding]:
    """None of its topics exists, or its expression matches none."""
    for group in () if facts.topics is None else facts.groups:
        for member in group.members:
            if unmatched := _unmatched(member, facts.topics or {}):
                yield of_group(group, f"member {member} of {group} subscribes to {unmatched}")


def _unmatched(member: Member, topics: Mapping[str, int]) -> str:
    """Return what of a member's subscription does not exist; "" if there is nothing, or it is not known."""
    if member.pattern:
        is_matched = member.partitions or _matches(member.pattern, topics)
        return "" if is_matched else f"the expression {member.pattern!r}, which no topic matches"
    if missing := sorted((member.topics or frozenset()) - topics.keys()):
        verb = "does not exist" if len(missing) == 1 else "do not exist"
        return f"{listed(missing)}, which {verb}{nearest_name(missing[0], topics)}"
    is_empty = member.topics == frozenset() and not member.partitions
    return "no topic: its subscription is empty, or its expression matches none" if is_empty else ""


def _matches(pattern: str, topics: Iterable[str]) -> bool:
    """Whether an expression matches a topic; True where Python cannot tell."""
    try:
        return any(re.fullmatch(pattern, name) for name in topics)
    except re.error:
        return True


def rebalance_waits(facts: Facts, now: int) -> Iterator[Finding]:
    """It waits for a member that is silent, or for the clock of the test."""
    for group in (each for each in facts.groups if each.state in _WAITING_STATES):
        late = [member for member in group.members if member.awaited and _is_late(facts, group, member, now)]
        if group.delay_ms is None and late:
            said = listed(_waiting_for(member, facts) for member in late)
            yield of_group(group, f"{group} is {group.state}{since(group)}: it waits for {said}")
        elif group.delay_ms is not None and facts.is_time_still:
            delay = f"{since(group)} for more members, for {duration_text(group.delay_ms)}"
            key = " of the test's clock (group.initial.rebalance.delay.ms): advance it"
            yield of_group(group, f"{group} waits{delay}{key}")


def _is_late(facts: Facts, group: Group, member: Member, now: int) -> bool:
    """Whether a member takes longer than one that heartbeats, as far as that is known."""
    waited_ms = 0 if group.since_ms is None else now - group.since_ms
    return facts.is_time_still or waited_ms >= _SILENT_MS or (member.silent_ms or 0) > _SILENT_MS


def _waiting_for(member: Member, facts: Facts) -> str:
    said = f"{member} {_WHAT_IS_AWAITED[member.awaited]}"
    if member.silent_ms is not None:
        said += f", silent for {duration_text(member.silent_ms)}"
    if member.removed_in_ms is not None:
        clock_ = " of the test's clock" if facts.is_time_still else ""
        said += f", removed in {duration_text(max(member.removed_in_ms, 0))}{clock_}"
    return said


def protocols_differ(facts: Facts, now: int) -> Iterator[Finding]:
    """It has no assignor in common with the members."""
    for refusal, group, said in _cannot_join(facts, "INCONSISTENT_GROUP_PROTOCOL"):
        sides = {", ".join(member.protocols): member for member in group.members if member.protocols}
        others = listed(f"{member} offers {protocols}" for protocols, member in sides.items())
        offers = f"it offers {refusal.text('offered') or 'an assignor that no other member has'}"
        if group.members:
            yield of_client(refusal, f"{said}: {offers}; {others or 'the members offer another one'}")


def session_timeout_refused(facts: Facts, now: int) -> Iterator[Finding]:
    """Its session timeout is outside the limits of the broker."""
    limits = "outside group.min.session.timeout.ms and group.max.session.timeout.ms"
    for refusal, _, said in _cannot_join(facts, "INVALID_SESSION_TIMEOUT"):
        timeout = duration_text(refusal.number("offered"))
        yield of_client(refusal, f"{said}: its session timeout of {timeout} is {limits}")


def group_full(facts: Facts, now: int) -> Iterator[Finding]:
    """The group has as many members as `group.max.size` or `group.consumer.max.size` allows."""
    for refusal, group, said in _cannot_join(facts, "GROUP_MAX_SIZE_REACHED"):
        if group.members:
            yield of_client(refusal, f"{said}: it is full, with {counted(len(group.members), 'member')}")


def instance_in_use(facts: Facts, now: int) -> Iterator[Finding]:
    """A member with the same `group.instance.id` has not left."""
    for refusal, group, said in _cannot_join(facts, "UNRELEASED_INSTANCE_ID"):
        for owner in (member for member in group.members if member.instance_id == refusal.text("instance")):
            whose = f"{owner.client_id!r} at {owner.host}, which has not left"
            yield of_client(refusal, f"{said}: instance {owner.instance_id!r} belongs to {whose}")


def _cannot_join(facts: Facts, error: str) -> Iterator[tuple[Incident, Group, str]]:
    """Yield what a group refused with an error to clients that are no members now, and how the sentence begins."""
    for refusal in facts.refused(error):
        group = facts.group_of(refusal) or Group(refusal.text("group"))
        if not is_member(group, refusal):
            yield refusal, group, f"{who(refusal)} cannot join {group}, refused {when(refusal)}"


def instance_taken(facts: Facts, now: int) -> Iterator[Finding]:
    """Another client joined with the same `group.instance.id`."""
    fenced = "FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID"
    for incident in facts.incidents_of(REPLACED):
        group = incident.text("group")
        for former in facts.refused(*fenced, after_ms=incident.first_ms - 1, group=group)[-1:]:
            said = f"instance {incident.text('instance')!r} of group {group!r} was taken by {who(incident)}"
            hears = f"{who(former)} used it before, and was refused {refusal_of(former)}"
            yield of_client(incident, f"{said} {when(incident)}; {hears}")


def member_removed(facts: Facts, now: int) -> Iterator[Finding]:
    """The broker removed a member: no heartbeat, or it did not rejoin in time."""
    for incident, group in _gone(facts, REMOVED):
        why = WHY_REMOVED[incident.text("reason")].format(span=duration_text(incident.number("timeout_ms")))
        said = f"member {who(incident)} of {group} was removed {when(incident)}, since {why}"
        its = facts.refused(after_ms=incident.last_ms - 1, member=incident.text("member"))[-2:]
        said += "".join(f"; its {other.text('api')} was refused {refusal_of(other)}" for other in its)
        yield of_client(incident, said)


def member_left_late(facts: Facts, now: int) -> Iterator[Finding]:
    """The application took longer than `max.poll.interval.ms` between two polls."""
    for incident, group in _gone(facts, LEFT):
        if "poll" in (reason := incident.text("reason")):
            said = f"member {who(incident)} left {group} {when(incident)} and has not come back; it said: {reason}"
            yield of_client(incident, said)


def _gone(facts: Facts, kind: str) -> Iterator[tuple[Incident, Group]]:
    """Yield the members that have gone in one way and not come back, each with its group."""
    for incident in facts.incidents_of(kind):
        group = facts.group_of(incident)
        if group is not None and not _has_joined(group, incident):
            yield incident, group


def rebalances_repeat(facts: Facts, now: int) -> Iterator[Finding]:
    """Members join, leave or are removed all the time."""
    recent: dict[str, list[Incident]] = {}
    for incident in facts.incidents_of(REBALANCE, now - _REBALANCES_WITHIN_MS):
        recent.setdefault(incident.text("group"), []).append(incident)
    for mine in recent.values():
        group = facts.group_of(mine[0])
        if group is None or max(incident.count for incident in mine) < _REBALANCES + len(group.members):
            continue  # as many members that join, perhaps with one client id
        by = listed(f"{counted(incident.count, 'time')} since {incident.text('reason')}" for incident in mine)
        count, first = sum(incident.count for incident in mine), min(incident.first_ms for incident in mine)
        yield of_group(group, f"{group} has rebalanced {count} times since {clock(first)}: {by}")


def partitions_unassigned(facts: Facts, now: int) -> Iterator[Finding]:
    """The leader did not know them when it assigned, or its assignor leaves them out."""
    for group in facts.groups:
        owned, topics, partition_counts = group.owners, group.topics, facts.topics
        if not owned or not topics or partition_counts is None or not facts.is_settled(group, now):
            continue
        left = [(name, index) for name in sorted(topics) for index in range(partition_counts.get(name, 0))]
        if left := [partition for partition in left if partition not in owned]:
            said = f"{group} is Stable{since(group)}, and no member has"
            yield of_group(group, f"{said} {listed(map(place, left))}", *left)


def members_without_partitions(facts: Facts, now: int) -> Iterator[Finding]:
    """The group has more members than its topics have partitions."""
    for group in facts.groups:
        idle, topics = [member for member in group.members if not member.partitions], group.topics
        if group.state != "Stable" or not idle or topics is None or facts.topics is None:
            continue
        partitions = sum(facts.topics.get(name, 0) for name in topics)
        if 0 < partitions < len(group.members) and len(group.owners) == partitions:
            said = f"{counted(len(idle), 'member')} of {group} {'has' if len(idle) == 1 else 'have'} no partition"
            shared = f"{len(group.members)} members share {counted(partitions, 'partition')}"
            yield of_group(group, f"{said}: {shared}; without one: {listed(idle)}")


def _has_joined(group: Group, incident: Incident) -> bool:
    """Whether the client of an incident, or another one with its instance id, is a member now."""
    if not (instance := incident.text("instance")):
        return is_member(group, incident)
    ids = {member.member_id for member in group.members if member.instance_id == instance}
    return bool(ids - {incident.text("member")})
