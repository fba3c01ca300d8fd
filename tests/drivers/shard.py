"""The driver of the shard level: a shard with a clock, a log, topics that change, and the requests of clients.

Every answer is encoded in the version of its request, and decoded again.
"""

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from kafka_offsets.broker.groups.shared_batches import LatestRecords
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.classic import join, membership
from kafka_offsets.coordinator.consumer import heartbeat as consumer_heartbeat
from kafka_offsets.coordinator.offsets import deletion
from kafka_offsets.coordinator.offsets import requests as offsets
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.result import CoordinatorRecord, RequestContext, Result
from kafka_offsets.coordinator.state.shard_state import GroupSettings
from kafka_offsets.coordinator.state.topic_resolution import StepBudget
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse

TOPIC = "orders"
FAIL: dict[int, Any] = {
    8: refuse,
    11: join.fail_join,
    12: membership.fail_heartbeat,
    13: refuse,
    14: refuse,
    68: consumer_heartbeat.fail_heartbeat,
}


JOINS = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": ["a"], "topic_partitions": []}
"""What a first heartbeat of a member of a consumer group says."""
ABC = dict.fromkeys("abc", 3)
"""The topics of most tests of consumer groups."""

UNDELAYED = {"group_initial_rebalance_delay_ms": 0, "consumer_assignment_interval_ms": 0}


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 1, with more than version 0 has."""
    names = b"".join(len(t).to_bytes(2) + t.encode() for t in topics)
    return b"\0\1" + len(topics).to_bytes(4) + names + b"\xff\xff\xff\xff" + b"\0\0\0\0"


def id_of(topic: str) -> bytes:
    """The id of a topic: its name, sixteen bytes long."""
    return topic.encode().ljust(16, b".")


class Topics:
    """Topics by name, each with its id and number of partitions."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.found = {name: (id_of(name), count) for name, count in counts.items()}
        self.version = self.created_version = 0
        self._deleted: Counter[str] = Counter()

    def id_and_partition_count(self, topic: str) -> tuple[bytes, int]:
        return self.found.get(topic, (bytes(16), 0))

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, (id_, _) in self.found.items() if id_ == topic_id), None)

    def names(self) -> list[str]:
        return list(self.found)

    def create(self, topic: str, count: int) -> None:
        """Create a topic, or give it more partitions. A topic that was deleted gets another id."""
        self.version += 1
        if topic not in self.found:
            self.created_version = self.version
            self.found[topic] = id_of(topic + "+" * self._deleted[topic]), 0
        self.found[topic] = self.found[topic][0], count

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.version += 1
        self._deleted[topic] += 1
        del self.found[topic]


class AnyTopic(Topics):
    """Every name is a topic of four partitions."""

    def __init__(self) -> None:
        super().__init__({})

    def id_and_partition_count(self, topic: str) -> tuple[bytes, int]:
        return bytes(16), 4


def contents_of(shard: Shard) -> dict[str, Any]:
    """Return what a shard has to find again after a start."""
    return {
        "groups": {group_id: group.durable for group_id, group in shard.groups.items()},
        "offsets": {
            (group, topic, partition): entry
            for group in shard.offsets.groups()
            for topic, partition, entry in shard.offsets.items(group)
        },
        "count": len(shard.offsets),
        "open": {producer: offsets for producer, offsets in shard.pending.items() if offsets},
        "unknown": shard.unknown_records,
    }


class Asked:
    """A request and its answer, once there is one."""

    def __init__(self, context: RequestContext) -> None:
        self.context = context
        self.answers: list[Any] = []

    @property
    def is_parked(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, f"{len(self.answers)} answers"
        return self.answers[0]

    @property
    def error(self) -> int:
        return self.answer.error_code


class ShardDriver:
    """The shard of one partition, with what runtime.py does for it.

    topics    name to number of partitions; without them, every name is a topic of four partitions
    durable   every record that is in the log
    hold      keep decisions as if the log had not been synced yet, until `sync_log` or `fail_log`
    host      where clients are
    """

    host = "/host"

    def __init__(self, topics: Mapping[str, int] | None = None, **settings: Any) -> None:
        self.clock = ManualClock()
        self.first_topics = topics
        self.topics = AnyTopic() if topics is None else Topics(topics)
        self.settings = GroupSettings(**UNDELAYED | settings)
        self.counter = itertools.count()
        self.shard = self.new_shard()
        self.shard.finish_loading(self.clock.now())
        self.asked: dict[int, Asked] = {}
        self.durable: list[CoordinatorRecord] = []
        self.hold = False
        self.held: list[Result] = []

    def new_shard(self) -> Shard:
        shard = Shard(0, self.settings, self.make_member_id, self.topics)
        shard.decided_offsets = self.decided_offsets
        return shard

    def make_member_id(self, prefix: str) -> str:
        return f"{prefix}-{next(self.counter)}"

    def group(self, group_id: str = "g") -> ClassicGroup:
        return self.shard.groups[group_id]

    # What runtime.py does

    def take(self, result: Result) -> None:
        self.held.append(result)
        if not self.hold:
            self.sync_log()

    def decided_offsets(self, group_id: str) -> list[tuple[str, int]]:
        latest = LatestRecords()
        latest.add(self.held)
        return [each for each, is_deleted in latest.offsets.get(group_id, {}).items() if not is_deleted]

    def sync_log(self, count: int | None = None) -> None:
        """Let decisions become durable: all, or the first `count`."""
        count = len(self.held) if count is None else count
        held, self.held = self.held[:count], self.held[count:]
        for result in held:
            for record in result.records:
                self.shard.replay_written(record, len(self.durable))
                self.durable.append(record)
            for reply in result.replies:
                self._answered(reply.context, reply.response)

    def fail_log(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        held, self.held = self.held, []
        for result in reversed(held):
            result.undo()
        for result in held:
            for reply in result.replies:
                context = reply.context
                if context.api_key in FAIL:
                    response = FAIL[context.api_key](context.request, error, context.api_version)
                else:
                    response = reply.response
                    response.error_code = error
                self._answered(context, response)

    def _answered(self, context: RequestContext, response: Any) -> None:
        if isinstance(response, messages.OffsetCommitRequest):  # the request itself: all of it is done
            response = refuse(response, ErrorCode.NONE, context.api_version)
        if context.api_key != 42:  # DeleteGroups: a shard answers for one group
            cls = messages.find(context.request.SCHEMA.name.replace("Request", "Response"))
            encoded = messages.encode(response, context.api_version)
            response, end = messages.decode(cls, encoded, context.api_version)
            assert end == len(encoded)
        self.asked[context.correlation_id].answers.append(response)

    def advance(self, ms: int) -> None:
        """Let time pass, stopping at each deadline on the way."""
        end = self.clock.now().mono_ms + ms
        while True:
            due_ms = self.shard.timers.next_deadline_ms
            if due_ms is None or due_ms > end:
                self.clock.advance(end - self.clock.now().mono_ms)
                return
            self.clock.advance(max(due_ms - self.clock.now().mono_ms, 0))
            self.tick()

    def tick(self) -> None:
        now = self.clock.now()
        for result in self.shard.tick(now):
            self.take(result)
        while self.shard.resolving:
            for result in self.shard.work(now, StepBudget()):
                self.take(result)
        due_ms = self.shard.timers.next_deadline_ms
        assert due_ms is None or due_ms > now.mono_ms

    def restart(self, **settings: Any) -> "ShardDriver":
        """Another broker on the same log, with the topics that this one had first."""
        other = ShardDriver(self.first_topics, **settings)
        other.clock, other.counter, other.durable = self.clock, self.counter, [*self.durable]
        other.load()
        return other

    def load(self) -> None:
        """Load a shard from the log."""
        self.shard = self.new_shard()
        for offset, record in enumerate(self.durable):
            self.shard.replay(record.key, record.value, offset)
        for result in self.shard.finish_loading(self.clock.now()):
            self.take(result)

    # What clients do

    def ask(self, api_key: int, handle: Any, request: Any, version: int, client_id: str = "c") -> Asked:
        """Send a request, and carry out what is due then."""
        asked = self.decide(api_key, handle, request, version, client_id)
        self.tick()
        return asked

    def decide(self, api_key: int, handle: Any, request: Any, version: int, client_id: str = "c") -> Asked:
        """Send a request, and nothing else happens."""
        context = RequestContext(None, api_key, version, next(self.counter), client_id, self.host)
        context.request = request
        asked = self.asked[context.correlation_id] = Asked(context)
        self.take(handle(self.shard, request, context, self.clock.now()))
        return asked

    def join(
        self,
        member_id: str = "",
        instance: str | None = None,
        *,
        version: int = 9,
        group: str = "g",
        protocols: dict[str, bytes] | tuple[str, ...] = ("range",),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        client_id: str = "c",
    ) -> Asked:
        given = protocols if isinstance(protocols, dict) else dict.fromkeys(protocols, subscription(TOPIC))
        offered = [messages.JoinGroupRequest.Protocol(name, data) for name, data in given.items()]
        request = messages.JoinGroupRequest(
            group, session_ms, rebalance_ms, member_id, instance, protocol_type, offered
        )
        return self.ask(11, group_requests.join, request, version, client_id)

    def enter(self, **options: Any) -> Asked:
        """Join with the member id that the group requires."""
        return self.join(self.join(**options).answer.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        version: int = 5,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
    ) -> Asked:
        given = [messages.SyncGroupRequest.Assignment(m, a) for m, a in (assignments or {}).items()]
        if version < 5:
            protocol_type = protocol = None
        request = messages.SyncGroupRequest(
            group, generation, member_id, instance, protocol_type, protocol, given
        )
        return self.ask(14, group_requests.sync, request, version)

    def beat(
        self,
        member_id: str,
        generation: int,
        instance: str | None = None,
        *,
        version: int = 4,
        group: str = "g",
    ) -> int:
        request = messages.HeartbeatRequest(group, generation, member_id, instance)
        return self.ask(12, group_requests.heartbeat, request, version).error

    def leave(self, *members: tuple[str, str | None] | str, version: int = 5, group: str = "g") -> Any:
        if version < 3:
            request = messages.LeaveGroupRequest(group, str(members[0]))
        else:
            identity = messages.LeaveGroupRequest.MemberIdentity
            given = [identity(m) if isinstance(m, str) else identity(*m) for m in members]
            request = messages.LeaveGroupRequest(group, members=given)
        return self.ask(13, group_requests.leave, request, version).answer

    def leave_later(self, *members: messages.LeaveGroupRequest.MemberIdentity, group: str = "g") -> Asked:
        """Leave while the log may be slow."""
        return self.ask(13, group_requests.leave, messages.LeaveGroupRequest(group, members=[*members]), 5)

    def commit(self, *member: Any, **options: Any) -> int:
        """Commit as `commit_later` does; return the error code."""
        return self.commit_later(*member, **options).answer.topics[0].partitions[0].error_code

    def commit_later(
        self,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        *,
        version: int = 9,
        group: str = "g",
    ) -> Asked:
        """Commit while the log may be slow."""
        request = messages.OffsetCommitRequest
        topics = [request.Topic(TOPIC, partitions=[request.Partition(0, 7, committed_metadata="")])]
        made = request(group, generation, member_id, instance, topics=topics)
        return self.ask(8, offsets.commit, made, version)

    def delete_offset(self, group: str = "g", topic: str = TOPIC) -> Any:
        request = messages.OffsetDeleteRequest
        made = request(group, [request.Topic(topic, [request.Partition(0)])])
        return self.ask(47, deletion.delete, made, 0).answer

    def describe(self, group: str = "g", version: int = 6) -> Any:
        answer = messages.DescribeGroupsResponse
        described = answer(groups=[membership.describe(self.shard, group, version)])
        encoded = messages.encode(described, version)
        return messages.decode(answer, encoded, version)[0].groups[0]

    def list_groups(
        self, states: tuple[str, ...] = (), types: tuple[str, ...] = (), version: int = 5
    ) -> list[Any]:
        answer = messages.ListGroupsResponse
        listed = answer(groups=group_requests.list_groups(self.shard, [*states], [*types]))
        return messages.decode(answer, messages.encode(listed, version), version)[0].groups

    def delete(self, group: str = "g") -> Asked:
        request = messages.DeleteGroupsRequest([group])
        return self.ask(
            42,
            lambda shard, _, context, now: group_requests.delete_group(shard, group, context, now),
            request,
            2,
        )

    # What members of consumer groups do

    def heartbeat(self, member_id: str, epoch: int, version: int = 1, **fields: Any) -> Any:
        """Send ConsumerGroupHeartbeat; return its answer."""
        return self.heartbeat_later(member_id, epoch, version, **fields).answer

    def heartbeat_later(self, member_id: str, epoch: int, version: int = 1, **fields: Any) -> Asked:
        """Send ConsumerGroupHeartbeat while the log may be slow."""
        request = messages.ConsumerGroupHeartbeatRequest
        asked = request(**{"group_id": "g", "member_id": member_id, "member_epoch": epoch, **fields})
        return self.ask(68, consumer_heartbeat.heartbeat, asked, version)

    def enter_consumer(self, member_id: str, *topics: str, **fields: Any) -> Any:
        """Join with the consumer protocol; return the answer."""
        said = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": [*topics], "topic_partitions": []}
        return self.heartbeat(member_id, 0, **{**said, **fields})

    def described(self, group: str = "g") -> Any:
        """ConsumerGroupDescribe."""
        return consumer_heartbeat.describe(self.shard, group)

    def members(self, group: str = "g") -> dict[str, Any]:
        """The members that ConsumerGroupDescribe shows, by id."""
        return {member.member_id: member for member in self.described(group).members}

    # What tests begin with

    def stable(self, count: int = 1, instances: tuple[str | None, ...] = (), **options: Any) -> list[str]:
        """A stable group; return its member ids, the leader's first."""
        wanted = [*instances, *[None] * (count - len(instances))]
        count = len(wanted)
        joins = []
        for instance in wanted:
            if instance is None:
                joins.append(self.enter(**options))
            else:
                joins.append(self.join(instance=instance, **options))
        if count > 1:  # the first is alone in a generation by now
            joins[0] = self.join(joins[0].answer.member_id, wanted[0], **options)
        answers = [joined.answer for joined in joins]
        generation = answers[0].generation_id
        group = options.get("group", "g")
        members = [answer.member_id for answer in answers]
        for member, instance in [*zip(members, wanted, strict=True)][1:]:
            assert self.sync(
                member, generation, instance=instance, group=group, protocol=None, version=4
            ).is_parked
        given = {member: f"of {at}".encode() for at, member in enumerate(members)}
        assert self.sync(members[0], generation, given, instance=wanted[0], group=group, version=4).error == 0
        assert self.group(group).state.value == "Stable"
        return members


def owned(**topics: list[int]) -> list[Any]:
    """What a member of a consumer group says it has, by topic."""
    partitions = messages.ConsumerGroupHeartbeatRequest.TopicPartitions
    return [partitions(id_of(topic), indexes) for topic, indexes in topics.items()]


def assigned(answer: Any) -> dict[str, list[int]] | None:
    """What a heartbeat's answer or a described member has, by topic; None when it says nothing."""
    if answer.assignment is None:
        return None
    return {
        topic.topic_id.decode().rstrip("."): topic.partitions for topic in answer.assignment.topic_partitions
    }
