"""Where in an answer an error stands: what of a request a fault strikes, and how the answer to the rest is completed.

A broker refuses one partition and serves the others of the same request, or one group of several. So a request is split
into what is struck, which the `fail` function of its API answers, and the rest, which is decided as always; then the
two answers are put together in the order of the request. What cannot be split (a JoinGroup, an EndTxn) is refused as
a whole.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kafka_offsets.broker.api.row import Api
from kafka_offsets.broker.context import Context
from kafka_offsets.errors import ErrorCode

_TOPICS = ("topic_data", "topics")
_NAMING_TOPICS = (*_TOPICS, "v3_and_below_topics", "topic_names")
_PARTITIONS = ("partition_data", "partitions", "partition_indexes")
_ANSWERED_TOPICS = ("responses", "topics")
_ANSWERED_PARTITIONS = ("partition_responses", "partitions")
_INDEX = ("index", "partition_index", "partition")

SPLIT_BY_PARTITION = frozenset({
    "Produce", "ListOffsets", "OffsetCommit", "OffsetForLeaderEpoch", "DeleteRecords", "TxnOffsetCommit", "OffsetDelete"
})  # fmt: skip
"""Of these each partition is refused or served for itself. Fetch, OffsetFetch and Metadata are so too, by other means;
AddPartitionsToTxn is not: it adds all or none."""

MARKED = frozenset({"OffsetFetch", "Metadata"})
"""These only read: they are decided as a whole, and the error takes the place of what was read of a partition."""


class _Keys(NamedTuple):
    """Where the keys of a request stand, and its answer's."""

    asked: str
    asked_key: str | None
    answered: str
    answered_key: str


_SPLIT_BY_KEY = {
    "OffsetFetch": _Keys("groups", "group_id", "groups", "group_id"),
    "FindCoordinator": _Keys("coordinator_keys", None, "coordinators", "key"),
    "DescribeGroups": _Keys("groups", None, "groups", "group_id"),
    "DeleteGroups": _Keys("groups_names", None, "results", "group_id"),
    "ConsumerGroupDescribe": _Keys("group_ids", None, "groups", "group_id"),
    "DescribeTransactions": _Keys("transactional_ids", None, "transaction_states", "transactional_id"),
}

_OF_TRANSACTIONS = ("DescribeTransactions",)

Wants = Callable[[str, int], bool]
"""(topic, partition) -> whether it is struck; -1 for a topic as such."""


class Split(NamedTuple):
    """A request in two: what is struck, and the rest of it, None when nothing is left."""

    struck: Any
    rest: Any | None


def first_of(value: Any, names: tuple[str, ...]) -> str | None:
    """Return the first of some names of fields that a value has."""
    return next((name for name in names if hasattr(value, name)), None)


def topic_name(core: Context, topic: Any) -> str:
    """Return the name of a topic in a message, which may give its id alone; "" for an unknown one."""
    name = getattr(topic, "name", None) or getattr(topic, "topic", None)
    if name:
        return str(name)
    topic_id = getattr(topic, "topic_id", b"")
    return (core.topics.topic_name(topic_id) or "") if any(topic_id) else ""


def index_of(partition: Any) -> int:
    """Return the index of a partition in a message."""
    if isinstance(partition, int):
        return partition
    name = first_of(partition, _INDEX)
    assert name is not None, partition
    return int(getattr(partition, name))


def places(core: Context, request: Any) -> Iterator[tuple[str, int]]:
    """Yield the (topic, partition) that a request names; partition -1 where it names topics alone."""
    for holder in [request, *_groups_of_offset_fetch(request)]:
        attribute = first_of(holder, _NAMING_TOPICS)
        for topic in (getattr(holder, attribute) or ()) if attribute else ():
            if isinstance(topic, str):
                yield topic, -1
                continue
            name, partitions = topic_name(core, topic), first_of(topic, _PARTITIONS)
            indexes = getattr(topic, partitions) if partitions else None
            if isinstance(indexes, list) and indexes:
                for partition in indexes:
                    yield name, index_of(partition)
            else:
                yield name, -1


def names(api: Api, what: str) -> bool:
    """Whether requests of an API can be told apart by a `group`, a `transactional_id` or a `topic` that they name."""
    request = api.request()
    if what == "topic":
        return first_of(request, _NAMING_TOPICS) is not None
    if api.name in _SPLIT_BY_KEY:
        return (api.name in _OF_TRANSACTIONS) is (what == "transactional_id") or api.name == "FindCoordinator"
    if what == "group":
        return hasattr(request, "group_id")
    return first_of(request, ("transactional_id", "v3_and_below_transactional_id")) is not None


def _groups_of_offset_fetch(request: Any) -> list[Any]:
    groups = getattr(request, "groups", None) or []
    return [group for group in groups if hasattr(group, "topics")]


def keys(api: Api, request: Any) -> list[str]:
    """Return the groups, coordinator keys or transactional ids that a request of several names."""
    found = _SPLIT_BY_KEY.get(api.name)
    if found is None:
        return []
    values = getattr(request, found.asked) or []
    return [value if found.asked_key is None else getattr(value, found.asked_key) for value in values]


def transactional_ids(request: Any) -> set[str]:
    """Return the transactional ids that a request of a producer names."""
    several = [each.transactional_id for each in getattr(request, "transactions", None) or ()]
    one = getattr(request, "transactional_id", None)
    old = getattr(request, "v3_and_below_transactional_id", None)
    return {each for each in (one, old, *several) if each}


def split_by_key(api: Api, request: Any, struck: Callable[[str], bool]) -> Split:
    """Take a request of several groups apart."""
    where = _SPLIT_BY_KEY[api.name]
    named = list(zip(keys(api, request), getattr(request, where.asked), strict=True))
    hit, rest = copy.copy(request), copy.copy(request)
    setattr(hit, where.asked, [value for key, value in named if struck(key)])
    setattr(rest, where.asked, [value for key, value in named if not struck(key)])
    return Split(hit, rest if getattr(rest, where.asked) else None)


def join_by_key(api: Api, request: Any, one: Any, other: Any) -> Any:
    """Put the answers to both parts of a request together; what stands above the keys is `other`'s."""
    where = _SPLIT_BY_KEY[api.name]
    answered = {
        getattr(each, where.answered_key): each
        for part in (one, other)
        for each in getattr(part, where.answered)
    }
    joined = copy.copy(other)
    setattr(joined, where.answered, [answered[key] for key in keys(api, request) if key in answered])
    return joined


def split_by_partition(core: Context, request: Any, wants: Wants) -> Split:
    """Take a request of several partitions apart."""
    attribute = first_of(request, _TOPICS)
    assert attribute is not None
    hit, rest = copy.copy(request), copy.copy(request)
    for part, is_hit in ((hit, True), (rest, False)):
        topics = []
        for topic in getattr(request, attribute):
            name, partitions = topic_name(core, topic), first_of(topic, _PARTITIONS)
            assert partitions is not None
            chosen = [each for each in getattr(topic, partitions) if wants(name, index_of(each)) is is_hit]
            if chosen:
                topics.append(copy.copy(topic))
                setattr(topics[-1], partitions, chosen)
        setattr(part, attribute, topics)
    return Split(hit, rest if getattr(rest, attribute) else None)


def join_by_partition(request: Any, one: Any, other: Any) -> Any:
    """Put the answers to both parts of a request together, in its order."""
    asked = first_of(request, _TOPICS)
    answered = first_of(other, _ANSWERED_TOPICS)
    assert asked is not None and answered is not None
    found: dict[tuple[str, bytes], list[Any]] = {}
    for part in (one, other):
        for topic in getattr(part, answered):
            found.setdefault(_identity(topic), []).append(topic)
    joined = copy.copy(other)
    setattr(
        joined,
        answered,
        [_join_topic(topic, found.get(_identity(topic), [])) for topic in getattr(request, asked)],
    )
    return joined


def _identity(topic: Any) -> tuple[str, bytes]:
    name: str = getattr(topic, "name", None) or getattr(topic, "topic", "") or ""
    topic_id: bytes = getattr(topic, "topic_id", b"")
    return name, topic_id


def _join_topic(asked: Any, answers: list[Any]) -> Any:
    asked_partitions = first_of(asked, _PARTITIONS)
    joined = copy.copy(answers[0])
    attribute = first_of(joined, _ANSWERED_PARTITIONS)
    assert asked_partitions is not None and attribute is not None
    by_index = {index_of(each): each for answer in answers for each in getattr(answer, attribute)}
    order = [index_of(each) for each in getattr(asked, asked_partitions)]
    setattr(joined, attribute, [by_index[index] for index in dict.fromkeys(order)])
    return joined


def fail(api: Api, request: Any, error: ErrorCode, version: int, *, by_partition: bool) -> Any:
    """Refuse all of a request, or of a part of one.

    by_partition  the error must stand at the partitions, also where the API's own refusal is of the request as a whole
    """
    response = api.fail(request, error, version)
    if by_partition and api.name == "OffsetDelete":
        answer: Any = api.response
        topics = [
            answer.Topic(topic.name, [answer.Partition(index_of(each), error) for each in topic.partitions])
            for topic in request.topics
        ]
        return answer(topics=topics)
    return response


def mark(core: Context, response: Any, wants: Wants, group: str | None, error: ErrorCode) -> None:
    """Put an error in the place of what was read of partitions, or of topics of Metadata.

    group  the one of several whose partitions are meant, None for all
    """
    groups = [each for each in _groups_of_offset_fetch(response) if group in (None, each.group_id)]
    for holder in [response, *groups]:
        for topic in holder.topics:
            name = topic_name(core, topic)
            if hasattr(topic, "is_internal") and wants(name, -1):
                topic.error_code, topic.partitions = error, []
                continue
            for partition in topic.partitions:
                if wants(name, index_of(partition)):
                    _mark_partition(partition, error)


def _mark_partition(partition: Any, error: ErrorCode) -> None:
    partition.error_code = error
    if hasattr(partition, "committed_offset"):
        partition.committed_offset, partition.committed_leader_epoch, partition.metadata = -1, -1, ""
    else:
        partition.leader_id = -1  # as Kafka describes a partition that nobody leads
