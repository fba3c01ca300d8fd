"""Cluster: topics and groups of all brokers; each request is sent to the leader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import NamedTuple, Self

from kafka_offsets.client.connection import Connection
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity
from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import batch_headers
from kafka_offsets.protocol.topic_partition import TopicPartition

EARLIEST, LATEST = -2, -1
"""Special timestamps of ListOffsets: the first offset of a partition, and the next one to be written."""

_METADATA_VERSION, _LIST_OFFSETS_VERSION = 4, 2
_PRODUCE_VERSION, _ALL_REPLICAS = 7, -1
_FETCH_VERSION, _FETCH_BYTES, _FETCH_WAIT_MS = 11, 4 << 20, 500
_LIST_GROUPS, _LIST_GROUPS_TYPED = 16, 5


class ListedGroup(NamedTuple):
    """A group in a ListGroups response; a broker before Kafka 3.8 does not return the type."""

    group: str
    type: str
    protocol_type: str
    state: str


class ClusterClient:
    """The brokers of a cluster.

    bootstrap  host and port of any broker
    security   TLS and SASL
    Raises ConnectionLostError and RefusedError.
    """

    def __init__(
        self, bootstrap: tuple[str, int], timeout_s: float = 30.0, security: ClientSecurity = PLAINTEXT
    ) -> None:
        self._timeout_s, self._security = timeout_s, security
        self._bootstrap = Connection(*bootstrap, timeout_s, security)
        self._connections: dict[int, Connection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bootstrap.close()
        for connection in self._connections.values():
            connection.close()

    def leaders(self, topics: Iterable[str], *, create: bool = False) -> dict[TopicPartition, int]:
        """Return the leader of each partition of topics. RefusedError for a topic that does not exist.

        create  whether the broker may create missing topics; it may refuse the first requests for them
        """
        wanted = messages.MetadataRequest
        asked = wanted([wanted.Topic(name=name) for name in sorted(set(topics))], create)
        answer = self._bootstrap.call(asked, _METADATA_VERSION)
        self._brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        found = {}
        for topic in answer.topics:
            if topic.error_code:
                raise RefusedError(f"topic {topic.name}", topic.error_code)
            for partition in topic.partitions:
                found[topic.name, partition.partition_index] = partition.leader_id
        return found

    def offsets_at(
        self, times: Mapping[TopicPartition, int], *, committed_only: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition whose record is not older than a timestamp, -1 for none.

        times           in ms of wall time, or EARLIEST, or LATEST
        committed_only  LATEST is the last stable offset: the first of an open transaction, if there is one
        RefusedError for a partition that does not exist, or has no leader.
        """
        leaders = self.leaders(topic for topic, _ in times)
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic, partition in times:
            if (topic, partition) not in leaders:
                raise RefusedError(f"{topic}-{partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            by_leader.setdefault(leaders[topic, partition], []).append((topic, partition))
        found = {}
        for leader, places in by_leader.items():
            if leader not in self._brokers:
                raise RefusedError(f"{places[0][0]}-{places[0][1]}", ErrorCode.LEADER_NOT_AVAILABLE)
            found.update(self._offsets_at(self._broker(leader), places, times, int(committed_only)))
        return found

    def _offsets_at(
        self,
        broker: Connection,
        places: list[TopicPartition],
        times: Mapping[TopicPartition, int],
        isolation_level: int,
    ) -> dict[TopicPartition, int]:
        made = messages.ListOffsetsRequest
        topics: dict[str, messages.ListOffsetsRequest.ListOffsetsTopic] = {}
        for place in places:
            partition = made.ListOffsetsPartition(place[1], timestamp=times[place])
            topics.setdefault(place[0], made.ListOffsetsTopic(place[0])).partitions.append(partition)
        answer = broker.call(made(-1, isolation_level, list(topics.values())), _LIST_OFFSETS_VERSION)
        found = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    raise RefusedError(f"{topic.name}-{partition.partition_index}", partition.error_code)
                found[topic.name, partition.partition_index] = partition.offset
        return found

    def batches(self, place: TopicPartition) -> Iterator[bytes]:
        """Yield the record batches of a partition up to its end now, several at a time, uncommitted ones included."""
        position, end = (self.offsets_at({place: at})[place] for at in (EARLIEST, LATEST))
        leader = self._broker(self.leaders([place[0]])[place])
        made = messages.FetchRequest
        while position < end:
            partition = made.FetchPartition(place[1], fetch_offset=position, partition_max_bytes=_FETCH_BYTES)
            request = made(
                max_wait_ms=_FETCH_WAIT_MS,
                min_bytes=1,
                max_bytes=_FETCH_BYTES,
                topics=[made.FetchTopic(place[0], partitions=[partition])],
            )
            answer = leader.call(request, _FETCH_VERSION)
            found = answer.responses[0].partitions[0]
            if answer.error_code or found.error_code:
                raise RefusedError(f"{place[0]}-{place[1]}", answer.error_code or found.error_code)
            headers = [header for _, header in batch_headers(found.records or b"")]
            if not headers:
                return  # compaction has emptied the rest
            yield found.records
            position = headers[-1].last_offset + 1

    def produce(self, batches: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, int]:
        """Append a batch to each partition; return the offset of its first record.

        Returns when all in-sync replicas have them. RefusedError for the first that is refused; others may be written.
        """
        leaders = self.leaders(topic for topic, _ in batches)
        made = messages.ProduceRequest
        by_leader: dict[int, dict[str, messages.ProduceRequest.TopicProduceData]] = {}
        for place, batch in batches.items():
            leader = leaders.get(place, -1)
            if leader not in self._brokers:
                raise RefusedError(f"{place[0]}-{place[1]}", ErrorCode.LEADER_NOT_AVAILABLE)
            topics = by_leader.setdefault(leader, {})
            data = topics.setdefault(place[0], made.TopicProduceData(place[0], partition_data=[]))
            data.partition_data.append(made.PartitionProduceData(place[1], batch))
        found = {}
        for leader, topics in by_leader.items():
            request = made(None, _ALL_REPLICAS, round(self._timeout_s * 1000), list(topics.values()))
            answer = self._broker(leader).call(request, _PRODUCE_VERSION)
            for topic in answer.responses:
                for partition in topic.partition_responses:
                    if partition.error_code:
                        raise RefusedError(f"{topic.name}-{partition.index}", partition.error_code)
                    found[topic.name, partition.index] = partition.base_offset
        return found

    def groups(self) -> list[ListedGroup]:
        """Return the groups of all brokers, sorted by name."""
        self.leaders(())
        found = set()
        for node in self._brokers:
            broker = self._broker(node)
            version = min(broker.latest_version(_LIST_GROUPS), _LIST_GROUPS_TYPED)
            answer = broker.call(messages.ListGroupsRequest(), version)
            if answer.error_code:
                raise RefusedError(f"groups of broker {node}", answer.error_code)
            for each in answer.groups:
                found.add(ListedGroup(each.group_id, each.group_type, each.protocol_type, each.group_state))
        return sorted(found)

    def _broker(self, node: int) -> Connection:
        if node not in self._connections:
            self._connections[node] = Connection(*self._brokers[node], self._timeout_s, self._security)
        return self._connections[node]
