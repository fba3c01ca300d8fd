"""Names in a request: groups, transactional ids and partitions, and how to split a request and its answer by them.

A broker may refuse one partition and serve the others of the same request, or one group of several. Their positions in
a request and its answer follow from both schemas.
"""

import copy
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from kafka_offsets.protocol.mirroring.pairs import carries_errors, has_error, key_of, pairs, repeated

GROUP_ID, TRANSACTIONAL_ID = "group_id", "transactional_id"

_KEYS = (GROUP_ID, TRANSACTIONAL_ID, "key")
"""Fields of an answer that name a group, a transaction, or either of them (FindCoordinator)."""

NameOf = Callable[[Any], str]
"""(topic in a message, which may give its id alone) -> its name, "" for an unknown one."""

Wants = Callable[[str, int], bool]
"""(topic, partition) -> whether it is meant; -1 for a topic as such."""


class Split(NamedTuple):
    """A request in two parts: the selected part, and the rest, None if nothing remains."""

    meant: Any
    rest: Any | None


class _Keys(NamedTuple):
    """The fields with the keys of several groups in a request and its answer; asked_key None: the elements are keys."""

    asked: str
    asked_key: str | None
    answered: str
    answered_key: str


class _TopicArrays(NamedTuple):
    """The arrays of topics and of their partitions in a request, and in its answer."""

    asked: str
    asked_partitions: str
    answered: str
    answered_partitions: str
    identity: tuple[str, ...]


class Named:
    """The names in requests of one version of an API."""

    def __init__(
        self, request: type[messages.MessageValue], response: type[messages.MessageValue], version: int
    ) -> None:
        asked, answered = request.SCHEMA.struct, response.SCHEMA.struct
        self.has_error_above = has_error(answered, version)
        self._fields = [field for field in asked.fields if version in field.versions]
        self._keys = _keys(asked, answered, version)
        self._topics = _topics(asked, answered, version)
        mirrored = {pair.asked.name for pair in pairs(answered, asked, version)}
        mirrored |= {field.name for field in answered.fields if field.array}
        self._holders = [field for field in self._fields if field.array and field.name in mirrored]

    # -- names

    @property
    def kinds(self) -> set[str]:
        """Return the fields that distinguish requests: GROUP_ID, TRANSACTIONAL_ID, "topic"."""
        kinds = {kind for kind in (GROUP_ID, TRANSACTIONAL_ID) if self._has(kind)}
        return kinds | {"topic" for field in self._holders if _names_topics(field)}

    def _has(self, kind: str) -> bool:
        if self._keys is not None:
            return self._keys.answered_key in (kind, "key")
        return any(
            field.name.endswith(kind)
            for outer in self._fields
            for field in (outer.struct.fields if outer.struct is not None else [outer])
            if not field.array
        )

    def ids(self, request: Any, kind: str) -> list[str]:
        """Return the groups or the transactional ids that a request names."""
        ids = []
        for field in self._fields:
            value = getattr(request, field.name)
            if field.struct is not None and field.array:
                ids += [getattr(element, kind) for element in value or () if kind in element.__slots__]
            elif not field.array and field.type == "string" and field.name.endswith(kind):
                ids.append(value)
        if self._keys is not None and self._keys.asked_key is None and self._keys.answered_key == kind:
            ids += self.keys(request)
        return [id_ for id_ in ids if id_ is not None]

    def keys(self, request: Any) -> list[str]:
        """Return the keys of a request for several, each with its own answer; none for any other request."""
        if self._keys is None:
            return []
        values = getattr(request, self._keys.asked) or []
        key = self._keys.asked_key
        return [value if key is None else getattr(value, key) for value in values]

    def topic_partitions(self, request: Any, name_of: NameOf) -> Iterator[tuple[str, int]]:
        """Yield the (topic, partition) that a request names; partition -1 where it names only topics."""
        for field in self._holders:
            yield from _places(field, getattr(request, field.name) or (), name_of)

    # -- splitting

    @property
    def splits_by_partition(self) -> bool:
        """Whether the answer has an error for each partition of the request."""
        return self._topics is not None

    def split_by_key(self, request: Any, wants: Callable[[str], bool]) -> Split:
        """Split a request for several keys."""
        assert self._keys is not None
        name = self._keys.asked
        named = list(zip(self.keys(request), getattr(request, name), strict=True))
        meant, rest = copy.copy(request), copy.copy(request)
        setattr(meant, name, [value for key, value in named if wants(key)])
        setattr(rest, name, [value for key, value in named if not wants(key)])
        return Split(meant, rest if getattr(rest, name) else None)

    @property
    def answered_topics(self) -> str:
        """The array of the answer with the topics of the request."""
        assert self._topics is not None
        return self._topics.answered

    def topics(self, request: Any) -> list[Any]:
        """Return the topics of a request whose answer has an error for each partition."""
        assert self._topics is not None
        return list(getattr(request, self._topics.asked))

    def split_by_topic(self, request: Any, wants: Callable[[Any], bool]) -> Split:
        """Split a request for several topics; `wants` gets a topic as it is in the request."""
        assert self._topics is not None
        name = self._topics.asked
        meant, rest = copy.copy(request), copy.copy(request)
        topics = [(topic, wants(topic)) for topic in getattr(request, name)]
        setattr(meant, name, [topic for topic, is_meant in topics if is_meant])
        setattr(rest, name, [topic for topic, is_meant in topics if not is_meant])
        return Split(meant, rest if getattr(rest, name) else None)

    def join_by_key(self, request: Any, one: Any, other: Any) -> Any:
        """Join the answers to both parts of a request; fields above the keys come from `other`."""
        assert self._keys is not None
        where = self._keys
        answered: dict[str, list[Any]] = {}
        for part in (one, other):
            for element in getattr(part, where.answered):
                answered.setdefault(getattr(element, where.answered_key), []).append(element)
        elements = (answered[key] for key in self.keys(request) if key in answered)
        joined = copy.copy(other)
        # A key that is named twice has two answers, or one.
        setattr(
            joined,
            where.answered,
            [matching.pop(0) if len(matching) > 1 else matching[0] for matching in elements],
        )
        return joined

    def split_by_partition(self, request: Any, wants: Wants, name_of: NameOf) -> Split:
        """Split a request for several partitions."""
        assert self._topics is not None
        where = self._topics
        meant, rest = copy.copy(request), copy.copy(request)
        for part, is_meant in ((meant, True), (rest, False)):
            topics = []
            for topic in getattr(request, where.asked):
                name, partitions = name_of(topic), getattr(topic, where.asked_partitions)
                chosen = [
                    partition for partition in partitions if wants(name, index_of(partition)) is is_meant
                ]
                if chosen:
                    topics.append(copy.copy(topic))
                    setattr(topics[-1], where.asked_partitions, chosen)
            setattr(part, where.asked, topics)
        return Split(meant, rest if getattr(rest, where.asked) else None)

    def join_by_partition(self, request: Any, one: Any, other: Any) -> Any:
        """Join the answers to both parts of a request, in request order."""
        assert self._topics is not None
        where = self._topics
        topics_by_key: dict[tuple[Any, ...], list[Any]] = {}
        for part in (one, other):
            for topic in getattr(part, where.answered):
                topics_by_key.setdefault(_identity(topic, where), []).append(topic)
        joined = copy.copy(other)
        topics = [
            _joined(topic, topics_by_key.get(_identity(topic, where), []), where)
            for topic in getattr(request, where.asked)
        ]
        setattr(joined, where.answered, topics)
        return joined


@cache
def named_by(api: str, version: int) -> Named:
    """Return the names of a version of an API, derived on first use."""
    return Named(messages.find(f"{api}Request"), messages.find(f"{api}Response"), version)


def index_of(partition: Any) -> int:
    """Return the index of a partition in a message: a number, or a struct whose first number it is."""
    if isinstance(partition, int):
        return partition
    name = next(field.name for field in partition.STRUCT.fields if field.type == "int32" and not field.array)
    return int(getattr(partition, name))


def name_in(topic: Any) -> str:
    """Return the name of a topic in a message, "" if it has only its id."""
    field = next((field for field in topic.STRUCT.fields if field.type == "string"), None)
    return "" if field is None else getattr(topic, field.name) or ""


def _keys(asked: Struct, answered: Struct, version: int) -> _Keys | None:
    for pair in pairs(answered, asked, version):
        inner, named = pair.answered.struct, pair.asked.struct
        if inner is None or not has_error(inner, version):
            continue
        if named is None:
            key = key_of(inner, pair.asked, version).name
            if key in _KEYS:
                return _Keys(pair.asked.name, None, pair.answered.name, key)
        elif any(field.name == GROUP_ID for field in repeated(inner, named, version)):
            return _Keys(pair.asked.name, GROUP_ID, pair.answered.name, GROUP_ID)
    return None


def _topics(asked: Struct, answered: Struct, version: int) -> _TopicArrays | None:
    for pair in pairs(answered, asked, version):
        if not _names_topics(pair.asked) or pair.asked.struct is None or pair.answered.struct is None:
            continue
        for inner in pairs(pair.answered.struct, pair.asked.struct, version):
            if inner.answered.struct is not None and carries_errors(inner.answered.struct, version):
                identity = repeated(pair.answered.struct, pair.asked.struct, version)
                names = pair.asked.name, inner.asked.name, pair.answered.name, inner.answered.name
                return _TopicArrays(*names, tuple(field.name for field in identity))
    return None


def _names_topics(array: Field) -> bool:
    return "topic" in array.name or (
        array.struct is not None and any(_names_topics(field) for field in array.struct.fields if field.array)
    )


def _places(array: Field, values: Any, name_of: NameOf) -> Iterator[tuple[str, int]]:
    if not _names_topics(array):
        return
    for value in values:
        if isinstance(value, str):
            yield value, -1
        elif "topic" not in array.name:  # a group, or a transaction, with its topics
            for field in value.STRUCT.fields:
                if field.array:
                    yield from _places(field, getattr(value, field.name) or (), name_of)
        else:
            partitions = next(
                (f.name for f in value.STRUCT.fields if f.array and "partition" in f.name), None
            )
            indexes = getattr(value, partitions) if partitions else None
            for index in indexes or ():
                yield name_of(value), index_of(index)
            if not indexes:
                yield name_of(value), -1


def _identity(topic: Any, where: _TopicArrays) -> tuple[Any, ...]:
    return tuple(getattr(topic, name) for name in where.identity)


def _joined(asked: Any, topics: list[Any], where: _TopicArrays) -> Any:
    joined = copy.copy(topics[0])
    by_index = {
        index_of(partition): partition
        for response in topics
        for partition in getattr(response, where.answered_partitions)
    }
    order = dict.fromkeys(index_of(partition) for partition in getattr(asked, where.asked_partitions))
    setattr(joined, where.answered_partitions, [by_index[index] for index in order])
    return joined
