"""Replay of a long offsets log in columns: its final offsets, groups and open transactions.

The outcome is that of a shard's `replay` and `end_transaction` for each record in turn, including the order of topics.
Here each key of a committed offset has a number, and columns keep the last offset of each key. Only the
final offsets become rows of the offset table. Records of groups are rare; the caller's function reads them one by one.

The result is exact for these reasons:

- Offsets of a transaction take effect at its COMMIT marker, with their own log offsets: an offset with a later log
  offset stays, and a tombstone removes earlier ones. So among a partition's effective records the one with the highest
  log offset is in force, whether it is an offset or a tombstone.
- A group or topic takes its place in the table when its first offset takes effect. This can happen twice only after a
  deletion, so only there are the entries counted record by record, in the order in which they take effect (`_follow`).
- The deletion of a group depends on whether the group has offsets at that moment; the same counts show it.

It needs numpy (the extra `fast`), and at its peak some 330 bytes for each key, freed when it has finished.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kafka_offsets.columns.dense_ids import GrowingColumns, StringIds, WordIds
from kafka_offsets.columns.fields import Booleans, Integers
from kafka_offsets.columns.offsets import OffsetColumns, ParsedOffset, join, split
from kafka_offsets.columns.records import RecordColumns
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.messages import GroupMetadataValue
from kafka_offsets.protocol.records import ControlType

NO_PRODUCER = -1


class Marker(NamedTuple):
    """The end of a transaction."""

    log_offset: int
    producer_id: int
    committed: bool


def without_markers(records: RecordColumns) -> tuple[RecordColumns, Integers, list[Marker]]:
    """Return the records except control records, the producers of their transactions, and the markers.

    The producer of a record outside a transaction is NO_PRODUCER. ProtocolError for a control record without a key.
    """
    batches = records.batches
    producer_of = np.where(batches.is_transactional, batches.producer_id, NO_PRODUCER)
    producer_id = producer_of[records.batch]
    if not batches.is_control.any():
        return records, producer_id, []
    is_control = batches.is_control[records.batch]
    if (records.key_length[is_control] < 0).any():
        raise ProtocolError("it has no key")
    rows, types = records.markers()
    markers = [
        Marker(log_offset, producer, type_ == ControlType.COMMIT)
        for log_offset, producer, type_ in zip(
            records.offset[rows].tolist(), producer_id[rows].tolist(), types.tolist(), strict=True
        )
        if type_ in (ControlType.ABORT, ControlType.COMMIT)
    ]
    kept = np.flatnonzero(~is_control)
    return records.take(kept), producer_id[kept], markers


_NOBODY = -1


class GroupRecord(NamedTuple):
    """A record of a group.

    value     the metadata of a classic group; None if the record deletes it or is of another kind
    known     whether the group is a classic group
    consumer  key and value of a record of a consumer group
    ends      whether it deletes the group
    """

    group: str
    value: GroupMetadataValue | None = None
    known: bool = False
    consumer: tuple[bytes, bytes | None] | None = None
    ends: bool = False


Reader = Callable[[int, bytes, bytes | None, int], ParsedOffset | GroupRecord | None]
"""Reads one record that is not a usual offset: its number, key, value and log offset. None: it leaves nothing."""


class OffsetRows(NamedTuple):
    """Offsets of a group for consecutive partitions of a topic, without metadata and expire timestamps.

    rows  for each partition offset, leader epoch, commit timestamp and log offset, as `>qiqq`
    id    of the topic, 16 bytes
    """

    group: str
    topic: str
    partitions: list[int]
    rows: bytes
    id: bytes


class Entry(NamedTuple):
    """One offset.

    committed  offset, leader epoch, metadata, timestamps of commit and expiry, topic id, log offset
    """

    group: str
    topic: str
    partition: int
    committed: tuple[int, int, str, int, int, bytes, int]


class _GroupEvent(NamedTuple):
    """A record of a group: its position in the log, and the number of the group."""

    log_offset: int
    group: int
    record: GroupRecord


_Call = tuple[int, int]
"""Log offset at which a group comes into being unless it is there, and which of several at this offset it is."""


class _Operations(NamedTuple):
    """Offsets and tombstones in log order: first those of earlier open transactions, then new ones.

    key, names, group  numbers
    text               index into the texts of metadata, -1 for none
    """

    log_offset: Integers
    producer_id: Integers
    key: Integers
    names: Integers
    group: Integers
    is_tombstone: Booleans
    offset: Integers
    leader_epoch: Integers
    commit_timestamp: Integers
    expire_timestamp: Integers
    id_high: Integers
    id_low: Integers
    text: Integers

    def take(self, chosen: Any) -> "_Operations":
        return _Operations(*(column[chosen] for column in self))


class _Effects(NamedTuple):
    """The effective operations, in order, and their positions in the log: at their own record or at a marker."""

    rows: Integers
    log_offset: Integers


_STORED = ("offset", "leader_epoch", "commit_timestamp", "expire_timestamp", "id_high", "id_low")
"""The columns of an operation that the table holds."""


class ColumnReplay:
    """Replays records in log order. `groups`, `offsets` and `pending` return the result.

    CollisionError, UnicodeDecodeError or ProtocolError end it. The caller must then replay the log record by record,
    which reports the error, if there is one.
    """

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._last_offset = -1
        self._key_ids = WordIds()
        self._names_ids = StringIds()
        self._group_ids: dict[str, int] = {}
        self._topics: list[str] = []
        # last: the log offset of the last offset in force, erased: of the last tombstone, -1 for none
        self._keys = GrowingColumns(
            live=(np.bool_, 0),
            has_text=(np.bool_, 0),
            last=(np.int64, -1),
            erased=(np.int64, -1),
            names=(np.int32, 0),
            partition=(np.int32, 0),
            leader_epoch=(np.int32, 0),
            **{name: (np.int64, 0) for name in _STORED if name != "leader_epoch"},
        )
        # live: entries; since: when the first of them took effect;
        # made, made_rank: log offset from which on the group exists, or -1, and which of several made there it is
        self._names = GrowingColumns(live=(np.int64, 0), since=(np.int64, 0), group=(np.int32, 0))
        self._groups = GrowingColumns(
            live=(np.int64, 0), since=(np.int64, 0), made=(np.int64, _NOBODY), made_rank=(np.int64, 0)
        )
        self._texts: dict[int, str] = {}
        self._durable: dict[int, GroupMetadataValue] = {}
        self._consumer: dict[int, dict[bytes, bytes]] = {}
        self._open: dict[int, list[int]] = {}
        self._carried: _Operations | None = None
        self._carried_texts: list[str] = []
        self._effects_before = 0

    # ---- one part of the log -----------------------------------------------------------------------------------

    def replay(self, records: RecordColumns) -> None:
        """Apply the next records, and the markers among them."""
        self._check_rising(records.offset)
        records, producer_id, markers = without_markers(records)
        offsets, others = split(records)
        offsets, events = self._read_others(records, offsets, others.tolist())
        operations, new, texts = self._operations(records, producer_id, offsets)
        effects = self._effects(operations, new, markers)
        followed = np.zeros(len(self._group_ids), np.bool_)
        followed[operations.group[effects.rows[operations.is_tombstone[effects.rows]]]] = True
        followed[[event.group for event in events if event.record.value is None]] = True
        histories = self._count(operations, effects, followed)
        self._make_groups(operations, new, effects, events, histories)
        self._keep(operations, effects, texts)
        self._effects_before += len(effects.rows)
        self._carry(operations, texts)

    def _check_rising(self, offset: Integers) -> None:
        """Raise ProtocolError unless log offsets rise: this module depends on it.

        A broker always appends rising offsets. A replay record by record can read others.
        """
        if not offset.size:
            return
        if offset[0] <= self._last_offset or (offset[1:] <= offset[:-1]).any():
            raise ProtocolError("log offsets do not rise")
        self._last_offset = int(offset[-1])

    def _read_others(
        self, records: RecordColumns, offsets: OffsetColumns, others: list[int]
    ) -> tuple[OffsetColumns, list[_GroupEvent]]:
        """Read the unusual records; return all offsets, including theirs, and the records of groups."""
        buffer = records.buffer
        parsed: list[ParsedOffset] = []
        events: list[_GroupEvent] = []
        for index in others:
            key = _slice(buffer, records.key_start, records.key_length, index)
            if key is None:
                raise ProtocolError("it has no key")
            value = _slice(buffer, records.value_start, records.value_length, index)
            log_offset = int(records.offset[index])
            entry = self._read(index, key, value, log_offset)
            if isinstance(entry, ParsedOffset):
                parsed.append(entry)
            elif entry is not None:
                events.append(_GroupEvent(log_offset, self._group(entry.group), entry))
        return join(offsets, parsed), events

    def _group(self, name: str) -> int:
        group = self._group_ids.setdefault(name, len(self._group_ids))
        self._groups.grow(len(self._group_ids))
        return group

    def _operations(
        self, records: RecordColumns, producer_id: Integers, offsets: OffsetColumns
    ) -> tuple[_Operations, int, list[str]]:
        """Number the names and keys; return all operations, how many are carried over, and the texts."""
        buffer = offsets.buffer
        names, new = self._names_ids.find_or_add(buffer, offsets.names_start, offsets.names_length)
        self._add_names(buffer, offsets.names_start[new].tolist())
        words = (names << 32 | offsets.partition & 0xFFFFFFFF).view(np.uint64)
        keys, new = self._key_ids.find_or_add(words)
        self._keys.grow(len(self._key_ids))
        self._keys.names[keys[new]] = names[new]
        self._keys.partition[keys[new]] = offsets.partition[new]
        texts = list(self._carried_texts)
        text = np.full(len(keys), -1, np.int64)
        with_text = np.flatnonzero(offsets.metadata_length)
        if with_text.size:
            text[with_text] = np.arange(len(texts), len(texts) + len(with_text))
            begin = offsets.metadata_start[with_text]
            end = begin + offsets.metadata_length[with_text]
            texts += [buffer[a:b].decode() for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
        operations = _Operations(
            records.offset[offsets.record],
            producer_id[offsets.record],
            keys,
            names,
            self._names.group[names].astype(np.int64),
            offsets.is_tombstone,
            *offsets[6:12],
            text,
        )
        if self._carried is None:
            return operations, 0, texts
        joined: list[Any] = [np.concatenate(pair) for pair in zip(self._carried, operations, strict=True)]
        return _Operations(*joined), len(self._carried.key), texts

    def _add_names(self, buffer: bytes, starts: list[int]) -> None:
        """Add new pairs of group and topic."""
        first = len(self._topics)
        groups = []
        for at in starts:
            topic_at = at + 2 + int.from_bytes(buffer[at : at + 2])
            topic_end = topic_at + 2 + int.from_bytes(buffer[topic_at : topic_at + 2])
            groups.append(
                self._group_ids.setdefault(buffer[at + 2 : topic_at].decode(), len(self._group_ids))
            )
            self._topics.append(buffer[topic_at + 2 : topic_end].decode())
        self._names.grow(len(self._topics))
        self._names.group[first : len(self._topics)] = groups
        self._groups.grow(len(self._group_ids))

    # ---- transactions ------------------------------------------------------------------------------------------

    def _effects(self, operations: _Operations, new: int, markers: Sequence[Marker]) -> _Effects:
        """Find the operations that take effect, and when. `self._open` then holds those that wait for a marker.

        new  index of the first operation that was not carried over
        """
        log_offset = operations.log_offset
        waiting = (operations.producer_id != NO_PRODUCER) & ~operations.is_tombstone
        if not markers and not waiting.any():
            return _Effects(np.arange(len(log_offset)), log_offset)
        rows = np.flatnonzero(waiting[new:]) + new
        coming = zip(
            rows.tolist(), log_offset[rows].tolist(), operations.producer_id[rows].tolist(), strict=True
        )
        ended: list[int] = []
        ended_at: list[int] = []
        row, at, producer_id = next(coming, (-1, -1, -1))
        for marker in markers:
            while row >= 0 and at < marker.log_offset:
                self._open.setdefault(producer_id, []).append(row)
                row, at, producer_id = next(coming, (-1, -1, -1))
            committed = self._open.pop(marker.producer_id, [])
            if marker.committed:
                ended += committed
                ended_at += [marker.log_offset] * len(committed)
        while row >= 0:
            self._open.setdefault(producer_id, []).append(row)
            row, at, producer_id = next(coming, (-1, -1, -1))
        effective = np.concatenate((np.flatnonzero(~waiting), np.array(ended, np.int64)))
        taking_effect = np.concatenate((log_offset[~waiting], np.array(ended_at, np.int64)))
        # An operation has no effect after a later offset or tombstone of the same key.
        fresh = log_offset[effective] > self._keys.last[operations.key[effective]]
        effective, taking_effect = effective[fresh], taking_effect[fresh]
        order = np.argsort(taking_effect, kind="stable")
        effective, taking_effect = effective[order], taking_effect[order]
        in_force = _not_overtaken(operations.key[effective], effective)
        return _Effects(effective[in_force], taking_effect[in_force])

    def _carry(self, operations: _Operations, texts: list[str]) -> None:
        """Keep the operations of open transactions."""
        rows = np.array(sorted(row for rows in self._open.values() for row in rows), np.int64)
        if not rows.size:
            self._carried, self._carried_texts = None, []
            return
        carried = operations.take(rows)
        has_text = np.flatnonzero(carried.text >= 0)
        self._carried_texts = [texts[index] for index in carried.text[has_text].tolist()]
        carried.text[has_text] = np.arange(len(has_text))
        self._carried = carried
        carried_row = {row: index for index, row in enumerate(rows.tolist())}
        self._open = {
            producer: [carried_row[row] for row in waiting] for producer, waiting in self._open.items()
        }

    # ---- counts of entries -------------------------------------------------------------------------------------

    def _count(
        self, operations: _Operations, effects: _Effects, followed: Booleans
    ) -> dict[int, tuple[list[int], list[int]]]:
        """Count the entries of groups and topics, and note when each got its first one.

        followed  by group: whether the log deletes something in it
        Returns, for each followed group, when its number of entries changes and the new number, beginning with
        (-1, the number before).
        """
        rows: Integers = effects.rows
        sequence: Integers = self._effects_before + np.arange(len(rows))
        slow = followed[operations.group[rows]]
        histories: dict[int, tuple[list[int], list[int]]] = {
            group: ([_NOBODY], [int(self._groups.live[group])]) for group in np.flatnonzero(followed).tolist()
        }
        if slow.any():
            self._follow(
                operations, _Effects(rows[slow], effects.log_offset[slow]), sequence[slow], histories
            )
            rows, sequence = rows[~slow], sequence[~slow]
        for columns, numbers in ((self._names, operations.names), (self._groups, operations.group)):
            first = np.flatnonzero(columns.live[numbers[rows]] == 0)[::-1]
            columns.since[numbers[rows[first]]] = sequence[first]  # the last of several assignments wins
        added = np.flatnonzero(~self._keys.live[operations.key[rows]])
        if added.size:
            keys = np.unique(operations.key[rows[added]])
            names = self._keys.names[keys]
            self._names.live += np.bincount(names, minlength=len(self._names.live))
            self._groups.live += np.bincount(self._names.group[names], minlength=len(self._groups.live))
        return histories

    def _follow(
        self,
        operations: _Operations,
        effects: _Effects,
        sequence: Integers,
        histories: dict[int, tuple[list[int], list[int]]],
    ) -> None:
        """Count entries operation by operation, in the order in which they take effect."""
        rows = effects.rows
        changes = self._changes(operations.key[rows], ~operations.is_tombstone[rows])
        moved = np.flatnonzero(changes)
        rows, changes, sequence = rows[moved], changes[moved], sequence[moved]
        _count_within(self._names, operations.names[rows], changes, sequence)
        group = operations.group[rows]
        order, counts = _count_within(self._groups, group, changes, sequence)
        at = effects.log_offset[moved][order].tolist()
        for number, log_offset, count in zip(group[order].tolist(), at, counts.tolist(), strict=True):
            times, counts_then = histories[number]
            times.append(log_offset)
            counts_then.append(count)

    def _changes(self, keys: Integers, puts: Booleans) -> Integers:
        """Return how each operation changes the number of entries."""
        order = np.argsort(keys, kind="stable")
        keys, puts = keys[order], puts[order]
        was_live = np.empty(len(keys), np.bool_)
        was_live[1:] = puts[:-1]
        begins = _begins(keys)
        was_live[begins] = self._keys.live[keys[begins]]
        changes = np.empty(len(keys), np.int64)
        changes[order] = puts.astype(np.int64) - was_live
        return changes

    # ---- groups ------------------------------------------------------------------------------------------------

    def _make_groups(
        self,
        operations: _Operations,
        new: int,
        effects: _Effects,
        events: list[_GroupEvent],
        histories: dict[int, tuple[list[int], list[int]]],
    ) -> None:
        """Note the log offset from which on each group exists.

        Its metadata or its first offset creates a group, even if that offset still waits for the end of a transaction
        or takes effect after a deletion. Its tombstone deletes it.
        """
        rows = np.flatnonzero(~operations.is_tombstone[new:]) + new
        at = operations.log_offset[rows]
        late = np.flatnonzero(effects.log_offset != operations.log_offset[effects.rows])
        if late.size:
            rows = np.concatenate((rows, effects.rows[late]))
            at = np.concatenate((at, effects.log_offset[late]))
            order = np.argsort(at, kind="stable")
            rows, at = rows[order], at[order]
        group: Integers = operations.group[rows]
        rank: Integers = np.arange(len(rows))
        by_group: dict[int, list[_GroupEvent]] = {}
        for event in events:
            by_group.setdefault(event.group, []).append(event)
        if by_group:
            eventful = np.zeros(len(self._groups.made), np.bool_)
            eventful[list(by_group)] = True
            is_eventful = eventful[group]
            calls: dict[int, list[_Call]] = {number: [] for number in by_group}
            for number, *call in zip(
                *(column[is_eventful].tolist() for column in (group, at, rank)), strict=True
            ):
                calls[number].append((call[0], call[1]))
            for number, group_events in by_group.items():
                self._make_group(number, group_events, calls[number], histories)
            group, at, rank = group[~is_eventful], at[~is_eventful], rank[~is_eventful]
        first = np.flatnonzero(self._groups.made[group] == _NOBODY)[::-1]
        self._groups.made[group[first]] = at[first]
        self._groups.made_rank[group[first]] = rank[first]

    def _make_group(
        self,
        group: int,
        events: list[_GroupEvent],
        calls: list[_Call],
        histories: dict[int, tuple[list[int], list[int]]],
    ) -> None:
        """Follow the history of one group: the calls for it, and its events."""
        made: _Call = int(self._groups.made[group]), int(self._groups.made_rank[group])
        deleted = -1
        for event in events:
            if made[0] == _NOBODY:
                made = _first_between(calls, deleted, event.log_offset)
            record = event.record
            if record.value is not None:
                made = (event.log_offset, 0) if made[0] == _NOBODY else made
                self._consumer.pop(group, None)
                self._durable[group] = record.value
                continue
            if record.consumer is not None:
                key, value = record.consumer
                if value is not None:
                    made = (event.log_offset, 0) if made[0] == _NOBODY else made
                    self._durable.pop(group, None)
                    self._consumer.setdefault(group, {})[key] = value
                    continue
                self._consumer.get(group, {}).pop(key, None)
                if not record.ends:
                    continue
                self._consumer.pop(group, None)
            times, counts = histories[group]
            has_offsets = counts[bisect_right(times, event.log_offset) - 1] > 0
            if record.known:
                self._durable.pop(group, None)
                if group in self._consumer:
                    continue
            if made[0] != _NOBODY and not has_offsets and group not in self._durable:
                made, deleted = (_NOBODY, 0), event.log_offset
        if made[0] == _NOBODY:
            made = _first_between(calls, deleted, None)
        self._groups.made[group], self._groups.made_rank[group] = made

    # ---- offsets in force --------------------------------------------------------------------------------------

    def _keep(self, operations: _Operations, effects: _Effects, texts: list[str]) -> None:
        """Keep the last operation of each key."""
        columns = self._keys
        rows = np.sort(effects.rows)
        keys = operations.key[rows]
        index = np.arange(len(rows))
        columns.last[keys] = index  # the last of several operations of one key wins
        winners = rows[columns.last[keys] == index]
        keys = operations.key[winners]
        columns.last[keys] = operations.log_offset[winners]
        columns.live[keys] = ~operations.is_tombstone[winners]
        for name in _STORED:
            getattr(columns, name)[keys] = getattr(operations, name)[winners]
        tombstones = rows[operations.is_tombstone[rows]]
        columns.erased[operations.key[tombstones]] = operations.log_offset[tombstones]
        text = operations.text[winners]
        changed = np.flatnonzero(columns.has_text[keys] | (text >= 0))
        for key, number in zip(keys[changed].tolist(), text[changed].tolist(), strict=True):
            if number < 0:
                del self._texts[key]
            else:
                self._texts[key] = texts[number]
        columns.has_text[keys] = text >= 0

    # ---- results -----------------------------------------------------------------------------------------------

    def groups(self) -> Iterator[tuple[str, GroupMetadataValue | None, dict[bytes, bytes] | None]]:
        """Yield the groups in the order of their creation.

        Each has the metadata of a classic group, if any, or the records of a consumer group.
        """
        group_names = list(self._group_ids)
        made = self._groups.made[: len(group_names)]
        there = np.flatnonzero(made != _NOBODY)
        for group in there[np.lexsort((self._groups.made_rank[there], made[there]))].tolist():
            yield group_names[group], self._durable.get(group), self._consumer.get(group)

    def offsets(self, page_partitions: int) -> Iterator[OffsetRows | Entry]:
        """Yield the offsets in force: pages of all of them, in order, then those with fields that a page lacks.

        page_partitions  partitions with equal `partition // page_partitions` share a page
        """
        keys, names, columns = self._keys, self._names, self._keys
        live = np.flatnonzero(keys.live)
        if not live.size:
            return
        rank = np.empty(len(names.live), np.int64)
        rank[np.lexsort((names.since, self._groups.since[names.group]))] = np.arange(len(rank))
        live = live[np.lexsort((keys.partition[live], rank[keys.names[live]]))]
        number = keys.names[live].astype(np.int64)
        partition = keys.partition[live].astype(np.int64)
        page = number << 32 | partition // page_partitions & 0xFFFFFFFF
        begins = np.flatnonzero(np.append(True, page[1:] != page[:-1]))
        ends = np.append(begins[1:], len(live))
        yield from self._pages(live, begins, ends)
        first = np.repeat(begins, ends - begins)
        odd = columns.has_text[live] | (columns.expire_timestamp[live] != -1)
        odd |= columns.id_high[live] != columns.id_high[live[first]]
        odd |= columns.id_low[live] != columns.id_low[live[first]]
        group_names = list(self._group_ids)
        for row in np.flatnonzero(odd).tolist():
            key, which = int(live[row]), int(number[row])
            committed = _committed(columns, key, self._texts.get(key, ""), int(columns.last[key]))
            group = group_names[int(names.group[which])]
            yield Entry(group, self._topics[which], int(partition[row]), committed)

    def _pages(self, live: Integers, begins: Integers, ends: Integers) -> Iterator[OffsetRows]:
        columns = self._keys
        rows = np.empty(len(live), [("o", ">i8"), ("e", ">i4"), ("t", ">i8"), ("l", ">i8")])
        rows["o"], rows["e"] = columns.offset[live], columns.leader_epoch[live]
        rows["t"], rows["l"] = columns.commit_timestamp[live], columns.last[live]
        packed, size = rows.tobytes(), rows.dtype.itemsize
        ids = np.stack((columns.id_high[live], columns.id_low[live]), axis=1).astype("<i8").tobytes()
        group_names = list(self._group_ids)
        group_of, topics = self._names.group.tolist(), self._topics
        partitions, number = columns.partition[live].tolist(), columns.names[live[begins]].tolist()
        for begin, end, which in zip(begins.tolist(), ends.tolist(), number, strict=True):
            yield OffsetRows(
                group_names[group_of[which]],
                topics[which],
                partitions[begin:end],
                packed[begin * size : end * size],
                ids[begin * 16 : begin * 16 + 16],
            )

    def pending(self) -> Iterator[tuple[int, list[Entry]]]:
        """Yield the producers with open transactions, and the offsets that wait for a marker."""
        operations, group_names = self._carried, list(self._group_ids)
        for producer_id, rows in self._open.items():
            assert operations is not None
            entries = []
            for row in rows:
                key, log_offset = int(operations.key[row]), int(operations.log_offset[row])
                if log_offset < self._keys.erased[key]:
                    continue
                text = int(operations.text[row])
                metadata = self._carried_texts[text] if text >= 0 else ""
                group = group_names[int(operations.group[row])]
                topic = self._topics[int(operations.names[row])]
                committed = _committed(operations, row, metadata, log_offset)
                entries.append(Entry(group, topic, int(self._keys.partition[key]), committed))
            yield producer_id, entries


def _slice(buffer: bytes, starts: Integers, lengths: Integers, index: int) -> bytes | None:
    start, length = int(starts[index]), int(lengths[index])
    return None if length < 0 else buffer[start : start + length]


def _committed(
    columns: Any, row: int, metadata: str, log_offset: int
) -> tuple[int, int, str, int, int, bytes, int]:
    """Return the `committed` field of an `Entry`."""
    topic_id = np.array([columns.id_high[row], columns.id_low[row]], "<i8").tobytes()
    return (
        int(columns.offset[row]),
        int(columns.leader_epoch[row]),
        metadata,
        int(columns.commit_timestamp[row]),
        int(columns.expire_timestamp[row]),
        topic_id,
        log_offset,
    )


def _count_within(
    columns: GrowingColumns, numbers: Integers, changes: Integers, sequence: Integers
) -> tuple[Integers, Integers]:
    """Update the numbers of entries of groups or topics, and note when each got its first one.

    numbers   of the group or topic of each change, with `changes` and `sequence` in the order in which they take effect
    Returns these sorted by number, and the number of entries after each.
    """
    order = np.argsort(numbers, kind="stable")
    numbers, changes = numbers[order], changes[order]
    counts: Integers = columns.live[numbers] + _sums_within(numbers, changes)
    begun = np.flatnonzero((changes > 0) & (counts == 1))
    columns.since[numbers[begun]] = sequence[order[begun]]  # the last of several assignments wins
    columns.live[numbers] = counts
    return order, counts


def _sums_within(numbers: Integers, changes: Integers) -> Integers:
    """Return the running sums of `changes`, from 0 again for each run of equal numbers."""
    sums = np.cumsum(changes)
    first = np.flatnonzero(_begins(numbers))
    before = (sums - changes)[first]
    within: Integers = sums - np.repeat(before, np.diff(np.append(first, len(numbers))))
    return within


def _first_between(calls: Iterable[_Call], after: int, before: int | None) -> _Call:
    """Return the first of rising calls between two log offsets; _NOBODY if there is none."""
    for call in calls:
        if call[0] > after and (before is None or call[0] < before):
            return call
    return _NOBODY, 0


def _begins(numbers: Integers) -> Booleans:
    """Return the starts of runs of equal numbers."""
    begins = np.ones(len(numbers), np.bool_)
    begins[1:] = numbers[1:] != numbers[:-1]
    return begins


def _not_overtaken(keys: Integers, rows: Integers) -> Booleans:
    """Return which rows have no higher row of the same key before them."""
    order = np.argsort(keys, kind="stable")
    # The values of each run are above those of the previous one, so one running maximum works for all.
    heights = np.cumsum(_begins(keys[order])) * (int(rows.max(initial=0)) + 1) + rows[order]
    kept = np.empty(len(rows), np.bool_)
    kept[order] = np.maximum.accumulate(heights) == heights
    return kept
