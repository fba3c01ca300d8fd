"""Rules about what clients are refused: rights, quotas, versions, protocols, faults of the test."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_offsets.diagnosis.facts import Facts
from kafka_offsets.diagnosis.findings import ASKED_WITHIN_MS, Finding, counted, of_client, span, when, who
from kafka_offsets.incidents import FENCED, FOREIGN, REFUSED, REMOVED, THROTTLED, UNSERVED, Incident

_DENIED = {
    "TOPIC_AUTHORIZATION_FAILED": "topic",
    "GROUP_AUTHORIZATION_FAILED": "group",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "transactional_id",
    "CLUSTER_AUTHORIZATION_FAILED": "",
}
_COMMITS = {"OffsetCommit", "TxnOffsetCommit"}
_NOT_A_MEMBER = {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH"}

_THROTTLED_WITHIN_MS = 11_000
"""A client exceeds its quota no longer: the windows that quotas count in are over."""


def _refused(facts: Facts) -> Iterator[Incident]:
    return (each for each in facts.incidents if each.kind == REFUSED)


def denied(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield what clients may not do by the ACLs."""
    for each in _refused(facts):
        kind = _DENIED.get(each.text("error"))
        if kind is None:
            continue
        what = f"{kind.replace('_', ' ')} {each.text(kind)!r}" if kind and each.text(kind) else "the cluster"
        principal = f", as {each.text('principal')}," if each.text("principal") else ""
        yield of_client(
            each,
            f"{who(each)}{principal} is denied {each.text('api')} of {what}, {when(each)}: {each.text('error')}",
        )


def not_authenticated(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield clients that fail to prove who they are, or with a mechanism that is not enabled."""
    for each in _refused(facts):
        if each.text("error") == "UNSUPPORTED_SASL_MECHANISM":
            yield of_client(
                each,
                f"{who(each)} asks for the SASL mechanism {each.text('offered')}, {when(each)}; this listener has "
                f"{each.text('served') or 'others'}",
            )
        elif each.text("error") == "SASL_AUTHENTICATION_FAILED":
            more = f": {each.text('message')}" if each.text("message") else ""
            yield of_client(each, f"{who(each)} failed to authenticate, {when(each)}{more}")


def foreign_protocol(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield connections that speak something else than the port expects."""
    for each in facts.incidents:
        if each.kind == FOREIGN and each.last_ms > now - ASKED_WITHIN_MS:
            yield of_client(each, f"{who(each)} sends {each.text('protocol')}, {when(each)}")


def version_not_served(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield requests whose API or version the broker does not serve."""
    for each in facts.incidents:
        if each.kind == UNSERVED and each.last_ms > now - ASKED_WITHIN_MS:
            yield of_client(
                each,
                f"{who(each)} sends {each.text('api')}, {when(each)}, which is not served{each.text('range')}",
            )


def session_timeout_refused(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield joins whose session timeout the broker does not allow."""
    for each in _refused(facts):
        group = facts.by_id.get(each.text("group"))
        if each.text("error") == "INVALID_SESSION_TIMEOUT" and (group is None or not group.members):
            asked = f" of {span(each.number('offered'))}" if each.number("offered") else ""
            yield of_client(
                each,
                f"{who(each)} cannot join group {each.text('group')!r}, refused {when(each)}: its session "
                f"timeout{asked} is outside group.min.session.timeout.ms and group.max.session.timeout.ms",
            )


def commit_refused(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield refused commits that no other rule explains."""
    removed = {each.text("member") for each in facts.incidents if each.kind == REMOVED}
    for each in _refused(facts):
        error = each.text("error")
        if each.text("api") not in _COMMITS or error in _DENIED or error in FENCED:
            continue
        if each.text("member") and each.text("member") in removed:
            continue
        group = facts.by_id.get(each.text("group"))
        if (
            error in _NOT_A_MEMBER
            and group is not None
            and any(each.text("client") == m.client_id for m in group.members)
        ):
            continue  # it has joined again, or was late in a rebalance
        why = f" ({each.text('message')})" if each.text("message") else ""
        if error in _NOT_A_MEMBER and not each.text("member") and group is not None and group.members:
            why = f": the group has {counted(len(group.members), 'member')}, and only they commit"
        elif error == "OFFSET_METADATA_TOO_LARGE":
            why = ": the metadata is longer than offset.metadata.max.bytes"
        yield of_client(
            each,
            f"a commit of {who(each)} for group {each.text('group')!r} was refused {when(each)}: {error}{why}",
        )


def producer_fenced(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield producers that another one with the same transactional id, or a time-out, has fenced."""
    for each in _refused(facts):
        if each.text("error") in FENCED:
            name = each.text("transactional_id")
            of = f" of transactional id {name!r}" if name else ""
            yield of_client(
                each,
                f"{each.text('api')} of {who(each)}{of} was refused {when(each)}: {each.text('error')}; a later "
                "producer has its transactional id, or its transaction has timed out",
            )


def produce_refused(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield batches that the broker did not append."""
    for each in _refused(facts):
        error = each.text("error")
        if each.text("api") != "Produce" or error in _DENIED or error in FENCED:
            continue
        if error in ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"):
            continue  # `topic-missing` says so
        yield of_client(
            each,
            f"records of {who(each)} for topic {each.text('topic')} were refused {when(each)}: {error}"
            f"{' (' + each.text('message') + ')' if each.text('message') else ''}",
        )


def throttled(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield clients that a quota makes wait."""
    for each in facts.incidents:
        if each.kind == THROTTLED and each.last_ms > now - _THROTTLED_WITHIN_MS - each.number("ms"):
            yield of_client(
                each,
                f"{who(each)} is throttled by a quota, {when(each)}, for up to {span(each.number('ms'))} a response",
            )


def fault_active(facts: Facts, now: int) -> Iterator[Finding]:
    """Yield the faults of the test that are active and have struck."""
    for each in facts.faults:
        if each.hits:
            struck = f"it has struck {counted(each.hits, 'request')}"
            yield Finding(
                "",
                "broker",
                each.what,
                f"a fault of the test is active: {each.what}; {struck}",
                group=each.group,
            )
