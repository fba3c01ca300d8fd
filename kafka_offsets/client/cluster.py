"""Cluster: topics and groups of all brokers; each request is sent to the leader."""

from __future__ import annotations

import collections
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self, TypeVar

from kafka_offsets.client.connection import Address, Connection
from kafka_offsets.client.retries import Retries, is_retriable
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity
from kafka_offsets.errors import ConnectionLostError, ErrorCode, KafkaOffsetsError, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import batch_headers
from kafka_offsets.protocol.topic_partition import TopicPartition

EARLIEST, LATEST = -2, -1
"""Special timestamps of ListOffsets: the first offset of a partition, and the next one to be written."""

_METADATA, _METADATA_VERSION, _LIST_OFFSETS_VERSION = 3, 4, 2
_PRODUCE_VERSION, _ALL_REPLICAS = 7, -1
_FETCH_VERSION, _FETCH_BYTES, _FETCH_WAIT_MS = 11, 4 << 20, 500
_LIST_GROUPS, _LIST_GROUPS_TYPED = 16, 5
_INIT_VERSION = 1

_BEING_CREATED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)

_ASKED_AT_ONCE = 16
"""How many brokers are asked at the same time."""

NO_LEADER = -1
WHOLE_TOPIC = -1
"""In place of the number of a partition, where an error is that of its topic."""

_DESCRIBE_TRANSACTIONS, _LIST_TRANSACTIONS = 65, 66
_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")

T = TypeVar("T")


class ListedGroup(NamedTuple):
    """A group in a ListGroups response; a broker before Kafka 3.8 does not return the type."""

    group: str
    type: str
    protocol_type: str
    state: str


class LogRange(NamedTuple):
    """The first offset of a partition, and the end of what consumers can read."""

    start: int
    end: int


class ClusterClient:
    """The brokers of a cluster.

    bootstrap  host and port of any broker
    timeout_s  for connecting, for each response, and for failures that pass
    security   TLS and SASL
    others     further brokers, tried in turn
    retries    shared with other connections; default: its own, of `timeout_s`
    Raises ConnectionLostError and RefusedError.
    """

    def __init__(
        self,
        bootstrap: Address,
        timeout_s: float = 30.0,
        security: ClientSecurity = PLAINTEXT,
        others: Sequence[Address] = (),
        retries: Retries | None = None,
    ) -> None:
        self._timeout_s, self._security = timeout_s, security
        self._addresses = bootstrap, *others
        self._retries = retries or Retries(timeout_s)
        self._first: Connection | None = None
        self._connections: dict[int, Connection] = {}
        self._brokers: dict[int, Address] = {}
        self._led_by: dict[TopicPartition, int] = {}
        self._is_closed = False
        self._closing = threading.Lock()  # a thread of `_side_by_side` may connect meanwhile
        self._retries.call(self.any_broker, is_answered=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def _close(self) -> None:
        with self._closing:
            self._is_closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        with self._closing:
            connections = [self._first, *self._connections.values()]
            self._first = None
            self._connections.clear()
        for connection in connections:
            if connection is not None:
                connection.close()

    def any_broker(self) -> Connection:
        """Return the connection for requests to any broker, of which failures are not retried."""
        if self._first is not None and self._first.is_over:
            self._first.close()
            self._first = None
        if self._first is None:
            self._first = self._retries.connection_to_any(self._addresses, self._timeout_s, self._security)
        return self._first

    def _retrying(
        self, attempt: Callable[[], T], passes: Callable[[KafkaOffsetsError], bool] = is_retriable
    ) -> T:
        """Repeat what fails for a reason that passes, on new connections if one of them is lost."""

        def recover(error: KafkaOffsetsError) -> None:
            self._led_by.clear()
            if isinstance(error, ConnectionLostError):
                self._disconnect()

        return self._retries.call(attempt, recover, passes=passes)

    def leaders(self, topics: Iterable[str], *, create: bool = False) -> dict[TopicPartition, int]:
        """Return the leader of each partition of topics. RefusedError for a topic that does not exist.

        create  whether the broker may create missing topics; it may refuse the first requests for them
        """
        names = sorted(set(topics))
        return self._retrying(lambda: self._leaders(names, create=create))

    def _leaders(
        self,
        names: Sequence[str],
        *,
        create: bool = False,
        refused: dict[TopicPartition, KafkaOffsetsError] | None = None,
    ) -> dict[TopicPartition, int]:
        made = messages.MetadataRequest
        request = made([made.Topic(name=name) for name in names], create)
        response = self.any_broker().call(request, _METADATA_VERSION)
        if not response.brokers:
            raise ConnectionLostError("a broker that has just started knows none of its cluster yet")
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        self._retries.note_brokers(self._brokers.values())
        leaders = {}
        for topic in response.topics:
            if topic.error_code:
                error = RefusedError(f"topic {topic.name}", topic.error_code)
                if refused is None:
                    raise error
                if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    refused[topic.name, WHOLE_TOPIC] = error
                continue
            for partition in topic.partitions:
                leaders[topic.name, partition.partition_index] = partition.leader_id
        return leaders

    def topics(self) -> dict[str, int]:
        """Return all topics that this client may see, with their numbers of partitions."""

        def attempt() -> dict[str, int]:
            """Ask any broker."""
            response = self.any_broker().call(messages.MetadataRequest(None, False), _METADATA_VERSION)
            return {topic.name: len(topic.partitions) for topic in response.topics if not topic.error_code}

        return self._retrying(attempt)

    def open_transactions(self) -> list[messages.DescribeTransactionsResponse.TransactionState]:
        """Return the transactions that have begun and not ended, of all brokers that tell theirs.

        A broker before Kafka 3.0, and one that refuses, tells none.
        """
        open_states: list[messages.DescribeTransactionsResponse.TransactionState] = []
        self._retrying(lambda: self._leaders(()))
        for _, states in self._side_by_side(self._brokers, self._open_transactions):
            if not isinstance(states, KafkaOffsetsError):
                open_states += states
        return open_states

    def _open_transactions(self, node: int) -> list[messages.DescribeTransactionsResponse.TransactionState]:
        broker = self._broker(node)
        if min(broker.latest_version(_LIST_TRANSACTIONS), broker.latest_version(_DESCRIBE_TRANSACTIONS)) < 0:
            return []
        listed = broker.call(messages.ListTransactionsRequest(list(_OPEN_STATES)), 0)
        ids = [state.transactional_id for state in listed.transaction_states]
        if not ids:
            return []
        response = broker.call(messages.DescribeTransactionsRequest(ids), 0)
        return [state for state in response.transaction_states if not state.error_code]

    def created_partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic once all have leaders; the broker may create the topic."""

        def attempt() -> int:
            """Ask for the leaders. Raises RefusedError."""
            leaders = self._leaders([topic], create=True)
            if not leaders or min(leaders.values()) < 0:
                raise RefusedError(f"topic {topic}", ErrorCode.LEADER_NOT_AVAILABLE)
            return len(leaders)

        def passes(error: KafkaOffsetsError) -> bool:
            """Whether an error passes: the creation takes a moment."""
            return is_retriable(error) or (
                isinstance(error, RefusedError) and error.error_code in _BEING_CREATED
            )

        return self._retrying(attempt, passes)

    def check(self) -> None:
        """Ask some broker for the versions that it serves. Raises what keeps this client from being served."""
        self._retrying(lambda: self.any_broker().latest_version(_METADATA))

    def topic_names(self) -> list[str]:
        """Return the names of all topics that this client may see, sorted."""

        def attempt() -> list[str]:
            response = self.any_broker().call(messages.MetadataRequest(None, False), _METADATA_VERSION)
            return sorted(topic.name for topic in response.topics)

        return self._retrying(attempt)

    def offsets_at(
        self,
        times: Mapping[TopicPartition, int],
        *,
        committed_only: bool = False,
        refused: dict[TopicPartition, KafkaOffsetsError] | None = None,
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition whose record is not older than a timestamp, -1 for none.

        times           in ms of wall time, or EARLIEST, or LATEST
        committed_only  LATEST is the last stable offset: the first of an open transaction, if there is one
        refused         gets the error of each partition that does not exist, has no leader, or is refused; without it
                        the first one is raised
        """
        errors: dict[TopicPartition, KafkaOffsetsError] = {}

        def attempt() -> dict[TopicPartition, int]:
            """Ask the leaders. Raises the first error that passes, or counts."""
            errors.clear()
            offsets = self._offsets(times, int(committed_only), errors)
            for error in errors.values():
                if refused is None or is_retriable(error):
                    raise error
            return offsets

        offsets = self._retrying(attempt)
        if refused is not None:
            refused.update(errors)
        return offsets

    def _offsets(
        self,
        times: Mapping[TopicPartition, int],
        isolation_level: int,
        errors: dict[TopicPartition, KafkaOffsetsError],
    ) -> dict[TopicPartition, int]:
        of_topics: dict[TopicPartition, KafkaOffsetsError] = {}
        leaders = self._leaders(sorted({topic for topic, _ in times}), refused=of_topics)
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in times:
            topic, partition = topic_partition
            if (topic, WHOLE_TOPIC) in of_topics:
                errors[topic_partition] = of_topics[topic, WHOLE_TOPIC]
            elif topic_partition not in leaders:
                errors[topic_partition] = RefusedError(
                    f"{topic}-{partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
            elif leaders[topic_partition] not in self._brokers:
                errors[topic_partition] = RefusedError(f"{topic}-{partition}", ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                by_leader.setdefault(leaders[topic_partition], []).append(topic_partition)
        offsets = {}
        for leader, partitions in by_leader.items():
            offsets.update(self._offsets_at(self._broker(leader), partitions, times, isolation_level, errors))
        return offsets

    def log_ranges(
        self, topics: Iterable[str], refused: dict[TopicPartition, KafkaOffsetsError]
    ) -> dict[TopicPartition, LogRange]:
        """Return the range of each partition of topics, as far as it is known; a topic that does not exist has none.

        refused  gets the error of each partition that has no leader, or whose leader does not answer or refuses; with
                 the number WHOLE_TOPIC that of a topic
        Failures that pass are tried again as by the other methods.
        """
        names = sorted(set(topics))
        ranges: dict[TopicPartition, LogRange] = {}
        errors: dict[TopicPartition, KafkaOffsetsError] = {}

        def attempt() -> None:
            """Ask for what is not known yet. Raises the first error that passes."""
            errors.clear()
            self._read_ranges(names, ranges, errors)
            for error in errors.values():
                if is_retriable(error):
                    raise error

        try:
            self._retrying(attempt)
        except KafkaOffsetsError:
            if not errors:
                raise
        refused.update(errors)
        return ranges

    def _read_ranges(
        self,
        names: Sequence[str],
        ranges_by_partition: dict[TopicPartition, LogRange],
        errors: dict[TopicPartition, KafkaOffsetsError],
    ) -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition, leader in self._leaders(names, refused=errors).items():
            if leader not in self._brokers:
                errors[partition] = RefusedError(
                    f"{partition[0]}-{partition[1]}", ErrorCode.LEADER_NOT_AVAILABLE
                )
            elif partition not in ranges_by_partition:
                by_leader.setdefault(leader, []).append(partition)

        def ranges_of(
            leader: int,
        ) -> tuple[dict[TopicPartition, LogRange], dict[TopicPartition, KafkaOffsetsError]]:
            """Ask a leader; return its ranges, and the error of each partition that it refuses."""
            partitions, refused = by_leader[leader], dict[TopicPartition, KafkaOffsetsError]()
            starts, ends = (
                self._offsets_at(self._broker(leader), partitions, dict.fromkeys(partitions, at), 0, refused)
                for at in (EARLIEST, LATEST)
            )
            return {
                partition: LogRange(starts[partition], ends[partition])
                for partition in starts.keys() & ends.keys()
            }, refused

        for leader, response in self._side_by_side(by_leader, ranges_of):
            if isinstance(response, KafkaOffsetsError):
                errors.update(dict.fromkeys(by_leader[leader], response))
                continue
            ranges, refused = response
            ranges_by_partition.update(ranges)
            errors.update(refused)

    def _offsets_at(
        self,
        broker: Connection,
        partitions: list[TopicPartition],
        times: Mapping[TopicPartition, int],
        isolation_level: int,
        refused: dict[TopicPartition, KafkaOffsetsError],
    ) -> dict[TopicPartition, int]:
        made = messages.ListOffsetsRequest
        topics: dict[str, messages.ListOffsetsRequest.ListOffsetsTopic] = {}
        for topic_partition in partitions:
            partition = made.ListOffsetsPartition(topic_partition[1], timestamp=times[topic_partition])
            topics.setdefault(
                topic_partition[0], made.ListOffsetsTopic(topic_partition[0])
            ).partitions.append(partition)
        response = broker.call(made(-1, isolation_level, list(topics.values())), _LIST_OFFSETS_VERSION)
        offsets = {}
        for topic in response.topics:
            for partition in topic.partitions:
                topic_partition = topic.name, partition.partition_index
                if not partition.error_code:
                    offsets[topic_partition] = partition.offset
                    continue
                refused[topic_partition] = RefusedError(
                    f"{topic_partition[0]}-{topic_partition[1]}", partition.error_code
                )
        return offsets

    def batches(self, partition: TopicPartition) -> Iterator[bytes]:
        """Yield the record batches of a partition up to its end now, several at a time, uncommitted ones included."""
        position, end = (self.offsets_at({partition: at})[partition] for at in (EARLIEST, LATEST))
        while position < end:
            records = self.fetch(partition, position)
            headers = [header for _, header in batch_headers(records)]
            if not headers:
                return  # compaction has emptied the rest
            yield records
            position = headers[-1].last_offset + 1

    def fetch(self, partition: TopicPartition, offset: int, max_bytes: int = _FETCH_BYTES) -> bytes:
        """Return record batches from an offset on, uncommitted ones included; none at the end, after a moment."""
        return bytes(self._retrying(lambda: self._fetch(partition, offset, max_bytes)).records or b"")

    def fetch_committed(self, partition: TopicPartition, offset: int) -> tuple[bytes, list[tuple[int, int]]]:
        """Return record batches as `fetch`, up to the last stable offset, and what of them is aborted.

        That is the producer id and the first offset of each aborted transaction, as `PartitionRecords` takes them.
        """
        fetched = self._retrying(lambda: self._fetch(partition, offset, _FETCH_BYTES, committed_only=True))
        aborted = [
            (transaction.producer_id, transaction.first_offset)
            for transaction in fetched.aborted_transactions or ()
        ]
        return bytes(fetched.records or b""), aborted

    def _fetch(
        self, topic_partition: TopicPartition, offset: int, max_bytes: int, *, committed_only: bool = False
    ) -> messages.FetchResponse.PartitionData:
        made = messages.FetchRequest
        partition = made.FetchPartition(
            topic_partition[1], fetch_offset=offset, partition_max_bytes=max_bytes
        )
        request = made(
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(committed_only),
            topics=[made.FetchTopic(topic_partition[0], partitions=[partition])],
        )
        response = self._leader(topic_partition).call(request, _FETCH_VERSION)
        fetched: messages.FetchResponse.PartitionData | None = (
            response.responses[0].partitions[0] if response.responses else None
        )
        error = response.error_code or (
            ErrorCode.UNKNOWN_SERVER_ERROR if fetched is None else fetched.error_code
        )
        if error or fetched is None:
            raise RefusedError(f"{topic_partition[0]}-{topic_partition[1]} from offset {offset}", error)
        data: messages.FetchResponse.PartitionData = fetched
        return data

    def _leader(self, partition: TopicPartition) -> Connection:
        """Return the connection to the leader of a partition, which is known from the last answer about its topic."""
        if partition not in self._led_by:
            self._led_by.update(self._leaders([partition[0]]))
        leader = self._led_by.get(partition, NO_LEADER)
        if leader not in self._brokers:
            raise RefusedError(f"{partition[0]}-{partition[1]}", ErrorCode.LEADER_NOT_AVAILABLE)
        return self._broker(leader)

    def new_producer(self) -> tuple[int, int]:
        """Return the id and the epoch of a new idempotent producer."""

        def attempt() -> tuple[int, int]:
            response = self.any_broker().call(messages.InitProducerIdRequest(None, 0), _INIT_VERSION)
            if response.error_code:
                raise RefusedError("id of a producer", response.error_code)
            return response.producer_id, response.producer_epoch

        return self._retrying(attempt)

    def produce(self, batches: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, int]:
        """Append a batch of an idempotent producer to each partition; return the offset of its first record.

        Returns when all in-sync replicas have them. What fails for a reason that passes is sent again, which needs the
        id of a producer in each batch. RefusedError for the first that is refused; others may be written.
        """
        appended: dict[TopicPartition, int] = {}

        def attempt() -> dict[TopicPartition, int]:
            """Send what no leader has accepted yet."""
            left = {partition: batch for partition, batch in batches.items() if partition not in appended}
            for answered in self._produce(left):
                for partition, (code, offset) in answered.items():
                    if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                        raise RefusedError(f"{partition[0]}-{partition[1]}", code)
                    appended[partition] = offset
            return appended

        return self._retrying(attempt)

    def _produce(
        self, batches: Mapping[TopicPartition, bytes]
    ) -> Iterator[dict[TopicPartition, tuple[int, int]]]:
        """Send batches to their leaders; yield the error code and the offset of each, accepted ones first."""
        leaders = self._leaders(sorted({topic for topic, _ in batches}))
        made = messages.ProduceRequest
        by_leader: dict[int, dict[str, messages.ProduceRequest.TopicProduceData]] = {}
        for partition, batch in batches.items():
            leader = leaders.get(partition, NO_LEADER)
            if leader not in self._brokers:
                raise RefusedError(f"{partition[0]}-{partition[1]}", ErrorCode.LEADER_NOT_AVAILABLE)
            topics = by_leader.setdefault(leader, {})
            data = topics.setdefault(partition[0], made.TopicProduceData(partition[0], partition_data=[]))
            data.partition_data.append(made.PartitionProduceData(partition[1], batch))
        for leader, topics in by_leader.items():
            request = made(None, _ALL_REPLICAS, round(self._timeout_s * 1000), list(topics.values()))
            response = self._broker(leader).call(request, _PRODUCE_VERSION)
            answered = {
                (topic.name, produced.index): (produced.error_code, produced.base_offset)
                for topic in response.responses
                for produced in topic.partition_responses
            }
            yield dict(sorted(answered.items(), key=lambda item: bool(item[1][0])))

    def groups(self, refused: dict[int, KafkaOffsetsError] | None = None) -> list[ListedGroup]:
        """Return the groups of all brokers, sorted by name; `refused` as for `of_all_brokers`."""
        return sorted(set(self.of_all_brokers(self._groups, refused)))

    def of_all_brokers(
        self,
        ask: Callable[[int], Iterable[T]],
        refused: dict[int, KafkaOffsetsError] | None = None,
    ) -> list[T]:
        """Return what all brokers tell, asked side by side.

        ask      returns what the broker with this id tells
        refused  gets the error of each broker that does not tell; without it the first one is raised
        """
        results: list[T] = []
        errors: dict[int, KafkaOffsetsError] = {}
        answered: set[int] = set()

        def attempt() -> None:
            """Ask the brokers that have not told. Raises the first error that passes, or counts."""
            errors.clear()
            self._leaders(())
            for node, response in self._side_by_side(self._brokers.keys() - answered, ask):
                if isinstance(response, KafkaOffsetsError):
                    errors[node] = response
                    continue
                results.extend(response)
                answered.add(node)
            for error in errors.values():
                if refused is None or is_retriable(error):
                    raise error

        try:
            self._retrying(attempt)
        except KafkaOffsetsError:
            if refused is None or not errors:
                raise
        if refused is not None:
            refused.update(errors)
        return results

    def ask_controller(self, ask: Callable[[Connection], T]) -> T:
        """Return what a call to the controller returns; it is repeated if its failure passes."""

        def attempt() -> T:
            response = self.any_broker().call(messages.MetadataRequest([], False), _METADATA_VERSION)
            self._brokers = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
            node = response.controller_id
            return ask(self._broker(node) if node in self._brokers else self.any_broker())

        return self._retrying(attempt)

    def ask_leader(self, place: TopicPartition, ask: Callable[[Connection], T]) -> T:
        """Return what a call to the leader of a partition returns; it is repeated if its failure passes."""
        return self._retrying(lambda: ask(self._leader(place)))

    def ask_any(self, ask: Callable[[Connection], T]) -> T:
        """Return what a call to any broker returns; it is repeated if its failure passes."""
        return self._retrying(lambda: ask(self.any_broker()))

    def _groups(self, node: int) -> list[ListedGroup]:
        broker = self._broker(node)
        version = min(broker.latest_version(_LIST_GROUPS), _LIST_GROUPS_TYPED)
        response = broker.call(messages.ListGroupsRequest(), version)
        if response.error_code:
            raise RefusedError(f"groups of broker {node}", response.error_code)
        return [
            ListedGroup(group.group_id, group.group_type, group.protocol_type, group.group_state)
            for group in response.groups
        ]

    def broker(self, node: int) -> tuple[Connection, str]:
        """Return the connection to a broker, of which failures are not retried, and its address.

        RefusedError with BROKER_NOT_AVAILABLE if the cluster has no such broker.
        """
        if node not in self._brokers:
            self._leaders(())
        if node not in self._brokers:
            raise RefusedError(f"broker {node}", ErrorCode.BROKER_NOT_AVAILABLE)
        host, port = self._brokers[node]
        return self._broker(node), f"{host}:{port}"

    def _side_by_side(
        self, nodes: Collection[int], ask: Callable[[int], T]
    ) -> Iterator[tuple[int, T | KafkaOffsetsError]]:
        """Ask several brokers at the same time; yield what each answers, or why it does not, the fastest first.

        The threads end with the program: an interrupt does not wait for a silent broker. It closes this client:
        brokers that are not asked yet stay so, and a thread that connects later closes what it has made.
        """
        left = collections.deque(nodes)
        outcomes: queue.SimpleQueue[tuple[int, T | Exception]] = queue.SimpleQueue()

        def ask_some() -> None:
            """Ask one broker after the other until all are asked."""
            while left:
                try:
                    node = left.popleft()
                except IndexError:
                    return
                try:
                    outcomes.put((node, ask(node)))
                except Exception as error:  # noqa: BLE001 - raised where the answers are read
                    outcomes.put((node, error))

        for _ in range(min(len(nodes), _ASKED_AT_ONCE)):
            threading.Thread(target=ask_some, name="kafka-offsets-asks", daemon=True).start()
        try:
            for _ in range(len(nodes)):
                node, outcome = outcomes.get()
                if isinstance(outcome, KafkaOffsetsError):
                    self._forget(node)
                elif isinstance(outcome, Exception):
                    raise outcome
                yield node, outcome
        except BaseException:
            left.clear()
            self._close()
            raise

    def _forget(self, node: int) -> None:
        """Close the connection to a broker that has failed, so that the next request makes a new one."""
        connection = self._connections.pop(node, None)
        if connection is not None:
            connection.close()

    def _broker(self, node: int) -> Connection:
        if node in self._connections and self._connections[node].is_over:
            self._forget(node)
        if node not in self._connections:
            made = self._retries.connection(self._brokers[node], self._timeout_s, self._security)
            with self._closing:
                if not self._is_closed:
                    self._connections[node] = made
                    return made
            made.close()
            raise KafkaOffsetsError("the client of the cluster is closed")
        return self._connections[node]
