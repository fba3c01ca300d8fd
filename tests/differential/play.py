"""One situation with one broker: clients by name, what they asked and what they were answered, in order."""

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kafka_offsets.broker.wire.api import API_VERSIONS
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.protocol import messages
from tests.differential.brokers import ADMIN, PATIENCE_MS, SILENCE_MS, Broker, NoAnswerError
from tests.differential.printed import Names, build, printed

Event = list[Any]
"""[client, "API vN", request], or [client, answer]; "closed" or "silence" in place of an answer."""

Offset = tuple[Any, ...]
"""(topic, partition, offset), and metadata and leader epoch after them if need be."""

TOPICS = {"orders": 4, "pages": 2}
"""The topics that every situation finds, and their partitions."""

NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
QUIET = "play"
"""The client that asks what is no event."""

APPEND_MS = 40
"""Kafka refuses a join before the group that it makes is to be seen by other requests."""

ORDER_MS = 40
"""What is sent later on another connection, arrives later."""


def subscription(*topics: str) -> bytes:
    """The metadata with which a member subscribes to topics, in version 0."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return bytes(2) + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


RANGE = (("range", subscription("orders")),)


def slug_of(name: str) -> str:
    """Return a situation's name as that of a topic, or as a transactional id."""
    return re.sub("[^a-z0-9]+", "-", name.lower())[:200].strip("-")


class Play:
    """One situation with one broker."""

    def __init__(self, broker: Broker, name: str, topics: Iterable[str] = TOPICS) -> None:
        self.broker = broker
        self.group = name
        self.names = Names()
        self.events: list[Event] = []
        self.slug = slug_of(name)
        self.learn(*topics)

    def pause(self, ms: int) -> None:
        """Let time pass."""
        self.broker.pause(ms)

    def topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic, and let time pass until it is led."""
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": []}
        given = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        created = self.ask("CreateTopics", 7, topics=[topic | {"configs": given}], timeout_ms=10000).topics[0]
        refused = created.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        assert not refused, (
            f"{self.group}: topic {name}: {ErrorCode(created.error_code).name}: {created.error_message}"
        )
        self.until(lambda: self.has_topic(name, partitions))

    def has_topic(self, name: str, partitions: int) -> bool:
        """Whether there is a topic of so many partitions, all of them led."""
        return len(self.learn(name).topics[0].partitions) == partitions and self._is_led(name, partitions)

    def until(self, is_so: Callable[[], bool], what: str = "what is waited for") -> None:
        """Let time pass until something is so; `what` names it if it does not come to be."""
        for _ in range(200):
            if is_so():
                return
            self.broker.pause(50)
        raise AssertionError(f"{self.group}: not so after 10 s: {what}")

    def _is_led(self, name: str, partitions: int) -> bool:
        """Ask the leader itself: Metadata may know of it before it does."""
        wanted = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        topics = [{"name": name, "partitions": wanted}]
        found = self.ask("ListOffsets", 5, replica_id=-1, isolation_level=0, topics=topics)
        return not any(partition.error_code for partition in found.topics[0].partitions)

    def transactional(self, name: str) -> None:
        """Let time pass until the coordinator of a transactional id is at work."""
        self.until(lambda: self.has_coordinator(name, of_transactions=True))
        self.until(lambda: self._state_of(name).error_code not in NOT_YET)
        # A producer id of 0, which a new broker gives first, could not be told from none.
        asked = {"transactional_id": None, "transaction_timeout_ms": 0}
        self.until(lambda: not self.ask("InitProducerId", 4, **asked).error_code)

    def has_coordinator(self, key: str, *, of_transactions: bool) -> bool:
        """Whether a group or a transactional id has a coordinator."""
        found = self.ask("FindCoordinator", 4, key_type=int(of_transactions), coordinator_keys=[key])
        return not found.coordinators[0].error_code

    def _state_of(self, transactional_id: str) -> Any:
        found = self.ask("DescribeTransactions", 0, transactional_ids=[transactional_id])
        return found.transaction_states[0]

    def settle(self, transactional_id: str) -> None:
        """Let time pass until no transaction of an id is about to end."""
        self.until(lambda: not self._state_of(transactional_id).transaction_state.startswith("Prepare"))

    def has_loaded(self, groups: Iterable[str]) -> bool:
        """Whether the coordinators of groups are at work."""
        return not any(
            self.ask("OffsetFetch", 7, group_id=group, topics=[]).error_code in NOT_YET for group in groups
        )

    def learn(self, *topics: str) -> Any:
        """Note the ids of topics; return what Metadata says."""
        wanted = [{"name": name} for name in topics]
        found = self.ask("Metadata", 12, topics=wanted, allow_auto_topic_creation=False)
        self.names.broker_id = found.brokers[0].node_id
        for topic in found.topics:
            if not topic.error_code:
                self.names.learn_topic(topic.name, topic.topic_id)
        return found

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """Ask what is no event of the situation; return the answer."""
        before = len(self.events)
        answer = Client(self, QUIET).ask(api, version, **fields)
        del self.events[before:]
        assert answer is not None, f"{api} v{version} is not answered"
        return answer

    def stable(self, *clients: "Client") -> None:
        """Have the clients make a stable generation, the first of them its leader; the others join together."""
        leader, others = clients[0], clients[1:]
        leader.enter()
        leader.answer()
        leader.sync({leader: b"all"})
        if not others:
            return
        for other in others:
            other.enter()
        leader.join()
        for other in others:
            other.answer()
        for other in others:
            other.send_sync()
        leader.sync({client: client.label.encode() for client in clients})
        for other in others:
            other.answer()


class Pending(NamedTuple):
    """A request that is not answered; `unordered` if the order of topics in its answer means nothing."""

    correlation_id: int
    api: str
    version: int
    unordered: bool


class Client:
    """One connection; what it last heard of its membership goes into the next request.

    A call `send_…` leaves the answer to `answer`, which is for requests that wait for others. The fields of a request
    can be overridden by name.
    """

    def __init__(self, play: Play, label: str, user: str = ADMIN) -> None:
        self.play = play
        self.label = label
        self.group = play.group
        self.line = play.broker.connect(user)
        self.pending: list[Pending] = []
        self.correlation_id = 0
        self.member_id = ""
        self.instance: str | None = None
        self.generation = -1
        self.protocol_type = "consumer"
        self.protocol_name: str | None = None
        self.protocols: tuple[tuple[str, bytes], ...] = RANGE
        self.session_ms = 10_000
        self.rebalance_ms = 10_000

    # -- any request

    def send(self, api: str, version: int, **fields: Any) -> None:
        """Send a request, and do not wait for its answer."""
        self.send_at_once(api, version, **fields)
        self.play.broker.pause(ORDER_MS)

    def send_at_once(self, api: str, version: int, **fields: Any) -> None:
        """Send a request; what is sent next on another connection may overtake it."""
        cls = messages.find(f"{api}Request")
        schema, names = cls.SCHEMA, self.play.names
        assert schema.number is not None
        known = version in schema.versions
        written = version if known else schema.versions[-1]
        request = build(cls, fields, written, names)
        self.play.events.append([self.label, f"{api} v{version}", printed(request, written, names)])
        flexible = written in schema.flexible
        self.correlation_id += 1
        header = messages.RequestHeader(schema.number, version, self.correlation_id, self.label)
        body = messages.encode(header, 2 if flexible else 1) + messages.encode(request, written)
        asked = [fields, *fields.get("groups", ())] if api == "OffsetFetch" else []
        unordered = any(one.get("topics", ()) is None for one in asked)
        self.pending.append(Pending(self.correlation_id, api, version, unordered))
        self.line.send(len(body).to_bytes(4, "big") + body)

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """Send a request; return its answer, None when there is none."""
        assert not self.pending, f"{self.label} waits for {self.pending}: ask on another connection"
        self.send_at_once(api, version, **fields)
        return self.answer()

    def answer(self) -> Any:
        """Take the next answer; return it, None when there is none."""
        if not self.pending:
            self.play.events.append([self.label, "was answered before"])
            return None
        return self._receive(PATIENCE_MS, self.pending.pop(0), "silence")

    def silent(self) -> None:
        """Listen for a moment: is the answer that is awaited held back?"""
        if not self.pending:
            self.answer()
            return
        pending = self.pending.pop(0)
        self._receive(SILENCE_MS, pending, "waits")
        if self.play.events[-1][-1] == "waits":
            self.pending.insert(0, pending)

    def _receive(self, patience_ms: int, pending: "Pending", silence: str) -> Any:
        """Take the answer to a request; those to earlier requests, which were given up, are passed over."""
        response, shown = None, silence
        with contextlib.suppress(NoAnswerError):
            frame = self.line.receive(patience_ms)
            while frame and int.from_bytes(frame[:4], "big") < pending.correlation_id:
                frame = self.line.receive(patience_ms)
            shown = "closed"
            if frame:
                response, shown = self._take(pending, frame)
        self.play.events.append([self.label, shown])
        return response

    def _take(self, pending: "Pending", frame: bytes) -> tuple[Any, Any]:
        """Return an answer and what a story says of it."""
        api, version = pending.api, pending.version
        cls = messages.find(f"{api}Response")
        if version not in cls.SCHEMA.versions:
            version = 0
        tagged = version in cls.SCHEMA.flexible and cls.SCHEMA.number != API_VERSIONS
        try:
            response, end = messages.decode(cls, frame, version, 5 if tagged else 4)
        except ProtocolError as error:
            return None, f"unreadable: {error}"
        if end != len(frame):
            return None, f"unreadable: {len(frame) - end} bytes too many"
        self._note(api, response)
        shown = self._shown(api, response, version)
        if pending.unordered:
            for found in [shown, *shown.get("groups", ())]:
                _sort_offsets(found.get("topics", []))
        return response, shown

    def _note(self, api: str, answer: Any) -> None:
        """Remember what an answer says of the membership."""
        if api == "JoinGroup" and answer.error_code:
            self.play.pause(APPEND_MS)
        if api == "JoinGroup" and answer.error_code in (0, 79):
            if not self.member_id:
                self.play.names.learn(answer.member_id)
            self.member_id = answer.member_id
            if not answer.error_code:
                self.generation, self.protocol_name = answer.generation_id, answer.protocol_name
        elif api in ("InitProducerId", "EndTxn") and not answer.error_code and self.label != QUIET:
            self.play.names.learn_producer(answer.producer_id)
        elif api == "ConsumerGroupHeartbeat" and not answer.error_code:
            if not self.member_id:
                self.play.names.learn(answer.member_id)
            self.member_id, self.generation = answer.member_id, answer.member_epoch

    def _shown(self, api: str, response: Any, version: int) -> dict[str, Any]:
        """Leave out what is of other situations, and the features of the cluster."""
        if api == "ListGroups":
            own = [listed for listed in response.groups if listed.group_id.startswith(self.play.group)]
            response.groups[:] = own
        elif api == "ListTransactions":
            states = response.transaction_states
            states[:] = [s for s in states if s.transactional_id.startswith(self.play.slug)]
        elif api == "ApiVersions":
            for name in ("supported_features", "finalized_features_epoch", "finalized_features"):
                setattr(response, name, getattr(type(response)(), name))
        return printed(response, version, self.play.names)

    # -- offsets

    def commit(self, *offsets: Offset, version: int = 9, **fields: Any) -> Any:
        """OffsetCommit as the member that this is, or as no member."""
        topics: list[dict[str, Any]] = []
        for topic, partition, offset, *rest in offsets:
            if not topics or topics[-1]["name"] != topic:
                topics.append({"name": topic, "topic_id": topic, "partitions": []})
            entry = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
            entry |= dict(zip(("committed_metadata", "committed_leader_epoch"), rest, strict=False))
            topics[-1]["partitions"].append(entry)
        return self.ask(
            "OffsetCommit", version, **self.as_member("generation_id_or_member_epoch", fields), topics=topics
        )

    def nobody_commits(self, *offsets: Offset, version: int = 9, **fields: Any) -> Any:
        """OffsetCommit as a client that is no member, whatever this one is."""
        nobody = {"member_id": "", "generation_id_or_member_epoch": -1, "group_instance_id": None}
        return self.commit(*offsets, version=version, **nobody | fields)

    def fetch(
        self, *wanted: tuple[Any, ...], version: int = 8, everything: bool = False, **fields: Any
    ) -> Any:
        """OffsetFetch of one group: (topic, partition …) each, or `everything`."""
        require_stable = fields.pop("require_stable", False)
        group = {"group_id": fields.pop("group_id", self.group), **fields}
        topics = [
            {"name": topic, "topic_id": topic, "partition_indexes": list(partitions)}
            for topic, *partitions in wanted
        ]
        topics = None if everything else topics
        if version < 8:
            for topic in topics or ():
                del topic["topic_id"]
            return self.ask("OffsetFetch", version, **group, topics=topics, require_stable=require_stable)
        groups = [group | {"topics": topics}]
        return self.ask("OffsetFetch", version, groups=groups, require_stable=require_stable)

    def delete_offsets(self, *wanted: tuple[Any, ...]) -> Any:
        """OffsetDelete: (topic, partition …) each."""
        topics = [
            {"name": topic, "partitions": [{"partition_index": partition} for partition in partitions]}
            for topic, *partitions in wanted
        ]
        return self.ask("OffsetDelete", 0, group_id=self.group, topics=topics)

    # -- membership

    def as_member(self, generation: str, fields: dict[str, Any]) -> dict[str, Any]:
        own = {
            "group_id": self.group,
            generation: self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }
        return own | fields

    def send_join(self, version: int = 9, **fields: Any) -> None:
        """JoinGroup, whose answer may wait for others."""
        self.send("JoinGroup", version, **self._join(fields))

    def join(self, version: int = 9, **fields: Any) -> Any:
        """JoinGroup."""
        return self.ask("JoinGroup", version, **self._join(fields))

    def _join(self, fields: dict[str, Any]) -> dict[str, Any]:
        own = {
            "group_id": self.group,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
        }
        protocols = fields.pop("protocols", self.protocols)
        return own | {"protocols": [{"name": name, "metadata": data} for name, data in protocols]} | fields

    def enter(self, version: int = 9, **fields: Any) -> None:
        """JoinGroup of a newcomer, once for a member id where that is due and once for all; the answer is to come."""
        if version >= 4 and not self.member_id and self.instance is None:
            self.join(version, **fields)
        self.send_join(version, **fields)

    def send_sync(
        self, assigned: "dict[Client | str, bytes] | None" = None, version: int = 5, **fields: Any
    ) -> None:
        """SyncGroup, whose answer may wait for the leader."""
        self.send("SyncGroup", version, **self._sync(assigned, fields))

    def sync(
        self, assigned: "dict[Client | str, bytes] | None" = None, version: int = 5, **fields: Any
    ) -> Any:
        """SyncGroup; the leader says who is assigned what."""
        return self.ask("SyncGroup", version, **self._sync(assigned, fields))

    def _sync(self, assigned: "dict[Client | str, bytes] | None", fields: dict[str, Any]) -> dict[str, Any]:
        given = [
            {"member_id": who if isinstance(who, str) else who.member_id, "assignment": what}
            for who, what in (assigned or {}).items()
        ]
        protocol = {"protocol_type": self.protocol_type, "protocol_name": self.protocol_name}
        return self.as_member("generation_id", {**protocol, "assignments": given} | fields)

    def beat(self, version: int = 4, **fields: Any) -> Any:
        """Heartbeat."""
        return self.ask("Heartbeat", version, **self.as_member("generation_id", fields))

    def leave(self, *members: tuple[str, str | None], version: int = 5, **fields: Any) -> Any:
        """LeaveGroup of this member, or of those given as (member id, instance)."""
        given = [
            {"member_id": m, "group_instance_id": i} for m, i in members or [(self.member_id, self.instance)]
        ]
        own = {"group_id": self.group, "member_id": self.member_id, "members": given}
        return self.ask("LeaveGroup", version, **own | fields)

    # -- groups as administrators see them

    def describe(self, *groups: str, version: int = 6) -> Any:
        """DescribeGroups; the situation's own when none is named."""
        return self.ask("DescribeGroups", version, groups=list(groups or [self.group]))

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> Any:
        """ListGroups."""
        return self.ask("ListGroups", 5, states_filter=list(states), types_filter=list(types))

    def delete_groups(self) -> Any:
        """DeleteGroups of the situation's own."""
        return self.ask("DeleteGroups", 2, groups_names=[self.group])


def _sort_offsets(topics: list[dict[str, Any]]) -> None:
    """Sort what a request for everything gets in the order of hash maps."""
    topics.sort(key=lambda topic: str(topic.get("name", topic.get("topic_id"))))
    for topic in topics:
        topic["partitions"].sort(key=lambda partition: partition["partition_index"])
