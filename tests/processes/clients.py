"""Clients of a campaign, in requests of their own: each writes a history, and knows what the cluster must have.

A request that got no response, or an error that comes after an append, is *unknown*: it may take effect, now or later.
One with an error from before the append has *failed*. Everything else that was not acknowledged is a violation.
"""

import itertools
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from kafka_offsets.client import commits
from kafka_offsets.client.connection import Address, Connection, parse_address
from kafka_offsets.errors import ConnectionLostError, ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch

TOPIC, PARTITIONS = "numbers", 6
GROUP_PARTITIONS = 3
"""A commit names so many partitions of the topic at once."""

REQUEST_S = 4.0
PAUSE_S = 0.02
NO_MEMBER = ("", -1)
_LATER = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # a broker that starts has not received its metadata yet
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}
_PRODUCE_LATER = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


class ViolationError(AssertionError):
    """The cluster has broken a promise."""


class Client(ABC):
    """A thread that works while it is started; it keeps its connections and its knowledge between the rounds.

    acknowledged  how many requests were; progress is seen by it
    codes         how many requests got each outcome
    request_s     how long a request waits for its response
    """

    request_s = REQUEST_S

    def __init__(self, name: str, addresses: list[str], seed: int, folder: Path) -> None:
        self.name = name
        self.acknowledged = 0
        self.codes: Counter[str] = Counter()
        self.problem: BaseException | None = None
        self._addresses = [parse_address(each) for each in addresses]
        self._random = random.Random(f"{seed} {name}")
        self._history: TextIO = (folder / f"{name}.txt").open("a", encoding="utf-8")
        self._connections: dict[Address, Connection] = {}
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def begin(self) -> None:
        """Work until `end`."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Return when the last request has its outcome. Raises what has gone wrong."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        self._history.flush()
        if self.problem is not None:
            raise self.problem

    def close(self) -> None:
        """End, whatever has gone wrong."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        for address in list(self._connections):
            self.drop(address)
        self._history.close()

    def note(self, what: str, outcome: str) -> None:
        """Add a line to the history."""
        self.codes[outcome] += 1
        self._history.write(f"{time.time():.4f} {what} {outcome}\n")

    def call(self, address: Address, request: messages.MessageValue, version: int) -> Any:
        """Send a request. Raises ConnectionLostError; the connection is closed then."""
        try:
            if address not in self._connections:
                self._connections[address] = Connection(*address, self.request_s)
            return self._connections[address].call(request, version)
        except ConnectionLostError:
            self.drop(address)
            raise

    def drop(self, address: Address) -> None:
        """Close a connection."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def any_address(self) -> Address:
        """Return one of the brokers."""
        return self._random.choice(self._addresses)

    def leaders(self) -> dict[int, Address]:
        """Return the leaders of the topic's partitions, as some broker knows them."""
        wanted = messages.MetadataRequest
        answer = self.call(self.any_address(), wanted([wanted.Topic(name=TOPIC)], False), 4)
        brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        return {
            each.partition_index: brokers[each.leader_id]
            for topic in answer.topics
            for each in topic.partitions
            if each.leader_id in brokers
        }

    def coordinator(self, group: str) -> Address | None:
        """Return the coordinator of a group, as some broker knows it."""
        answer = self.call(self.any_address(), messages.FindCoordinatorRequest(group, 0), 3)
        return None if answer.error_code else (answer.host, answer.port)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self.step()
                except ConnectionLostError:
                    self.lost()
                    self._stopping.wait(PAUSE_S)
        except BaseException as error:  # noqa: BLE001 - raised by `end`
            self.problem = error

    @abstractmethod
    def step(self) -> None:
        """Send one request. Raises ConnectionLostError if its outcome is unknown."""

    def lost(self) -> None:  # noqa: B027 - the clients of libraries do not know of it
        """Note that the last request got no response."""


class Offsets:
    """What is known of the committed offset of one place: it grows, and a commit may be unknown.

    acknowledged  the last one acknowledged
    unknown       those that may take effect, also later
    """

    def __init__(self) -> None:
        self.acknowledged = -1
        self.unknown: set[int] = set()

    def acknowledge(self, offset: int) -> None:
        """A commit was accepted."""
        self.acknowledged = offset

    def check(self, found: int, what: str) -> None:
        """Fail unless `found` is the last acknowledged offset, or an unknown one."""
        if found != self.acknowledged and found not in self.unknown:
            raise ViolationError(
                f"{what}: found {found}, acknowledged {self.acknowledged}, unknown {sorted(self.unknown)[-5:]}"
            )


class GrowingOffsets(Offsets):
    """Offsets of which none goes back: an unknown one before an acknowledged one has not taken effect, and will not."""

    def acknowledge(self, offset: int) -> None:
        super().acknowledge(offset)
        self.unknown = {each for each in self.unknown if each > offset}


class Committer(Client):
    """Commits 1, 2, 3, … for a group of its own to several partitions at once, by no member."""

    def __init__(self, name: str, addresses: list[str], seed: int, folder: Path) -> None:
        super().__init__(name, addresses, seed, folder)
        self.group = name
        self.offsets = Offsets()
        self._numbers = itertools.count(1)
        self._at: Address | None = None
        self._sent: int | None = None

    version = commits.VERSION
    member = NO_MEMBER

    def step(self) -> None:
        if self._at is None:
            self._at = self.coordinator(self.group)
        if self._at is None:
            self._stopping.wait(PAUSE_S)
        elif self.is_ready(self._at):
            self._commit(self._at)

    def is_ready(self, _at: Address) -> bool:
        """Do what a commit needs first; return whether it is done."""
        return True

    def _commit(self, at: Address) -> None:
        number = next(self._numbers)
        places = {(TOPIC, partition): number for partition in range(GROUP_PARTITIONS)}
        request = commits.request(self.group, places, {}, str(number))
        request.member_id, request.generation_id_or_member_epoch = self.member
        self._sent = number
        answer = self.call(at, request, self.version)
        self._sent = None
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        if len(codes) != 1:
            raise ViolationError(f"{self.group}: commit {number} was answered {codes}")
        (code,) = codes
        self.note(f"commit {number} at {at[1]}", ErrorCode(code).name)
        if code == ErrorCode.NONE:
            self.acknowledged += 1
            self.offsets.acknowledge(number)
            return
        self._at = None
        if code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
            # As in Kafka, a coordinator that resigns answers so to commits that wait for the in-sync replicas.
            self.offsets.unknown.add(number)
        elif code not in _LATER:
            raise ViolationError(f"{self.group}: commit {number} was answered {ErrorCode(code).name}")
        self._stopping.wait(PAUSE_S)

    def lost(self) -> None:
        if self._sent is not None:
            self.note(f"commit {self._sent} at {self._at}", "unknown")
            self.offsets.unknown.add(self._sent)
        self._at = self._sent = None

    def check(self, found: dict[int, tuple[int, str]]) -> None:
        """Compare what is committed, by partition, with what was acknowledged and sent."""
        if len(set(found.values())) != 1 or len(found) != GROUP_PARTITIONS:
            raise ViolationError(f"{self.group}: a commit is there in part: {found}")
        offset, metadata = found[0]
        if metadata != str(offset):
            raise ViolationError(f"{self.group}: offset {offset} has the metadata of {metadata}")
        self.offsets.check(offset, self.group)

    def expect_no_rebalance(self, code: int, what: str) -> bool:
        """Return whether a request of a member was accepted; fail if the member was removed or must join again."""
        self.note(what, ErrorCode(code).name)
        if code == ErrorCode.NONE:
            return True
        self._at = None
        if code not in _LATER | {ErrorCode.COORDINATOR_NOT_AVAILABLE}:
            raise ViolationError(f"{self.group}: {what} was answered {ErrorCode(code).name}: it rebalances")
        self._stopping.wait(PAUSE_S)
        return False


class AnyBrokerCommitter(Committer):
    """Commits at any broker, which forwards to the coordinator: what it gave up is never committed after a later one.

    A request that got no response ends its connection, and the next one is sent over another. It waits for less time
    than a session lasts: a broker that was stopped is still the coordinator when it reads what was given up.
    """

    request_s = 0.7

    def __init__(self, name: str, addresses: list[str], seed: int, folder: Path) -> None:
        super().__init__(name, addresses, seed, folder)
        self.offsets = GrowingOffsets()

    def coordinator(self, group: str) -> Address | None:
        return self.any_address()

    def _commit(self, at: Address) -> None:
        super()._commit(at)
        self._at = None


class ClassicMember(Committer):
    """The only member of a classic group, which commits in its first generation for ever."""

    session_ms = 240_000
    is_joined = False

    def is_ready(self, at: Address) -> bool:
        if self.is_joined:
            request = messages.HeartbeatRequest(self.group, self.member[1], self.member[0])
            return self.expect_no_rebalance(self.call(at, request, 3).error_code, "heartbeat")
        join = messages.JoinGroupRequest
        request = join(
            self.group,
            self.session_ms,
            self.session_ms,
            self.member[0],
            protocol_type="mine",
            protocols=[join.Protocol("only", b"")],
        )
        answer = self.call(at, request, 5)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member = answer.member_id, -1
            return False
        if not self.expect_no_rebalance(answer.error_code, "join"):
            return False
        self.member = answer.member_id, answer.generation_id
        sync = messages.SyncGroupRequest
        mine = [sync.Assignment(self.member[0], b"all")]
        synced = self.call(at, sync(self.group, self.member[1], self.member[0], assignments=mine), 3)
        self.is_joined = self.expect_no_rebalance(synced.error_code, "sync")
        return self.is_joined


class ConsumerMember(Committer):
    """The only member of a consumer group (KIP-848), whose epoch never changes once it has its partitions."""

    version = 9
    is_joined = False

    def is_ready(self, at: Address) -> bool:
        first = self.member[1] < 1
        request = messages.ConsumerGroupHeartbeatRequest(
            self.group,
            self.member[0] or f"member-of-{self.group}-{self._random.randrange(1 << 40)}",
            max(self.member[1], 0),
            rebalance_timeout_ms=240_000 if first else -1,
            subscribed_topic_names=[TOPIC] if first else None,
            topic_partitions=[] if first else None,
        )
        answer = self.call(at, request, 1)
        if not self.expect_no_rebalance(answer.error_code, "heartbeat"):
            return False
        found = answer.member_id or request.member_id, answer.member_epoch
        if self.is_joined and found != self.member:
            raise ViolationError(f"{self.group}: {self.member} became {found}: it rebalances")
        self.member, self.is_joined = found, True
        return True


class Producer(Client):
    """An idempotent producer with acks=all, alone at its partitions: the record at offset n has the value n."""

    def __init__(
        self, name: str, addresses: list[str], seed: int, folder: Path, partitions: tuple[int, ...]
    ) -> None:
        super().__init__(name, addresses, seed, folder)
        self.partitions = partitions
        self.written = dict.fromkeys(partitions, 0)
        self.sent = dict.fromkeys(partitions, 0)
        self._identity: tuple[int, int] | None = None
        self._turns = itertools.cycle(partitions)
        self._at: dict[int, Address] = {}
        self._under_way: int | None = None

    def step(self) -> None:
        if self._identity is None:
            answer = self.call(self.any_address(), messages.InitProducerIdRequest(None, 1000), 1)
            if answer.error_code:
                self.note("producer id", ErrorCode(answer.error_code).name)
                self._stopping.wait(PAUSE_S)
                return
            self._identity = answer.producer_id, answer.producer_epoch
        partition = next(self._turns)
        if partition not in self._at:
            self._at = self.leaders()
        if partition not in self._at:
            self._stopping.wait(PAUSE_S)
            return
        self._produce(partition, self._at[partition])

    def _produce(self, partition: int, at: Address) -> None:
        """Send the next batch, or again one whose outcome is unknown."""
        assert self._identity is not None
        begin = self.written[partition]
        if self.sent[partition] == begin:
            self.sent[partition] += self._random.randint(1, 5)
        end = self.sent[partition]
        now = int(time.time() * 1000)
        batch = encode_batch(
            [(None, b"%d" % number, (), now) for number in range(begin, end)],
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=begin,
        )
        request = messages.ProduceRequest
        data = request.TopicProduceData(
            TOPIC, partition_data=[request.PartitionProduceData(partition, bytes(batch))]
        )
        self._under_way = partition
        answer = self.call(at, request(None, -1, 3000, [data]), 7)
        self._under_way = None
        found = answer.responses[0].partition_responses[0]
        code = found.error_code
        what = f"produce {partition} {begin}-{end} at {at[1]}"
        self.note(what, ErrorCode(code).name)
        if code == ErrorCode.NONE:
            if found.base_offset != begin:
                raise ViolationError(f"{what} was acknowledged at offset {found.base_offset}")
            self.acknowledged += 1
            self.written[partition] = end
        elif code in _PRODUCE_LATER:
            self._at.pop(partition, None)
            self._stopping.wait(PAUSE_S)
        else:
            raise ViolationError(f"{what} was answered {ErrorCode(code).name}")

    def lost(self) -> None:
        if self._under_way is not None:
            self.note(f"produce {self._under_way} at {self._at[self._under_way]}", "unknown")
        self._under_way = None
        self._at = {}


def await_progress(clients: list[Client], what: str, deadline_s: float) -> float:
    """Wait until each client has had an acknowledgement from now on; return the seconds. Raises what one has raised."""
    began = time.monotonic()
    before = {client: client.acknowledged for client in clients}
    while slow := [client.name for client in clients if client.acknowledged <= before[client]]:
        for client in clients:
            if client.problem is not None:
                raise client.problem
        if time.monotonic() - began > deadline_s:
            raise ViolationError(f"not within {deadline_s:g} s of {what}: an acknowledgement for {slow}")
        time.sleep(0.02)
    return time.monotonic() - began


def retry(call: Callable[[], Any], what: str, deadline_s: float) -> Any:
    """Call until the result is not None; a lost connection is tried again."""
    until = time.monotonic() + deadline_s
    last: object = None
    while time.monotonic() < until:
        try:
            found = call()
        except ConnectionLostError as error:
            last = error
        else:
            if found is not None:
                return found
        time.sleep(0.05)
    raise ViolationError(f"not within {deadline_s:g} s: {what} ({last})")
