"""Which offsets and groups go, and when: one story for a real broker and for ours, told by `tell`.

The broker has offsets.retention.minutes=1, offsets.retention.check.interval.ms=1000 and no initial rebalance delay.
Groups are looked at 4, 75 and 115 s after the story began. Answers of Kafka 4.3.1:
tests/stories/expiry_by_time.txt, written by `make differential`.
"""

from collections.abc import Callable
from typing import Any, Protocol

from kafka_offsets.errors import error_code_of
from kafka_offsets.protocol import messages
from tests.differential.brokers import Broker
from tests.differential.play import subscription
from tests.differential.stories import STORIES
from tests.drivers.core import read_response, request_frame

KAFKAS = STORIES / "expiry_by_time.txt"
SETTINGS: dict[str, object] = {
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 1000,
    "offsets.topic.num.partitions": 4,
    "auto.create.topics.enable": "false",
}
LONG_MS = 1_000_000
LOOKS_MS = (4_000, 75_000, 115_000)


class Client(Protocol):
    """One connection."""

    def call(self, request: Any, version: int) -> Any:
        """Ask and wait for the answer."""
        ...

    def send(self, *requests: tuple[Any, int]) -> None:
        """Ask, and do not wait."""
        ...


class LineClient:
    """A connection to a broker, ours or another."""

    def __init__(self, broker: Broker) -> None:
        self.line = broker.connect()

    def send(self, *requests: tuple[Any, int]) -> None:
        for request, version in requests:
            self.line.send(request_frame(request, version))

    def call(self, request: Any, version: int) -> Any:
        self.send((request, version))
        frame = self.line.receive(60_000)
        assert frame, "the broker closed the connection"
        return read_response(request.SCHEMA.name.removesuffix("Request"), version, frame)


def text_of(told: dict[str, Any]) -> str:
    """Return what `tell` found as text: at each time, each group with its state and its offsets; or an error."""
    parts = []
    for when, found in told.items():
        lines = [f"# expiry with offsets.retention.minutes=1: {when}", ""]
        if isinstance(found, int):
            lines.append(error_code_of(found).name)
        else:
            lines += [
                " ".join([f'"{name}"', seen["state"], *seen["offsets"]]) for name, seen in found.items()
            ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


class Story:
    """What happens, on connections that `connect` makes.

    wait  until so many ms after the beginning
    """

    def __init__(self, connect: Callable[[], Client], wait: Callable[[int], None]) -> None:
        self.client = connect()
        self.connect = connect
        self.wait = wait
        self.groups: dict[str, None] = {}

    def commit(
        self, group: str, *partitions: tuple[str, int], retention_ms: int | None = None, **member: Any
    ) -> None:
        self.groups[group] = None
        request = messages.OffsetCommitRequest
        topics = [
            request.Topic(topic, partitions=[request.Partition(index, 7, committed_metadata="")])
            for topic, index in partitions
        ]
        made = request(group, topics=topics, **member)
        version = 8
        if retention_ms is not None:
            made.retention_time_ms = retention_ms
            version = 3
        answer = self.client.call(made, version)
        assert not any(p.error_code for t in answer.topics for p in t.partitions), (group, answer)

    def join(self, group: str, protocol_type: str, metadata: bytes) -> str:
        """A member of its own generation; its id."""
        self.groups[group] = None
        request = messages.JoinGroupRequest
        offered = [request.Protocol("range", metadata)]
        member = self.client.call(request(group, LONG_MS, LONG_MS, "", None, protocol_type, offered), 5)
        member_id: str = member.member_id
        joined = self.client.call(
            request(group, LONG_MS, LONG_MS, member_id, None, protocol_type, offered), 5
        )
        assert (joined.error_code, joined.generation_id) == (0, 1), (group, joined)
        return member_id

    def sync(self, group: str, member_id: str) -> None:
        request = messages.SyncGroupRequest
        given = [request.Assignment(member_id, b"")]
        assert self.client.call(request(group, 1, member_id, assignments=given), 3).error_code == 0

    def stable(self, group: str, protocol_type: str, metadata: bytes) -> str:
        member_id = self.join(group, protocol_type, metadata)
        self.sync(group, member_id)
        return member_id

    def leave(self, group: str, member_id: str) -> None:
        identity = messages.LeaveGroupRequest.MemberIdentity
        self.client.call(messages.LeaveGroupRequest(group, members=[identity(member_id)]), 4)

    def seen(self) -> dict[str, Any]:
        """State and committed offsets of every group."""
        described = self.client.call(messages.DescribeGroupsRequest([*self.groups]), 5)
        states = {group.group_id: group.group_state for group in described.groups}
        seen = {}
        for group in self.groups:
            fetched = self.client.call(messages.OffsetFetchRequest(group, None), 7)
            offsets = sorted(f"{t.name}-{p.partition_index}" for t in fetched.topics for p in t.partitions)
            seen[group] = {"state": states[group], "offsets": offsets}
        return seen

    def create(self, *topics: str) -> None:
        request = messages.CreateTopicsRequest
        self.client.call(request([request.CreatableTopic(name, 4, 1) for name in topics], 10_000), 5)

    def tell(self) -> dict[str, Any]:
        """Play it; what was seen."""
        self.create("orders", "clicks", "doomed")
        self._commit_alone()
        self._live_groups()
        leaving = self._groups_that_empty()
        pending = self._without_offsets()
        self._deleted_topic()
        seen = {}
        self.wait(LOOKS_MS[0])
        seen["groups after 4 s"] = self.seen()
        request = messages.JoinGroupRequest
        again = self.client.call(
            request("pending", LONG_MS, LONG_MS, pending, None, "consumer", [request.Protocol("range", b"")]),
            5,
        )
        seen["JoinGroup with a pending member id of a removed group"] = again.error_code
        self.wait(40_000)
        self.commit("refreshed", ("orders", 1))
        self.leave("emptied", leaving)
        self.wait(LOOKS_MS[1])
        seen["groups after 75 s"] = self.seen()
        self.wait(LOOKS_MS[2])
        seen["groups after 115 s"] = self.seen()
        return seen

    def _commit_alone(self) -> None:
        orders, clicks = ("orders", 0), ("clicks", 0)
        self.commit("simple", orders, clicks)
        self.commit("refreshed", orders, ("orders", 1))
        self.commit("retention 0", orders, retention_ms=0)
        self.commit("retention 2 s", orders, retention_ms=2_000)
        self.commit("retention 1000 s", orders, retention_ms=1_000_000)
        self.commit("retention of one", orders, retention_ms=2_000)
        self.commit("retention of one", clicks)
        self.commit("", orders)

    def _live_groups(self) -> None:
        both = (("orders", 0), ("clicks", 0))
        for group, kind, metadata in (
            ("live", "consumer", subscription("orders")),
            ("live, unparsable", "consumer", b"\xff"),
            ("live, no topics", "consumer", subscription()),
            ("live connect", "connect", subscription("orders")),
        ):
            self.commit(group, *both)
            self.stable(group, kind, metadata)
        self.commit("live, own retention", ("orders", 0), retention_ms=2_000)
        self.commit("live, own retention", ("clicks", 0), retention_ms=2_000)
        self.stable("live, own retention", "consumer", subscription("orders"))
        self.commit("completing", *both)
        self.join("completing", "consumer", subscription("orders"))
        self.commit("preparing", *both)
        self.stable("preparing", "consumer", subscription("orders"))
        request = messages.JoinGroupRequest
        second = request(
            "preparing",
            LONG_MS,
            LONG_MS,
            "",
            None,
            "consumer",
            [request.Protocol("range", subscription("orders"))],
        )
        self.connect().send((second, 3))

    def _groups_that_empty(self) -> str:
        self.commit("emptied", ("orders", 0), ("clicks", 0))
        return self.stable("emptied", "consumer", subscription("orders"))

    def _without_offsets(self) -> str:
        self.leave("left", self.stable("left", "consumer", subscription("orders")))
        self.stable("live without offsets", "consumer", subscription("orders"))
        request = messages.JoinGroupRequest
        self.groups["pending"] = None
        handed = self.client.call(
            request("pending", LONG_MS, LONG_MS, "", None, "consumer", [request.Protocol("range", b"")]), 5
        )
        member_id: str = handed.member_id
        return member_id

    def _deleted_topic(self) -> None:
        self.commit("of two topics", ("orders", 0), ("doomed", 0), ("doomed", 3))
        self.commit("of a deleted topic", ("doomed", 1))
        self.commit("live on a deleted topic", ("doomed", 0))
        self.stable("live on a deleted topic", "consumer", subscription("doomed"))
        self.commit("live connect on a deleted topic", ("doomed", 0))
        self.stable("live connect on a deleted topic", "connect", b"")
        self.client.call(messages.DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=10_000), 5)
