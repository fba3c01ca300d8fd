"""Events that a test waits for. The broker checks them at the end of each turn.

    broker.wait_for(group_stable("billing", members=2))

An :class:`Event` is a condition on the state of a broker, so a condition that is already true counts as well. Nothing
sleeps or polls: while a test waits, the broker's thread checks the condition after each of its turns.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition.partitions import LogLoadingError
from kafka_offsets.client.commits import check_places
from kafka_offsets.errors import unknown
from kafka_offsets.protocol.topic_partition import TopicPartition, names_in
from kafka_offsets.testing.contents.groups import (
    GroupView,
    MemberView,
    group_ids,
    group_view,
    lag,
    log_ends,
    partitions_of,
    unassigned,
    unknown_group,
)
from kafka_offsets.testing.faults.observers import observing
from kafka_offsets.testing.server.consumption import Consumption, Observation

T = TypeVar("T")


class Event(NamedTuple, Generic[T]):
    """A condition to wait for; T is the type of the result.

    what  a sentence: the condition
    poll  returns the result of the wait, None as long as the condition is false
    tell  describes the current state, for the message of a time-out
    group  that it concerns, for the diagnosis in that message; None: the whole broker
    """

    what: str
    poll: Callable[[BrokerCore], T | None]
    tell: Callable[[BrokerCore], str]
    group: str | None = None


class Watches:
    """The events that are waited for.

    watched  future for the result -> event
    """

    def __init__(self) -> None:
        self.watched: dict[Future[Any], Event[Any]] = {}

    def add(self, event: Event[T], core: BrokerCore) -> "Future[T]":
        """Return a future for the result of an event."""
        future: Future[T] = Future()
        self.watched[future] = event
        self.poll(core)
        return future

    def remove(self, future: "Future[T]", event: Event[T], core: BrokerCore) -> str:
        """Stop checking an event; return a description of the current state."""
        self.poll(core)
        self.watched.pop(future, None)
        try:
            with observing():
                return event.tell(core)
        except LogLoadingError as error:
            return f"not known: {error}"

    def poll(self, core: BrokerCore) -> None:
        """Check all events, and forget those whose wait was cancelled."""
        for future, event in list(self.watched.items()):
            if future.cancelled():
                del self.watched[future]
                continue
            try:
                with observing():
                    result = event.poll(core)
            except LogLoadingError:
                continue  # another turn ends when it is open
            except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
                self._end(future, error=error)
                continue
            if result is not None:
                self._end(future, result)

    def _end(self, future: "Future[Any]", result: Any = None, error: Exception | None = None) -> None:
        """Forget an event, and wake its wait unless that was cancelled at this very moment."""
        self.watched.pop(future, None)
        if not future.set_running_or_notify_cancel():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def abandon(self) -> None:
        """End all waits with an error: the broker has stopped."""
        for future, event in list(self.watched.items()):
            why = f"this broker was stopped while somebody waited: {event.what}"
            self._end(future, error=RuntimeError(why))


def group_stable(group: str, *, members: int | None = None) -> Event[GroupView]:
    """A group is stable with `members` members, or at least one, that have their assignment. Returns its GroupView.

    A consumer does not read yet: wait for `consuming` before you produce what it is to read.
    """

    def poll(core: BrokerCore) -> GroupView | None:
        view = group_view(core, group)
        if view is None or not view.is_settled:
            return None
        return view if members is None or len(view.members) == members else None

    many = "" if members is None else f" with {members} member{'' if members == 1 else 's'}"
    return Event(f"group {group!r} is stable{many}", poll, lambda core: _describe(core, group), group)


def consuming(
    group: str | None = None,
    *,
    members: int | None = None,
    topic: str | None = None,
    partition: int | None = None,
    client_id: str | None = None,
) -> Event[dict[TopicPartition, int]]:
    """Consumers read: what is produced from now on reaches them, also with `auto.offset.reset=latest`.

    group    it is stable, its members have all partitions of its topics, and have fetched each of them since it was
             assigned to them. Returns the offset of the last fetch by (topic, partition)
    members  so many members, at least one by default
    topic    without `group`, for consumers without one: each partition of this topic, or this one, is fetched by an
             open connection, of this client id if one is given
    Consumers with the same client id on one machine cannot be told apart: of such members of several groups that have
    the same partition, all must have fetched it. Give them different ids where they start at different times.
    TypeError unless either a group or a topic is given.
    """
    if (group is None) is (topic is None):
        raise TypeError(
            "either a group or a topic is expected: consuming('billing') or consuming(topic='orders')"
        )
    if group is None:
        if members is not None:
            raise TypeError("members: of which group?")
        assert topic is not None
        return _topic_consumed(topic, partition, client_id)
    if partition is not None or client_id is not None:
        raise TypeError("partition and client_id are for consumers without a group, with topic=")
    return _group_consuming(group, members)


def _group_consuming(group: str, members: int | None) -> Event[dict[TopicPartition, int]]:
    stable = group_stable(group, members=members)

    def poll(core: BrokerCore) -> dict[TopicPartition, int] | None:
        view = stable.poll(core)
        if view is None or _not_consumed(core, view):
            return None
        consumption = _consumption(core)
        return {
            partition: consumption.positions(partition, member.client_id, member.client_host)[-1]
            for member in view.members
            for partition in member.partitions
        }

    def tell(core: BrokerCore) -> str:
        """Return why the group does not consume."""
        view = group_view(core, group)
        if view is None or stable.poll(core) is None:
            return stable.tell(core)
        return "; ".join([f"{view}", *_not_consumed(core, view)])

    return Event(f"{stable.what}, and fetches its partitions", poll, tell, group)


def _not_consumed(core: BrokerCore, view: GroupView) -> list[str]:
    """Return why a stable group does not read all of its partitions, a sentence for each."""
    lacking = [f"{topic}-{index} is assigned to no member" for topic, index in unassigned(core, view)]
    if not any(member.partitions for member in view.members):
        lacking.append("no partition is assigned")
    consumption = _consumption(core)
    others = [] if lacking else [group_view(core, name) for name in group_ids(core) if name != view.group_id]
    for member in view.members:
        same = [
            other
            for group in (view, *filter(None, others))
            for other in group.members
            if (other.client_id, other.client_host) == (member.client_id, member.client_host)
        ]
        for partition in member.partitions:
            members = sum(partition in other.partitions for other in same)
            readers = len(consumption.positions(partition, member.client_id, member.client_host))
            if readers < members:
                who = f"{member.client_id!r} at {member.client_host}"
                of = f", by {readers} of {members} members with this client id" if members > 1 else ""
                lacking.append(
                    f"{partition[0]}-{partition[1]} is not fetched by {who} since it was assigned{of}"
                )
    return lacking


def _topic_consumed(
    topic: str, partition: int | None, client_id: str | None
) -> Event[dict[TopicPartition, int]]:
    def fetched(core: BrokerCore) -> dict[TopicPartition, list[int]]:
        partitions = partitions_of(core, topic) if partition is None else [(topic, partition)]
        return {each: _consumption(core).positions(each, client_id) for each in partitions}

    def poll(core: BrokerCore) -> dict[TopicPartition, int] | None:
        positions = fetched(core)
        return (
            {topic_partition: offsets[-1] for topic_partition, offsets in positions.items()}
            if positions and all(positions.values())
            else None
        )

    def tell(core: BrokerCore) -> str:
        """Return the partitions that nobody fetches."""
        lacking = [f"{name}-{index}" for (name, index), offsets in fetched(core).items() if not offsets]
        return _unknown_topic(core, topic) or f"nobody fetches {', '.join(lacking)}"

    where = f"topic {topic}" if partition is None else f"{topic}-{partition}"
    by = "" if client_id is None else f" by {client_id!r}"
    return Event(f"{where} is fetched{by}", poll, tell)


def _consumption(core: BrokerCore) -> Consumption:
    observer = core.broker.responses.observer
    assert isinstance(observer, Observation)
    return observer.consumption


def group_empty(group: str) -> Event[GroupView]:
    """A group exists and has no members, because they left or their sessions ended. Returns its GroupView."""

    def poll(core: BrokerCore) -> GroupView | None:
        view = group_view(core, group)
        return view if view is not None and view.state == "Empty" and not view.members else None

    return Event(f"group {group!r} is empty", poll, lambda core: _describe(core, group), group)


def member_joined(group: str, *, client_id: str | None = None) -> Event[MemberView]:
    """A group has a member, with that client id if one is given. Returns its MemberView."""

    def poll(core: BrokerCore) -> MemberView | None:
        view = group_view(core, group)
        members = () if view is None else view.members
        return next(
            (member for member in members if client_id is None or member.client_id == client_id), None
        )

    who = "a member" if client_id is None else f"a member with the client id {client_id!r}"
    return Event(f"group {group!r} has {who}", poll, lambda core: _describe(core, group), group)


def committed(
    group: str, offsets: Mapping[TopicPartition, int] | None = None
) -> Event[dict[TopicPartition, int]]:
    """A group has committed these offsets or later ones, or any offset if none are given.

    Returns the committed offsets by (topic, partition). TypeError for offsets that are not.
    """
    if offsets is not None:
        check_places(offsets, "offset")

    def poll(core: BrokerCore) -> dict[TopicPartition, int] | None:
        """Return the committed offsets once they reach the requested ones, None before."""
        committed_offsets = _offsets(core, group)
        if offsets is None:
            return committed_offsets or None
        behind = [
            partition
            for partition, offset in offsets.items()
            if committed_offsets.get(partition, -1) < offset
        ]
        return None if behind else committed_offsets

    expected_text = "an offset" if offsets is None else _names(offsets) or "no offset"
    return Event(
        f"group {group!r} has committed {expected_text}",
        poll,
        lambda core: _describe_offsets(core, group),
        group,
    )


def caught_up(group: str, topics: Iterable[str] | None = None) -> Event[dict[TopicPartition, int]]:
    """A group has committed the end of each partition, so its lag is 0. Returns the committed offsets.

    topics  the topics to check; default: all in which the group has committed an offset or a member has a partition
    A partition without records needs no offset. A group without committed offsets has not caught up, unless
    `topics` is given and these topics are empty. The offsets are by (topic, partition). TypeError for topics that are
    one text.
    """
    named = None if topics is None else names_in(topics, "topics")

    def poll(core: BrokerCore) -> dict[TopicPartition, int] | None:
        lags, offsets = lag(core, group, named), _offsets(core, group)
        is_known = bool(lags) and (named is not None or bool(offsets))
        return offsets if is_known and all(partition_lag == 0 for partition_lag in lags.values()) else None

    def tell(core: BrokerCore) -> str:
        """Return the partitions with a lag, or the committed offsets if there are none."""
        late = ", ".join(
            f"{topic}-{index} with {'an unknown lag' if count is None else f'a lag of {count}'}"
            for (topic, index), count in lag(core, group, named).items()
            if count != 0
        )
        return late or _describe_offsets(core, group)

    where = "" if named is None else f" in {', '.join(named)}"
    return Event(f"group {group!r} has caught up{where}", poll, tell, group)


def record_produced(topic: str, partition: int | None = None, *, count: int = 1) -> Event[int]:
    """A topic, or one partition, holds at least `count` records. Returns how many.

    They are counted by offsets, so transaction markers and records that compaction has removed count too.
    """

    def number(core: BrokerCore) -> int:
        ends = log_ends(core, topic)
        return sum(end - start for (_, index), (start, end) in ends.items() if partition in (None, index))

    def poll(core: BrokerCore) -> int | None:
        record_count = number(core)
        return record_count if record_count >= count else None

    where = f"topic {topic}" if partition is None else f"{topic}-{partition}"
    what = f"{where} holds {count} record{'' if count == 1 else 's'}"
    return Event(what, poll, lambda core: _unknown_topic(core, topic) or f"{number(core)}")


def topic_created(topic: str) -> Event[int]:
    """A topic exists. Returns its number of partitions."""

    def poll(core: BrokerCore) -> int | None:
        known_topic = core.topics.get(topic)
        return None if known_topic is None else known_topic.partition_count

    return Event(
        f"topic {topic} is there",
        poll,
        lambda core: f"the topics {', '.join(core.topics.names()) or '(none)'}",
    )


def _unknown_topic(core: BrokerCore, topic: str) -> str:
    """Return that a topic does not exist, "" if it does."""
    return "" if core.topics.get(topic) else unknown("topic", topic, core.topics.names())


def _offsets(core: BrokerCore, group: str) -> dict[TopicPartition, int]:
    return {partition: entry.offset for partition, entry in core.shards.committed(group).items()}


def _names(offsets: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{topic}-{index} at {offset}" for (topic, index), offset in sorted(offsets.items()))


def _describe_offsets(core: BrokerCore, group: str) -> str:
    is_unknown = group_view(core, group) is None
    nothing = unknown_group(core, group) if is_unknown else f"group {group!r} has committed nothing"
    return _names(_offsets(core, group)) or nothing


def _describe(core: BrokerCore, group: str) -> str:
    view = group_view(core, group)
    return unknown_group(core, group) if view is None else f"{view}"
