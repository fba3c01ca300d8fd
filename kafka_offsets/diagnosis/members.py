"""Rules about the members of groups: who is missing, who waits for whom, who was removed or refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from kafka_offsets.diagnosis.facts import Facts, Group, Member
from kafka_offsets.diagnosis.findings import (
    ASKED_WITHIN_MS,
    Finding,
    clock,
    counted,
    error_of,
    is_member,
    listed,
    of_client,
    of_group,
    place,
    refused,
    span,
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
        if group.unavailable or group.exists or group.members:
            continue
        asked = [refusal for refusal in refused(facts) if refusal.text("group") == group.group_id]
        said = f"; {who(asked[-1])} was refused {when(asked[-1])}: {error_of(asked[-1])}" if asked else ""
        others = [other for other in facts.others if other != group.group_id]
        yield of_group(group, unknown("group", group.group_id, others, said))


def empty_with_lag(facts: Facts, now: int) -> Iterator[Finding]:
    """The broker removed all members of the group."""
    last = {incident.text("group"): incident for incident in facts.incidents if incident.kind == REMOVED}
    for group in facts.groups:
        gone = last.get(group.group_id)
        if gone is None or group.members or group.state != "Empty":
            continue
        ends = ((log.end, max(entry.offset, log.start)) for _, entry, log in facts.offsets_of(group))
        if lag := sum(max(end - offset, 0) for end, offset in ends):
            said = f"{group} has no members{_since(group)} and lags by {lag}"
            yield of_group(group, f"{said}; the last to be removed was {who(gone)}")


def topic_missing(facts: Facts, now: int) -> Iterator[Finding]:
    """The topic does not exist, and is not created on request.

    A client that reads others may ask for what it does not need, unless the name is near to that of a topic.
    """
    reading = {
        (member.client_id, member.host)
        for group in facts.groups
        for member in group.members
        if member.partitions
    }
    asked = {
        refusal.text("topic"): refusal
        for refusal in refused(facts, "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION")
        if refusal.last_ms >= now - ASKED_WITHIN_MS
    }
    for name, incident in asked.items():
        if name and facts.topics is not None and name not in facts.topics and "," not in name:
            if (
                not nearest_name(name, facts.topics)
                and (incident.text("client"), incident.text("host")) in reading
            ):
                continue
            asked_by = f", and {who(incident)} asked for it {when(incident)}"
            yield Finding("", "topic", name, unknown("topic", name, facts.topics, asked_by))


def creation_refused(facts: Facts, now: int) -> Iterator[Finding]:
    """A client asked to create it with what the broker refuses."""
    for refusal in refused(facts):
        name = refusal.text("topic")
        is_missing = facts.topics is not None and name not in facts.topics
        if refusal.text("api") == "CreateTopics" and is_missing and refusal.last_ms >= now - ASKED_WITHIN_MS:
            said = f"topic {name} was not created for {who(refusal)}, {when(refusal)}: {error_of(refusal)}"
            yield Finding("", "topic", name, said)


def subscription_matches_nothing(facts: Facts, now: int) -> Iterator[Finding]:
    """None of its topics exists, or its expression matches none."""
    for group in () if facts.topics is None else facts.groups:
        for member in group.members:
            unmatched = _unmatched(member, facts.topics or {})
            if unmatched:
                yield of_group(group, f"member {member} of {group} subscribes to {unmatched}")


def _unmatched(member: Member, topics: Mapping[str, int]) -> str:
    """Return what of a member's subscription does not exist; "" if there is nothing, or it is not known."""
    if member.pattern:
        is_matched = member.partitions or _matches(member.pattern, topics)
        return "" if is_matched else f"the expression {member.pattern!r}, which no topic matches"
    missing = sorted((member.topics or frozenset()) - topics.keys())
    if missing:
        verb = "does not exist" if len(missing) == 1 else "do not exist"
        return f"{listed(missing)}, which {verb}{nearest_name(missing[0], topics)}"
    if member.topics is None or member.topics or member.partitions:
        return ""
    return "no topic: its subscription is empty, or its expression matches none"


def _matches(pattern: str, topics: Iterable[str]) -> bool:
    """Whether an expression matches a topic; True where Python cannot tell."""
    try:
        return any(re.fullmatch(pattern, name) for name in topics)
    except re.error:
        return True


def rebalance_waits(facts: Facts, now: int) -> Iterator[Finding]:
    """It waits for a member that is silent, or for the clock of the test."""
    for group in facts.groups:
        if group.state not in _WAITING_STATES:
            continue
        if group.delay_ms is not None:
            if facts.is_time_still:
                said = (
                    f"{group} waits{_since(group)} for more members, for {span(group.delay_ms)} of the test's clock "
                    "(group.initial.rebalance.delay.ms): advance it"
                )
                yield of_group(group, said)
            continue
        awaited = [member for member in group.members if member.awaited]
        late = [
            late_member for late_member in awaited if facts.is_time_still or _is_late(group, late_member, now)
        ]
        if late:
            said = listed(_waiting_for(member, facts) for member in late)
            yield of_group(group, f"{group} is {group.state}{_since(group)}: it waits for {said}")


def _since(group: Group) -> str:
    return "" if group.since_ms is None else f" since {clock(group.since_ms)}"


def _is_late(group: Group, member: Member, now: int) -> bool:
    """Whether a member takes longer than one that heartbeats, as far as that is known."""
    waited_ms = 0 if group.since_ms is None else now - group.since_ms
    return waited_ms >= _SILENT_MS or (member.silent_ms or 0) > _SILENT_MS


def _waiting_for(member: Member, facts: Facts) -> str:
    said = f"{member} {_WHAT_IS_AWAITED[member.awaited]}"
    if member.silent_ms is not None:
        said += f", silent for {span(member.silent_ms)}"
    if member.removed_in_ms is not None:
        clock_ = " of the test's clock" if facts.is_time_still else ""
        said += f", removed in {span(max(member.removed_in_ms, 0))}{clock_}"
    return said


def protocols_differ(facts: Facts, now: int) -> Iterator[Finding]:
    """It has no assignor in common with the members."""
    for refusal, group, said in _cannot_join(facts, "INCONSISTENT_GROUP_PROTOCOL"):
        sides = {protocols: member for member in group.members if (protocols := ", ".join(member.protocols))}
        others = listed(f"{member} offers {protocols}" for protocols, member in sides.items())
        offered = refusal.text("offered") or "an assignor that no other member has"
        if group.members:
            yield of_client(
                refusal, f"{said}: it offers {offered}; {others or 'the members offer another one'}"
            )


def session_timeout_refused(facts: Facts, now: int) -> Iterator[Finding]:
    """Its session timeout is outside the limits of the broker."""
    limits = "outside group.min.session.timeout.ms and group.max.session.timeout.ms"
    for refusal, _, said in _cannot_join(facts, "INVALID_SESSION_TIMEOUT"):
        yield of_client(
            refusal, f"{said}: its session timeout of {span(refusal.number('offered'))} is {limits}"
        )


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
    for refusal in refused(facts, error):
        group = facts.group_of(refusal) or Group(refusal.text("group"))
        if not is_member(group, refusal):
            yield refusal, group, f"{who(refusal)} cannot join {group}, refused {when(refusal)}"


def instance_taken(facts: Facts, now: int) -> Iterator[Finding]:
    """Another client joined with the same `group.instance.id`."""
    fenced = refused(facts, "FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID")
    for incident in (replaced for replaced in facts.incidents if replaced.kind == REPLACED):
        later = (other for other in fenced if other.last_ms >= incident.first_ms)
        if former := [other for other in later if other.text("group") == incident.text("group")]:
            said = (
                f"instance {incident.text('instance')!r} of group {incident.text('group')!r} "
                f"was taken by {who(incident)}"
            )
            hears = f"was refused {when(former[-1])}: {former[-1].text('error')}"
            yield of_client(
                incident, f"{said} {when(incident)}; {who(former[-1])} used it before, and {hears}"
            )


def member_removed(facts: Facts, now: int) -> Iterator[Finding]:
    """The broker removed a member: no heartbeat, or it did not rejoin in time."""
    for incident, group in _gone(facts, REMOVED):
        why = WHY_REMOVED[incident.text("reason")].format(span=span(incident.number("timeout_ms")))
        said = f"member {who(incident)} of {group} was removed {when(incident)}, since {why}"
        its = [other for other in refused(facts) if other.text("member") == incident.text("member")]
        for other in [other for other in its if other.last_ms >= incident.last_ms][-2:]:
            said += f"; its {other.text('api')} was refused {when(other)}: {other.text('error')}"
        yield of_client(incident, said)


def member_left_late(facts: Facts, now: int) -> Iterator[Finding]:
    """The application took longer than `max.poll.interval.ms` between two polls."""
    for incident, group in _gone(facts, LEFT):
        if "poll" in (reason := incident.text("reason")):
            said = f"member {who(incident)} left {group} {when(incident)} and has not come back; it said: {reason}"
            yield of_client(incident, said)


def _gone(facts: Facts, kind: str) -> Iterator[tuple[Incident, Group]]:
    """Yield the members that have gone in one way and not come back, each with its group."""
    for incident in facts.incidents:
        group = facts.group_of(incident)
        if incident.kind == kind and group is not None and not _has_joined(group, incident):
            yield incident, group


def rebalances_repeat(facts: Facts, now: int) -> Iterator[Finding]:
    """Members join, leave or are removed all the time."""
    recent: dict[str, list[Incident]] = {}
    for incident in facts.incidents:
        if incident.kind == REBALANCE and incident.last_ms > now - _REBALANCES_WITHIN_MS:
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
            said = f"{group} is Stable since {clock(group.since_ms or 0)}, and no member has"
            yield of_group(group, f"{said} {listed(map(place, left))}", *left)


def members_without_partitions(facts: Facts, now: int) -> Iterator[Finding]:
    """The group has more members than its topics have partitions."""
    if facts.topics is None:
        return
    for group in facts.groups:
        idle = [member for member in group.members if not member.partitions]
        topics = group.topics
        if group.state != "Stable" or not idle or topics is None:
            continue
        partitions = sum(facts.topics.get(name, 0) for name in topics)
        if 0 < partitions < len(group.members) and len(group.owners) == partitions:
            said = f"{counted(len(idle), 'member')} of {group} {'has' if len(idle) == 1 else 'have'} no partition"
            shared = f"{len(group.members)} members share {counted(partitions, 'partition')}"
            yield of_group(group, f"{said}: {shared}; without one: {listed(idle)}")


def _has_joined(group: Group, incident: Incident) -> bool:
    """Whether the client of an incident, or another one with its instance id, is a member now."""
    instance = incident.text("instance")
    if not instance:
        return is_member(group, incident)
    ids = [member.member_id for member in group.members if member.instance_id == instance]
    return any(member_id != incident.text("member") for member_id in ids)
