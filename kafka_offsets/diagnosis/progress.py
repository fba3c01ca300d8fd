"""Rules about progress: what keeps a group from reading a partition, or its lag from becoming 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_offsets.clock import duration_text
from kafka_offsets.diagnosis.facts import Facts, Group, Member, Positions, TopicPartition, Transaction
from kafka_offsets.diagnosis.findings import (
    Finding,
    clock,
    counted,
    listed,
    of_group,
    place,
    since,
    transaction_text,
    when,
)
from kafka_offsets.incidents import DELETED, EXPIRED, TIMED_OUT

_SLOW_MS = 10_000
_BEGAN_ANEW = {"Ongoing", "Empty", "CompleteCommit"}


def partition_unknown(facts: Facts, now: int) -> Iterator[Finding]:
    """No broker leads it, its log is being opened, or its disk refuses."""
    alike: dict[tuple[str, str], list[str]] = {}
    for partition, log in facts.logs.items():
        if log.problem:
            reason, name = log.problem.replace(place(partition), "it"), place(partition)
            alike.setdefault((partition[0], reason), []).append(name)
    for (_, reason), names in alike.items():
        yield Finding("", "partition", names[0], f"{listed(names)}: {reason}")


def group_unavailable(facts: Facts, now: int) -> Iterator[Finding]:
    """Its coordinator loads the partition of the offsets topic, or there is no coordinator."""
    for group in facts.groups:
        if group.unavailable:
            yield of_group(group, f"{group} is not served: {group.unavailable}")


def offset_outside(facts: Facts, now: int) -> Iterator[Finding]:
    """Its records were deleted, or the topic was created anew."""
    for group in facts.groups:
        for partition, entry, log in facts.offsets_of(group):
            said = f"{group} has committed {entry.offset} in {place(partition)}"
            if entry.offset < log.start:
                lost = counted(log.start - max(entry.offset, 0), "record")
                why = f"before the log start {log.start}: {lost} were deleted before they were read"
                yield of_group(group, f"{said}, {why}", partition)
            elif entry.offset > log.end and (
                why := _why_beyond(facts, group, partition[0], entry.offset, log.end)
            ):
                yield of_group(group, f"{said}, beyond the end {log.end}{why}", partition)


def _why_beyond(facts: Facts, group: Group, topic: str, offset: int, end: int) -> str:
    if gone := facts.incidents_of(DELETED, topic=topic):
        return f": the topic was deleted at {clock(gone[-1].last_ms)} and created anew"
    if not end and not group.members and group.group_id not in facts.asked:
        return ""  # offsets of a topic without records, which nobody reads: a test has committed them
    return f", so it waits for {counted(offset - end, 'record')} that nobody has produced"


def offset_moved_back(facts: Facts, now: int) -> Iterator[Finding]:
    """A commit moved an offset back."""
    for group in facts.groups:
        for back in group.moved_back:
            entry, where = group.offsets.get(back.partition), place(back.partition)
            if entry is not None and entry.offset < back.before:
                moved = f"{back.client_id!r} moved the offset of {group} in {where} back from {back.before}"
                again = f"{counted(back.before - entry.offset, 'record')} are read again"
                said = f"{moved} to {back.after} at {clock(back.wall_ms)}: {again}"
                yield of_group(group, said, back.partition)


def offsets_expired(facts: Facts, now: int) -> Iterator[Finding]:
    """The committed offsets of its group have expired."""
    for incident in facts.incidents_of(EXPIRED):
        group = facts.group_of(incident)
        if group is not None and not group.offsets and not group.members:
            why = "(offsets.retention.minutes): it begins where auto.offset.reset says"
            yield of_group(group, f"the offsets of {group} have expired {when(incident)} {why}")


def offset_held(facts: Facts, now: int) -> Iterator[Finding]:
    """An open transaction has committed the offset of the partition."""
    for group in facts.groups:
        for owners in dict.fromkeys(group.held.values()):
            open_ones = [each for each in facts.transactions_of(group) if each.producer_id in owners]
            held = sorted(partition for partition, ids in group.held.items() if ids == owners)
            if whose := _waits_for(facts, open_ones, now):
                if owners and not open_ones:  # nobody coordinates it now
                    whose = f"the transaction of producer {owners[0]}"
                said = f"the committed offset of {group} in {listed(map(place, held))} cannot be read"
                holds = f"one of these holds it: {whose}" if len(open_ones) > 1 else f"{whose} holds it"
                yield of_group(group, f"{said} (UNSTABLE_OFFSET_COMMIT): {holds}", *held)


def lag_is_transaction(facts: Facts, now: int) -> Iterator[Finding]:
    """A transaction is open there."""
    for group, partition, entry, log in facts.behind():
        if log.stable is None or not log.stable <= min(entry.offset, log.end - 1):
            continue
        open_ones = [
            each for each in facts.transactions_of(group) if each.is_open and partition in each.partitions
        ]
        if held := _waits_for(facts, open_ones, now):
            stops = f"a reader of committed records stops at {log.stable}, the last stable offset, for {held}"
            lag = log.end - entry.offset
            yield of_group(group, f"{group} lags by {lag} in {place(partition)}: {stops}", partition)


def _waits_for(facts: Facts, transactions: Sequence[Transaction], now: int) -> str:
    """Name the transactions that a reader waits for; "" if each has just begun, as those do that end in a moment."""
    is_overdue = [
        facts.is_time_still or each.started_ms < 0 or now - each.started_ms >= 1_000 for each in transactions
    ]
    if transactions and not any(is_overdue):
        return ""
    return listed(map(transaction_text, transactions)) or "an open transaction"


def only_markers(facts: Facts, now: int) -> Iterator[Finding]:
    """The last offsets are markers of transactions."""
    for group, partition, entry, log in facts.behind():
        if group.group_id in facts.asked and entry.has_unread is False and log.stable in (None, log.end):
            lag = f"its lag of {log.end - entry.offset}, from {entry.offset} on"
            what = f"{lag}, is markers and aborted records of transactions"
            yield of_group(group, f"{group} has read every record of {place(partition)}: {what}", partition)


def transaction_timed_out(facts: Facts, now: int) -> Iterator[Finding]:
    """Its transaction was open for longer than its timeout, and was aborted."""
    current = {transaction.transactional_id: transaction for transaction in facts.transactions}
    for incident in facts.incidents_of(TIMED_OUT):
        name, producer_id = incident.text("transactional_id"), incident.number("producer_id")
        last = current.get(name)
        if last is None or (last.producer_id == producer_id and last.state not in _BEGAN_ANEW):
            said = f"the transaction of {name!r} (producer {producer_id}) was aborted at {clock(incident.last_ms)}"
            why = f"it was open for longer than its timeout, {duration_text(incident.number('timeout_ms'))}"
            hears = "its producer is fenced (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)"
            yield Finding("", "transaction", name, f"{said}: {why}; {hears}")


def transaction_hangs(facts: Facts, now: int) -> Iterator[Finding]:
    """A transaction is open beyond its timeout."""
    for transaction in facts.transactions:
        late_ms = now - transaction.started_ms - transaction.timeout_ms
        is_known = transaction.started_ms >= 0 and transaction.timeout_ms
        if transaction.state == "Ongoing" and is_known and late_ms > 60_000:
            ended = f"should have ended {duration_text(late_ms)} ago, by its timeout"
            said = f"{transaction_text(transaction)} {ended}"
            yield Finding("", "transaction", transaction.transactional_id, said)


def not_fetched(facts: Facts, now: int) -> Iterator[Finding]:
    """It has paused, or does not poll."""
    for group, member in _settled(facts, now):
        unread = [] if member.positions is None else _with_records(facts, group, member)
        if late := [partition for partition in unread if partition not in member.fetched]:
            said = f"{listed(map(place, late))}{since(group)} and does not fetch"
            why = "it has paused, or does not poll"
            yield of_group(group, f"member {member} of {group} has {said}: {why}", *late)


def _with_records(facts: Facts, group: Group, member: Member) -> dict[TopicPartition, int]:
    """Return how many offsets of the partitions of a member its group has not passed, where there are any."""
    counts = {}
    for partition in member.partitions:
        log, entry = facts.log_of(group, partition), group.offsets.get(partition)
        if log is not None:
            counts[partition] = log.readable - max(log.start, -1 if entry is None else entry.offset)
    return {partition: count for partition, count in counts.items() if count > 0}


def never_committed(facts: Facts, now: int) -> Iterator[Finding]:
    """The consumer commits nothing."""
    for group, member in _settled(facts, now):
        if read := _read(group, member.fetched):
            said = f"member {member} of {group} has read {listed(read.values())}"
            yield of_group(group, f"{said} and committed nothing{since(group)}", *read)
    for group in (each for each in facts.groups if each.group_id in facts.asked):
        left = None if group.members else group.last_left  # to read and not to commit may be meant
        if left is not None and (read := _read(group, left.positions)):
            said = f"{left.client} has read {listed(read.values())} as a member of {group} and left"
            yield of_group(group, f"{said}: it has committed nothing there", *read)
        known = group.offsets.keys() | group.held.keys() | group.untold
        for member in group.members if group.state == "Stable" else ():
            unread = _with_records(facts, group, member) if member.positions is None else {}
            if counts := {partition: unread[partition] for partition in unread if partition not in known}:
                said = f"{listed(map(place, counts))}, with {counted(sum(counts.values()), 'record')}"
                yield of_group(group, f"{group} has committed nothing in {said}, owned by {member}", *counts)


def _read(group: Group, positions: Positions) -> dict[TopicPartition, str]:
    """Return the partitions that somebody has read and that have no offset, each with how far."""
    new = group.uncommitted(positions).items()
    return {
        each: f"{place(each)} up to {position.last}"
        for each, position in new
        if position.last > position.first
    }


def began_at_the_end(facts: Facts, now: int) -> Iterator[Finding]:
    """It had no committed offset, and `auto.offset.reset` is latest."""
    for group, member in _settled(facts, now):
        skipped = {
            partition: log
            for partition, position in group.uncommitted(member.fetched).items()
            if (log := facts.log_of(group, partition)) is not None
            if position.first == position.last == log.end > log.start
        }
        if skipped:
            said = listed(f"{place(partition)} at {log.end}, the end" for partition, log in skipped.items())
            count = counted(sum(log.end - log.start for log in skipped.values()), "record")
            why = f"had no committed offset and began to read {said}: it does not read the {count} before"
            yield of_group(group, f"member {member} of {group} {why}", *skipped)


def stuck_or_slow(facts: Facts, now: int) -> Iterator[Finding]:
    """The members commit too slowly, or no longer."""
    for group, member in _settled(facts, now):
        fetched = member.fetched
        for partition, entry, log in facts.offsets_of(group) if fetched else ():
            position = fetched.get(partition)  # without one `not_fetched` says so
            if position is None or entry.committed_ms is None or entry.unread_ms is None:
                continue
            waited_ms = now - max(entry.unread_ms, group.since_ms or 0)
            if waited_ms < _SLOW_MS or not log.start <= entry.offset < log.readable:
                continue
            ago_ms = now - entry.committed_ms
            ago = f"{duration_text(max(ago_ms, 0))} ago"
            how = f"it is slow, not stuck: {member} committed {entry.offset} {ago}"
            if ago_ms >= _SLOW_MS:
                last = f"the last commit, {entry.offset}, was {ago}"
                how = f"it is stuck: {last}, and {member} has fetched up to {position.last}"
            left = counted(log.readable - entry.offset, "record")
            yield of_group(group, f"{group} in {place(partition)}: {left} left; {how}", partition)


def _settled(facts: Facts, now: int) -> Iterator[tuple[Group, Member]]:
    """Yield the members of groups that are stable for long enough to have fetched and committed."""
    for group in facts.groups:
        if facts.is_settled(group, now):
            yield from ((group, member) for member in group.members)


def topic_unsubscribed(facts: Facts, now: int) -> Iterator[Finding]:
    """The group read the topic before, and no member subscribes to it now."""
    for group in facts.groups:
        topics = group.topics
        if group.state != "Stable" or topics is None or not any(member.topics for member in group.members):
            continue
        lags: dict[str, dict[TopicPartition, int]] = {}
        for partition, entry, log in facts.offsets_of(group):
            if partition[0] not in topics and entry.offset < log.end:
                lags.setdefault(partition[0], {})[partition] = log.end - max(entry.offset, log.start)
        for topic, here in lags.items():
            said = f"{group} lags by {sum(here.values())} in {topic}, to which none of its"
            members = (
                f"{counted(len(group.members), 'member')} subscribes: they read {listed(sorted(topics))}"
            )
            yield of_group(group, f"{said} {members}", *here)
