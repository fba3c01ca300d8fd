"""ReplicaFetcher: copies the records of all partitions that one leader leads and this broker follows.

One Fetch is under way at a time; its response is appended before the next one is sent. The next one tells the leader
with its offsets what this broker has. Source: AbstractFetcherThread and RemoteLeaderEndPoint of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kafka_offsets.broker.wire.channel import Channel
from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode, ProtocolError, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import batch_headers
from kafka_offsets.replication.divergence import EpochEnd
from kafka_offsets.replication.follower import (
    Answer,
    Append,
    Decision,
    FetchAnswer,
    FetchOf,
    FollowerReplica,
    OffsetsAnswer,
    OffsetsOf,
    SetHighWatermark,
    SetLogStart,
    StartOver,
    Truncate,
    Wait,
)
from kafka_offsets.storage.cleaner.memory_cleaning import free_deleted

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.broker.partition.partitions import Partition
    from kafka_offsets.broker.turn.scheduler import Deadline

_FETCH_VERSION = 17
"""With topic ids, and with the epoch of the replica's broker (KIP-903)."""

_IDLE_WAIT_MS = 3_600_000
"""The time a leader may wait for records while no high watermark has to catch up. Kafka's followers ask again every
500 ms. Here three brokers with 2,000 idle partitions would use 40 % of a core for that, and 0.5 % as it is: each
request names all partitions. Therefore a leader looks by itself whether a follower that waits may join the ISR."""

_LIST_OFFSETS_VERSION = 7
_EARLIEST, _LATEST = -2, -1

logger = new_logger(__name__)

_Key = tuple[bytes, int]


class ReplicaFetcher:
    """Follows one leader.

    broker_epoch  returns the epoch of this broker's registration
    partitions    those that it copies, by topic id and index
    """

    def __init__(self, broker: Context, channel: Channel, broker_epoch: Callable[[], int]) -> None:
        self._broker = broker
        self._channel = channel
        self._broker_epoch = broker_epoch
        self.partitions: dict[_Key, Partition] = {}
        self._pauses: dict[_Key, Deadline] = {}
        self._asked: dict[_Key, FetchOf] = {}
        self._sent_epoch = -1
        self._is_under_way = self._is_interrupted = self._is_stopped = False

    def add(self, partition: Partition) -> None:
        """Copy one more partition, from the next `send` on.

        The response to a request that is under way says nothing about it.
        """
        self.remove(partition)
        key = partition.topic_id, partition.index
        self.partitions[key] = partition
        self._asked.pop(key, None)
        self._interrupt()

    def _interrupt(self) -> None:
        """End the wait of a request that is under way: the leader answers it when another one arrives.

        Closing the connection would have the same effect, at the cost of a TLS handshake for each new topic.
        """
        if self._is_under_way and not self._is_interrupted:
            self._is_interrupted = True
            state = messages.FetchRequest.ReplicaState(self._broker.node.id, self._sent_epoch)
            nothing = messages.FetchRequest(session_epoch=-1, replica_state=state)
            self._channel.send(nothing, _FETCH_VERSION, lambda response: None)

    def registered(self) -> None:
        """Fetch with the epoch of this broker's latest registration, from the next `send` on.

        A leader adds no replica to the ISR by a fetch with an earlier epoch (KIP-903).
        """
        if self._sent_epoch != self._broker_epoch():
            self._give_up()

    def _give_up(self) -> None:
        """Wait no longer for the response to a request."""
        if self._is_under_way:
            self._channel.close()
            self._is_under_way = self._is_interrupted = False

    def has(self, partition: Partition) -> bool:
        """Whether a partition is copied."""
        return self.partitions.get((partition.topic_id, partition.index)) is partition

    def remove(self, partition: Partition) -> None:
        """Copy a partition no longer."""
        key = partition.topic_id, partition.index
        self.partitions.pop(key, None)
        pause = self._pauses.pop(key, None)
        if pause is not None:
            pause.cancel()

    def stop(self) -> None:
        """Send nothing more."""
        self._is_stopped = True
        for partition in list(self.partitions.values()):
            self.remove(partition)
        self._channel.close()

    def send(self, now: Now) -> None:
        """Send a Fetch for all partitions, unless one is under way, or the log directory is offline."""
        if self._is_under_way or self._is_stopped or self._broker.directory.is_offline:
            return
        config, request_type = self._broker.config, messages.FetchRequest
        topics: dict[bytes, list[messages.FetchRequest.FetchPartition]] = {}
        self._asked = {}
        for key, partition in list(self.partitions.items()):
            if key in self._pauses:
                continue
            question = self._question(partition)
            if question is not None:
                self._asked[key] = question
                fetch_partition = request_type.FetchPartition(
                    partition=partition.index,
                    current_leader_epoch=question.current_leader_epoch,
                    fetch_offset=question.fetch_offset,
                    last_fetched_epoch=question.last_fetched_epoch,
                    log_start_offset=question.log_start_offset,
                    partition_max_bytes=config.replica_fetch_max_bytes,
                )
                topics.setdefault(partition.topic_id, []).append(fetch_partition)
        if not topics:
            return
        is_behind = bool(self._pauses) or any(
            followed.log.high_watermark < followed.log.log_end_offset for followed in self.partitions.values()
        )
        self._sent_epoch = self._broker_epoch()
        request = request_type(
            max_wait_ms=config.replica_fetch_wait_max_ms if is_behind else _IDLE_WAIT_MS,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_epoch=-1,
            replica_state=request_type.ReplicaState(self._broker.node.id, self._sent_epoch),
            topics=[
                request_type.FetchTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )
        self._is_under_way = True
        self._channel.send(request, _FETCH_VERSION, self._received)

    def _question(self, partition: Partition) -> FetchOf | None:
        """Return the fetch of a partition; ask anything else at once."""
        replica, log = partition.replica, partition.log
        if not isinstance(replica, FollowerReplica):
            return None
        question = replica.next_question(log.log_end_offset, log.log_start_offset, log.leader_epoch)
        if isinstance(question, OffsetsOf):
            self._pause(partition)
            _OffsetsQuestion(self, partition, question).send()
            return None
        return question

    def _received(self, response: messages.FetchResponse | None) -> None:
        self._is_under_way = self._is_interrupted = False
        if self._is_stopped:
            return
        now = self._broker.clock.now()
        if response is None or response.error_code:
            for followed in list(self.partitions.values()):
                self._pause(followed)
            return
        for topic in response.responses:
            for fetched in topic.partitions:
                key = topic.topic_id, fetched.partition_index
                partition = self.partitions.get(key)
                if partition is not None and key in self._asked:
                    self.accept(partition, partial(_parsed, self._asked[key], fetched))
        self.send(now)

    def accept(self, partition: Partition, parse: Callable[[], Answer]) -> None:
        """Append what a leader has sent for one partition, or do what else its response requires.

        parse  returns the response; ProtocolError if its records are damaged
        """
        replica = partition.replica
        assert isinstance(replica, FollowerReplica)
        try:
            for decision in replica.on_answer(parse(), partition.log):
                self._carry_out(partition, decision)
        except (StorageError, ProtocolError, ValueError) as error:
            failure = StorageError(f"the leader's records are refused: {error}", partition.log.directory)
            failure.__cause__ = error.__cause__
            self._broker.topics.report(partition.topic, partition.index, failure)
            self._pause(partition)

    def _carry_out(self, partition: Partition, decision: Decision) -> None:
        log = partition.log
        if isinstance(decision, Append):
            partition.append_replicated(decision.records)
            self._broker.appends.unsynced.setdefault(log, None)
        elif isinstance(decision, Truncate):
            if decision.offset < log.log_end_offset:
                logger.info("%s: truncated to offset %d, as its leader's log", partition, decision.offset)
            self._shorten(partition, partition.truncate, decision.offset)
        elif isinstance(decision, SetHighWatermark):
            log.replicated_to = decision.offset
            if partition.parked:
                self._broker.appends.partitions[partition] = None
        elif isinstance(decision, SetLogStart):
            partition.expire_records_before(decision.offset)
            free_deleted(log)
        elif isinstance(decision, StartOver):
            self._shorten(partition, partition.restart_at, decision.offset)
        elif isinstance(decision, Wait):
            self._pause(partition)

    def _shorten(self, partition: Partition, shorten: Callable[[int], None], offset: int) -> None:
        """Remove records; write a high watermark that falls with them, after an unclean election, at once.

        After a kill the stored one would be above new records that were never replicated.
        """
        before = partition.log.high_watermark
        shorten(offset)
        if partition.log.high_watermark < before:
            self._broker.directory.high_watermarks_writer()()

    def _pause(self, partition: Partition) -> None:
        """Ask nothing for a partition for `replica.fetch.backoff.ms`."""
        key = partition.topic_id, partition.index

        def end(now: Now) -> None:
            self._pauses.pop(key, None)
            self._broker.scheduler.at(now.mono_ms, self.send)  # once, after all pauses that end at this time

        if key not in self._pauses:
            backoff_ms = self._broker.config.replica_fetch_backoff_ms
            self._pauses[key] = self._broker.scheduler.client_timeout(backoff_ms, end)

    def ask(
        self,
        request: messages.ListOffsetsRequest,
        on_answer: Callable[[messages.ListOffsetsResponse | None], None],
    ) -> None:
        """Send a ListOffsets to the leader."""
        self._channel.send(request, _LIST_OFFSETS_VERSION, on_answer)


class _OffsetsQuestion:
    """Asks a leader for the start and the end of its log, one after the other."""

    def __init__(self, fetcher: ReplicaFetcher, partition: Partition, question: OffsetsOf) -> None:
        self._fetcher = fetcher
        self._partition = partition
        self._question = question
        self._found: list[int] = []

    def send(self) -> None:
        """Send the next request."""
        request_type = messages.ListOffsetsRequest
        list_partition = request_type.ListOffsetsPartition(
            self._partition.index, self._question.current_leader_epoch, _LATEST if self._found else _EARLIEST
        )
        replica = self._partition.replica
        assert replica is not None
        request = request_type(
            replica.node_id, topics=[request_type.ListOffsetsTopic(self._partition.topic, [list_partition])]
        )
        self._fetcher.ask(request, self._received)

    def _received(self, response: messages.ListOffsetsResponse | None) -> None:
        if response is None or not isinstance(self._partition.replica, FollowerReplica):
            return  # it is requested again after a pause
        ((partition_response,),) = (topic.partitions for topic in response.topics)
        self._found.append(partition_response.offset)
        error = ErrorCode(partition_response.error_code)
        if not error and len(self._found) == 1:
            self.send()
            return
        parsed = OffsetsAnswer(self._question, error, self._found[0], self._found[-1])
        self._fetcher.accept(self._partition, lambda: parsed)


def _parsed(question: FetchOf, response: messages.FetchResponse.PartitionData) -> FetchAnswer:
    diverging = response.diverging_epoch
    records = bytes(response.records or b"")
    next_offset = question.fetch_offset
    if records:
        *_, (_, last) = batch_headers(records)
        next_offset = last.last_offset + 1
    return FetchAnswer(
        question,
        ErrorCode(response.error_code),
        records,
        next_offset,
        response.high_watermark,
        response.log_start_offset,
        EpochEnd(diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
    )
