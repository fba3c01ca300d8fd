"""Rules about progress: what keeps a group from reading a partition, or its lag from becoming 0."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_offsets.diagnosis.facts import Facts, Group, Log, Member, Offset, TopicPartition, Transaction
from kafka_offsets.diagnosis.findings import Finding, clock, counted, listed, of_group, place, span, when
from kafka_offsets.incidents import DELETED, EXPIRED, TIMED_OUT

_SETTLED_MS = 8_000
"""A group that is stable for so long has fetched, and committed once: clients do so every 5 s by default."""

_SLOW_MS = 10_000


def partition_unknown(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield partitions of which nothing is known, such as those without a leader."""
    alike: dict[tuple[str, str], list[str]] = {}
    for partition, log in facts.logs.items():
        if log.problem:
            reason = log.problem.replace(place(partition), "it")
            alike.setdefault((partition[0], reason), []).append(place(partition))
    for (_, reason), names in alike.items():
        yield Finding("", "partition", names[0], f"{listed(names)}: {reason}")


def group_unavailable(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield groups of which nothing is known, such as those whose coordinator loads."""
    for group in facts.groups:
        if group.unavailable:
            yield of_group(group.group_id, f"group {group.group_id!r} is not served: {group.unavailable}")


def offset_outside(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield committed offsets before the log start or beyond the end, and why."""
    for group in facts.groups:
        for partition, entry in group.offsets.items():
            log = facts.logs.get(partition)
            if log is None or log.problem:
                continue
            said = f"group {group.group_id!r} has committed {entry.offset} in {place(partition)}"
            if entry.offset < log.start:
                yield of_group(
                    group.group_id,
                    f"{said}, before the log start {log.start}: "
                    f"{counted(log.start - max(entry.offset, 0), 'record')} were deleted before they were read",
                    partition,
                )
            elif entry.offset > log.end and (why := _why_beyond(facts, group, partition, entry)):
                yield of_group(group.group_id, f"{said}, beyond the end {log.end}{why}", partition)


def _why_beyond(facts: Facts, group: Group, partition: TopicPartition, entry: Offset) -> str:
    log = facts.logs[partition]
    if log.created_ms is not None and entry.committed_ms is not None and entry.committed_ms < log.created_ms:
        return f": the topic was created anew at {clock(log.created_ms)}, after the commit"
    gone = [each for each in facts.incidents if each.kind == DELETED and each.text("topic") == partition[0]]
    if gone:
        return f": the topic was deleted at {clock(gone[-1].last_ms)} and created anew"
    if not log.end and not group.members and group.group_id not in facts.asked:
        return ""  # offsets of a topic without records, which nobody reads: a test has committed them
    return f", so it waits for {counted(entry.offset - log.end, 'record')} that nobody has produced"


def moved_back(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield commits that moved an offset back, while the group has not passed the former offset."""
    for group in facts.groups:
        for back in group.moved_back:
            entry = group.offsets.get(back.partition)
            if entry is not None and entry.offset < back.before:
                yield of_group(
                    group.group_id,
                    f"{back.client_id!r} moved the offset of group {group.group_id!r} in {place(back.partition)} back "
                    f"from {back.before} to {back.after} at {clock(back.wall_ms)}: "
                    f"{counted(back.before - entry.offset, 'record')} are read again",
                )


def offsets_expired(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield groups whose offsets have expired, and which have not committed since."""
    for each in facts.incidents:
        group = facts.by_id.get(each.text("group"))
        if each.kind == EXPIRED and group is not None and not group.offsets and not group.members:
            yield of_group(
                each.text("group"),
                f"the offsets of group {each.text('group')!r} have expired {when(each)} "
                "(offsets.retention.minutes): it begins where auto.offset.reset says",
            )


def transaction_holds_offset(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield offsets that cannot be read since an open transaction has committed them."""
    for group in facts.groups:
        by_producer: dict[int, list[TopicPartition]] = {}
        for partition, producer_id in group.held.items():
            by_producer.setdefault(producer_id, []).append(partition)
        for producer_id, partitions in by_producer.items():
            if not _is_overdue(facts, _of_producer(facts, producer_id), now):
                continue
            yield of_group(
                group.group_id,
                f"the committed offset of group {group.group_id!r} in {listed(map(place, sorted(partitions)))} cannot "
                f"be read (UNSTABLE_OFFSET_COMMIT): {_transaction(facts, producer_id)} holds it",
            )


def lag_is_a_transaction(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield lags that an open transaction causes: a reader of committed records is at its begin."""
    for group, partition, entry, log in _behind(facts):
        if log.stable is None or not entry.offset >= log.stable or log.stable >= log.end:
            continue
        owners = [each for each in facts.transactions if each.is_open and partition in each.partitions]
        if owners and not any(_is_overdue(facts, each, now) for each in owners):
            continue
        held = listed(_transaction(facts, each.producer_id) for each in owners) or "an open transaction"
        yield of_group(
            group.group_id,
            f"group {group.group_id!r} lags by {log.end - entry.offset} in {place(partition)}: a reader of committed "
            f"records stops at {log.stable}, the last stable offset, for {held}",
        )


def _is_overdue(facts: Facts, transaction: Transaction | None, now: int) -> bool:
    """Whether a transaction has been open for long enough to explain a wait."""
    if transaction is None or transaction.started_ms < 0:
        return True
    return facts.is_time_still or now - transaction.started_ms >= 1_000


def _of_producer(facts: Facts, producer_id: int) -> Transaction | None:
    return next((each for each in facts.transactions if each.producer_id == producer_id), None)


def _transaction(facts: Facts, producer_id: int) -> str:
    """Say whose transaction this is, since when it is open, and until when at most."""
    found = _of_producer(facts, producer_id)
    if found is None:
        return f"the transaction of producer {producer_id}"
    said = f"the transaction of {found.transactional_id!r} (producer {producer_id}, {found.state})"
    if found.started_ms < 0:
        return said
    end_ms = found.started_ms + found.timeout_ms
    until = f", until {clock(end_ms)} at most" if found.timeout_ms else ""
    return f"{said}, open since {clock(found.started_ms)}{until}"


def only_markers(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield lags of which every offset is a marker of a transaction, of groups that somebody asks for: all is read."""
    for group, partition, entry, log in _behind(facts):
        if group.group_id not in facts.asked:
            continue
        if entry.has_unread is False and log.stable in (None, log.end):
            yield of_group(
                group.group_id,
                f"group {group.group_id!r} has read every record of {place(partition)}: its lag of "
                f"{log.end - entry.offset}, from {entry.offset} on, is markers and aborted records of transactions",
            )


def _behind(facts: Facts) -> Iterator[tuple[Group, TopicPartition, Offset, Log]]:
    """Yield the committed offsets that have a lag."""
    for group in facts.groups:
        for partition, entry in group.offsets.items():
            log = facts.logs.get(partition)
            if log is not None and not log.problem and log.start <= entry.offset < log.end:
                yield group, partition, entry, log


def transaction_timed_out(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield transactions that the broker has aborted since they were open for too long."""
    for each in facts.incidents:
        if each.kind != TIMED_OUT:
            continue
        name = each.text("transactional_id")
        current = next((one for one in facts.transactions if one.transactional_id == name), None)
        if current is not None and (
            current.producer_id != each.number("producer_id") or current.state == "Ongoing"
        ):
            continue  # its producer has begun anew
        if current is not None and current.state in ("Empty", "CompleteCommit"):
            continue
        yield Finding(
            "",
            "transaction",
            name,
            f"the transaction of {name!r} (producer {each.number('producer_id')}) was aborted at "
            f"{clock(each.last_ms)}: it was open for longer than its timeout, "
            f"{span(each.number('timeout_ms'))}; its producer is fenced "
            "(INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)",
        )


def transaction_hangs(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield transactions that should be over by their own timeout."""
    for each in facts.transactions:
        if each.state != "Ongoing" or each.started_ms < 0 or not each.timeout_ms:
            continue
        late_ms = now - each.started_ms - each.timeout_ms
        if late_ms > 60_000:
            yield Finding(
                "",
                "transaction",
                each.transactional_id,
                f"{_transaction(facts, each.producer_id)} should have ended {span(late_ms)} ago, by its timeout",
            )


def not_fetched(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield partitions with records to read that their member does not fetch."""
    for group, member in _settled(facts, now):
        late = []
        for partition in member.partitions:
            log = facts.logs.get(partition)
            if log is None or log.problem or member.positions is None or partition in member.positions:
                continue
            entry = group.offsets.get(partition)
            if max(log.start, -1 if entry is None else entry.offset) < (
                log.end if log.stable is None else log.stable
            ):
                late.append(partition)
        if late:
            yield of_group(
                group.group_id,
                f"member {member} of group {group.group_id!r} has {listed(map(place, late))} since "
                f"{clock(group.since_ms or 0)} and does not fetch: it has paused, or does not poll",
            )


def never_committed(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield partitions that a member has read and for which the group has committed nothing."""
    for group, member in _settled(facts, now):
        read = [
            (partition, position)
            for partition, position in (member.positions or {}).items()
            if partition in member.partitions
            and partition not in group.offsets
            and partition not in group.held
            if position.last > position.first
        ]
        if read:
            said = listed(f"{place(partition)} up to {position.last}" for partition, position in sorted(read))
            yield of_group(
                group.group_id,
                f"member {member} of group {group.group_id!r} has read {said} and committed nothing since "
                f"{clock(group.since_ms or 0)}",
            )


def began_at_the_end(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield partitions that a member without a committed offset reads from the end: the records before are not read."""
    for group, member in _settled(facts, now):
        skipped = [
            (partition, position.first, log.start)
            for partition, position in (member.positions or {}).items()
            if partition in member.partitions
            and partition not in group.offsets
            and partition not in group.held
            if (log := facts.logs.get(partition)) is not None and not log.problem
            if position.first == position.last == log.end > log.start
        ]
        if skipped:
            said = listed(
                f"{place(partition)} at {first}, the end" for partition, first, _ in sorted(skipped)
            )
            total = sum(first - start for _, first, start in skipped)
            yield of_group(
                group.group_id,
                f"member {member} of group {group.group_id!r} had no committed offset and began to read {said}: it "
                f"does not read the {counted(total, 'record')} before",
            )


def stuck_or_slow(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield partitions whose records wait: no commit for long, or commits that do not keep up."""
    for group, member in _settled(facts, now):
        for partition in member.partitions:
            entry, log = group.offsets.get(partition), facts.logs.get(partition)
            if (
                entry is None
                or log is None
                or log.problem
                or entry.committed_ms is None
                or entry.unread_ms is None
            ):
                continue
            end = log.end if log.stable is None else log.stable
            waits_ms = now - max(entry.unread_ms, group.since_ms or 0)
            if not log.start <= entry.offset < end or waits_ms < _SLOW_MS:
                continue
            position = None if member.positions is None else member.positions.get(partition)
            if position is None:
                continue  # `not_fetched` says so
            yield _stuck_or_slow(group, member, partition, entry, end, position.last, now)


def _stuck_or_slow(
    group: Group, member: Member, partition: TopicPartition, entry: Offset, end: int, fetched: int, now: int
) -> Finding:
    assert entry.committed_ms is not None
    ago_ms = now - entry.committed_ms
    left = end - entry.offset
    said = f"group {group.group_id!r} in {place(partition)}: {counted(left, 'record')} left"
    if ago_ms < _SLOW_MS:
        sentence = f"{said}; it is slow, not stuck: {member} committed {entry.offset} {span(ago_ms)} ago"
    else:
        sentence = (
            f"{said}; it is stuck: the last commit, {entry.offset}, was {span(ago_ms)} ago, and {member} has fetched "
            f"up to {fetched}"
        )
    return of_group(group.group_id, sentence)


def _settled(facts: Facts, now: int) -> Iterator[tuple[Group, Member]]:
    """Yield the members of groups that are stable for long enough to have fetched and committed."""
    for group in facts.groups:
        if group.state != "Stable" or group.since_ms is None or now - group.since_ms < _SETTLED_MS:
            continue
        if not facts.is_time_still:
            yield from ((group, member) for member in group.members)


def topic_unsubscribed(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield topics that a group has offsets and a lag in, and that none of its members subscribes to."""
    for group in facts.groups:
        topics = group.topics
        if group.state != "Stable" or topics is None or not any(member.topics for member in group.members):
            continue
        late: dict[str, int] = {}
        for partition, entry in group.offsets.items():
            log = facts.logs.get(partition)
            if log is not None and not log.problem and partition[0] not in topics and entry.offset < log.end:
                late[partition[0]] = late.get(partition[0], 0) + log.end - max(entry.offset, log.start)
        for topic, count in late.items():
            yield of_group(
                group.group_id,
                f"group {group.group_id!r} lags by {count} in {topic}, to which none of its "
                f"{counted(len(group.members), 'member')} subscribes: they read {listed(sorted(topics))}",
                *(partition for partition in group.offsets if partition[0] == topic),
            )
