"""What a real broker answered consumer groups is what we answer: recorded sessions replayed against a shard."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator import group_requests, stored
from kafka_offsets.coordinator.classic import membership
from kafka_offsets.coordinator.consumer import heartbeat as consumer_heartbeat
from kafka_offsets.coordinator.consumer import records as consumer_records
from kafka_offsets.coordinator.consumer.group import ConsumerGroup
from kafka_offsets.coordinator.consumer.records import ConsumerKey
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
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    19: "CreateTopics",
    20: "DeleteTopics",
    37: "CreatePartitions",
    42: "DeleteGroups",
    47: "OffsetDelete",
    68: "ConsumerGroupHeartbeat",
    69: "ConsumerGroupDescribe",
}
ABOUT_TOPICS = (3, 19, 20, 37)


class Frame(NamedTuple):
    """One line of a capture."""

    ms: int
    conn: int
    is_request: bool
    api_key: int
    version: int
    correlation_id: int
    message: Any
    client_id: str

    @property
    def key(self) -> tuple[int, int]:
        return self.conn, self.correlation_id


def frames(path: Path) -> Iterator[Frame]:
    for line in gzip.decompress(path.read_bytes()).splitlines():
        entry = json.loads(line)
        if entry.get("apiKey") not in NAMES or (entry["apiKey"] == 9 and entry["apiVersion"] < 8):
            continue
        is_request = entry["dir"] == "request"
        version = entry["apiVersion"]
        cls = messages.find(f"{NAMES[entry['apiKey']]}{'Request' if is_request else 'Response'}")
        raw = bytes.fromhex(entry["hex"])
        position, client_id = 4, ""
        if is_request:
            client_id = raw[10 : 10 + int.from_bytes(raw[8:10])].decode()
            position = 10 + len(client_id.encode())
        position += version in cls.SCHEMA.flexible
        message, end = messages.decode(cls, raw, version, position)
        assert end == len(raw)
        head = round(entry["ms"]), entry["conn"], is_request, entry["apiKey"], version, entry["correlationId"]
        yield Frame(*head, message, client_id)


class Topics:
    """The topics that there were at each time of the recording."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[bytes, int]] = {"out": (bytes(range(16)), 1)}
        self.version = self.created_version = 0

    def id_and_partition_count(self, topic: str) -> tuple[bytes, int]:
        return self.found.get(topic, (bytes(16), 0))

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, (id_, _) in self.found.items() if id_ == topic_id), None)

    def names(self) -> list[str]:
        return list(self.found)

    def follow(self, frame: Frame, request: Any) -> None:
        """Do what a request for topics did, now that it is answered."""
        self.version += 1
        if frame.api_key in (3, 19):
            counts = {}
            if frame.api_key == 19:
                counts = {topic.name: topic.num_partitions for topic in request.topics}
            for topic in frame.message.topics:
                count = counts.get(topic.name, 0) or len(topic.partitions)
                if not topic.error_code and topic.name not in self.found:
                    self.found[topic.name] = topic.topic_id, count
                    self.created_version = self.version
        elif frame.api_key == 37:
            for topic in request.topics:
                self.found[topic.name] = self.found[topic.name][0], topic.count
        else:
            for topic in request.topics:
                del self.found[topic.name]


class Broker:
    """A shard whose records take effect at once."""

    def __init__(self, settings: GroupSettings) -> None:
        self.clock = ManualClock()
        self.next_member_id = ""
        self.topics = Topics()
        self.shard = Shard(0, settings, lambda prefix: self.next_member_id, self.topics)
        self.shard.finish_loading(self.clock.now())
        self.answers: dict[tuple[int, int], Any] = {}
        self.records: list[tuple[bytes, bytes | None]] = []

    def advance_to(self, ms: int) -> None:
        ms = max(ms, self.clock.now().mono_ms)
        while True:
            due_ms = self.shard.next_deadline_ms
            to_ms = ms if due_ms is None else min(ms, due_ms)
            self.clock.advance(max(to_ms - self.clock.now().mono_ms, 0))
            if due_ms is None or due_ms > ms:
                return
            for result in self.shard.tick(self.clock.now()):
                self.take(result)

    def take(self, result: Result) -> None:
        for record in result.records:
            self.shard.replay_written(record, len(self.records))
            self.records.append((record.key, record.value))
        for reply in result.replies:
            key = (reply.context.connection, reply.context.correlation_id)
            assert key not in self.answers
            response = reply.response
            if isinstance(response, messages.OffsetCommitRequest):
                response = refuse(response, ErrorCode.NONE, reply.context.api_version)
            self.answers[key] = response

    def request(self, frame: Frame) -> None:
        head = frame.conn, frame.api_key, frame.version, frame.correlation_id, frame.client_id, "/127.0.0.1"
        context = RequestContext(*head)
        shard, request, now = self.shard, frame.message, self.clock.now()
        handlers: dict[int, Callable[..., Result]] = {
            8: offsets.commit,
            11: group_requests.join,
            12: group_requests.heartbeat,
            13: group_requests.leave,
            14: group_requests.sync,
            47: deletion.delete,
            68: consumer_heartbeat.heartbeat,
        }
        if frame.api_key in handlers:
            self.take(handlers[frame.api_key](shard, request, context, now))
        else:
            self.take(Result(replies=(Reply(context, self.look(frame)),)))

    def look(self, frame: Frame) -> Any:
        shard, request = self.shard, frame.message
        match frame.api_key:
            case 9:
                return self.fetch(request, frame.version)
            case 15:
                found = [membership.describe(shard, group, frame.version) for group in request.groups]
                return messages.DescribeGroupsResponse(groups=found)
            case 16:
                listed = group_requests.list_groups(shard, request.states_filter, request.types_filter)
                return messages.ListGroupsResponse(groups=listed)
            case 42:
                results = []
                for group in request.groups_names:
                    context = RequestContext(0, 42, 2, 0, "", "")
                    deleted = group_requests.delete_group(shard, group, context, self.clock.now())
                    self.take(Result(deleted.records))
                    results.append(deleted.replies[0].response)
                return messages.DeleteGroupsResponse(results=results)
            case _:
                described = [consumer_heartbeat.describe(shard, group) for group in request.group_ids]
                if request.include_authorized_operations:
                    for each in described:
                        each.authorized_operations = -(2**31) if each.error_code else 3400
                return messages.ConsumerGroupDescribeResponse(groups=described)

    def fetch(self, request: Any, version: int) -> Any:
        """As groups.py does it; its own tests are elsewhere."""
        answer = messages.OffsetFetchResponse
        groups = []
        for group in request.groups:
            found = self.shard.groups.get(group.group_id)
            if version >= 9 and isinstance(found, ConsumerGroup):
                error = found.check_fetch(group.member_id, group.member_epoch)
                if error:
                    groups.append(answer.Group(group.group_id, [], error))
                    continue
            named = (
                None
                if group.topics is None
                else [(t.name, t.topic_id, t.partition_indexes) for t in group.topics]
            )
            fetched = offsets.fetch(self.shard, group.group_id, named, version, require_stable=False)
            topics = []
            for topic in fetched:
                partitions = [
                    answer.Partitions(p.partition, -1, -1, "", p.error)
                    if p.entry is None
                    else answer.Partitions(
                        p.partition, p.entry.offset, p.entry.leader_epoch, p.entry.metadata
                    )
                    for p in topic.partitions
                ]
                topics.append(answer.Topics(topic.name, topic.topic_id, partitions))
            groups.append(answer.Group(group.group_id, topics))
        return answer(groups=groups)


def comparable(api_key: int, message: Any, version: int) -> Any:
    """A response as the client sees it, less the order that Kafka's hash maps give it."""
    cls = messages.find(f"{NAMES[api_key]}Response")
    message, _ = messages.decode(cls, messages.encode(message, version), version)
    match api_key:
        case 11:
            message.members.sort(key=lambda m: m.member_id)
        case 15 | 16:
            for group in message.groups:
                if api_key == 15:
                    group.members.sort(key=lambda m: m.member_id)
            message.groups.sort(key=lambda g: g.group_id)
        case 42:
            message.results.sort(key=lambda r: r.group_id)
        case 68:
            if message.assignment is not None:
                _sort(message.assignment.topic_partitions)
        case 69:
            message.groups.sort(key=lambda g: g.group_id)
            for group in message.groups:
                group.members.sort(key=lambda m: m.member_id)
                for member in group.members:
                    member.subscribed_topic_names.sort()
                    _sort(member.assignment.topic_partitions)
                    _sort(member.target_assignment.topic_partitions)
    return message


def _sort(topics: list[Any]) -> None:
    topics.sort(key=lambda topic: topic.topic_id)
    for topic in topics:
        topic.partitions.sort()


def made_member_ids(recorded: list[Frame]) -> dict[tuple[int, int], str]:
    """The member ids that the broker made, by the request that they answered."""
    return {f.key: f.message.member_id for f in recorded if f.api_key in (11, 68) and not f.is_request}


def replayed(path: Path, settings: GroupSettings) -> Broker:
    """Replay a session; fails when an answer is not the recorded one."""
    broker = Broker(settings)
    recorded = list(frames(path))
    made = made_member_ids(recorded)
    requests = {frame.key: frame for frame in recorded if frame.is_request}
    different = []
    for at, frame in enumerate(recorded):
        broker.advance_to(frame.ms)
        if frame.is_request:
            broker.next_member_id = made.get(frame.key) or f"unseen-{at}"
            if frame.api_key not in ABOUT_TOPICS:
                broker.request(frame)
            continue
        if frame.api_key in ABOUT_TOPICS:
            broker.topics.follow(frame, requests[frame.key].message)
            continue
        theirs = comparable(frame.api_key, frame.message, frame.version)
        ours = broker.answers.pop(frame.key, None)
        ours = ours and comparable(frame.api_key, ours, frame.version)
        if ours != theirs:
            asked = requests[frame.key].message
            different.append(f"{frame.ms} {frame.key} {asked}\n  Kafka {theirs}\n  we    {ours}")
    assert not different, f"{len(different)} of {len(requests)}:\n" + "\n".join(different)
    return broker


RECORDING = GroupSettings(
    group_min_session_timeout_ms=100,
    group_initial_rebalance_delay_ms=0,
    group_max_size=3,
    consumer_max_size=6,
    consumer_session_timeout_ms=1500,
    consumer_heartbeat_interval_ms=700,
    consumer_assignment_interval_ms=0,
)


def test_every_version_of_the_consumer_group_apis_is_answered_as_by_kafka() -> None:
    settings = GroupSettings(consumer_session_timeout_ms=6000, consumer_heartbeat_interval_ms=1000)
    assert not replayed(CAPTURES / "raw-consumer.jsonl.gz", settings).answers


def test_sessions_of_consumer_groups_are_answered_as_by_kafka() -> None:
    assert not replayed(CAPTURES / "consumer-sessions.jsonl.gz", RECORDING).answers


def test_each_key_has_the_values_that_kafka_gave_it() -> None:
    theirs: dict[bytes, list[Any]] = {}
    for line in gzip.decompress((CAPTURES / "consumer-sessions-records.jsonl.gz").read_bytes()).splitlines():
        record = json.loads(line)
        key, value = bytes.fromhex(record["key"]), record["value"] and bytes.fromhex(record["value"])
        theirs.setdefault(key, []).append(said(key, value))
    # Kafka forgets an empty group when somebody joins with a member id, and lets go of partitions above 15 in an order
    # that depends on what the member had before.
    for group in ("empty", "full"):
        theirs = {key: values for key, values in theirs.items() if stored.parse_key(key).group != group}
    ours: dict[bytes, list[Any]] = {}
    for key, value in replayed(CAPTURES / "consumer-sessions.jsonl.gz", RECORDING).records:
        parsed = stored.parse_key(key)
        if not isinstance(parsed, stored.OffsetKey) and parsed.group not in ("empty", "full"):
            ours.setdefault(key, []).append(said(key, value))
    # A member that joins a group and makes it a classic one is written, and deleted at once: not here.
    assert all(theirs[key][-1] is None for key in theirs.keys() - ours.keys())
    assert ours.keys() <= theirs.keys()
    assert {key: values for key, values in ours.items() if values != theirs[key]} == {}


def said(key: bytes, value: bytes | None) -> Any:
    """What a record says, less times."""
    if value is None:
        return None
    parsed = stored.parse_key(key)
    if isinstance(parsed, stored.GroupKey):
        group = stored.parse_group_value(value)
        group.current_state_timestamp = 0
        group.members.sort(key=lambda member: member.member_id)
        return group
    assert isinstance(parsed, ConsumerKey)
    read = consumer_records.parse_value(parsed.type, value)
    if isinstance(read, consumer_records.TargetEpoch):
        return read.epoch, read.timestamp_ms > 0
    if isinstance(read, consumer_records.ResolvedRegex):
        return read.topics
    return read
