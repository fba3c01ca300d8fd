"""Fetch sessions, limits, epochs and topic ids: which partitions are read, told and waited for."""

from typing import Any

from tests.differential.play import Client, Play
from tests.differential.situations.records import batch, produce
from tests.differential.table import situation

VERSIONS = 7, 12, 13, 18
OPEN, NONE = 0, -1
"""Session epochs."""


class Session:
    """A client that keeps a fetch session, by what it is answered."""

    def __init__(self, client: Client, topic: str, version: int) -> None:
        self.client = client
        self.topic = topic
        self.version = version
        self.session_id = 0

    def asked(self, *offsets: tuple[int, int], topic: str = "", **of_partition: Any) -> list[dict[str, Any]]:
        """A topic with partitions to be read from offsets on."""
        name = topic or self.topic
        partitions = [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20} | of_partition
            for partition, offset in offsets
        ]
        return [{"topic": name, "topic_id": name, "partitions": partitions}] if offsets else []

    def ask(self, epoch: int, *offsets: tuple[int, int], **fields: Any) -> Any:
        """Fetch; remember the session that was opened."""
        answer = self.client.ask("Fetch", **self._request(epoch, offsets, fields))
        if answer is not None and epoch == OPEN:
            self.session_id = answer.session_id
        return answer

    def send(self, epoch: int, *offsets: tuple[int, int], **fields: Any) -> None:
        """Fetch, and leave the answer for later."""
        self.client.send("Fetch", **self._request(epoch, offsets, fields))

    def _request(
        self, epoch: int, offsets: tuple[tuple[int, int], ...], fields: dict[str, Any]
    ) -> dict[str, Any]:
        version = fields.pop("version", self.version)
        forget = fields.pop("forget", ())
        own = {
            "version": version,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "session_id": self.session_id,
            "session_epoch": epoch,
            "topics": self.asked(*offsets),
            "forgotten_topics_data": [
                {"topic": self.topic, "topic_id": self.topic, "partitions": list(forget)}
            ]
            if forget
            else [],
        }
        return own | fields


@situation("a fetch session answers only partitions with changes", VERSIONS)
def news(w: Play, version: int) -> None:
    name = w.topic(3)
    s, b = Session(w.client("a"), name, version), w.client("b")
    produce(b, name, batch("one"))
    s.ask(OPEN, (0, 0), (1, 0), (2, 0))
    s.ask(1)
    s.ask(2, (0, 1))
    s.ask(3)
    produce(b, name, batch("two"), partition=1)
    s.ask(4)
    s.ask(5, (1, 1))
    s.ask(6)


@situation("a fetch session drops and adds partitions", VERSIONS)
def forgets(w: Play, version: int) -> None:
    name = w.topic(3)
    s, b = Session(w.client("a"), name, version), w.client("b")
    for index in range(3):
        produce(b, name, batch("one"), partition=index)
    s.ask(OPEN, (0, 0), (1, 0))
    s.ask(1, (0, 1), (1, 1))
    s.ask(2, (2, 0), forget=(0,))
    produce(b, name, batch("two"))
    s.ask(3, (2, 1))
    s.ask(4, (0, 0), forget=(0,))
    s.ask(5, forget=(7,))
    s.ask(6, forget=(1, 2))
    s.ask(7, (0, 0))


@situation("a fetch session is closed by its last partition", (7, 18))
def emptied(w: Play, version: int) -> None:
    name = w.topic(1)
    s = Session(w.client("a"), name, version)
    s.ask(OPEN, (0, 0))
    s.ask(1, (0, 0), forget=(0,))
    s.ask(2, (0, 0))


@situation("fetch session epochs that are not expected", VERSIONS)
def epochs(w: Play, version: int) -> None:
    name = w.topic(1)
    s = Session(w.client("a"), name, version)
    s.ask(OPEN, (0, 0))
    s.ask(2)
    s.ask(1)
    s.ask(1)
    s.ask(-2)
    s.ask(2)
    s.ask(3, session_id=0)
    s.ask(3, session_id=-7)
    s.ask(3)


@situation("a full fetch closes the session that it names", (7, 13))
def closes(w: Play, version: int) -> None:
    name = w.topic(1)
    s, t = Session(w.client("a"), name, version), Session(w.client("b"), name, version)
    s.ask(OPEN, (0, 0))
    t.ask(OPEN, (0, 0), session_id=s.session_id)
    s.ask(1)
    t.ask(1)
    t.ask(NONE, (0, 0))
    t.ask(2)
    s.ask(NONE, (0, 0))


@situation("a fetch session without partitions", (7, 13))
def opened_empty(w: Play, version: int) -> None:
    name = w.topic(2)
    s = Session(w.client("a"), name, version)
    s.ask(OPEN)
    s.ask(1)
    s.ask(1, (0, 0))
    s.ask(2)


@situation("a fetch session changes to topic ids and back")
def mixed_ids(w: Play) -> None:
    name = w.topic(1)
    s = Session(w.client("a"), name, 12)
    s.ask(OPEN, (0, 0))
    s.ask(1, version=13)
    s.ask(1)
    s.ask(OPEN, (0, 0), version=13)
    s.ask(1)
    s.ask(1, version=18)


@situation("a fetch session on another connection", (7, 18))
def elsewhere(w: Play, version: int) -> None:
    name = w.topic(1)
    s = Session(w.client("a"), name, version)
    s.ask(OPEN, (0, 0))
    s.client = w.client("b")
    s.ask(1)


@situation("errors of a fetch session are reported until they end", VERSIONS)
def errors(w: Play, version: int) -> None:
    name = w.topic(2)
    s, b = Session(w.client("a"), name, version), w.client("b")
    s.ask(OPEN, (0, 5), (1, 0), (9, 0))
    s.ask(1)
    s.ask(2, forget=(9,))
    s.ask(3, (0, 0))
    s.ask(4)
    produce(b, name, batch("one"), partition=1)
    s.ask(5, topics=s.asked((1, 0), current_leader_epoch=7))
    s.ask(6, topics=s.asked((1, 0), current_leader_epoch=0))


@situation("a fetch session names an unknown topic", VERSIONS)
def unknown_topics(w: Play, version: int) -> None:
    name = w.topic(2)
    s = Session(w.client("a"), name, version)
    s.ask(OPEN, topics=s.asked((0, 0), topic="nothing") + s.asked((0, 0)))
    s.ask(1)
    s.ask(2, topics=s.asked((1, 0), topic="nothing") + s.asked((1, 0)))
    s.ask(3)


@situation("a topic of a fetch session is deleted and made again", VERSIONS)
def recreated(w: Play, version: int) -> None:
    name = w.topic(1)
    a, b = w.client("a"), w.client("b")
    s = Session(a, name, version)
    produce(b, name, batch("one"))
    s.ask(OPEN, (0, 0))
    b.ask("DeleteTopics", 1, topic_names=[name], timeout_ms=10_000)
    w.until(lambda: w.learn(name).topics[0].error_code != 0)
    w.pause(300)
    s.ask(1, (0, 1) if version < 13 else (0, 0))
    s.ask(2)
    w.topic(1, name)
    s.ask(3)
    s.ask(4)
    produce(b, name, batch("two"))
    s.ask(5)


@situation("a topic id of a fetch session that becomes known")
def becomes_known(w: Play) -> None:
    name = w.topic(1)
    s = Session(w.client("a"), name, 13)
    s.ask(OPEN, (0, 0), topics=s.asked((0, 0), topic="nothing"))
    s.ask(1)
    s.ask(2, (0, 0))
    s.ask(3)


@situation("partitions of a fetch session take turns", VERSIONS)
def turns(w: Play, version: int) -> None:
    name = w.topic(3)
    s, b = Session(w.client("a"), name, version), w.client("b")
    for index in range(3):
        produce(b, name, batch("one"), partition=index)
    s.ask(OPEN, (0, 0), (1, 0), (2, 0), max_bytes=1)
    for epoch in range(1, 6):
        s.ask(epoch, max_bytes=1)


@situation("Fetch that names a partition twice", (4, 12, 13, 18))
def twice(w: Play, version: int) -> None:
    name = w.topic(2)
    s, b = Session(w.client("a"), name, version), w.client("b")
    produce(b, name, batch("one"))
    produce(b, name, batch("two"))
    s.ask(NONE, (0, 0), (1, 0), (0, 1))
    s.ask(NONE, topics=s.asked((0, 2)) + s.asked((0, 0), topic="orders") + s.asked((1, 0), (0, 1)))


@situation("a fetch session waits for records", VERSIONS)
def waits(w: Play, version: int) -> None:
    name = w.topic(2)
    s, b = Session(w.client("a"), name, version), w.client("b")
    s.ask(OPEN, (0, 0), (1, 0))
    s.send(1, max_wait_ms=5000, min_bytes=1)
    s.client.silent()
    produce(b, name, batch("one"), partition=1)
    s.client.answer()
    s.ask(2, (1, 1), max_wait_ms=200, min_bytes=1)
    s.send(3, max_wait_ms=5000, min_bytes=1)
    produce(b, name, batch("two"))
    s.client.answer()


@situation("a fetch session opens when the wait is over", (7, 18))
def opens_late(w: Play, version: int) -> None:
    name = w.topic(2)
    s = Session(w.client("a"), name, version)
    s.ask(OPEN, (0, 0), (1, 0), max_wait_ms=200, min_bytes=1)
    s.ask(1)


@situation("a fetch session continues while a request waits", (7, 18))
def overtaken(w: Play, version: int) -> None:
    name = w.topic(2)
    s, b = Session(w.client("a"), name, version), w.client("b")
    s.ask(OPEN, (0, 0))
    s.send(1, max_wait_ms=1000, min_bytes=1)
    first, s.client = s.client, w.client("c")
    s.ask(2, (1, 0))
    produce(b, name, batch("one"))
    first.answer()
    s.ask(3)


@situation("a fetch session is closed while a request waits", (7, 18))
def closed_meanwhile(w: Play, version: int) -> None:
    name = w.topic(1)
    s, b = Session(w.client("a"), name, version), w.client("b")
    s.ask(OPEN, (0, 0))
    s.send(1, max_wait_ms=1000, min_bytes=1)
    first, s.client = s.client, w.client("c")
    s.ask(NONE, (0, 0))
    produce(b, name, batch("one"))
    first.answer()
    s.ask(2)


@situation("a topic is deleted while a fetch waits for it", (4, 12, 13, 18))
def deleted_meanwhile(w: Play, version: int) -> None:
    name = w.topic(1)
    s, b = Session(w.client("a"), name, version), w.client("b")
    s.send(NONE, (0, 0), max_wait_ms=3000, min_bytes=1)
    b.ask("DeleteTopics", 1, topic_names=[name], timeout_ms=10_000)
    s.client.answer()


@situation("a fetch asks for more bytes than it takes", (4, 12, 18))
def more_than_it_takes(w: Play, version: int) -> None:
    name = w.topic(2)
    s, b = Session(w.client("a"), name, version), w.client("b")
    produce(b, name, batch("one"))
    s.ask(NONE, (0, 0), max_wait_ms=3000, min_bytes=10_000, max_bytes=50)
    s.ask(NONE, (0, 1), (1, 0), max_wait_ms=300, min_bytes=10_000, max_bytes=50)
    s.ask(NONE, (0, 1), max_wait_ms=3000, min_bytes=10_000, max_bytes=0)
    s.send(NONE, (0, 0), (1, 0), max_wait_ms=10_000, min_bytes=160)
    s.client.silent()
    produce(b, name, batch("two"), partition=1)
    s.client.silent()
    produce(b, name, batch("three"))
    s.client.answer()


@situation("the limit of a partition counts as it waits", (4, 18))
def partition_limits(w: Play, version: int) -> None:
    name = w.topic(2)
    s, b = Session(w.client("a"), name, version), w.client("b")
    topics = s.asked((0, 0), (1, 0), partition_max_bytes=10)
    s.send(NONE, topics=topics, max_wait_ms=1500, min_bytes=30)
    produce(b, name, batch("one"))
    s.client.silent()
    produce(b, name, batch("two"), partition=1)
    s.client.silent()


@situation("Fetch with the last fetched epoch: diverging epochs", (12, 18))
def last_epochs(w: Play, version: int) -> None:
    name = w.topic(2)
    s, b = Session(w.client("a"), name, version), w.client("b")
    produce(b, name, batch("one", "two"))
    for offset, last in ((1, 0), (2, 0), (0, 0), (1, 1), (3, 0), (2, 5), (9, 3)):
        s.ask(NONE, topics=s.asked((0, offset), (1, 0), last_fetched_epoch=last), max_wait_ms=100)
    s.ask(OPEN, topics=s.asked((0, 1), last_fetched_epoch=3))
    s.ask(1)
    s.ask(2, topics=s.asked((0, 1), last_fetched_epoch=0))


@situation("Fetch as a follower that is not a replica", (4, 12, 18))
def follower(w: Play, version: int) -> None:
    name = w.topic(1)
    s = Session(w.client("a"), name, version)
    produce(w.client("b"), name, batch("one"))
    for replica in (0, 1, 7):
        of = {"replica_id": replica} if version < 15 else {"replica_state": {"replica_id": replica}}
        s.ask(NONE, (0, 0), **of)
