"""The table of rules, in the order of their importance, and the diagnosis that applies them.

docs/troubleshooting.md is made from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafka_offsets.diagnosis import members, progress, refusals
from kafka_offsets.diagnosis.facts import Facts
from kafka_offsets.diagnosis.findings import Finding, Findings


class Rule(NamedTuple):
    """One kind of finding.

    name     of its findings, and of `find`
    symptom  what its reader sees
    cause    in one sentence
    help     what usually helps
    find     (facts, now in ms of wall time) -> the findings
    """

    name: str
    symptom: str
    cause: str
    help: str
    find: Callable[[Facts, int], Iterator[Finding]]


_TEXTS = """
fault_active: Clients hear errors, wait or lose their connection.
  Remove it: `fault.remove()`, or inject it with `with`.
foreign_protocol: A client does not connect.
  Give the client `security.protocol` of the listener, or the listener TLS.
version_not_served: A client disconnects, or says UNSUPPORTED_VERSION.
  Let the client ask with ApiVersions, or use another release of it; `profile` narrows versions.
not_authenticated: A client does not connect, or says that authentication failed.
  Compare `sasl.mechanism`, the name and the password with those of the listener.
partition_unknown: Nothing is read from a partition, nothing produced to it, and its lag is not known.
  Start a broker that has a replica of it, or look at its log directory.
group_unavailable: Commits and joins of a group wait or are refused.
  Wait until it has loaded; start the broker that leads that partition.
denied: A client hears an authorization error, or sees no topics.
  Add an ACL for its principal: `allow(...)`.
topic_missing: A consumer gets no records, a producer no answer.
  Correct the name, or create the topic.
creation_refused: A topic is not there although a program has created it.
  Look at the error that the program got; the replication factor is at most the number of brokers.
protocols_differ: A member cannot join: INCONSISTENT_GROUP_PROTOCOL.
  Give all members of the group the same `partition.assignment.strategy`.
session_timeout_refused: A member cannot join: INVALID_SESSION_TIMEOUT.
  Change `session.timeout.ms` of the client, or `group.min.session.timeout.ms` of the broker.
group_full: A member cannot join: GROUP_MAX_SIZE_REACHED.
  Raise the limit, or stop a member.
instance_taken: A static member hears FENCED_INSTANCE_ID and stops.
  Give each client an instance id of its own.
instance_in_use: A static member hears UNRELEASED_INSTANCE_ID.
  Stop it, or wait for the end of its session.
nobody_joined: A group does not exist.
  Compare `group.id` and the address; a consumer joins when it polls.
member_removed: Partitions have another owner, and commits are refused with UNKNOWN_MEMBER_ID.
  Poll more often than `max.poll.interval.ms`; raise `session.timeout.ms` if pauses are long.
member_left_late: A member has left although its process runs.
  Process fewer records a poll (`max.poll.records`), or raise `max.poll.interval.ms`.
rebalance_waits: A group does not become stable.
  Let the member poll, or end it; advance the clock of the test.
rebalances_repeat: A group is rarely stable, and records are read again and again.
  Look at who starts them: slow polls, restarts, consumers that are made for each test.
subscription_matches_nothing: A member gets no partitions.
  Correct the name or the expression, or create the topic.
partitions_unassigned: Nobody reads some partitions of a topic.
  Classic clients look for new partitions every `metadata.max.age.ms` (5 min): shorten it, or add partitions first.
offset_outside: A consumer begins elsewhere than it had committed, or its lag is negative.
  Reset the offsets; look at `auto.offset.reset` and the retention of the topic.
offsets_expired: A consumer reads all records again, or none of those before.
  Raise `offsets.retention.minutes`, or keep a member in the group.
offset_moved_back: Records are read twice.
  Commit the position after the last record; let one process commit a partition.
offset_held: A consumer does not begin to read: UNSTABLE_OFFSET_COMMIT.
  End the transaction; `kafka-offsets transactions abort` ends one whose producer is gone.
lag_is_transaction: A reader of committed records stops before the end.
  Commit or abort it; shorten `transaction.timeout.ms`.
transaction_hangs: Readers of committed records stop.
  Abort it: `kafka-offsets transactions abort`.
transaction_timed_out: A producer hears that it is fenced.
  Raise `transaction.timeout.ms`, or end transactions sooner; make a new producer.
producer_fenced: A producer hears INVALID_PRODUCER_EPOCH or PRODUCER_FENCED.
  Give each producer its own `transactional.id`, and make a new producer.
only_markers: The lag stays above 0 although every record was read.
  Compare records, not offsets; a consumer that commits its position passes them.
commit_refused: Offsets are not committed.
  Commit as a member, or while the group is empty.
produce_refused: Records do not arrive.
  Read the error: the size, the timestamp or the state of the producer is not accepted.
throttled: A client is slow.
  Raise the quota, or send less.
not_fetched: A member has partitions, and their records are not read.
  Resume the partitions; look at what the application does between two polls.
never_committed: Records are read, and the lag does not become smaller.
  Set `enable.auto.commit`, or commit after processing.
began_at_the_end: A consumer does not get the records that were there before it.
  Set `auto.offset.reset=earliest`, or produce after it reads: `wait_for(consuming(group))`.
stuck_or_slow: The lag does not become 0.
  Slow: more members or partitions. Stuck: look at what the application does with the record at that offset.
topic_unsubscribed: The lag in one topic grows.
  Subscribe to it again, or delete its offsets.
empty_with_lag: Nobody reads.
  Start a consumer; see why the last one was removed.
members_without_partitions: A consumer gets no records.
  Add partitions, or stop members.
"""
"""Of each rule its function and the symptom, and what usually helps. The cause is what the function says of itself."""

_FINDS = {name: find for module in (members, progress, refusals) for name, find in vars(module).items()}


def _rules() -> Iterator[Rule]:
    lines = _TEXTS.strip().splitlines()
    for head, cure in zip(lines[::2], lines[1::2], strict=True):
        function, _, symptom = head.partition(": ")
        find = _FINDS[function]
        yield Rule(function.replace("_", "-"), symptom, find.__doc__.partition("\n")[0], cure.strip(), find)


RULES = tuple(_rules())
"""In the order of their importance."""


def diagnose(facts: Facts, now: int, group: str | None = None) -> Findings:
    """Return what the rules find, the most important first; each sentence once.

    now    wall time in ms
    group  only what concerns this group, or any
    """
    findings: dict[str, Finding] = {}
    for rule in RULES:
        for finding in rule.find(facts, now):
            if group is None or finding.group in (None, group):
                findings.setdefault(finding.sentence, finding._replace(name=rule.name, help=rule.help))
    return Findings(findings.values())
