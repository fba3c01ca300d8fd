"""What a real broker answered is what we answer: recorded sessions replayed against a shard, frame by frame.

The clock stands at the time of each frame, so that timers fire between frames as they did. The member ids that the
broker made are given out again in the same order.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator import group_requests, stored
from kafka_offsets.coordinator.classic import membership
from kafka_offsets.coordinator.offsets import deletion
from kafka_offsets.coordinator.offsets import requests as offsets
from kafka_offsets.coordinator.result import Reply, RequestContext, Result
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import GroupSettings
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
NAMES = {
    8: "OffsetCommit",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    42: "DeleteGroups",
    47: "OffsetDelete",
}
TOPIC_ID = bytes(range(16))


class Frame(NamedTuple):
    """One line of a capture that concerns groups."""

    ms: int
    conn: int
    is_request: bool
    api_key: int
    version: int
    correlation_id: int
    message: Any
    client_id: str


class Topics:
    """`orders` has four partitions and there is nothing else, as when the sessions were recorded."""

    def id_and_partition_count(self, topic: str) -> tuple[bytes, int]:
        return TOPIC_ID if topic == "orders" else bytes(16), 4 if topic in ("orders", "out") else 0

    def topic_name(self, topic_id: bytes) -> str | None:
        return "orders"


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def frames(path: Path) -> Iterator[Frame]:
    for entry in lines(path):
        if entry.get("apiKey") not in NAMES:
            continue
        is_request = entry["dir"] == "request"
        name = NAMES[entry["apiKey"]]
        version = entry["apiVersion"]
        cls = messages.find(f"{name}Request" if is_request else f"{name}Response")
        raw = bytes.fromhex(entry["hex"])
        position, client_id = 4, ""
        if is_request:
            client_id = raw[10 : 10 + int.from_bytes(raw[8:10])].decode()
            position = 10 + len(client_id.encode())
        position += version in cls.SCHEMA.flexible
        message, end = messages.decode(cls, raw, version, position)
        assert end == len(raw)
        yield Frame(
            round(entry["ms"]),
            entry["conn"],
            is_request,
            entry["apiKey"],
            version,
            entry["correlationId"],
            message,
            client_id,
        )


class Broker:
    """A shard that applies each record at once, as with fsync=never."""

    def __init__(self, delay_ms: int, max_size: int, min_session_ms: int) -> None:
        self.clock = ManualClock()
        settings = GroupSettings(
            group_min_session_timeout_ms=min_session_ms,
            group_initial_rebalance_delay_ms=delay_ms,
            group_max_size=max_size,
        )
        self.next_member_id = ""
        self.shard = Shard(0, settings, lambda prefix: self.next_member_id, Topics())
        self.shard.finish_loading(self.clock.now())
        self.answers: dict[tuple[int, int], Any] = {}
        self.records: list[tuple[bytes, bytes | None]] = []

    def advance_to(self, ms: int) -> None:
        """Let time pass, stopping at each deadline on the way."""
        ms = max(ms, self.clock.now().mono_ms)
        while True:
            due_ms = self.shard.next_deadline_ms
            self.clock.advance(min(ms, ms if due_ms is None else due_ms) - self.clock.now().mono_ms)
            if due_ms is None or due_ms > ms:
                return
            for result in self.shard.tick(self.clock.now()):
                self.take(result)

    def take(self, result: Result) -> None:
        for record in result.records:
            self.shard.replay(record.key, record.value, len(self.records))
            self.records.append((record.key, record.value))
        for reply in result.replies:
            key = (reply.context.connection, reply.context.correlation_id)
            assert key not in self.answers
            response = reply.response
            if isinstance(response, messages.OffsetCommitRequest):  # the request itself: all of it is done
                response = refuse(response, ErrorCode.NONE, reply.context.api_version)
            self.answers[key] = response

    def request(self, frame: Frame) -> None:
        context = RequestContext(
            frame.conn, frame.api_key, frame.version, frame.correlation_id, frame.client_id, "/127.0.0.1"
        )
        shard, request, now = self.shard, frame.message, self.clock.now()
        match frame.api_key:
            case 15:
                found = [membership.describe(shard, group, frame.version) for group in request.groups]
                result = Result(replies=(Reply(context, messages.DescribeGroupsResponse(groups=found)),))
            case 16:
                listed = group_requests.list_groups(shard, request.states_filter, request.types_filter)
                result = Result(replies=(Reply(context, messages.ListGroupsResponse(groups=listed)),))
            case 42:
                results = []
                for group in request.groups_names:
                    deleted = group_requests.delete_group(shard, group, context, now)
                    self.take(Result(deleted.records))
                    results.append(deleted.replies[0].response)
                result = Result(replies=(Reply(context, messages.DeleteGroupsResponse(results=results)),))
            case key:
                handle = {
                    8: offsets.commit,
                    11: group_requests.join,
                    12: group_requests.heartbeat,
                    13: group_requests.leave,
                    14: group_requests.sync,
                    47: deletion.delete,
                }[key]
                result = handle(shard, request, context, now)
        self.take(result)
        self.advance_to(0)


def comparable(name: str, message: Any, version: int) -> Any:
    """A response as the client sees it, less the order that Kafka's hash maps give it."""
    cls = messages.find(f"{name}Response")
    message, _ = messages.decode(cls, messages.encode(message, version), version)
    if name == "JoinGroup":
        message.members.sort(key=lambda m: m.member_id)
    elif name == "DeleteGroups":
        message.results.sort(key=lambda r: r.group_id)
    elif name == "DescribeGroups":
        for group in message.groups:
            group.members.sort(key=lambda m: m.member_id)
    elif name == "ListGroups":
        message.groups.sort(key=lambda g: g.group_id)
    return message


def replayed(name: str, delay_ms: int = 0, max_size: int = 1000, min_session_ms: int = 6000) -> Broker:
    """Replay a session; fails when an answer is not the recorded one."""
    broker = Broker(delay_ms, max_size, min_session_ms)
    recorded = list(frames(CAPTURES / f"{name}.jsonl.gz"))
    made = {(f.conn, f.correlation_id): f.message for f in recorded if f.api_key == 11 and not f.is_request}
    different = []
    for at, frame in enumerate(recorded):
        broker.advance_to(frame.ms)
        key = (frame.conn, frame.correlation_id)
        if frame.is_request:
            broker.next_member_id = (key in made and made[key].member_id) or f"unseen-{at}"
            broker.request(frame)
            continue
        api = NAMES[frame.api_key]
        theirs = comparable(api, frame.message, frame.version)
        ours = broker.answers.pop(key, None)
        ours = ours and comparable(api, ours, frame.version)
        if ours != theirs:
            different.append(f"{frame.ms} {key}\n  Kafka {theirs}\n  we    {ours}")
    assert not different, "\n".join(different)
    return broker


def test_every_version_of_every_group_api_is_answered_as_by_kafka() -> None:
    assert not replayed("raw-classic").answers


def test_the_records_are_those_that_kafka_wrote() -> None:
    theirs: dict[str, list[Any]] = {}
    for record in lines(CAPTURES / "raw-classic-records.jsonl.gz"):
        value = record["value"] and bytes.fromhex(record["value"])
        theirs.setdefault(record["group"], []).append(written(bytes.fromhex(record["key"]), value))
    ours: dict[str, list[Any]] = {}
    for key, value in replayed("raw-classic").records:
        parsed = stored.parse_key(key)
        assert not isinstance(parsed, stored.UnknownKey)
        ours.setdefault(parsed.group, []).append(written(key, value))
    assert {group: ours[group] for group in theirs} == theirs


def written(key: bytes, value: bytes | None) -> Any:
    """What a record says, less the time of writing."""
    parsed = stored.parse_key(key)
    if value is None:
        return parsed, None
    if isinstance(parsed, stored.GroupKey):
        group = stored.parse_group_value(value)
        group.current_state_timestamp = 0
        return parsed, value[:2], group
    entry = stored.parse_offset_value(value, 0)
    return parsed, value[:2], entry.offset, entry.metadata
