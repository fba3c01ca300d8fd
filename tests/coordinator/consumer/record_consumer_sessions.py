"""Record sessions of consumer groups (KIP-848) whose answers depend on ids that a broker makes.

What an assignor gives to whom depends on topic ids and on member ids, so that these sessions are no text in
tests/stories: test_captures.py replays the frames with the ids of the recording. All others are situations of
tests/stories/consumer_sessions.txt. `python -m tests.stories.record consumer_capture` records them.
A line is a frame: ms since the start, connection, direction, key, version, correlation id, hex. In a second file a line
is a record of a group in the offsets topic. The kept files also have sessions that are situations now: commits, empty,
full, refusals-0, regex, static and static-upgrade, whose records nothing else compares.
"""

import json
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kafka_offsets.coordinator.state.stored import OffsetKey, UnknownKey, parse_key
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import batch_headers, read_records
from tests.coordinator.consumer.recorded_members import (
    Consumer,
    Member,
    assignment,
    consumer,
    create,
    drop,
    grow,
    member,
    owning,
    settle,
)
from tests.differential.brokers import ADMIN, PATIENCE_MS, RemoteBroker, RemoteLine
from tests.differential.play import Client, Play

TOPICS = {"orders": 4, "clicks": 3, "pages": 7, "wide": 40}
RECORDED = {8, 9, 11, 12, 13, 14, 15, 16, 19, 20, 37, 42, 47, 68, 69}
"""Numbers of the APIs whose frames are recorded; the others wait for the broker."""


class RecordedLine(RemoteLine):
    """A connection whose frames are printed."""

    def __init__(self, broker: "RecordedBroker") -> None:
        super().__init__(broker.address)
        self.broker = broker
        self.number = len(broker.lines)
        self.sent: dict[int, tuple[int, int]] = {}

    def send(self, frame: bytes) -> None:
        key, version, correlation_id = struct.unpack_from(">hhi", frame, 4)
        self.sent[correlation_id] = key, version
        self._print("request", correlation_id, frame[4:])
        super().send(frame)

    def receive(self, patience_ms: int = PATIENCE_MS) -> bytes | None:
        frame = super().receive(patience_ms)
        if frame is not None:
            self._print("response", int.from_bytes(frame[:4]), frame)
        return frame

    def _print(self, direction: str, correlation_id: int, frame: bytes) -> None:
        key, version = self.sent[correlation_id]
        if key not in RECORDED:
            return
        ms = round((time.monotonic() - self.broker.started) * 1000, 1)
        line = {"ms": ms, "conn": self.number, "dir": direction, "apiKey": key, "apiVersion": version}
        print(json.dumps(line | {"correlationId": correlation_id, "hex": frame.hex()}), flush=True)


class RecordedBroker(RemoteBroker):
    """A broker whose frames are printed."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.started = time.monotonic()

    def connect(self, user: str = ADMIN) -> RecordedLine:
        self.lines.append(line := RecordedLine(self))
        return line


def session_two(w: Play) -> None:
    """Two members share topics, step by step."""
    a, b = consumer(w, "a"), consumer(w, "b")
    a.member_id, b.member_id = "member-a", "member-b"
    a.join("orders", "clicks", "nowhere")
    a.describe()
    a.beat()
    a.confirm()
    b.join("orders", "clicks", "nowhere")
    a.describe()
    a.list_groups(types=("consumer",))
    a.list_groups(states=("ReConciling",), types=("CONSUMER",))
    b.beat()
    a.beat()  # must give up
    a.describe()
    a.beat()
    a.commit(2)
    a.commit(3)
    b.confirm()
    a.confirm()
    a.describe()
    b.confirm()
    b.describe()
    a.epoch -= 1
    a.beat()  # the answer got lost; without what it owns nobody knows
    a.confirm()
    a.epoch = 1
    a.confirm()
    a.epoch = 9
    a.confirm()
    a.epoch = 3
    settle(a, b)
    a.describe()
    b.beat(subscribed_topic_names=["clicks"])
    a.describe()
    settle(a, b)
    a.describe()
    b.beat(subscribed_topic_names=[])
    settle(a, b)
    a.describe()
    b.beat(
        subscribed_topic_names=["orders", "clicks"],
        rebalance_timeout_ms=4000,
        rack_id="r",
        server_assignor="range",
    )
    settle(a, b)
    a.describe()
    a.beat(rebalance_timeout_ms=20000, subscribed_topic_names=["orders", "clicks"], topic_partitions=a.owned)
    b.join("orders", "clicks")  # joins again
    settle(a, b)
    a.describe()
    a.leave()
    a.describe()
    a.leave()
    settle(b)
    b.describe()
    b.leave()
    b.describe()
    a.list_groups(states=("empty",))
    a.describe_classic(a.group)


def session_timeouts(w: Play) -> None:
    """Members that are silent, and such that do not give up what they must."""
    a, b = consumer(w, "a"), consumer(w, "b")
    a.member_id, b.member_id = "m-a", "m-b"
    a.join("orders", rebalance_timeout_ms=800)
    b.join("orders")
    a.beat()
    a.describe()
    for _ in range(4):
        w.pause(400)
        a.beat()
        b.beat()
    a.describe()
    settle(b)
    w.pause(1000)
    b.beat()
    w.pause(1000)
    b.describe()
    w.pause(1000)
    b.describe()
    b.beat()


def session_assignors(w: Play) -> None:
    """Who gets what, of several topics, as members come, go and change."""
    for assignor in ("uniform", "range"):
        members = []
        for index in range(5):
            each = consumer(w, f"{assignor}-{index}", f"assign-{assignor}")
            each.member_id = f"{assignor}-member-{index * 7919 % 97}"
            each.join("pages", "orders", "wide", "clicks", server_assignor=assignor)
            members.append(each)
            settle(*members)
            each.describe()
        members.pop(1).leave()
        settle(*members)
        members[0].describe()
        members[2].beat(subscribed_topic_names=["pages"])
        settle(*members)
        members[0].describe()
        members[1].beat(subscribed_topic_names=["wide", "clicks"])
        settle(*members)
        members[0].describe()
        members[0].beat(subscribed_topic_names=["orders"])
        settle(*members)
        members[0].describe()
        for each in members:
            each.beat(subscribed_topic_names=["pages", "orders", "wide", "clicks"])
        settle(*members)
        settle(*members)
        members[0].describe()
        for each in members:
            each.leave()
    a, b, c = (consumer(w, name, "assign-votes") for name in "abc")
    for each, assignor in ((a, "range"), (b, "uniform"), (c, "uniform")):
        each.member_id = f"voter-{each.label}"
        each.join("pages", server_assignor=assignor)
        each.describe()
    c.leave()
    b.leave()
    a.describe()


def session_topics(w: Play) -> None:
    """Topics that come, grow and go."""
    a, b, look = consumer(w, "a"), consumer(w, "b"), consumer(w, "look")
    a.member_id, b.member_id = "m-a", "m-b"
    a.join("later", "grows")
    b.join("later")
    settle(a, b)
    look.group = a.group
    look.describe()
    create(look, later=2, grows=1, other=1)
    settle(a, b)
    look.describe()
    grow(look, "grows", 3)
    settle(a, b)
    look.describe()
    drop(look, "later")
    a.beat()
    look.describe()
    settle(a, b)
    look.describe()
    create(look, later=3)
    settle(a, b)
    look.describe()
    drop(look, "later", "grows", "other")
    settle(a, b)
    look.describe()


def become_stable(x: Member, y: Member) -> None:
    """Let two members make a classic group stable."""
    for client in (x, y):
        client.enter()
        if client is x:
            client.answer()
            client.sync(members={x.member_id: assignment(0, 1, 2, 3)})
            client.answer()
    x.join()
    x.answer()
    y.answer()
    y.sync()
    x.sync(members={x.member_id: assignment(0, 1), y.member_id: assignment(2, 3)})
    x.answer()
    y.answer()


def upgrade(a: Consumer, x: Member, y: Member) -> None:
    """Let a member of the consumer protocol join, and the classic members learn it from their heartbeats."""
    a.beat(member_epoch=2)
    a.describe()
    a.join("orders")
    a.describe()
    a.list_groups()
    a.describe_classic(a.group)
    x.commit()
    x.beat()
    y.beat()
    x.sync()
    x.answer()
    a.confirm()


def give_up_with_classic_requests(a: Consumer, x: Member, y: Member) -> None:
    """Let the classic members give up partitions, with right and wrong requests."""
    x.join(protocols=(("range", owning(0, 1)), ("cooperative-sticky", owning(0, 1))))
    x.answer()
    x.beat()
    a.describe()
    x.sync()
    x.answer()
    x.sync(protocol_name="cooperative-sticky")
    x.answer()
    x.sync(protocol_type="connect")
    x.answer()
    x.sync(generation_id=7)
    x.answer()
    x.sync(member_id="nobody")
    x.answer()
    x.beat()
    x.beat(generation_id=1)
    x.commit(generation_id_or_member_epoch=1)
    x.commit(generation_id_or_member_epoch=7)
    x.commit(8)
    y.join(protocols=(("range", owning(2, 3)), ("cooperative-sticky", owning(2, 3))))
    y.answer()
    y.sync()
    y.answer()
    y.beat()
    x.join(protocols=(("range", owning(0)), ("cooperative-sticky", owning(0))))
    x.answer()
    x.sync()
    x.answer()
    y.join(protocols=(("range", owning(2)), ("cooperative-sticky", owning(2))))
    y.answer()
    y.sync()
    y.answer()
    a.confirm()
    a.describe()


def change_protocols(a: Consumer, y: Member) -> None:
    """Let a classic member join with protocols that it may not have, then with those of before."""
    y.join(protocols=(("sticky", owning()),))
    y.answer()
    y.join(protocols=(("range", b"\0"),))
    y.answer()
    y.join(protocols=(("range", owning(2)), ("cooperative-sticky", owning(2))))
    y.answer()
    y.sync()
    y.answer()
    a.describe()


def downgrade(a: Consumer, b: Consumer, x: Member, y: Member) -> None:
    """Let members leave until the group is a classic one, then upgrade it again."""
    b.join("orders")
    b.describe()
    a.leave()
    b.describe()
    x.beat()
    y.leave()
    b.describe()
    x.join(protocols=(("range", owning()), ("cooperative-sticky", owning())))
    x.answer()
    x.sync()
    x.answer()
    settle(b)
    b.describe()
    b.leave()  # the last one: a classic group again
    b.describe()
    b.describe_classic(b.group)
    x.beat()
    x.join()
    x.answer()
    x.sync(members={x.member_id: assignment(0, 1, 2, 3)})
    x.answer()
    b.describe_classic(b.group)
    b.fetch(member_id=None, member_epoch=-1)
    x.leave()
    b.epoch = 0
    b.join("orders")
    b.describe()
    b.leave()


def session_upgrade(w: Play) -> None:
    """A classic group that members of the consumer protocol take over one by one, and give back."""
    a, b = consumer(w, "a"), consumer(w, "b")
    x, y = (member(w, name) for name in "xy")
    x.protocols = y.protocols = (("range", owning()), ("cooperative-sticky", owning()))
    a.member_id, b.member_id = "m-a", "m-b"
    become_stable(x, y)
    x.commit()
    x.describe(a.group)
    upgrade(a, x, y)
    give_up_with_classic_requests(a, x, y)
    change_protocols(a, y)
    downgrade(a, b, x, y)


def session_no_upgrade(w: Play) -> None:
    """Classic groups that cannot become consumer groups."""
    a = consumer(w, "a")
    a.member_id = "m-a"
    a.group = "no-upgrade-1"
    x = member(w, "x", a.group)
    x.enter(protocol_type="connect")
    x.answer()
    a.join("orders")
    x.sync(members={x.member_id: b"?"})
    x.answer()
    a.join("orders")
    a.group = "no-upgrade-2"
    x = member(w, "x", a.group)
    x.enter()
    x.answer()
    a.join("orders")  # nobody has an assignment yet
    a.describe()
    x.sync(members={x.member_id: b"?"})
    x.answer()
    a.group = "no-upgrade-3"
    x = member(w, "x", a.group)
    a.epoch = 0
    x.enter()
    x.answer()
    cls = messages.ConsumerProtocolAssignment
    x.sync(members={x.member_id: b"\0\0" + messages.encode(cls([], b"mine"), 0)})
    x.answer()
    a.join("orders")
    a.group = "no-upgrade-4"
    x = member(w, "x", a.group)
    a.epoch = 0
    x.enter(protocols=(("range", b"\0\1\0"),))
    x.answer()
    x.sync(members={x.member_id: assignment(0)})
    x.answer()
    a.join("orders")
    a.group = "no-upgrade-5"
    x = member(w, "x", a.group)
    a.epoch = 0
    x.enter()
    x.answer()
    x.sync(members={x.member_id: b"\0"})
    x.answer()
    a.join("orders")


def session_classic_timeouts(w: Play) -> None:
    """Members of the classic protocol in a consumer group that are silent, or do not join again."""
    a = consumer(w, "a")
    a.member_id = "m-a"
    x, y = (member(w, name) for name in "xy")
    a.join("orders")
    for client, session_ms, rebalance_ms in ((x, 700, 20000), (y, 20000, 900)):
        client.session_ms, client.rebalance_ms = session_ms, rebalance_ms
        client.protocols = (("range", owning()),)
        client.enter()
        client.answer()
        client.sync()
        client.answer()
        settle(a)
    a.describe()
    y.beat()
    for _ in range(4):
        w.pause(400)
        a.confirm()
        y.beat()
    a.describe()


SESSIONS: dict[str, Callable[[Play], None]] = {
    name.removeprefix("session_").replace("_", "-"): each
    for name, each in [*globals().items()]
    if name.startswith("session_")
}


def records_of_groups(logs: Path) -> Iterator[dict[str, str | None]]:
    """Yield group, key and value of each record of a group that a Kafka has in its logs; not its offsets."""
    for path in sorted(logs.glob("__consumer_offsets-*/*.log")):
        data = path.read_bytes()
        for position, header in batch_headers(data):
            for record in read_records(data, position, header):
                assert record.key is not None
                key = parse_key(record.key)
                if not isinstance(key, OffsetKey | UnknownKey):
                    value = record.value and record.value.hex()
                    yield {"group": key.group, "key": record.key.hex(), "value": value}


def record(host: str, port: int) -> None:
    """Play the sessions with a broker; print the frames."""
    broker = RecordedBroker(host, port)
    setup = Client(Play(broker, "setup", ()), "setup")
    create(setup, **TOPICS)
    setup.play.until(lambda: not setup.ask("FindCoordinator", 2, key="g").error_code)
    setup.play.until(lambda: setup.play.has_loaded(SESSIONS))
    for group, session in SESSIONS.items():
        session(Play(broker, group, TOPICS))
    broker.close()
