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
    listed,
    of_client,
    of_group,
    refused,
    span,
    when,
    who,
)
from kafka_offsets.errors import nearest_name
from kafka_offsets.incidents import LEFT, REBALANCE, REMOVED, REPLACED, Incident

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
_WHY_REMOVED = {
    "session": "its session ended: no heartbeat for {span}",
    "join": "it did not join again within its rebalance timeout, {span}",
    "sync": "it did not ask for its assignment within its rebalance timeout, {span}",
    "revocation": "it did not give up its partitions within its rebalance timeout, {span}",
}


def nobody_joined(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield the groups that somebody asks for and nobody has joined."""
    for group in facts.groups:
        if group.unavailable or group.exists or group.members:
            continue
        asked = [each for each in refused(facts) if each.text("group") == group.group_id]
        said = f"; {who(asked[-1])} was refused {when(asked[-1])}: {_error(asked[-1])}" if asked else ""
        near = nearest_name(group.group_id, [each for each in facts.others if each != group.group_id])
        yield of_group(group, f"nobody has joined {group}{said}{near}")


def empty_with_lag(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield the groups without members that have records to read, and whose members were removed."""
    last = {each.text("group"): each for each in facts.incidents if each.kind == REMOVED}
    for group in facts.groups:
        gone = last.get(group.group_id)
        if gone is None or group.members or group.state != "Empty":
            continue
        late = sum(
            max(log.end - max(entry.offset, log.start), 0) for _, entry, log in facts.offsets_of(group)
        )
        if late:
            since = "" if group.since_ms is None else f" since {clock(group.since_ms)}"
            removed = f"the last to be removed was {who(gone)}"
            yield of_group(group, f"{group} has no members{since} and lags by {late}; {removed}")


def topic_missing(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield topics that clients ask for and that do not exist.

    A client that reads others may ask for what it does not need, unless the name is near to that of a topic.
    """
    reading = {
        (each.client_id, each.host) for group in facts.groups for each in group.members if each.partitions
    }
    asked = {
        each.text("topic"): each
        for each in refused(facts, "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION")
        if each.last_ms >= now - ASKED_WITHIN_MS
    }
    for name, incident in asked.items():
        if name and facts.topics is not None and name not in facts.topics and "," not in name:
            near = nearest_name(name, facts.topics)
            if not near and (incident.text("client"), incident.text("host")) in reading:
                continue
            sentence = f"topic {name} does not exist, and {who(incident)} asked for it {when(incident)}{near}"
            yield Finding("", "topic", name, sentence)


def subscription_matches_nothing(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield members none of whose topics exists, or whose expression matches no topic."""
    for group in () if facts.topics is None else facts.groups:
        for member in group.members:
            found = _unmatched(member, facts.topics or {})
            if found:
                yield of_group(group, f"member {member} of {group} subscribes to {found}")


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
    """Yield groups that wait for members, with those they wait for."""
    for group in facts.groups:
        if group.state not in _WAITING_STATES:
            continue
        since = "" if group.since_ms is None else f" since {clock(group.since_ms)}"
        if group.delay_ms is not None:
            if facts.is_time_still:
                yield of_group(
                    group,
                    f"{group} waits{since} for more members, for {span(group.delay_ms)} of the test's "
                    "clock (group.initial.rebalance.delay.ms): advance it",
                )
            continue
        awaited = [member for member in group.members if member.awaited]
        late = [each for each in awaited if facts.is_time_still or _is_late(group, each, now)]
        if late:
            said = listed(_waiting_for(member, facts) for member in late)
            yield of_group(group, f"{group} is {group.state}{since}: it waits for {said}")


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
    """Yield joins that were refused since assignors, or the protocols of the group, do not fit."""
    for each, group, said in _cannot_join(facts, "INCONSISTENT_GROUP_PROTOCOL"):
        sides = {protocols: member for member in group.members if (protocols := ", ".join(member.protocols))}
        others = listed(f"{member} offers {protocols}" for protocols, member in sides.items())
        offered = each.text("offered") or "an assignor that no other member has"
        yield of_client(each, f"{said}: it offers {offered}; {others or 'the members offer another one'}")


def group_full(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield clients that a group has no room for."""
    for each, group, said in _cannot_join(facts, "GROUP_MAX_SIZE_REACHED"):
        yield of_client(each, f"{said}: it is full, with {counted(len(group.members), 'member')}")


def instance_in_use(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield clients that cannot join since another member has their group instance id (KIP-848)."""
    for each, group, said in _cannot_join(facts, "UNRELEASED_INSTANCE_ID"):
        instance = each.text("instance")
        owner = next((member for member in group.members if member.instance_id == instance), None)
        if owner is not None:
            whose = f"{owner.client_id!r} at {owner.host}, which has not left"
            yield of_client(each, f"{said}: instance {instance!r} belongs to {whose}")


def _cannot_join(facts: Facts, error: str) -> Iterator[tuple[Incident, Group, str]]:
    """Yield what a group refused with an error to clients that are no members now, and how the sentence begins."""
    for each in refused(facts, error):
        group = _group(facts, each)
        if group is not None and not _is_member(group, each):
            yield each, group, f"{who(each)} cannot join {group}, refused {when(each)}"


def instance_taken(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield group instance ids that another client took, and whose former client is refused."""
    fenced = refused(facts, "FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID")
    for each in (each for each in facts.incidents if each.kind == REPLACED):
        former = [
            other
            for other in fenced
            if other.text("group") == each.text("group") and other.last_ms >= each.first_ms
        ]
        if former:
            yield of_client(
                each,
                f"instance {each.text('instance')!r} of group {each.text('group')!r} was taken by {who(each)} "
                f"{when(each)}; {who(former[-1])} used it before, and was refused {when(former[-1])}: "
                f"{former[-1].text('error')}",
            )


def member_removed(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield members that the broker has removed and that have not come back, and what they were refused then."""
    for each, group in _gone(facts, REMOVED):
        why = _WHY_REMOVED[each.text("reason")].format(span=span(each.number("timeout_ms")))
        later = "".join(
            [
                f"; its {other.text('api')} was refused {when(other)}: {other.text('error')}"
                for other in refused(facts)
                if other.last_ms >= each.last_ms
                and (other.text("group"), other.text("member")) == (group.group_id, each.text("member"))
            ][-2:]
        )
        yield of_client(each, f"member {who(each)} of {group} was removed {when(each)}, since {why}{later}")


def member_left_late(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield members that left because the application did not poll in time."""
    for each, group in _gone(facts, LEFT):
        if "poll" in (reason := each.text("reason")):
            said = f"member {who(each)} left {group} {when(each)} and has not come back; it said: {reason}"
            yield of_client(each, said)


def _gone(facts: Facts, kind: str) -> Iterator[tuple[Incident, Group]]:
    """Yield the members that have gone in one way and not come back, each with its group."""
    for each in facts.incidents:
        group = _group(facts, each)
        if each.kind == kind and group is not None and not _has_joined(group, each):
            yield each, group


def rebalances_repeat(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield groups that rebalance again and again, and who started that."""
    recent: dict[str, list[Incident]] = {}
    for each in facts.incidents:
        if each.kind == REBALANCE and each.last_ms > now - _REBALANCES_WITHIN_MS:
            recent.setdefault(each.text("group"), []).append(each)
    for group_id, mine in recent.items():
        group = facts.by_id.get(group_id)
        if group is None or max(each.count for each in mine) < _REBALANCES + len(group.members):
            continue  # as many members that join, perhaps with one client id
        by = listed(f"{counted(each.count, 'time')} since {each.text('reason')}" for each in mine)
        count, first = sum(each.count for each in mine), min(each.first_ms for each in mine)
        yield of_group(group, f"{group} has rebalanced {count} times since {clock(first)}: {by}")


def members_without_partitions(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield stable groups that have more members than partitions."""
    if facts.topics is None:
        return
    for group in facts.groups:
        idle = [member for member in group.members if not member.partitions]
        topics = group.topics
        if group.state != "Stable" or not idle or topics is None:
            continue
        partitions = sum(facts.topics.get(name, 0) for name in topics)
        if 0 < partitions < len(group.members) and len(group.owners) == partitions:
            yield of_group(
                group,
                f"{counted(len(idle), 'member')} of {group} "
                f"{'has' if len(idle) == 1 else 'have'} no partition: {len(group.members)} members share "
                f"{counted(partitions, 'partition')}; without one: {listed(idle)}",
            )


def _error(each: Incident) -> str:
    return each.text("error") + (f" ({each.text('message')})" if each.text("message") else "")


def _group(facts: Facts, each: Incident) -> Group | None:
    return facts.by_id.get(each.text("group"))


def _is_member(group: Group, each: Incident) -> bool:
    client = each.text("client"), each.text("host")
    return any((member.client_id, member.host) == client for member in group.members)


def _has_joined(group: Group, each: Incident) -> bool:
    """Whether the client of an incident, or another one with its instance id, is a member now."""
    instance = each.text("instance")
    if not instance:
        return _is_member(group, each)
    ids = [member.member_id for member in group.members if member.instance_id == instance]
    return any(member_id != each.text("member") for member_id in ids)
