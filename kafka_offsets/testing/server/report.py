"""The report of a failed test: first why, then what was refused, then what was asked, then what the broker holds.

At most `MOST_LINES` lines. Requests that say the same are one line with their count: heartbeats, fetches without
records, refusals of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.clock import duration_text
from kafka_offsets.diagnosis.facts import Facts, Group, Member
from kafka_offsets.diagnosis.findings import Finding, clock, listed, place, transaction_text
from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.incidents import REBALANCE, REMOVED
from kafka_offsets.protocol.records import batch_headers
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.testing.contents.groups import NoLeaderError, log_ends
from kafka_offsets.testing.server.recording import RecordedRequest

MOST_LINES = 60
_MOST_FINDINGS, _MOST_REFUSED, _MOST_REQUESTS, _MOST_TOPICS = 6, 8, 22, 5

MOST_GROUPS = 12
"""So many lines tell of nodes and groups."""

_POLLED = frozenset({"DescribeCluster", "DescribeTopicPartitions", "ListOffsets", "Metadata"})
"""With these Spark asks for the ends of its topics, dozens of times a second."""

_FOLDED = frozenset({"Heartbeat", "ConsumerGroupHeartbeat", "Fetch"})
_ROUTINE = frozenset({"MEMBER_ID_REQUIRED"})
_CONTROL = 0x20


def lines_of(
    findings: Sequence[Finding],
    requests: Sequence[RecordedRequest],
    faults: Iterable[Any],
    state: Sequence[str],
) -> list[str]:
    """Return the lines of a report.

    requests  of the test
    faults    that were active in it
    state     what the broker holds, see `state_of`
    """
    facts = [f"why: {finding}" for finding in findings[:_MOST_FINDINGS]]
    if len(findings) > _MOST_FINDINGS:
        facts.append(f"… and {len(findings) - _MOST_FINDINGS} more findings …")
    refused = _refused(requests)
    facts += _last(refused, _MOST_REFUSED, "refusals")
    faulty = [repr(fault) for fault in faults]
    room = MOST_LINES - len(facts) - min(len(state), MOST_LINES // 3) - len(faulty[-5:]) - 1
    folded = _folded(requests)
    facts += _last(folded, min(max(room, 5), _MOST_REQUESTS), "lines of requests") or ["no requests"]
    facts += faulty[-5:]
    return (facts + list(state))[:MOST_LINES]


def _last(lines: Sequence[str], most: int, what: str) -> list[str]:
    """Return the last lines, and a first one for those that are left out."""
    if len(lines) <= most:
        return list(lines)
    return [f"… {len(lines) - most + 1} {what} before these …", *lines[len(lines) - most + 1 :]]


# -- requests


def _refused(requests: Sequence[RecordedRequest]) -> list[str]:
    """Return the refused requests of the whole test, one line for those of one client, API and error."""
    alike: dict[tuple[object, ...], list[RecordedRequest]] = {}
    for request in requests:
        errors = request.errors
        if errors and not _ROUTINE.issuperset(errors):
            alike.setdefault((request.client_id, request.api, *sorted(errors)), []).append(request)
    return [
        f"refused: {_line(repeated[-1])}"
        + (f" ({len(repeated)} times from {clock(repeated[0].wall_ms)})" if len(repeated) > 1 else "")
        for repeated in alike.values()
    ]


def _folded(requests: Sequence[RecordedRequest]) -> list[str]:
    """Return a line for each request, or for each run of heartbeats and empty fetches of one client."""
    lines: list[str] = []
    kept = _without_polling(requests)
    before: dict[tuple[str, TopicPartition], int] = {}
    facts_of = {request.number: _facts(request, before) for request in requests}
    open_runs: dict[tuple[str, str, str], int] = {}
    counts: dict[int, list[RecordedRequest]] = {}
    for request in kept:
        key = request.peer, request.client_id, request.api
        if request.api in _FOLDED and not request.errors and not facts_of[request.number]:
            at = open_runs.get(key)
            if at is not None:
                counts[at].append(request)
                continue
            open_runs[key] = len(lines)
            counts[len(lines)] = [request]
        else:
            open_runs = {other: at for other, at in open_runs.items() if other[1] != request.client_id}
        lines.append("; ".join(filter(None, (str(request), facts_of[request.number]))))
    for at, run in counts.items():
        if len(run) > 1:
            lines[at] += f" ({len(run)} like it until {clock(run[-1].wall_ms)})"
    if left_out := len(requests) - len(kept):
        lines.insert(0, f"… {left_out} requests that their clients have repeated are omitted …")
    return lines


def _without_polling(requests: Sequence[RecordedRequest]) -> list[RecordedRequest]:
    """Return requests without questions that the same client asks again later; refused ones stay."""
    kept: list[RecordedRequest] = []
    later: set[tuple[object, ...]] = set()
    for request in reversed(requests):
        if request.api in _POLLED and not request.errors:
            asked = request.peer, request.client_id, request.api, *sorted(request.topics)
            if asked in later:
                continue
            later.add(asked)
        kept.append(request)
    return kept[::-1]


def _line(recorded: RecordedRequest) -> str:
    return "; ".join(filter(None, (str(recorded), _facts(recorded, {}))))


def _facts(recorded: RecordedRequest, before: dict[tuple[str, TopicPartition], int]) -> str:
    """Return what a request asks and what it was answered, beyond its names and errors.

    before  (group, partition) -> the offset that was committed before, which a commit replaces
    """
    request, response = recorded.request, recorded.response
    if request is None:
        return ""
    describe = _DESCRIBED.get(recorded.api)
    facts = [describe(recorded, request, response, before)] if describe is not None else []
    for name, title in (("transactional_id", "transaction"), ("group_instance_id", "instance")):
        value = getattr(request, name, None)
        if isinstance(value, str) and value:
            facts.append(f"{title} {value!r}")
    message = getattr(response, "error_message", None)
    if message and message != "NONE":
        facts.append(str(message))
    return ", ".join(filter(None, facts))


def _describe_commit(recorded: RecordedRequest, request: Any, response: Any, before: dict[Any, int]) -> str:
    offsets = []
    for topic in request.topics:
        name = topic.name or recorded.topic_names.get(getattr(topic, "topic_id", b""), "")
        for partition in topic.partitions:
            where = name, partition.partition_index
            key = request.group_id, where
            was = f" (was {before[key]})" if key in before else ""
            offsets.append(f"{place(where)} = {partition.committed_offset}{was}")
            if not recorded.errors and response is not None:
                before[key] = partition.committed_offset
    return f"commits {listed(offsets)}" if offsets else ""


def _describe_offset_fetch(recorded: RecordedRequest, request: Any, response: Any, before: object) -> str:
    if response is None:
        return ""
    topics = [topic for group in response.groups for topic in group.topics] or response.topics
    offsets = []
    for topic in topics:
        name = topic.name or recorded.topic_names.get(getattr(topic, "topic_id", b""), "")
        offsets += [
            f"{place((name, part.partition_index))} at {part.committed_offset}"
            for part in topic.partitions
            if part.committed_offset >= 0
        ]
    return f"committed: {listed(offsets) or 'nothing'}"


def _describe_fetch(recorded: RecordedRequest, request: Any, response: Any, before: object) -> str:
    batches = []
    for topic in getattr(response, "responses", None) or ():
        name = topic.topic or recorded.topic_names.get(getattr(topic, "topic_id", b""), "")
        for part in topic.partitions:
            count, first = _records(part.records)
            if count:
                batches.append(f"{count} of {place((name, part.partition_index))} from {first}")
    return f"records: {listed(batches)}" if batches else ""


def _records(data: bytes | None) -> tuple[int, int]:
    """Return how many records batches hold that are no markers, and the first offset."""
    count, first = 0, -1
    try:
        for _, header in batch_headers(data or b""):
            if not header.attributes & _CONTROL:
                count += header.record_count
                first = header.base_offset if first < 0 else first
    except ProtocolError:
        pass  # the last batch of a response may be cut
    return count, first


def _describe_join(recorded: RecordedRequest, request: Any, response: Any, before: object) -> str:
    return f"offers {listed(protocol.name for protocol in request.protocols)}"


def _describe_consumer_heartbeat(
    recorded: RecordedRequest, request: Any, response: Any, before: object
) -> str:
    if request.subscribed_topic_regex:
        return f"expression {request.subscribed_topic_regex!r}"
    return "leaves" if request.member_epoch < 0 else ""


def _describe_end(recorded: RecordedRequest, request: Any, response: Any, before: object) -> str:
    return "commits" if request.committed else "aborts"


_DESCRIBED: Mapping[str, Callable[[RecordedRequest, Any, Any, dict[Any, int]], str]] = {
    "OffsetCommit": _describe_commit,
    "TxnOffsetCommit": _describe_commit,
    "OffsetFetch": _describe_offset_fetch,
    "Fetch": _describe_fetch,
    "JoinGroup": _describe_join,
    "ConsumerGroupHeartbeat": _describe_consumer_heartbeat,
    "EndTxn": _describe_end,
}


# -- what the broker holds


def state_of(core: BrokerCore, facts: Facts, groups: Sequence[str]) -> list[str]:
    """Return groups, topics, transactions and the last rebalances as lines.

    groups  the lines about groups, of `describe_state`
    """
    lines = list(groups[:MOST_GROUPS])
    lines += [line for group in facts.groups for line in _subscriptions(group)][:4]
    lines += islice(_topics(core, facts), _MOST_TOPICS)
    lines += map(transaction_text, facts.transactions[:3])
    recent = [incident for incident in facts.incidents if incident.kind in (REBALANCE, REMOVED)]
    lines += [
        f"{clock(incident.last_ms)} group {incident.text('group')!r} "
        + (
            f"rebalanced: {incident.text('reason')}"
            if incident.kind == REBALANCE
            else f"lost {incident.text('client')!r}: {incident.text('reason')}"
        )
        for incident in recent[-3:]
    ]
    return lines


def _subscriptions(group: Group) -> Iterator[str]:
    subscribed: dict[str, list[Member]] = {}
    for member in group.members:
        topics = listed(sorted(member.topics)) if member.topics else ""
        wants = f"the expression {member.pattern!r}" if member.pattern else topics
        if wants:
            subscribed.setdefault(wants, []).append(member)
    for wants, members in subscribed.items():
        yield f"group {group.group_id!r}: {listed(members)} subscribe{'s' if len(members) == 1 else ''} to {wants}"


def _topics(core: BrokerCore, facts: Facts) -> Iterator[str]:
    for name in sorted(facts.topics or ()):
        if name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            continue
        try:
            topic = core.topics.get(name)
            ends = [f"{index}: {start} to {end}" for (_, index), (start, end) in log_ends(core, name).items()]
        except (NoLeaderError, StorageError):
            continue  # a finding says so
        if topic is None or not ends:
            continue
        kept = topic.config.retention_ms
        yield f"topic {name}: {listed(ends)}, kept {'for ever' if kept < 0 else duration_text(kept)}"
