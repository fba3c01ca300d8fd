"""Consumer: the interface of the design document "Kafka 0.9 Consumer Rewrite Design", over today's protocol.

One thread, one selector: heartbeats, rebalances and fetches happen within `poll` and within the calls that wait.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, overload

from kafka_offsets.client.consumer.actions import Assign, Deassign, GroupMembership, Refresh, Send
from kafka_offsets.client.consumer.classic import ClassicMembership
from kafka_offsets.client.consumer.coordinator_link import CoordinatorLink
from kafka_offsets.client.consumer.exceptions import (
    InvalidPartitionsToCommitOffset,
    InvalidPartitionsToGetOffset,
    OffsetUnknown,
    SubscriptionIsEmpty,
    SubscriptionNotValid,
)
from kafka_offsets.client.consumer.fetcher import RecordFetcher
from kafka_offsets.client.consumer.group_offsets import GroupOffsets, Outcome
from kafka_offsets.client.consumer.metadata import Metadata
from kafka_offsets.client.consumer.modern import ModernMembership
from kafka_offsets.client.consumer.network import ConsumerNetwork
from kafka_offsets.client.consumer.positions import Positions
from kafka_offsets.client.consumer.record import ConsumerRecord
from kafka_offsets.client.consumer.settings import parse_settings
from kafka_offsets.client.consumer.subscription import ConsumerSubscription, check_offset
from kafka_offsets.clock import monotonic_ns
from kafka_offsets.errors import CommitRefusedError, ConfigError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.topic_partition import TopicPartition

_logger = new_logger(__name__)

Commit = tuple[str, int, int]
"""A topic, a partition and an offset."""


_ITERATION_MS = 60_000


def _now_ms() -> int:
    return monotonic_ns() // 1_000_000


class Consumer:
    """A consumer of topics, as a member of a group, or of single partitions, without one.

    properties  Kafka's keys, such as bootstrap.servers, group.id, auto.offset.reset, group.protocol and
                security.protocol

    Not safe for several threads. Heartbeats are sent only within calls: an application that takes longer than
    session.timeout.ms between two of them is removed from its group.
    Raises ConfigError for an unknown key and a wrong value. Every method that waits raises TimeoutError after
    default.api.timeout.ms, RefusedError for an error of a broker that is final, such as a wrong password, and
    ListenerError if TLS does not begin.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        self._settings = settings = parse_settings(properties)
        self._subscription = ConsumerSubscription()
        self._network = ConsumerNetwork(
            settings.client_id,
            settings.request_timeout_ms,
            settings.reconnect_backoff_ms,
            settings.security,
        )
        self._metadata = Metadata(self._network, settings)
        self._link: CoordinatorLink | None = None
        self._offsets: GroupOffsets | None = None
        if settings.group_id is not None:
            self._link = CoordinatorLink(self._network, self._metadata, settings)
            self._offsets = GroupOffsets(self._link, settings)
        self._membership: GroupMembership | None = None
        self._positions = Positions(self._network, self._metadata, self._offsets, settings)
        self._fetcher = RecordFetcher(self._network, self._metadata, self._positions, settings)
        self._coordinator_failures = 0
        self._is_lost = self._is_closed = False
        self._auto_commit_ms = _now_ms() + settings.auto_commit_interval_ms
        self._committed: dict[TopicPartition, int] = {}  # the last automatic commit of each partition
        self._to_commit: dict[TopicPartition, int] = {}  # commits that wait until the coordinator is known

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Callbacks

    def on_partition_assigned(self, partitions: list[TopicPartition]) -> None:
        """Called within `poll` when partitions are assigned, before they are read; override it to do more.

        With enable.auto.commit, this reads the committed offsets, which are the positions then. Without it, the
        application may give offsets by `position`; `poll` reads the committed offset of partitions without one.
        """
        if self._settings.enable_auto_commit and partitions:
            self._wait(
                lambda: all(
                    position.offset is not None or position.must_reset
                    for partition in partitions
                    if (position := self._positions.table.get(partition)) is not None
                ),
                "the committed offsets of the assigned partitions",
            )

    def on_partition_deassigned(self, partitions: list[TopicPartition]) -> None:
        """Called within `poll` and `close` when partitions are taken away, while they are still this member's.

        With enable.auto.commit, this commits the positions, unless the group has already removed this member.
        """
        if not self._settings.enable_auto_commit or self._is_lost:
            return
        consumed = self._positions.consumed()
        offsets = {partition: consumed[partition] for partition in partitions if partition in consumed}
        try:
            self._commit_and_wait(self._uncommitted(offsets))
        except (CommitRefusedError, TimeoutError) as error:
            # The rebalance must continue: the next owner starts at the last commit.
            _logger.warning("positions are not committed: %s", error)

    # Interface

    @overload
    def subscribe(self, *topics: str | re.Pattern[str]) -> None: ...
    @overload
    def subscribe(self, topic: str, partition: int, /) -> None: ...
    @overload
    def subscribe(self, topic: str, partition: int, offset: int, /) -> None: ...
    def subscribe(self, *arguments: Any) -> None:
        """Add to the subscription: topics and patterns, or one partition, with the offset to start at.

        A group assigns the partitions of topics; pattern objects match whole names. Partitions need no group, and
        exclude topics: SubscriptionNotValid. ConfigError for topics without group.id.
        """
        self._check_open()
        if len(arguments) in (2, 3) and all(type(argument) is int for argument in arguments[1:]):
            self._subscription.add_partition(*arguments)
            topic, partition, *offset = arguments
            self._positions.add({(topic, partition): None})
            if offset:
                self._positions.table[topic, partition].move(offset[0])
        else:
            if self._settings.group_id is None:
                raise ConfigError("group.id is missing: a group assigns the partitions of topics")
            self._subscription.add_topics(arguments)
            self._join()
        self._set_interest()

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Return the next records, at most max.poll.records; an empty list if there is none within the timeout.

        Raises SubscriptionIsEmpty without a subscription, and ConsumeInitOffsetNotKnown, an InitOffsetNotKnown, if
        auto.offset.reset is none and no offset to start at is known. RecordsDamaged has the offset to continue at.
        """
        return self._next_records(timeout_ms, self._settings.max_poll_records)

    def __iter__(self) -> Self:
        """Iterate over the records; it waits for the next one as long as it takes."""
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record, as `poll` does: a `commit` then is up to this record, and no further."""
        while not (records := self._next_records(_ITERATION_MS, 1)):
            pass
        return records[0]

    def _next_records(self, timeout_ms: int, most: int) -> list[ConsumerRecord]:
        self._check_subscribed()
        now_ms = _now_ms()
        until_ms = now_ms + timeout_ms + (timeout_ms > 0)  # plus 1, because `_now_ms` rounds down
        self._auto_commit(now_ms)
        wait_ms = 0
        while True:
            self._network.run(now_ms, wait_ms)
            now_ms = _now_ms()
            self._step(now_ms)
            if records := self._fetcher.take(most):
                self._fetcher.step(now_ms)
                return records
            self._positions.check()
            if now_ms >= until_ms:
                return []
            wait_ms = self._idle_ms(now_ms, until_ms)

    @overload
    def commit(self, sync: bool = True, /) -> None: ...
    @overload
    def commit(self, offsets: Iterable[Commit], sync: bool = True, /) -> None: ...
    def commit(self, *arguments: Any) -> None:
        """Commit the positions of all partitions, or the given offsets; each is the next one to read.

        With `sync`, wait for the response: CommitRefusedError if the coordinator refuses, and
        InvalidPartitionsToCommitOffset if a partition is not assigned to this member of a group. Without it, the
        commit is best-effort. ConfigError without group.id.
        """
        self._check_open()
        offsets, sync = _commit_arguments(arguments)
        if self._offsets is None:
            raise ConfigError("group.id is missing: offsets are committed for a group")
        if offsets is None:
            to_commit = self._positions.consumed()
        else:
            to_commit = {(topic, partition): offset for topic, partition, offset in offsets}
            if sync and self._membership is not None:
                self._check_assigned(to_commit, InvalidPartitionsToCommitOffset)
        if sync:
            self._commit_and_wait(to_commit)
        elif to_commit:
            self._to_commit |= to_commit
            self._send_commits(_now_ms())

    def position(self, offsets: Iterable[Commit]) -> None:
        """Set the offset that `poll` continues at, for partitions that are consumed now; else SubscriptionNotValid."""
        self._check_open()
        next_offsets = {(topic, partition): offset for topic, partition, offset in offsets}
        self._check_assigned(next_offsets, SubscriptionNotValid)
        for topic_partition, offset in next_offsets.items():
            check_offset(topic_partition, offset)
        for topic_partition, offset in next_offsets.items():
            self._positions.table[topic_partition].move(offset)

    def get_positions(self) -> dict[TopicPartition, int]:
        """Return the offset that `poll` continues at in each consumed partition; wait until they are known.

        Raises ConsumeInitOffsetNotKnown as `poll`.
        """
        self.get_partitions()
        self._wait(lambda: self._is_assigned and not self._positions.missing(), "the positions")
        self._positions.check()
        return dict(sorted(self._positions.consumed().items()))

    def get_partitions(self) -> list[TopicPartition]:
        """Return the partitions that are consumed now; wait for the group to assign them."""
        self._check_subscribed()
        self._wait(lambda: self._is_assigned, "an assignment")
        return sorted(self._positions.table)

    def get_offsets(self) -> dict[TopicPartition, int]:
        """Return the last committed offsets of the consumed partitions; OffsetUnknown if there is none."""
        committed = self._last_committed(self.get_partitions())
        if not committed:
            raise OffsetUnknown(f"group {self._settings.group_id!r} has committed nothing in its partitions")
        return committed

    def get_offset(self, topic: str, partition: int) -> int:
        """Return the last committed offset of a consumed partition; OffsetUnknown if there is none.

        InvalidPartitionsToGetOffset for another partition, and without group.id.
        """
        topic_partition = topic, partition
        if topic_partition not in self.get_partitions():
            raise InvalidPartitionsToGetOffset(f"{topic}-{partition} is not consumed")
        committed = self._last_committed([topic_partition])
        if not committed:
            raise OffsetUnknown(
                f"group {self._settings.group_id!r} has committed nothing in {topic}-{partition}"
            )
        return committed[topic_partition]

    def unsubscribe(self) -> None:
        """Give up the partitions and leave the group, as `close` does; `subscribe` may follow."""
        self._check_open()
        try:
            self._leave()
        finally:
            self._membership = None
            if self._offsets is not None:
                self._offsets.membership = None
            self._positions.remove(list(self._positions.table))
            self._committed.clear()
            self._subscription = ConsumerSubscription()
            self._set_interest()

    def close(self) -> None:
        """Give up the partitions, leave the group, and close the connections. A second call does nothing."""
        if self._is_closed:
            return
        try:
            self._leave()
        finally:
            self._is_closed = True
            self._network.close()

    # Checks

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("the consumer is closed")

    def _check_subscribed(self) -> None:
        self._check_open()
        if self._subscription.is_empty:
            raise SubscriptionIsEmpty("nothing is subscribed")

    def _check_assigned(
        self, partitions: Iterable[TopicPartition], error: Callable[[str], Exception]
    ) -> None:
        wrong = sorted(set(partitions) - self._positions.table.keys())
        if wrong:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in wrong)
            raise error(f"not assigned to this consumer: {names}")

    # One turn

    def _step(self, now_ms: int) -> None:
        """Send every request that is due, and call the callbacks of a rebalance."""
        self._metadata.step(now_ms)
        if self._link is not None:
            self._link.step(now_ms)
            if self._link.failures != self._coordinator_failures:
                self._coordinator_failures = self._link.failures
                if self._membership is not None:
                    self._membership.lost(now_ms)
            self._coordinate(now_ms)
            self._send_commits(now_ms)
        self._positions.step(now_ms)
        self._fetcher.step(now_ms)

    def _idle_ms(self, now_ms: int, until_ms: int) -> int:
        """Return how long there is nothing to do but to wait for responses."""
        deadlines = [
            self._network.deadline_ms,
            self._metadata.deadline_ms(now_ms),
            self._positions.deadline_ms(),
            self._fetcher.deadline_ms(now_ms),
        ]
        if self._link is not None:
            deadlines.append(self._link.deadline_ms(now_ms))
            if self._membership is not None and self._link.is_ready:
                deadlines.append(self._membership.deadline_ms)
        due_ms = min((deadline for deadline in deadlines if deadline is not None), default=until_ms)
        return max(min(due_ms, until_ms) - now_ms, 1)

    def _wait(self, is_done: Callable[[], bool], what: str) -> None:
        """Continue until something is done. TimeoutError after default.api.timeout.ms."""
        now_ms = _now_ms()
        until_ms = now_ms + self._settings.default_api_timeout_ms
        self._step(now_ms)
        while not is_done():
            if now_ms >= until_ms:
                last = f"; {self._network.last_error}" if self._network.last_error else ""
                raise TimeoutError(f"no response in time: {what}{last}")
            self._network.run(now_ms, self._idle_ms(now_ms, until_ms))
            now_ms = _now_ms()
            self._step(now_ms)

    # Group

    def _join(self) -> None:
        """Become a member of the group, which assigns the partitions."""
        if self._membership is None:
            assert self._offsets is not None
            if self._settings.group_protocol == "consumer":
                self._membership = ModernMembership(self._settings, str(uuid.uuid4()))
            else:
                self._membership = ClassicMembership(self._settings)
            self._offsets.membership = self._membership

    def _set_interest(self) -> None:
        """Get the metadata of what is subscribed: of all topics, if there are patterns."""
        subscription = self._subscription
        if subscription.patterns:
            self._metadata.want(None)
        else:
            self._metadata.want(subscription.topics | {topic for topic, _ in subscription.partitions})

    @property
    def _is_assigned(self) -> bool:
        return self._membership is None or self._membership.is_stable

    def _coordinate(self, now_ms: int) -> None:
        """Do what the membership asks for, if the coordinator is known."""
        membership, link = self._membership, self._link
        if membership is None or link is None or not link.is_ready:
            return
        internal = self._metadata.internal if self._settings.exclude_internal_topics else frozenset()
        if self._subscription.patterns and not self._metadata.version:
            return
        membership.subscribe(self._subscription.matched(self._metadata.topics, internal))
        while (step := membership.next(now_ms, self._metadata)) is not None:
            match step:
                case Send(request, version, timeout_ms):
                    self._send_for_group(request, version, timeout_ms, now_ms)
                case Refresh(topics):
                    self._metadata.want_more(topics)
                    self._metadata.step(now_ms)
                    return
                case Deassign(partitions, is_lost):
                    self._deassign(membership, list(partitions), is_lost)
                    now_ms = _now_ms()
                case Assign(partitions):
                    self._assign(membership, list(partitions))
                    now_ms = _now_ms()

    def _send_for_group(self, request: Any, version: int, timeout_ms: int | None, now_ms: int) -> None:
        membership, link = self._membership, self._link
        assert membership is not None and link is not None

        def done(response: Any) -> None:
            current_ms = _now_ms()
            # No answer: the connection is closed, or the coordinator was silent for too long.
            if response is None or membership.answered(request, response, current_ms):
                link.forget(current_ms)

        if not link.send(request, version, now_ms, done, timeout_ms):
            membership.lost(now_ms)

    def _deassign(self, membership: GroupMembership, partitions: list[TopicPartition], is_lost: bool) -> None:
        owned = [partition for partition in partitions if partition in self._positions.table]
        self._is_lost = is_lost
        try:
            if owned:
                self.on_partition_deassigned(owned)
        finally:
            self._is_lost = False
            self._positions.remove(owned)
            for partition in owned:
                # Another owner may commit before the partition returns.
                self._committed.pop(partition, None)
            membership.finished()

    def _assign(self, membership: GroupMembership, partitions: list[TopicPartition]) -> None:
        self._positions.add(dict.fromkeys(partitions))
        self._metadata.refresh()
        try:
            self.on_partition_assigned(partitions)
        finally:
            membership.finished()

    def _leave(self) -> None:
        """Give up the partitions, and leave the group, if its coordinator can be asked."""
        membership = self._membership
        if membership is None:
            if self._settings.enable_auto_commit and self._offsets is not None and self._positions.table:
                self.on_partition_deassigned(sorted(self._positions.table))
            elif self._to_commit:
                self._commit_and_wait({})
            return
        if self._positions.table:
            self._is_lost = membership.generation < 0
            self.on_partition_deassigned(sorted(self._positions.table))
        now_ms = _now_ms()
        request = membership.leave()
        done: list[Any] = []
        if request is None or self._link is None:
            return
        if not self._link.send(request.request, request.version, now_ms, done.append):
            return
        until_ms = now_ms + self._settings.request_timeout_ms
        while not done and now_ms < until_ms:
            self._network.run(now_ms, until_ms - now_ms)
            now_ms = _now_ms()

    # Offsets

    def _uncommitted(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {
            partition: offset
            for partition, offset in offsets.items()
            if self._committed.get(partition) != offset
        }

    def _auto_commit(self, now_ms: int) -> None:
        """Commit the positions, all records of which were returned by earlier calls of `poll`, if it is time."""
        if not self._settings.enable_auto_commit or self._offsets is None or now_ms < self._auto_commit_ms:
            return
        self._auto_commit_ms = now_ms + self._settings.auto_commit_interval_ms
        uncommitted = self._uncommitted(self._positions.consumed())
        self._to_commit |= uncommitted
        self._send_commits(now_ms)

    def _send_commits(self, now_ms: int) -> None:
        """Send the asynchronous commits if the coordinator is known. What is refused is not committed again."""
        if not self._to_commit or self._offsets is None or self._link is None or not self._link.is_ready:
            return
        offsets, self._to_commit = self._to_commit, {}
        if self._membership is not None and self._membership.generation < 0:
            return

        def done(outcome: Outcome) -> None:
            if outcome is True:
                owned = self._positions.table
                self._committed |= {
                    partition: offset for partition, offset in offsets.items() if partition in owned
                }
            elif isinstance(outcome, CommitRefusedError):
                _logger.warning("%s", outcome)

        self._offsets.commit(offsets, now_ms, done)

    def _commit_and_wait(self, offsets: dict[TopicPartition, int]) -> None:
        """Commit, again and again until the coordinator decides. CommitRefusedError if it refuses."""
        if not offsets and not self._to_commit:
            return
        to_commit = self._to_commit | offsets
        self._to_commit = {}
        outcome: list[Outcome] = []
        retry_ms = 0
        is_in_flight = False

        def done(result: Outcome) -> None:
            """Keep the outcome of the commit, unless it must be sent again."""
            nonlocal is_in_flight, retry_ms
            is_in_flight = False
            retry_ms = _now_ms() + self._settings.retry_backoff_ms
            if result is not False:
                outcome.append(result)

        def is_done() -> bool:
            """Send the commit if it is due; return whether it has an outcome."""
            nonlocal is_in_flight
            now_ms = _now_ms()
            if not outcome and not is_in_flight and now_ms >= retry_ms and self._offsets is not None:
                is_in_flight = self._offsets.commit(to_commit, now_ms, done)
            return bool(outcome)

        self._wait(is_done, "a commit")
        if isinstance(outcome[0], CommitRefusedError):
            raise outcome[0]
        self._committed |= to_commit

    def _last_committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets of those partitions that have one."""
        offsets = self._offsets
        if offsets is None:
            raise InvalidPartitionsToGetOffset("group.id is missing: without a group nothing is committed")
        committed: dict[TopicPartition, int] = {}
        state = {"in flight": False, "retry": 0}

        def done(response: Mapping[TopicPartition, int] | None) -> None:
            state.update({"in flight": False, "retry": _now_ms() + self._settings.retry_backoff_ms})
            committed.update(response or {})

        def is_done() -> bool:
            """Fetch the missing offsets if that is due; return whether all are there."""
            missing = [partition for partition in partitions if partition not in committed]
            now_ms = _now_ms()
            if missing and not state["in flight"] and now_ms >= state["retry"]:
                state["in flight"] = offsets.fetch(missing, now_ms, done)
            return not missing

        self._wait(is_done, "committed offsets")
        return {partition: offset for partition, offset in committed.items() if offset >= 0}


def _commit_arguments(arguments: tuple[Any, ...]) -> tuple[Iterable[Commit] | None, bool]:
    """Return the offsets of a call of `commit`, None for the positions, and whether it waits."""
    match arguments:
        case ():
            return None, True
        case (bool(sync),):
            return None, sync
        case (offsets,):
            return offsets, True
        case (offsets, bool(sync)):
            return offsets, sync
    raise TypeError("commit takes [(topic, partition, offset), …] and whether to wait")
