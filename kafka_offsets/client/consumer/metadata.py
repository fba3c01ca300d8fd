"""Metadata of the consumer: brokers, topics and leaders, kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafka_offsets.client.connection import Address
from kafka_offsets.client.consumer.network import CONTROL, ConsumerNetwork
from kafka_offsets.client.consumer.settings import ConsumerSettings
from kafka_offsets.client.protocol import OnDone
from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition

_logger = new_logger(__name__)

_VERSION = 12
_PATIENCE_MS = 2000
"""How long an address is waited for if there is another one; longer and longer if all of them are slow."""
_MOST_BACKOFF_MS = 1_000
_RETRIABLE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
)


class TopicMetadata(NamedTuple):
    """A topic: its id, and the leader of each partition, -1 for none, with its leader epoch."""

    topic_id: bytes
    is_internal: bool
    leaders: Mapping[int, int]
    leader_epochs: Mapping[int, int]


class Metadata:
    """The brokers and the topics of interest.

    version  counts the responses
    asked    the topics that the last response is about, None for all
    topics   those that exist
    """

    def __init__(self, network: ConsumerNetwork, settings: ConsumerSettings) -> None:
        self.version = 0
        self.asked: frozenset[str] | None = frozenset()
        self.topics: dict[str, TopicMetadata] = {}
        self._network = network
        self._settings = settings
        self._missing: frozenset[str] = frozenset()
        self._warned: frozenset[str] = frozenset()
        self._brokers: dict[int, Address] = {}
        self._wanted: frozenset[str] | None = frozenset()
        self._more: frozenset[str] = frozenset()
        self._is_stale = True
        self._is_in_flight = False
        self._retry_ms = 0
        self._refresh_ms: int | None = None
        self._failures = 0
        self._turn = 0

    # What is known

    def counts(self, topics: frozenset[str]) -> dict[str, int]:
        """Return the number of partitions of each topic that exists."""
        return {name: len(self.topics[name].leaders) for name in topics if name in self.topics}

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic."""
        return next((name for name, topic in self.topics.items() if topic.topic_id == topic_id), None)

    @property
    def internal(self) -> frozenset[str]:
        """The internal topics, such as `__consumer_offsets`."""
        return frozenset(name for name, topic in self.topics.items() if topic.is_internal)

    def leader(self, partition: TopicPartition) -> Address | None:
        """Return the address of the leader of a partition, None if it is not known; then metadata is refreshed."""
        topic = self.topics.get(partition[0])
        address = None if topic is None else self._brokers.get(topic.leaders.get(partition[1], -1))
        if address is None:
            self.refresh()
        return address

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the leader epoch of a partition, -1 if it is not known."""
        topic = self.topics.get(partition[0])
        return -1 if topic is None else topic.leader_epochs.get(partition[1], -1)

    # What is asked

    def want(self, topics: frozenset[str] | None) -> None:
        """Set the topics of interest, None for all."""
        if topics != self._wanted:
            self._wanted = topics
            if topics is None or (self.asked is not None and not topics <= self.asked):
                self.refresh()

    def want_more(self, topics: frozenset[str]) -> None:
        """Add topics that other members of the group subscribe to, and refresh."""
        self._more |= topics
        self.refresh()

    def refresh(self) -> None:
        """Ask again as soon as possible."""
        self._is_stale = True

    def deadline_ms(self, now_ms: int) -> int | None:
        """When the next request is due."""
        if self._is_in_flight:
            return None
        if self._is_stale:
            return max(self._retry_ms, now_ms)
        return self._refresh_ms

    def step(self, now_ms: int) -> None:
        """Ask if it is due."""
        due_ms = self.deadline_ms(now_ms)
        if due_ms is None or now_ms < due_ms:
            return
        names = None if self._wanted is None else self._wanted | self._more
        made = messages.MetadataRequest
        topics = None if names is None else [made.Topic(name=name) for name in sorted(names)]
        request = made(topics, self._settings.allow_auto_create_topics and names is not None)
        self._is_in_flight = self.send_to_any(
            request, _VERSION, now_ms, lambda response: self._answered(response, names, now_ms)
        )
        if not self._is_in_flight:
            self._retry_ms = now_ms + self._settings.reconnect_backoff_ms

    def send_to_any(self, request: messages.MessageValue, version: int, now_ms: int, on_done: OnDone) -> bool:
        """Send a request to any broker; return False if none can be connected to now."""
        addresses = [*dict.fromkeys((*self._brokers.values(), *self._settings.bootstrap_servers))]
        limit_ms = self._settings.request_timeout_ms
        if len(addresses) > 1:
            limit_ms = min(limit_ms, _PATIENCE_MS << min(self._failures // len(addresses), 10))
        for number in range(len(addresses)):
            address = addresses[(self._turn + number) % len(addresses)]
            if self._network.send(address, CONTROL, request, version, now_ms, on_done, limit_ms):
                self._turn += number
                return True
        return False

    def _answered(
        self, response: messages.MetadataResponse | None, names: frozenset[str] | None, now_ms: int
    ) -> None:
        self._is_in_flight = False
        self._is_stale = True
        self._failures += 1
        backoff_ms = self._settings.retry_backoff_ms << min(self._failures - 1, 10)
        self._retry_ms = now_ms + min(backoff_ms, max(_MOST_BACKOFF_MS, self._settings.retry_backoff_ms))
        if response is None:
            self._turn += 1
            return
        self.version += 1
        self.asked = names
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        self.topics = {}
        is_whole = True
        for topic in response.topics:
            if topic.error_code in _RETRIABLE:
                is_whole = False
                continue
            if topic.error_code:
                raise RefusedError(f"topic {topic.name}", topic.error_code)
            leaders = {partition.partition_index: partition.leader_id for partition in topic.partitions}
            is_whole &= min(leaders.values(), default=-1) >= 0
            assert topic.name is not None
            epochs = {partition.partition_index: partition.leader_epoch for partition in topic.partitions}
            self.topics[topic.name] = TopicMetadata(topic.topic_id, topic.is_internal, leaders, epochs)
        self._warn_of_missing(response)
        self._refresh_ms = now_ms + self._settings.metadata_max_age_ms
        current = None if self._wanted is None else self._wanted | self._more
        if is_whole and names == current:
            self._is_stale, self._failures = False, 0
            self._retry_ms = now_ms + self._settings.retry_backoff_ms
        elif is_whole:
            self._retry_ms = now_ms

    def _warn_of_missing(self, response: messages.MetadataResponse) -> None:
        """Log a topic that is missing in two responses, once: the first request may have created it."""
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        missing = frozenset(
            topic.name for topic in response.topics if topic.error_code == unknown and topic.name
        )
        warned = missing & (self._warned | self._missing)
        for name in sorted(warned - self._warned):
            _logger.warning("topic %s does not exist", name)
        self._warned, self._missing = warned, missing
