"""Rules about what clients are refused: rights, quotas, versions, protocols, faults of the test."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_offsets.diagnosis.facts import Facts
from kafka_offsets.diagnosis.findings import (
    ASKED_WITHIN_MS,
    Finding,
    counted,
    error_of,
    is_member,
    of_client,
    refused,
    span,
    when,
    who,
)
from kafka_offsets.incidents import FENCED, FOREIGN, REMOVED, THROTTLED, UNSERVED, Incident

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
    for each in refused(facts, *_DENIED):
        error, kind = each.text("error"), _DENIED[each.text("error")]
        what = f"{kind.replace('_', ' ')} {each.text(kind)!r}" if kind and each.text(kind) else "the cluster"
        principal = f", as {each.text('principal')}," if each.text("principal") else ""
        said = f"{who(each)}{principal} is denied {each.text('api')} of {what}"
        yield of_client(each, f"{said}, {when(each)}: {error}")


def not_authenticated(facts: Facts, now: int) -> Iterator[Finding]:
    """The mechanism is not enabled at the listener, or the password is wrong."""
    for each in refused(facts, "UNSUPPORTED_SASL_MECHANISM"):
        asks, served = each.text("offered"), each.text("served") or "others"
        said = f"{who(each)} asks for the SASL mechanism {asks}, {when(each)}; this listener has {served}"
        yield of_client(each, said)
    for each in refused(facts, "SASL_AUTHENTICATION_FAILED"):
        more = f": {each.text('message')}" if each.text("message") else ""
        yield of_client(each, f"{who(each)} failed to authenticate, {when(each)}{more}")


def foreign_protocol(facts: Facts, now: int) -> Iterator[Finding]:
    """It speaks TLS, or HTTP, to a plaintext port."""
    for each in _recent(facts, FOREIGN, now - ASKED_WITHIN_MS):
        yield of_client(each, f"{who(each)} sends {each.text('protocol')}, {when(each)}")


def _recent(facts: Facts, kind: str, after_ms: int) -> list[Incident]:
    return [each for each in facts.incidents if each.kind == kind and each.last_ms > after_ms]


def version_not_served(facts: Facts, now: int) -> Iterator[Finding]:
    """It asks for an API or a version that this broker does not serve."""
    for each in _recent(facts, UNSERVED, now - ASKED_WITHIN_MS):
        said = f"{who(each)} sends {each.text('api')}, {when(each)}"
        yield of_client(each, f"{said}, which is not served{each.text('range')}")


def commit_refused(facts: Facts, now: int) -> Iterator[Finding]:
    """The sender is no member of this generation, or the request is refused for another reason."""
    removed = {each.text("member") for each in facts.incidents if each.kind == REMOVED}
    for each in refused(facts):
        error = each.text("error")
        if each.text("api") not in _COMMITS or error in _DENIED or error in FENCED:
            continue
        if each.text("member") and each.text("member") in removed:
            continue
        group = facts.group_of(each)
        if error in _NOT_A_MEMBER and group is not None and is_member(group, each):
            continue  # it has joined again, or was late in a rebalance
        why = ""
        if error in _NOT_A_MEMBER and not each.text("member") and group is not None and group.members:
            why = f": the group has {counted(len(group.members), 'member')}, and only they commit"
        elif error == "OFFSET_METADATA_TOO_LARGE":
            why = ": the metadata is longer than offset.metadata.max.bytes"
        said = f"a commit of {who(each)} for group {each.text('group')!r} was refused {when(each)}"
        yield of_client(each, f"{said}: {error_of(each)}{why}")


def producer_fenced(facts: Facts, now: int) -> Iterator[Finding]:
    """Another producer began with its transactional id, or its transaction timed out."""
    for each in refused(facts, *FENCED):
        name = each.text("transactional_id")
        said = f"{each.text('api')} of {who(each)}{f' of transactional id {name!r}' if name else ''}"
        why = "a later producer has its transactional id, or its transaction has timed out"
        yield of_client(each, f"{said} was refused {when(each)}: {each.text('error')}; {why}")


def produce_refused(facts: Facts, now: int) -> Iterator[Finding]:
    """The broker refused their batch."""
    said_elsewhere = {*_DENIED, *FENCED, "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"}
    for each in refused(facts):
        if each.text("api") == "Produce" and each.text("error") not in said_elsewhere:
            said = f"records of {who(each)} for topic {each.text('topic')} were refused {when(each)}"
            yield of_client(each, f"{said}: {error_of(each)}")


def throttled(facts: Facts, now: int) -> Iterator[Finding]:
    """It exceeds a quota."""
    for each in facts.incidents:
        if each.kind == THROTTLED and each.last_ms > now - _THROTTLED_WITHIN_MS - each.number("ms"):
            most = span(each.number("ms"))
            yield of_client(
                each, f"{who(each)} is throttled by a quota, {when(each)}, for up to {most} a response"
            )


def fault_active(facts: Facts, now: int) -> Iterator[Finding]:
    """A fault that the test injected is still active."""
    for each in facts.faults:
        if each.hits:
            struck = f"it has struck {counted(each.hits, 'request')}"
            sentence = f"a fault of the test is active: {each.what}; {struck}"
            yield Finding("", "broker", each.what, sentence, group=each.group)
