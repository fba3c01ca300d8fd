"""Rules about the members of groups: who is missing, who waits for whom, who was removed or refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafka_offsets.diagnosis.facts import Facts, Group, Member
from kafka_offsets.diagnosis.findings import (
    ASKED_WITHIN_MS,
    Finding,
    clock,
    counted,
    listed,
    of_client,
    of_group,
    span,
    when,
    who,
)
from kafka_offsets.errors import nearest_name
from kafka_offsets.incidents import LEFT, REBALANCE, REFUSED, REMOVED, REPLACED, Incident

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
        asked = [
            each for each in facts.incidents if each.kind == REFUSED and each.text("group") == group.group_id
        ]
        refused = f"; {who(asked[-1])} was refused {when(asked[-1])}: {_error(asked[-1])}" if asked else ""
        near = nearest_name(group.group_id, [each for each in facts.others if each != group.group_id])
        yield of_group(group.group_id, f"nobody has joined group {group.group_id!r}{refused}{near}")


def empty_with_lag(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield the groups without members that have records to read."""
    for group in facts.groups:
        if group.members or group.state != "Empty" or group.unavailable:
            continue
        late = sum(
            max(log.end - max(entry.offset, log.start), 0)
            for partition, entry in group.offsets.items()
            if (log := facts.logs.get(partition)) is not None and not log.problem
        )
        if not late:
            continue
        gone = [each for each in facts.incidents if each.kind == REMOVED and _is_of(each, group)]
        if gone:
            since = "" if group.since_ms is None else f" since {clock(group.since_ms)}"
            yield of_group(
                group.group_id,
                f"group {group.group_id!r} has no members{since} and lags by {late}; "
                f"the last to be removed was {who(gone[-1])}",
            )


def topic_missing(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield topics that clients ask for and that do not exist."""
    if facts.topics is None:
        return
    asked = {}
    reading = {
        (member.client_id, member.host)
        for group in facts.groups
        for member in group.members
        if member.partitions
    }
    for each in facts.incidents:
        if each.last_ms < now - ASKED_WITHIN_MS or (each.text("client"), each.text("host")) in reading:
            continue
        if each.kind == REFUSED and each.text("error") in (
            "UNKNOWN_TOPIC_OR_PARTITION",
            "INVALID_TOPIC_EXCEPTION",
        ):
            asked[each.text("topic")] = each
    for name, incident in asked.items():
        if name and name not in facts.topics and "," not in name:
            near = nearest_name(name, facts.topics)
            sentence = f"topic {name} does not exist, and {who(incident)} asked for it {when(incident)}{near}"
            yield Finding("", "topic", name, sentence)


def subscription_matches_nothing(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield members none of whose topics exists, or whose expression matches no topic."""
    if facts.topics is None:
        return
    for group in facts.groups:
        for member in group.members:
            who_ = f"member {member} of group {group.group_id!r}"
            if member.pattern and not member.partitions and not _matches(member.pattern, facts.topics):
                yield of_group(
                    group.group_id,
                    f"{who_} subscribes to the expression {member.pattern!r}, which no topic matches",
                )
            elif member.topics and not member.pattern:
                missing = sorted(member.topics - facts.topics.keys())
                if missing:
                    near = nearest_name(missing[0], facts.topics)
                    verb = "does not exist" if len(missing) == 1 else "do not exist"
                    yield of_group(
                        group.group_id, f"{who_} subscribes to {listed(missing)}, which {verb}{near}"
                    )
            elif (
                member.topics is not None
                and not member.topics
                and not member.pattern
                and not member.partitions
            ):
                yield of_group(
                    group.group_id,
                    f"{who_} subscribes to no topic: its subscription is empty, or its expression matches none",
                )


def _matches(pattern: str, topics: object) -> bool:
    """Whether an expression matches a topic; True where Python cannot tell."""
    try:
        return any(re.fullmatch(pattern, name) for name in topics)  # type: ignore[attr-defined]
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
                    group.group_id,
                    f"group {group.group_id!r} waits{since} for more members, for {span(group.delay_ms)} of the test's "
                    "clock (group.initial.rebalance.delay.ms): advance it",
                )
            continue
        awaited = [member for member in group.members if member.awaited]
        late = [each for each in awaited if facts.is_time_still or _is_late(group, each, now)]
        if late:
            said = listed(_waiting_for(member, facts) for member in late)
            yield of_group(
                group.group_id, f"group {group.group_id!r} is {group.state}{since}: it waits for {said}"
            )


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
    for each in facts.incidents:
        group = _group(facts, each)
        if each.kind != REFUSED or each.text("error") != "INCONSISTENT_GROUP_PROTOCOL":
            continue
        if group is None or _has_joined(group, each):
            continue
        sides = {protocols: member for member in group.members if (protocols := ", ".join(member.protocols))}
        others = listed(f"{member} offers {protocols}" for protocols, member in sides.items())
        yield of_client(
            each,
            f"{who(each)} cannot join group {group.group_id!r}, refused {when(each)}: it offers "
            f"{each.text('offered') or 'an assignor that no other member has'}; "
            f"{others or 'the members offer another one'}",
        )


def instance_taken(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield group instance ids that another client took, and whose former client is refused."""
    for each in facts.incidents:
        if each.kind != REPLACED:
            continue
        refused = [
            other
            for other in facts.incidents
            if other.kind == REFUSED
            and other.text("error") in ("FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID")
            and other.text("group") == each.text("group")
            and other.last_ms >= each.first_ms
        ]
        if refused:
            yield of_client(
                each,
                f"instance {each.text('instance')!r} of group {each.text('group')!r} was taken by {who(each)} "
                f"{when(each)}; {who(refused[-1])} used it before, and was refused {when(refused[-1])}: "
                f"{refused[-1].text('error')}",
            )


def instance_in_use(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield clients that cannot join since another member has their group instance id (KIP-848)."""
    for each in facts.incidents:
        if each.kind == REFUSED and each.text("error") == "UNRELEASED_INSTANCE_ID":
            group, instance = _group(facts, each), each.text("instance")
            members = () if group is None else group.members
            owner = next((member for member in members if member.instance_id == instance), None)
            if owner is not None and (owner.client_id, owner.host) != (
                each.text("client"),
                each.text("host"),
            ):
                yield of_client(
                    each,
                    f"{who(each)} cannot join group {each.text('group')!r}, refused {when(each)}: instance "
                    f"{instance!r} belongs to {owner.client_id!r} at {owner.host}, which has not left",
                )


def member_removed(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield members that the broker has removed and that have not come back, and what they were refused then."""
    for each in facts.incidents:
        group = _group(facts, each)
        if each.kind != REMOVED or group is None or _has_joined(group, each):
            continue
        why = _WHY_REMOVED[each.text("reason")].format(span=span(each.number("timeout_ms")))
        refused = [
            other
            for other in facts.incidents
            if other.kind == REFUSED
            and other.last_ms >= each.last_ms
            and other.text("group") == group.group_id
            and each.text("member") == other.text("member")
        ]
        later = "".join(
            f"; its {other.text('api')} was refused {when(other)}: {other.text('error')}"
            for other in refused[-2:]
        )
        yield of_client(
            each,
            f"member {who(each)} of group {group.group_id!r} was removed {when(each)}, since {why}{later}",
        )


def left_since_it_polls_late(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield members that left because the application did not poll in time."""
    for each in facts.incidents:
        group = _group(facts, each)
        if each.kind != LEFT or group is None or _has_joined(group, each):
            continue
        if "poll" in each.text("reason"):
            yield of_client(
                each,
                f"member {who(each)} left group {group.group_id!r} {when(each)} and has not come back; it said: "
                f"{each.text('reason')}",
            )


def group_full(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield clients that a group has no room for."""
    for each in facts.incidents:
        group = _group(facts, each)
        if each.kind != REFUSED or each.text("error") != "GROUP_MAX_SIZE_REACHED" or group is None:
            continue
        if not _has_joined(group, each):
            yield of_client(
                each,
                f"{who(each)} cannot join group {group.group_id!r}, refused {when(each)}: it is full, with "
                f"{counted(len(group.members), 'member')}",
            )


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
        yield of_group(
            group_id, f"group {group_id!r} has rebalanced {count} times since {clock(first)}: {by}"
        )


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
                group.group_id,
                f"{counted(len(idle), 'member')} of group {group.group_id!r} "
                f"{'has' if len(idle) == 1 else 'have'} no partition: {len(group.members)} members share "
                f"{counted(partitions, 'partition')}; without one: {listed(idle)}",
            )


def _error(each: Incident) -> str:
    return each.text("error") + (f" ({each.text('message')})" if each.text("message") else "")


def _is_of(each: Incident, group: Group) -> bool:
    return each.text("group") == group.group_id


def _group(facts: Facts, each: Incident) -> Group | None:
    return facts.by_id.get(each.text("group"))


def _has_joined(group: Group, each: Incident) -> bool:
    """Whether the client of an incident is a member now."""
    instance = each.text("instance")
    if instance:
        return any(
            member.instance_id == instance and member.member_id != each.text("member")
            for member in group.members
        )
    client = each.text("client"), each.text("host")
    return any((member.client_id, member.host) == client for member in group.members)
