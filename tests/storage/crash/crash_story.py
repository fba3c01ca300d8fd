"""A broker that lives through a story on recorded files, and what it may know after a crash at any moment of it.

Everything that a broker keeps is one or another *history*: states that follow each other. Each partition of the
offsets topic is one (the offsets of all its groups), the catalogue of topics is one, each log of a topic is one. A
crash may take a broker back to an earlier state of a history, but not behind what was promised, and never to a state
that was not one: a commit in part, a commit without those before it in the same log, an offset that nobody sent.

What is promised, by the policy of `fsync`:

                death of the process               power failure
    commit      everything acknowledged            everything acknowledged
    interval    everything acknowledged            what was acknowledged before the last fsync, and a clean stop
    never       everything acknowledged            what was acknowledged before a clean stop
    catalogue   everything, whatever the policy    the same

A start never refuses what a crash has left. Unless the policy is `never`, what a broker has found at its start is
promised as well, when it serves it.
"""

import random
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.broker.turn.workers import Done, Work, run_inline, sync_all
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.storage.log.log import Log
from tests.drivers.core import CoreClient, commit_request
from tests.storage.batches import batch, content
from tests.storage.crash.crash_files import RecordingFiles

TOPIC = "orders"
PARTITIONS = 2
SIDE_TOPICS = ("side", "other")
GROUPS = tuple(f"group-{number}" for number in range(4))
SHARDS = 2
METADATA_SIZES = (0, 0, 200, 900)
"""Characters, so that batches begin anywhere in a sector, and some span several."""

FIRST_INCARNATION = 10**12
INTERVAL_MS = 1000
SEGMENT_BYTES, MERGED_SEGMENT_BYTES = 1000, 9000
"""Of the offsets topic: about three commits, and while the cleaner makes one segment of several."""
PAUSE_MS = 10
SETTINGS = {
    "offsets.topic.num.partitions": SHARDS,
    "offsets.topic.segment.bytes": SEGMENT_BYTES,
    "fsync.interval.ms": INTERVAL_MS,
    "log.cleaner.backoff.ms": 1,
    "log.cleaner.min.cleanable.ratio": 0.2,
    "log.cleaner.delete.retention.ms": 2000,
    "log.flush.offset.checkpoint.interval.ms": 100,
}
SIDE_SEGMENT_BYTES = 2000
CONFIGS = {policy: Config.load(SETTINGS | {"fsync": policy}) for policy in ("never", "interval", "commit")}

Key = tuple[Any, ...]
"""("shard", partition), ("catalogue",) or ("log", topic, incarnation)."""

CATALOGUE: Key = ("catalogue",)


class History:
    """States that follow each other, and how many of them nothing may take back.

    acknowledged, promised  indexes of states: to a death of the process, to a power failure
    """

    def __init__(self, first: Any) -> None:
        self.states: list[Any] = [first]
        self.acknowledged = 0
        self.promised = 0

    def change(self, state: Any) -> int:
        """Note that the history goes on with `state`; return its index."""
        self.states.append(state)
        return len(self.states) - 1

    def go_on_from(self, found: Any, *, promised: bool) -> None:
        """A new process has found this state."""
        index = self.states.index(found, self.acknowledged)
        self.states = self.states[: index + 1]
        self.acknowledged = index
        if promised:
            self.promised = index

    def allowed(self) -> "Allowed":
        return Allowed(self.states, len(self.states), self.acknowledged, self.promised)


class Allowed(NamedTuple):
    """A history as it was at some moment."""

    states: list[Any]
    length: int
    acknowledged: int
    promised: int

    def permits(self, found: Any, *, process_death: bool) -> bool:
        floor = self.acknowledged if process_death else self.promised
        return found in self.states[floor : self.length]


Expected = Mapping[Key, Allowed]


class LateSync:
    """An fsync that runs beside the loop: the calls are made at `start`, the broker gets the result at `finish`."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[list[Log], Callable[[dict[Log, StorageError]], None]]] = deque()
        self.ended: deque[tuple[dict[Log, StorageError], Callable[[dict[Log, StorageError]], None]]] = deque()

    def __call__(self, logs: list[Log], done: Callable[[dict[Log, StorageError]], None]) -> None:
        self.waiting.append((logs, done))

    def start(self) -> None:
        if self.waiting:
            logs, done = self.waiting.popleft()
            self.ended.append((sync_all(logs), done))

    def finish(self) -> None:
        self.start()
        if self.ended:
            failed, done = self.ended.popleft()
            done(failed)


class LateWork:
    """Work beside the loop for which no request waits: done at `start`, and the broker gets the result at `finish`."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Work, Done]] = deque()
        self.ended: deque[tuple[StorageError | None, Done]] = deque()

    def __call__(self, work: Work, done: Done) -> None:
        self.waiting.append((work, done))

    def start(self) -> None:
        if self.waiting:
            work, done = self.waiting.popleft()
            run_inline(work, lambda error: self.ended.append((error, done)))

    def finish(self) -> None:
        self.start()
        if self.ended:
            error, done = self.ended.popleft()
            done(error)


@contextmanager
def ids_from(chance: random.Random) -> Iterator[None]:
    """Ids of topics and clusters come from `chance`, so that a story has the same bytes whenever it is told."""
    with patch.object(uuid, "uuid4", lambda: uuid.UUID(bytes=chance.randbytes(16))):
        yield


class ViolationError(AssertionError):
    """A crash has left, or a start has made, something that was not promised."""


def knowledge(core: BrokerCore) -> dict[Key, Any]:
    """Everything that a broker keeps, as states of histories."""
    found: dict[Key, Any] = {CATALOGUE: catalogue(core)}
    for shard in range(SHARDS):
        groups = {
            group: core.shards.committed(group) for group in GROUPS if partition_for(group, SHARDS) == shard
        }
        found["shard", shard] = {
            group: {key: (entry.offset, entry.metadata) for key, entry in offsets.items()}
            for group, offsets in groups.items()
            if offsets
        }
    for name, (incarnation, count) in found[CATALOGUE].items():
        if name in SIDE_TOPICS:
            for index in range(count):
                partition = core.topics.partition(name, index)
                assert partition is not None
                found["log", name, incarnation, index] = [value for _, value in content(partition.log)]
    return found


def catalogue(core: BrokerCore) -> dict[str, tuple[str, int]]:
    """Topic to its incarnation, a configuration that no other topic of that name ever had, and its partition count."""
    topics = (core.topics.get(name) for name in core.topics.names() if name != OFFSETS_TOPIC)
    return {
        topic.name: (topic.configs.get("retention.ms", ""), topic.partition_count)
        for topic in topics
        if topic is not None
    }


def compare(found: Mapping[Key, Any], expected: Expected, *, process_death: bool) -> None:
    """Raise ViolationError unless every history stands where it may."""
    for key, state in found.items():
        allowed = expected.get(key)
        if allowed is None:
            if state:
                raise ViolationError(f"{key}: {state} was never there")
        elif not allowed.permits(state, process_death=process_death):
            floor = allowed.acknowledged if process_death else allowed.promised
            states = "\n  ".join(str(each) for each in allowed.states[floor : allowed.length])
            raise ViolationError(f"{key}: found\n  {state}\nallowed is one of\n  {states}")


class Story:
    """One broker, and all that is asked of it.

    marks    (number of calls on the disk, what must be found), one for each change of the latter
    process  counts starts
    """

    def __init__(self, files: RecordingFiles, policy: str, chance: random.Random) -> None:
        self.files = files
        self.policy = policy
        self.chance = chance
        self.clock = ManualClock()
        self.histories: dict[Key, History] = {}
        self.marks: list[tuple[int, Expected]] = []
        self.number = 0
        self.dead: list[BrokerCore] = []
        """Kept, since what they were at must neither go on nor be tidied up."""
        self.start()
        taken = [int(incarnation) - FIRST_INCARNATION for incarnation, _ in self._side_topics().values()]
        self.number = max(taken, default=0)  # no name twice, also in the life of another story

    # -- lives

    def start(self) -> None:
        """A process starts on the files, and must know what the last one left."""
        self.files.die()
        self.sync, self.work = LateSync(), LateWork()
        self.core = BrokerCore(CONFIGS[self.policy], self.files, self.clock, self.sync, self.work)
        self._finish_all()
        self.client = CoreClient(self.core)
        self.pending: deque[list[tuple[History, int]]] = deque()
        found = knowledge(self.core)
        served = self.policy != "never"
        for key, state in found.items():
            history = self.histories.get(key)
            if history is None:
                history = self.histories[key] = History(state)
            elif state not in history.states[history.acknowledged :]:
                raise ViolationError(f"{key}: after the death of the process: {state}")
            history.go_on_from(state, promised=served or key == CATALOGUE)
        self.mark()

    def die(self) -> None:
        """kill -9, and a new process."""
        self.dead.append(self.core)
        self.start()

    def stop(self) -> None:
        """A clean stop, and a new process."""
        self._finish_all()
        self.core.close()
        for history in self.histories.values():
            history.acknowledged = history.promised = len(history.states) - 1
        self.mark()
        self.start()

    def mark(self) -> None:
        """Note what must be found from now on."""
        expected = {key: history.allowed() for key, history in self.histories.items()}
        self.marks.append((len(self.files.operations), expected))

    def expected_at(self, at: int) -> Expected:
        """What must be found when the machine stops before call number `at`."""
        past = (expected for index, expected in reversed(self.marks) if index <= at)
        return next(past, self.marks[0][1])

    # -- steps

    def commit(self) -> None:
        """One to three groups commit in one turn."""
        for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
            self._commit(self.chance.choice(GROUPS))
        self.turn()

    def _commit(self, group: str) -> None:
        self._have_topic()
        self.number += 1
        count = self.chance.choice((1, PARTITIONS, PARTITIONS))
        metadata = f"m{self.number}" + "." * self.chance.choice(METADATA_SIZES)
        offsets = {(TOPIC, index): self.number for index in range(count)}
        request = commit_request(self.core, group, offsets)
        for topic in request.topics:
            for partition in topic.partitions:
                partition.committed_metadata = metadata
        shard = self._shard_of(group)
        state = dict(shard.states[-1])
        state[group] = state.get(group, {}) | dict.fromkeys(offsets, (self.number, metadata))
        self._send(request, 8, shard, state)

    def delete_group(self) -> None:
        """A group is deleted with all its offsets."""
        group = self.chance.choice(GROUPS)
        shard = self._shard_of(group)
        if group in shard.states[-1] and not self.pending:
            state = {name: offsets for name, offsets in shard.states[-1].items() if name != group}
            self._send(messages.DeleteGroupsRequest([group]), 2, shard, state)
            self.turn()

    def produce(self) -> None:
        """Records go to a topic."""
        names = [name for name in SIDE_TOPICS if self.core.topics.get(name) is not None]
        if not names:
            return self.create_topic()
        self.number += 1
        name = self.chance.choice(names)
        incarnation, count = self._catalogue.states[-1][name]
        index = self.chance.randrange(count)
        log = self.histories.setdefault(("log", name, incarnation, index), History([]))
        value = b"record %d" % self.number + b"." * self.chance.choice(METADATA_SIZES)
        request = messages.ProduceRequest
        part = request.PartitionProduceData(index, bytes(batch([value])))
        data = request.TopicProduceData(name, partition_data=[part])
        self._send(request(acks=-1, timeout_ms=1000, topic_data=[data]), 9, log, [*log.states[-1], value])
        return self.turn()

    def create_topic(self) -> None:
        """A topic is created, perhaps one of a name that was deleted before."""
        names = [name for name in SIDE_TOPICS if self.core.topics.get(name) is None]
        if not names:
            return self.delete_topic()
        self.number += 1
        name, incarnation = self.chance.choice(names), str(FIRST_INCARNATION + self.number)
        configs = {"retention.ms": incarnation, "internal.segment.bytes": str(SIDE_SEGMENT_BYTES)}
        index = self._begin({**self._catalogue.states[-1], name: (incarnation, 1)})
        topic_admin.create_topic(self.core.broker, name, 1, configs)
        return self._end(index)

    def delete_topic(self) -> None:
        """A topic is deleted."""
        names = [name for name in SIDE_TOPICS if self.core.topics.get(name) is not None]
        if names and not self.pending:
            name = self.chance.choice(names)
            topics = dict(self._catalogue.states[-1])
            del topics[name]
            index = self._begin(topics)
            self.core.topics.delete(name)
            topic_admin.topic_deleted(self.core.broker, name)
            self._end(index)

    def grow_topic(self) -> None:
        """A topic gets another partition."""
        names = [name for name in SIDE_TOPICS if self.core.topics.get(name) is not None]
        if names:
            name = self.chance.choice(names)
            incarnation, count = self._catalogue.states[-1][name]
            if count < 3:
                index = self._begin({**self._catalogue.states[-1], name: (incarnation, count + 1)})
                self.core.topics.add_partitions(name, count + 1)
                self._end(index)

    def wait(self) -> None:
        """fsync.interval.ms goes by, and what had been acknowledged by then is synced."""
        self._finish_all()
        self.clock.advance(INTERVAL_MS)
        self.core.run_due()
        self._finish_all()
        if self.policy == "interval":
            for history in self.histories.values():
                history.promised = history.acknowledged
            self.mark()

    def pause(self) -> None:
        """A moment goes by: the cleaner takes a step, unless it waits for the disk."""
        for step, chance in ((self.work.start, 0.6), (self.work.finish, 0.6)):
            if self.chance.random() < chance:
                step()
        self.clock.advance(PAUSE_MS)
        self.core.run_due()
        self.turn()

    def rest(self) -> None:
        """No request arrives for a while: the cleaner may come to its end."""
        for _ in range(self.chance.choice((2, 5, 30))):
            self.pause()

    def merge_segments(self) -> None:
        """The offsets topic may have larger segments for a while: the cleaner makes one of several."""
        for _ in range(3):
            self.commit()
        if self.core.topics.get(OFFSETS_TOPIC) is None:
            self._finish_all()  # the first commits wait, behind a produce of their connection, for the disk
        self._resize_segments(MERGED_SEGMENT_BYTES)
        for _ in range(15):
            self.pause()
        self._resize_segments(SEGMENT_BYTES)

    def settle(self) -> None:
        """The system writes back data without a sync."""
        self.files.settle()

    def start_sync(self) -> None:
        """The disk has done what an fsync asked for, and the broker has not heard of it."""
        self.sync.start()

    def finish_sync(self) -> None:
        """Give the broker the result of an fsync."""
        self.sync.finish()
        self.turn()

    def turn(self) -> None:
        """A turn of the loop ends; the answers that it lets go are heard."""
        self.core.end_turn()
        answers = self.client.take()
        for answer in answers:
            assert set(_errors(answer)) == {0}, answer
            for history, index in self.pending.popleft():
                history.acknowledged = index
                if self.policy == "commit":
                    history.promised = index
        if answers:
            self.mark()

    # -- inside

    def _finish_all(self) -> None:
        """Every fsync that was asked for is done and heard of."""
        self.core.end_turn()
        while self.sync.waiting or self.sync.ended or self.work.waiting or self.work.ended:
            self.sync.finish()
            self.work.finish()
            if hasattr(self, "client"):
                self.turn()
            self.core.end_turn()

    @property
    def _catalogue(self) -> History:
        return self.histories[CATALOGUE]

    def _side_topics(self) -> dict[str, tuple[str, int]]:
        return {name: found for name, found in self._catalogue.states[-1].items() if name in SIDE_TOPICS}

    def _shard_of(self, group: str) -> History:
        return self.histories["shard", partition_for(group, SHARDS)]

    def _have_topic(self) -> None:
        if self.core.topics.get(TOPIC) is None:
            index = self._begin({**self._catalogue.states[-1], TOPIC: ("", PARTITIONS)})
            topic_admin.create_topic(self.core.broker, TOPIC, PARTITIONS, {})
            self._end(index)

    def _resize_segments(self, size: int) -> None:
        topic = self.core.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        self.core.topics.set_configs(OFFSETS_TOPIC, topic.configs | {"internal.segment.bytes": str(size)})

    def _begin(self, topics: dict[str, tuple[str, int]]) -> int:
        index = self._catalogue.change(topics)
        self.mark()
        return index

    def _end(self, index: int) -> None:
        self._catalogue.acknowledged = self._catalogue.promised = index
        self.mark()

    def _send(self, request: messages.MessageValue, version: int, history: History, state: Any) -> None:
        self.pending.append([(history, history.change(state))])
        self.mark()
        self.client.send((request, version))


def _errors(answer: Any) -> list[int]:
    if isinstance(answer, messages.OffsetCommitResponse):
        return [p.error_code for topic in answer.topics for p in topic.partitions]
    if isinstance(answer, messages.ProduceResponse):
        return [p.error_code for topic in answer.responses for p in topic.partition_responses]
    return [result.error_code for result in answer.results]


STEPS: tuple[tuple[Callable[[Story], None], int], ...] = (
    (Story.commit, 12),
    (Story.delete_group, 1),
    (Story.produce, 4),
    (Story.create_topic, 1),
    (Story.delete_topic, 1),
    (Story.grow_topic, 1),
    (Story.wait, 1),
    (Story.pause, 4),
    (Story.rest, 4),
    (Story.merge_segments, 2),
    (Story.settle, 3),
    (Story.start_sync, 2),
    (Story.finish_sync, 5),
    (Story.die, 1),
    (Story.stop, 1),
)
"""What a story is made of, with weights. Another operation of the broker is another method and another line."""


def go_on(story: Story, steps: int) -> None:
    """Let so many random things happen."""
    for step in story.chance.choices([step for step, _ in STEPS], [weight for _, weight in STEPS], k=steps):
        step(story)


def tell(policy: str, seed: int, steps: int) -> Story:
    """A story of so many steps on an empty disk."""
    chance = random.Random(f"{policy}/{seed}")
    with ids_from(chance):
        story = Story(RecordingFiles(), policy, chance)
        go_on(story, steps)
    return story
