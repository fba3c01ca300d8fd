"""A walk at play: each step is asked of both brokers, and both are awaited.

Ours goes first. Where ours answers, Kafka's answer is awaited; where ours has a request wait, as a join waits for
others, Kafka is listened to for a moment, and its request must wait too. So no walk depends on how fast Kafka is.
"""

import re
import select
import time
from typing import Any, Protocol

from tests.differential.brokers import PATIENCE_MS
from tests.differential.play import ORDER_MS, Client, Event, Play
from tests.differential.printed import FIRST_MS
from tests.walks.drawn import Ids
from tests.walks.exemptions import NEVER, may_be_forgotten, may_be_half_made, never_answered
from tests.walks.known import Known
from tests.walks.plan import RESTART, Step

OWN_PATIENCE_MS = 60
"""How long an answer of ours may take, in its own time: no timer of a walk is due so early."""

EXEMPT_PATIENCE_MS = 300
"""How long an answer is awaited that Kafka need not give."""

CATALOGUE_APIS = {
    "CreateTopics",
    "DeleteTopics",
    "CreatePartitions",
    "AlterConfigs",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "AlterClientQuotas",
    "AlterUserScramCredentials",
}
"""What Kafka's controller answers before its broker has followed."""

TRANSACTION_APIS = {"EndTxn", "InitProducerId"}
"""What is answered before all markers are written."""


SHUFFLED = {"DeleteTopics": "responses", "CreatePartitions": "results", "WriteTxnMarkers": "markers"}
"""Lists whose order Kafka leaves to chance or to a hash map of names."""

MADE_ID = re.compile(r"(?<=Static member )[\w-]{22}(?= with)")
"""A member id that Kafka has made up, in its words about a member that it refuses."""

LATEST_RECORD_MS = FIRST_MS + 1_000_000


class Peer(Protocol):
    """A broker that walks are played with."""

    def connect(self) -> Any:
        """Return a broker for one walk."""

    def follow(self, broker: Any) -> None:
        """Wait until the broker knows what its controller does."""

    def restart(self) -> None:
        """Stop it well and start it again; return once its coordinators are at work."""


class WalkClient(Client):
    """A client that asks for many members: what a broker made up is known before it is printed."""

    def _note(self, api: str, answer: Any) -> None:
        names = self.play.names
        self.member_id = ""
        if api == "CreateTopics":
            for topic in answer.topics:
                if any(topic.topic_id):
                    names.learn_topic(topic.name, topic.topic_id)
        elif api == "ConsumerGroupHeartbeat" and answer.error_code:
            for made in MADE_ID.findall(answer.error_message or ""):
                names.learn(made)
        super()._note(api, answer)


class Side:
    """One walk with one broker."""

    def __init__(self, peer: Peer, number: int, patience_ms: int = PATIENCE_MS) -> None:
        self.peer = peer
        self.patience_ms = patience_ms
        self.prefix = f"w{number:06d}-"
        self.broker = peer.connect()
        self.play = Play(self.broker, self.prefix)
        self.play.slug = self.prefix
        self.known = Known(self.prefix, self.play.names)
        self.clients: dict[str, Client] = {}
        self.waiting: dict[str, Step] = {}
        self.topics: set[str] = set()

    def send(self, step: Step) -> str:
        """Send the request of a step; return the connection: another one while the first waits."""
        label = step.client
        while label in self.waiting:
            label += "'"
        if label not in self.clients:
            self.clients[label] = WalkClient(self.play, label, "ANONYMOUS")
        at = self.clients[label]
        fields = self.known.resolve(step.fields)
        at.send_at_once(step.api, step.version, **fields)
        self.waiting[label] = step
        if step.api == "CreateTopics":
            self.topics |= {topic["name"] for topic in fields["topics"] if topic["name"]}
        return label

    def take(self, label: str, patience_ms: int) -> bool:
        """Take the answer that a connection waits for; return whether it came."""
        at, step = self.clients[label], self.waiting[label]
        pending = at.pending[0]
        answer = at._receive(patience_ms, pending, "waits")
        if self.play.events[-1][-1] == "waits":
            self.play.events.pop()
            return False
        if step.api in SHUFFLED and answer is not None:
            self.play.events[-1][-1][SHUFFLED[step.api]].sort(key=str)
        if step.api == "CreateTopics" and answer is not None:
            sort_duplicates(self.play.events[-1][-1]["topics"])
        at.pending.pop(0)
        del self.waiting[label]
        if answer is None:
            del self.clients[label]
        else:
            self.known.note(step, answer)
        return True

    @property
    def ids(self) -> Ids:
        """The ids that the broker has shown so far."""
        return Ids.of(self.play.names, self.prefix)

    def settle(self, step: Step) -> None:
        """Let what a request set going end."""
        if step.api in CATALOGUE_APIS:
            self.peer.follow(self.broker)
            self.play.learn(*sorted(self.topics))
        if step.api in TRANSACTION_APIS and (name := step.fields["transactional_id"]):
            self.play.settle(self.known.resolve(name))
        if step.fields.get("subscribed_topic_regex"):
            self.play.pause(300)  # Kafka resolves expressions in a thread, and says nothing when it has

    def events(self) -> list[Event]:
        """Return what happened since this was asked last."""
        found, self.play.events[:] = masked(self.play.events, self.prefix), []
        return found

    def has_meaning_after(self, step: Step, happened: list[Event]) -> bool:
        """Whether the group of a step of ours is still one that Kafka has as well."""

        def consumer(name: str) -> str:
            found = self.play.ask("ConsumerGroupDescribe", 1, group_ids=[self.known.resolve(name)])
            return str(found.groups[0].group_state)

        def classic(name: str) -> str:
            found = self.play.ask("DescribeGroups", 5, groups=[self.known.resolve(name)])
            return str(found.groups[0].group_state)

        return not (may_be_forgotten(step, happened, consumer) or may_be_half_made(step, happened, classic))

    def restart(self) -> None:
        """Connections end, memberships do not."""
        self.broker.close()
        self.clients.clear()
        self.waiting.clear()
        self.peer.restart()
        self.broker = self.play.broker = self.peer.connect()

    def close(self) -> None:
        self.broker.close()


def sort_duplicates(topics: list[dict[str, Any]]) -> None:
    """Sort what Kafka adds to its answer in the order of a hash map: the names that a request has twice."""
    start = len(topics)
    while start and topics[start - 1].get("error_message", "") == "Duplicate topic name.":
        start -= 1
    topics[start:] = sorted(topics[start:], key=str)


def masked(value: Any, prefix: str) -> Any:
    """Return a value with the names of its walk as the plan has them."""
    if isinstance(value, str):
        return value.replace(prefix, "@")
    if isinstance(value, list):
        return [masked(each, prefix) for each in value]
    if isinstance(value, dict):
        return {name: _masked_field(name, masked(each, prefix)) for name, each in value.items()}
    return value


def _masked_field(name: str, value: Any) -> Any:
    """Two members of one client have one metadata: their order is that of a hash map. Markers are of now."""
    if name == "members" and value is not None:
        return sorted(value, key=str)
    return "NOW" if name == "timestamp" and value > LATEST_RECORD_MS else value


def step_alone(side: Side, step: Step) -> list[Event]:
    """Play a step with ours; return what happened."""
    if step.api == RESTART:
        side.restart()
        return []
    side.send(step)
    for label in sorted(side.waiting):
        side.take(label, OWN_PATIENCE_MS)
    return side.events()


def step_after(side: Side, step: Step, ours: list[Event]) -> list[Event]:
    """Play a step with Kafka: ours answered some connections, the others must wait. Return what happened."""
    if step.api == RESTART:
        side.restart()
        return []
    sent = side.send(step)
    exempt, patience_ms = never_answered(step, ours), side.patience_ms
    for label, _ in ours[1:]:
        if not side.take(label, EXEMPT_PATIENCE_MS if label in exempt else patience_ms):
            patience_ms = patience_ms if label in exempt else EXEMPT_PATIENCE_MS
            side.play.events.append([label, NEVER])
            del side.waiting[label], side.clients[label]
    if sent in side.waiting:
        time.sleep(ORDER_MS / 1000)
    take_early(side)
    return side.events()


def take_early(side: Side) -> None:
    """Take the answers that ours does not give."""
    lines = {side.clients[label].line.socket: label for label in sorted(side.waiting)}
    if not lines:
        return
    ready = select.select(list(lines), [], [], 0)[0]
    for label in sorted(lines[each] for each in ready):
        side.take(label, side.patience_ms)


def settle(side: Side, step: Step) -> None:
    if step.api != RESTART:
        side.settle(step)
