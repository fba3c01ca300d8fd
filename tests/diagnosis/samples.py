"""A sample of the facts of each rule, from which docs/troubleshooting.md takes its sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_offsets.diagnosis.facts import (
    Back,
    Facts,
    Fault,
    Group,
    Log,
    Member,
    Offset,
    Position,
    Transaction,
)
from kafka_offsets.incidents import (
    EXPIRED,
    FOREIGN,
    LEFT,
    REBALANCE,
    REFUSED,
    REMOVED,
    REPLACED,
    THROTTLED,
    TIMED_OUT,
    UNSERVED,
    Incident,
)

NOW = 1_800_000_000_000
PLACE = ("orders", 0)
WORKER = Member(
    "worker-1-id", "worker-1", "10.0.0.1", None, frozenset({"orders"}), "", (PLACE,), ("range",), 0, 45_000
)
OTHER = replace(WORKER, member_id="worker-2-id", client_id="worker-2", host="10.0.0.2", partitions=())
STABLE = Group("billing", "Stable", (WORKER,), NOW - 20_000, offsets={PLACE: Offset(5, NOW - 1000)})
GONE = Group("billing", "Empty", (), NOW - 20_000, offsets={PLACE: Offset(5, NOW - 60_000)})
OPEN = Transaction("tx-1", 7, "Ongoing", NOW - 5000, 60_000, frozenset({PLACE}))
LOG = Log(0, 5, 5)
HEALTHY = Facts([STABLE], {"orders": 1}, {PLACE: LOG})
"""A group that has read everything."""


def _incident(kind: str, **fields: str | int) -> Incident:
    told: dict[str, str | int] = {"client": "worker-2", "host": "10.0.0.2", "group": "billing"}
    return Incident(kind, told | fields, NOW - 2000)


def _incidents(*incidents: Incident, group: Group = STABLE, **more: Any) -> Facts:
    return replace(HEALTHY, groups=[group], incidents=incidents, **more)


def _refused(api: str, error: str, **fields: str | int) -> Incident:
    return _incident(REFUSED, api=api, error=error, **fields)


def _group(log: Log = LOG, transactions: tuple[Transaction, ...] = (), **changes: Any) -> Facts:
    group = replace(STABLE, **changes)
    return Facts([group], {"orders": 1}, {PLACE: log}, transactions, asked=frozenset({"billing"}))


def _reads(first: int, last: int, log: Log = LOG, **changes: Any) -> Facts:
    return _group(log, members=(replace(WORKER, positions={PLACE: Position(first, last)}),), **changes)


_MANY = _incident(REBALANCE, reason="'worker-1' joined again")
_MANY.count = 9
_THROTTLED = _incident(THROTTLED, ms=300)
_REMOVED = _incident(REMOVED, member="worker-2-id", reason="session", timeout_ms=45_000)
_LATE = Offset(2, NOW - 15_000, has_unread=True, unread_ms=NOW - 15_000)

SAMPLES: dict[str, Facts] = {
    "fault-active": replace(HEALTHY, faults=[Fault("error: OffsetCommit NOT_COORDINATOR", 3)]),
    "foreign-protocol": _incidents(
        Incident(
            FOREIGN, {"host": "10.0.0.2", "protocol": "a TLS handshake, but this port is plaintext"}, NOW
        )
    ),
    "version-not-served": _incidents(_incident(UNSERVED, api="Fetch v3", range="; versions 4 to 18 are")),
    "not-authenticated": _incidents(
        _refused("SaslHandshake", "UNSUPPORTED_SASL_MECHANISM", offered="PLAIN", served="SCRAM-SHA-256")
    ),
    "partition-unknown": replace(HEALTHY, logs={PLACE: Log(problem="no node leads it")}),
    "group-unavailable": _group(unavailable="its coordinator loads __consumer_offsets-7"),
    "denied": _incidents(
        _refused("JoinGroup", "GROUP_AUTHORIZATION_FAILED", group="billing", principal="User:alice")
    ),
    "topic-missing": _incidents(_refused("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topic="order")),
    "creation-refused": _incidents(
        _refused("CreateTopics", "INVALID_REPLICATION_FACTOR", topic="refunds", message="1 broker is there")
    ),
    "protocols-differ": _incidents(
        _refused("JoinGroup", "INCONSISTENT_GROUP_PROTOCOL", offered="cooperative-sticky")
    ),
    "session-timeout-refused": _incidents(
        _refused("JoinGroup", "INVALID_SESSION_TIMEOUT", offered=1000), group=GONE
    ),
    "group-full": _incidents(_refused("JoinGroup", "GROUP_MAX_SIZE_REACHED")),
    "instance-taken": _incidents(
        _incident(REPLACED, instance="one", client="worker-1", host="10.0.0.1"),
        _refused("OffsetCommit", "FENCED_INSTANCE_ID", instance="one"),
    ),
    "instance-in-use": _incidents(
        _refused("ConsumerGroupHeartbeat", "UNRELEASED_INSTANCE_ID", instance="one"),
        group=replace(STABLE, members=(replace(WORKER, instance_id="one"),)),
    ),
    "nobody-joined": replace(HEALTHY, groups=[Group("biling", exists=False)], others=["billing"]),
    "member-removed": _incidents(
        _REMOVED, _refused("OffsetCommit", "UNKNOWN_MEMBER_ID", member="worker-2-id")
    ),
    "member-left-late": _incidents(_incident(LEFT, reason="consumer poll timeout has expired.")),
    "rebalance-waits": _group(
        state="PreparingRebalance",
        members=(replace(WORKER, awaited="join", silent_ms=8000, removed_in_ms=37_000), OTHER),
    ),
    "rebalances-repeat": _incidents(_MANY),
    "subscription-matches-nothing": _group(
        members=(replace(WORKER, topics=frozenset({"order"}), partitions=()),)
    ),
    "partitions-unassigned": replace(HEALTHY, topics={"orders": 3}),
    "offset-outside": _group(Log(8, 9, 9)),
    "offsets-expired": _incidents(
        _incident(EXPIRED), group=replace(GONE, offsets={}, exists=False), asked=frozenset({"billing"})
    ),
    "offset-moved-back": _group(
        moved_back=(Back(PLACE, 5, 2, "worker-1", NOW - 3000),), offsets={PLACE: Offset(2, NOW - 3000)}
    ),
    "offset-held": _group(held={PLACE: (7,)}, transactions=(OPEN,)),
    "lag-is-transaction": _group(Log(0, 9, 5), (OPEN,)),
    "transaction-hangs": replace(HEALTHY, transactions=[replace(OPEN, started_ms=NOW - 300_000)]),
    "transaction-timed-out": _incidents(
        _incident(TIMED_OUT, transactional_id="tx-1", producer_id=7, timeout_ms=60_000)
    ),
    "producer-fenced": _incidents(_refused("EndTxn", "INVALID_PRODUCER_EPOCH", transactional_id="tx-1")),
    "only-markers": _group(Log(0, 6, 6), offsets={PLACE: Offset(5, NOW - 1000, has_unread=False)}),
    "commit-refused": _incidents(_refused("OffsetCommit", "UNKNOWN_MEMBER_ID")),
    "produce-refused": _incidents(_refused("Produce", "MESSAGE_TOO_LARGE", topic="orders")),
    "throttled": _incidents(_THROTTLED),
    "not-fetched": _group(members=(replace(WORKER, positions={}),), offsets={PLACE: Offset(2, NOW - 1000)}),
    "never-committed": _reads(0, 5, offsets={}),
    "began-at-the-end": _reads(5, 5, offsets={}),
    "stuck-or-slow": _reads(0, 5, offsets={PLACE: _LATE}),
    "topic-unsubscribed": replace(
        HEALTHY,
        groups=[replace(STABLE, offsets={("invoices", 0): Offset(3, NOW - 60_000)})],
        logs={("invoices", 0): Log(0, 9, 9)},
    ),
    "empty-with-lag": _incidents(_REMOVED, group=GONE, logs={PLACE: Log(0, 9, 9)}),
    "members-without-partitions": _group(members=(WORKER, OTHER)),
}
