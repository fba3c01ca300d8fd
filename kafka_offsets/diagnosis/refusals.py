"""Rules about what clients are refused: rights, quotas, versions, protocols, faults of the test."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_offsets.clock import duration_text
from kafka_offsets.diagnosis.facts import ASKED_WITHIN_MS, Facts
from kafka_offsets.diagnosis.findings import Finding, counted, is_member, of_client, refusal_of, when, who
from kafka_offsets.incidents import FENCED, FOREIGN, REMOVED, THROTTLED, UNSERVED

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


def denied(facts: Facts, now: int) -> Iterator[Finding]:
    """No ACL allows it, or one denies it."""
    for refusal in facts.refused(*_DENIED):
        kind = _DENIED[refusal.text("error")]
        name = refusal.text(kind)
        what = f"{kind.replace('_', ' ')} {name!r}" if name else "the cluster"
        principal = f", as {refusal.text('principal')}," if refusal.text("principal") else ""
        said = f"{who(refusal)}{principal} is denied {refusal.text('api')} of {what}"
        yield of_client(refusal, f"{said}, {refusal_of(refusal)}")


def not_authenticated(facts: Facts, now: int) -> Iterator[Finding]:
    """The mechanism is not enabled at the listener, or the password is wrong."""
    for refusal in facts.refused("UNSUPPORTED_SASL_MECHANISM"):
        said = f"{who(refusal)} asks for the SASL mechanism {refusal.text('offered')}, {when(refusal)}"
        yield of_client(refusal, f"{said}; this listener has {refusal.text('served') or 'others'}")
    for refusal in facts.refused("SASL_AUTHENTICATION_FAILED"):
        more = f": {refusal.text('message')}" if refusal.text("message") else ""
        yield of_client(refusal, f"{who(refusal)} failed to authenticate, {when(refusal)}{more}")


def foreign_protocol(facts: Facts, now: int) -> Iterator[Finding]:
    """It speaks TLS, or HTTP, to a plaintext port."""
    for incident in facts.incidents_of(FOREIGN, now - ASKED_WITHIN_MS):
        yield of_client(incident, f"{who(incident)} sends {incident.text('protocol')}, {when(incident)}")


def version_not_served(facts: Facts, now: int) -> Iterator[Finding]:
    """It asks for an API or a version that this broker does not serve."""
    for incident in facts.incidents_of(UNSERVED, now - ASKED_WITHIN_MS):
        said = f"{who(incident)} sends {incident.text('api')}, {when(incident)}"
        yield of_client(incident, f"{said}, which is not served{incident.text('range')}")


def commit_refused(facts: Facts, now: int) -> Iterator[Finding]:
    """The sender is no member of this generation, or the request is refused for another reason."""
    removed = {incident.text("member") for incident in facts.incidents_of(REMOVED)} - {""}
    for refusal in facts.refused():
        error, member, group = refusal.text("error"), refusal.text("member"), facts.group_of(refusal)
        is_said_elsewhere = error in _DENIED or error in FENCED or member in removed
        if refusal.text("api") not in _COMMITS or is_said_elsewhere:
            continue
        if error in _NOT_A_MEMBER and group is not None and is_member(group, refusal):
            continue  # it has joined again, or was late in a rebalance
        why = ""
        if error in _NOT_A_MEMBER and not member and group is not None and group.members:
            why = f": the group has {counted(len(group.members), 'member')}, and only they commit"
        elif error == "OFFSET_METADATA_TOO_LARGE":
            why = ": the metadata is longer than offset.metadata.max.bytes"
        said = f"a commit of {who(refusal)} for group {refusal.text('group')!r} was refused"
        yield of_client(refusal, f"{said} {refusal_of(refusal)}{why}")


def producer_fenced(facts: Facts, now: int) -> Iterator[Finding]:
    """Another producer began with its transactional id, or its transaction timed out."""
    for refusal in facts.refused(*FENCED):
        name = refusal.text("transactional_id")
        said = f"{refusal.text('api')} of {who(refusal)}{f' of transactional id {name!r}' if name else ''}"
        why = "a later producer has its transactional id, or its transaction has timed out"
        yield of_client(refusal, f"{said} was refused {refusal_of(refusal)}; {why}")


def produce_refused(facts: Facts, now: int) -> Iterator[Finding]:
    """The broker refused their batch."""
    said_elsewhere = {*_DENIED, *FENCED, "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"}
    for refusal in facts.refused(api="Produce"):
        if refusal.text("error") not in said_elsewhere:
            said = f"records of {who(refusal)} for topic {refusal.text('topic')} were refused"
            yield of_client(refusal, f"{said} {refusal_of(refusal)}")


def throttled(facts: Facts, now: int) -> Iterator[Finding]:
    """It exceeds a quota."""
    for incident in facts.incidents_of(THROTTLED):
        if incident.last_ms > now - _THROTTLED_WITHIN_MS - incident.number("ms"):
            most = f"for up to {duration_text(incident.number('ms'))} a response"
            yield of_client(incident, f"{who(incident)} is throttled by a quota, {when(incident)}, {most}")


def fault_active(facts: Facts, now: int) -> Iterator[Finding]:
    """A fault that the test injected is still active."""
    for fault in facts.faults:
        if fault.hits:
            struck = f"it has struck {counted(fault.hits, 'request')}"
            sentence = f"a fault of the test is active: {fault.what}; {struck}"
            yield Finding("", "broker", fault.what, sentence, group=fault.group)
