"""Incidents in the log of the process: one INFO line when a member is removed, or a client is refused."""

from __future__ import annotations

from kafka_offsets.incidents import REFUSED, REMOVED, WHY_REMOVED, Incident
from kafka_offsets.logs import new_logger

_APIS_OF_GROUPS = {
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "OffsetCommit",
    "TxnOffsetCommit",
    "ConsumerGroupHeartbeat",
}

logger = new_logger(__name__)


def log_incident(incident: Incident) -> None:
    """Write a line for the first of several incidents that are alike; a denial has one of the authorizer's."""
    if incident.kind not in (REMOVED, REFUSED):
        return
    client, host, group = (incident.text(name) for name in ("client", "host", "group"))
    if incident.kind == REMOVED:
        why = WHY_REMOVED[incident.text("reason")].format(span=f"{incident.number('timeout_ms')} ms")
        member = incident.text("member")
        logger.info("group %s: member %s of %s at %s was removed: %s", group, member, client, host, why)
    elif incident.text("api") in _APIS_OF_GROUPS and "principal" not in incident.fields:
        error = incident.text("error")
        if error.endswith("_AUTHORIZATION_FAILED"):
            return  # the authorizer has written who is denied what
        logger.info(
            "group %s: %s of %s at %s was refused: %s", group, incident.text("api"), client, host, error
        )
