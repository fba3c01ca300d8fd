"""Configuration and ownership of a group as JSON, as a coordinator leaves them for its successor.

::

    {"version": 1, "generation": 3, "protocol_type": "consumer", "protocol": "range", "leader": "m-1",
     "since_ms": 1700000000000, "topics": ["orders"],
     "members": [{"member_id": "m-1", "group_instance_id": null, "client_id": "app", "client_host": "/10.0.0.1",
                  "session_timeout_ms": 45000, "rebalance_timeout_ms": 300000,
                  "owned": {"orders": [0, 1]}, "subscription": "AAAA…", "assignment": "AAAA…"}]}

`topics` and `owned` are for readers; they are null where the members are no consumers. `subscription` and `assignment`
are the members' own bytes in base64, from which a group is restored.
Source: the design of the consumer rewrite, Consumer Group Metadata in ZK.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.protocol import messages
from kafka_offsets.zookeeper.znodes import UnreadableZnodeError

VERSION = 1


def to_json(group_id: str, value: messages.GroupMetadataValue) -> bytes:
    """Return the metadata of a group, given its value in the log."""
    group = ClassicGroup(group_id)
    group.restore(value)
    topics = group.subscribed
    document = {
        "version": VERSION,
        "generation": value.generation,
        "protocol_type": value.protocol_type,
        "protocol": value.protocol,
        "leader": value.leader,
        "since_ms": value.current_state_timestamp,
        "topics": None if topics is None else sorted(topics),
        "members": [_member(group, member) for member in value.members],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _member(group: ClassicGroup, member: messages.GroupMetadataValue.MemberMetadata) -> dict[str, object]:
    owned = group.owned_partitions(member.member_id)
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "owned": None if owned is None else {topic: sorted(indexes) for topic, indexes in owned.items()},
        "subscription": base64.b64encode(member.subscription).decode(),
        "assignment": base64.b64encode(member.assignment).decode(),
    }


def from_json(group_id: str, data: bytes) -> messages.GroupMetadataValue:
    """Read the metadata of a group. Raises UnreadableZnodeError."""
    try:
        document = json.loads(data)
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']}")
        value = messages.GroupMetadataValue(
            protocol_type=_text(document["protocol_type"]) or "",
            generation=_int32(document["generation"]),
            protocol=_text(document["protocol"]),
            leader=_text(document["leader"]),
            current_state_timestamp=int(document["since_ms"]),
            members=[_read_member(member) for member in document["members"]],
        )
        messages.encode(value, 3)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableZnodeError(
            f"group {group_id}: its metadata in ZooKeeper is not readable: {error!r}"
        ) from error
    return value


def _read_member(member: dict[str, Any]) -> messages.GroupMetadataValue.MemberMetadata:
    return messages.GroupMetadataValue.MemberMetadata(
        member_id=_text(member["member_id"]) or "",
        group_instance_id=_text(member["group_instance_id"]),
        client_id=_text(member["client_id"]) or "",
        client_host=_text(member["client_host"]) or "",
        rebalance_timeout=_int32(member["rebalance_timeout_ms"]),
        session_timeout=_int32(member["session_timeout_ms"]),
        subscription=base64.b64decode(member["subscription"], validate=True),
        assignment=base64.b64decode(member["assignment"], validate=True),
    )


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _int32(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 1 << 31:
        raise TypeError(f"{value!r} is not a number")
    return value


def is_newer(stored: bytes, generation: int) -> bool:
    """Whether stored metadata is of a later generation; what cannot be read is not."""
    try:
        return from_json("", stored).generation > generation
    except UnreadableZnodeError:
        return False
