"""What a real broker answered is what we answer: recorded sessions replayed against a shard, frame by frame.

The clock stands at the time of each frame, so that timers fire between frames as they did.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.classic import membership
from kafka_offsets.coordinator.consumer import heartbeat as consumer_heartbeat
from kafka_offsets.coordinator.offsets import deletion
from kafka_offsets.coordinator.offsets import requests as offsets
from kafka_offsets.coordinator.state import consumer_records, stored
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.consumer_records import ConsumerKey
from kafka_offsets.protocol import messages
from tests.conftest import DATA
from tests.drivers.shard import ShardDriver, Topics

CAPTURES = DATA / "captures"
NAMES = {
    key: SERVED.by_key[key].name for key in (3, 8, 9, 11, 12, 13, 14, 15, 16, 19, 20, 37, 42, 47, 68, 69)
}
ABOUT_TOPICS = (3, 19, 20, 37)
HANDLERS = {
    8: offsets.commit,
    11: group_requests.join,
    12: group_requests.heartbeat,
    13: group_requests.leave,
    14: group_requests.sync,
    47: deletion.delete,
    68: consumer_heartbeat.heartbeat,
}


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


def lines(name: str) -> list[Any]:
    path = CAPTURES / f"{name}.jsonl.gz"
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def frames(name: str) -> Iterator[Frame]:
    for entry in lines(name):
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


class RecordedTopics(Topics):
    """The topics that there were at each time of the recording."""

    def __init__(self) -> None:
        super().__init__({})
        self.found["out"] = bytes(range(16)), 1

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


class Replay(ShardDriver):
    """A shard that is sent recorded requests; it makes the member ids of the recording."""

    host = "/127.0.0.1"

    def __init__(self, **settings: Any) -> None:
        self.next_member_id = ""
        super().__init__(topics={}, **settings)
        self.topics = self.shard.topics = RecordedTopics()
        self.answers: dict[tuple[int, int], Callable[[], Any]] = {}

    def make_member_id(self, prefix: str) -> str:
        return self.next_member_id

    def request(self, frame: Frame) -> None:
        if frame.api_key in HANDLERS:
            head = frame.api_key, HANDLERS[frame.api_key], frame.message, frame.version, frame.client_id
            asked = self.ask(*head)
            self.answers[frame.key] = lambda: asked.answers and asked.answer
        else:
            answer = self.look(frame)
            self.answers[frame.key] = lambda: answer

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
                return messages.DeleteGroupsResponse(
                    results=[self.delete(group).answer for group in request.groups_names]
                )
            case _:
                described = [self.described(group) for group in request.group_ids]
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


def replayed(name: str, **settings: Any) -> Replay:
    """Replay a session; fails when an answer is not the recorded one, or when one is missing."""
    replay = Replay(**settings)
    recorded = list(frames(name))
    made = made_member_ids(recorded)
    requests = {frame.key: frame for frame in recorded if frame.is_request}
    different = []
    for at, frame in enumerate(recorded):
        replay.advance(max(frame.ms - replay.clock.now().mono_ms, 0))
        if frame.is_request:
            replay.next_member_id = made.get(frame.key) or f"unseen-{at}"
            if frame.api_key not in ABOUT_TOPICS:
                replay.request(frame)
            continue
        if frame.api_key in ABOUT_TOPICS:
            replay.topics.follow(frame, requests[frame.key].message)
            continue
        theirs = comparable(frame.api_key, frame.message, frame.version)
        ours = replay.answers.pop(frame.key)()
        ours = ours and comparable(frame.api_key, ours, frame.version)
        if ours != theirs:
            asked = requests[frame.key].message
            different.append(f"{frame.ms} {frame.key} {asked}\n  Kafka {theirs}\n  we    {ours}")
    assert not different, f"{len(different)} of {len(requests)}:\n" + "\n".join(different)
    assert not any(answer() for answer in replay.answers.values())
    return replay


CLASSIC: dict[str, Any] = {"group_max_size": 1000}
KAFKAS_DELAYS = {"group_initial_rebalance_delay_ms": 3000, "consumer_assignment_interval_ms": 1000}
RECORDING: dict[str, Any] = {
    "group_min_session_timeout_ms": 100,
    "group_max_size": 3,
    "consumer_max_size": 6,
    "consumer_session_timeout_ms": 1500,
    "consumer_heartbeat_interval_ms": 700,
}


def test_every_version_of_every_group_api_is_answered_as_by_kafka() -> None:
    replayed("raw-classic", **CLASSIC)


def test_every_version_of_the_consumer_group_apis_is_answered_as_by_kafka() -> None:
    settings = {"consumer_session_timeout_ms": 6000, "consumer_heartbeat_interval_ms": 1000}
    replayed("raw-consumer", **KAFKAS_DELAYS, **settings)


@pytest.mark.slow
def test_sessions_of_consumer_groups_are_answered_as_by_kafka() -> None:
    replayed("consumer-sessions", **RECORDING)


def test_the_records_of_classic_groups_are_those_that_kafka_wrote() -> None:
    theirs: dict[str, list[Any]] = {}
    for record in lines("raw-classic-records"):
        theirs.setdefault(record["group"], []).append(written(*key_and_value(record)))
    ours: dict[str, list[Any]] = {}
    for key, value, *_ in replayed("raw-classic", **CLASSIC).durable:
        parsed = stored.parse_key(key)
        assert not isinstance(parsed, stored.UnknownKey)
        ours.setdefault(parsed.group, []).append(written(key, value))
    assert {group: ours[group] for group in theirs} == theirs


def key_and_value(record: Any) -> tuple[bytes, bytes | None]:
    return bytes.fromhex(record["key"]), record["value"] and bytes.fromhex(record["value"])


def written(key: bytes, value: bytes | None) -> Any:
    """What a record of a classic group says, less the time of writing."""
    parsed = stored.parse_key(key)
    if value is None:
        return parsed, None
    if isinstance(parsed, stored.GroupKey):
        group = stored.parse_group_value(value)
        group.current_state_timestamp = 0
        return parsed, value[:2], group
    entry = stored.parse_offset_value(value, 0)
    return parsed, value[:2], entry.offset, entry.metadata


@pytest.mark.slow
def test_each_key_has_the_values_that_kafka_gave_it() -> None:
    theirs: dict[bytes, list[Any]] = {}
    for record in lines("consumer-sessions-records"):
        key, value = key_and_value(record)
        theirs.setdefault(key, []).append(said(key, value))
    # Kafka forgets an empty group when somebody joins with a member id, and lets go of partitions above 15 in an order
    # that depends on what the member had before.
    for group in ("empty", "full"):
        theirs = {key: values for key, values in theirs.items() if stored.parse_key(key).group != group}
    ours: dict[bytes, list[Any]] = {}
    for key, value, *_ in replayed("consumer-sessions", **RECORDING).durable:
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
