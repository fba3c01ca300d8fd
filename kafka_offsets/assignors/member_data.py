"""Member data: the subscriptions and assignments that members of classic groups exchange, as bytes.

Before each stands an int16 version; a reader takes a later one for the last that it knows. In addition, the sticky
assignors have data of their own:

    sticky              previous assignment: array of (topic string, partitions array of int32)   generation int32
    cooperative-sticky  generation int32: what version 2 of the subscription also holds

Sources: KIP-429, KIP-792, org.apache.kafka.clients.consumer.StickyAssignor, CooperativeStickyAssignor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kafka_offsets.assignors.assignors import MemberSubscription
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition, by_topic

_VERSION = struct.Struct(">h")
_GENERATION = struct.Struct(">i")
_SUBSCRIPTION_VERSION, _LATEST = 2, 3
_NULL_BYTES = b"\xff\xff\xff\xff"


def encode_subscription(
    strategy: str, topics: Iterable[str], owned: Iterable[TopicPartition], generation: int
) -> bytes:
    """Return the subscription that a member offers for an assignor.

    owned       the partitions of the assignment before, which an eager member has revoked by now
    generation  in which they were assigned, -1 for none
    """
    made = messages.ConsumerProtocolSubscription
    user_data = None
    held: list[messages.ConsumerProtocolSubscription.TopicPartition] = []
    if strategy == "sticky" and generation >= 0:
        # The layout of an assignment, but with the generation in place of its user data.
        user_data = _encode_assigned(owned)[: -len(_NULL_BYTES)] + _GENERATION.pack(generation)
    elif strategy == "cooperative-sticky":
        user_data = _GENERATION.pack(generation)
        held = [made.TopicPartition(topic, indexes) for topic, indexes in by_topic(owned).items()]
    value = made(sorted(topics), user_data, held, generation)
    return _VERSION.pack(_SUBSCRIPTION_VERSION) + messages.encode(value, _SUBSCRIPTION_VERSION)


def decode_subscription(strategy: str, data: bytes, instance_id: str | None) -> MemberSubscription:
    """Parse the subscription of a member of any client. Raises ProtocolError."""
    version = _version(data)
    subscription, _ = messages.decode(messages.ConsumerProtocolSubscription, data, min(version, _LATEST), 2)
    owned = frozenset(
        (topic.topic, index) for topic in subscription.owned_partitions for index in topic.partitions
    )
    generation = subscription.generation_id
    data_of_assignor = subscription.user_data or b""
    if strategy == "sticky":
        owned, generation = _decode_sticky(data_of_assignor)
    elif version < _SUBSCRIPTION_VERSION and len(data_of_assignor) == _GENERATION.size:
        (generation,) = _GENERATION.unpack(data_of_assignor)
    return MemberSubscription(frozenset(subscription.topics), owned, generation, instance_id)


def _decode_sticky(data: bytes) -> tuple[frozenset[TopicPartition], int]:
    """Parse the data of the sticky assignor; what cannot be parsed is no claim, as in Kafka.

    kafka-python 3.0 writes an int16 version before it.
    """
    if len(data) < _GENERATION.size:
        return frozenset(), -1
    generation = _GENERATION.unpack(data[-_GENERATION.size :])[0]
    layout = data[: -_GENERATION.size] + _NULL_BYTES
    for position in (0, _VERSION.size):
        try:
            return _decode_assigned(layout, position), generation
        except ProtocolError:
            continue
    return frozenset(), -1


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the assignment of a member."""
    return _VERSION.pack(0) + _encode_assigned(partitions)


def decode_assignment(data: bytes) -> frozenset[TopicPartition]:
    """Parse the assignment of a member; empty bytes are no partitions. Raises ProtocolError."""
    if not data:
        return frozenset()
    _version(data)
    return _decode_assigned(data, 2)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError("the data of a member have no version", 0)
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"the data of a member have version {version}", 0)
    return version


def _encode_assigned(partitions: Iterable[TopicPartition]) -> bytes:
    made = messages.ConsumerProtocolAssignment
    topics = [made.TopicPartition(topic, indexes) for topic, indexes in by_topic(partitions).items()]
    return messages.encode(made(topics), 0)


def _decode_assigned(data: bytes, position: int) -> frozenset[TopicPartition]:
    assignment, _ = messages.decode(messages.ConsumerProtocolAssignment, data, 0, position)
    return frozenset(
        (topic.topic, index) for topic in assignment.assigned_partitions for index in topic.partitions
    )
