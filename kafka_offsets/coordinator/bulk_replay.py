"""Bulk replay: the offsets, groups and open transactions that a long log leaves, read in columns.

The outcome is that of :meth:`Shard.replay` and :meth:`Shard.end_transaction` for one record after the other, to the
order of groups and topics; the way is another. Committed offsets are told apart by number, and the last one of each
is kept in columns; only what is left in the end becomes rows of the offset table. Records of groups are rare and are
read one by one.

What makes it exact:

- Offsets of a transaction count from its COMMIT marker on, at their own place in the log: one with a later log offset
  stays, and a tombstone takes away those before it. So of the offsets of a partition that count, the one with the
  highest log offset is in force, whether it is an offset or a tombstone.
- Which group and topic comes first in the table is decided when its first offset takes effect. Only where something
  is deleted can that happen twice, so only there the number of entries is followed record by record, in the order in
  which they take effect (`_follow`).
- A deletion of a group needs to know whether the group has offsets at that moment; the same counts say so.

It needs numpy (the extra `fast`), and at its peak some 330 bytes for each key, given back when it has finished.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_offsets.columns.dense_ids import StringIds, WordIds
from kafka_offsets.coordinator import stored, stored_columns
from kafka_offsets.coordinator.classic.group import ClassicGroup
from kafka_offsets.coordinator.consumer import records as consumer_records
from kafka_offsets.coordinator.consumer.group import ConsumerGroup
from kafka_offsets.coordinator.consumer.records import ConsumerKey
from kafka_offsets.coordinator.offsets.pages import PAGE_PARTITIONS
from kafka_offsets.coordinator.offsets.table import OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.state import ShardState
from kafka_offsets.coordinator.stored_columns import OffsetColumns
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.messages import GroupMetadataValue

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

NO_PRODUCER = -1
_NOBODY = -1


class StoredRecords(NamedTuple):
    """Records of the offsets topic, in the order of the log; markers are not among them.

    log_offset   rises from record to record, also from those of the previous call, and is not negative
    buffer       what keys and values lie in, `stored_columns.PADDING` zero bytes behind it
    producer_id  whose open transaction a record belongs to; -1 when it stands for itself
    key_length, value_length  -1 for null
    """

    buffer: bytes
    log_offset: Integers
    producer_id: Integers
    key_start: Integers
    key_length: Integers
    value_start: Integers
    value_length: Integers


class Marker(NamedTuple):
    """The end of a transaction."""

    log_offset: int
    producer_id: int
    committed: bool


class _GroupEvent(NamedTuple):
    """A record that is about a group.

    value     the metadata of a classic group; None when it is deleted, or of another kind
    known     whether it is about a classic group
    consumer  key and value of a record of a consumer group
    """

    log_offset: int
    group: int
    value: GroupMetadataValue | None
    known: bool
    consumer: tuple[bytes, bytes | None] | None = None


_Call = tuple[int, int]
"""Log offset at which a group comes into being unless it is there, and which of several at this offset it is."""


class _Columns:
    """Arrays of equal length that grow; an attribute for each.

    defaults  name -> (dtype, what a new row holds)
    """

    def __init__(self, **defaults: tuple[Any, int]) -> None:
        self._defaults = defaults
        for name, (dtype, _) in defaults.items():
            setattr(self, name, np.zeros(0, dtype))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def grow(self, count: int) -> None:
        """Have at least `count` rows."""
        for name, (dtype, default) in self._defaults.items():
            column = getattr(self, name)
            if len(column) < count:
                more = np.full(max(count, 2 * len(column)) - len(column), default, dtype)
                setattr(self, name, np.concatenate((column, more)))


class _Operations(NamedTuple):
    """Offsets and tombstones in the order of the log: those of open transactions from before, then new ones.

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
    """Which operations take effect, in that order, and where in the log: at their own record or at a marker."""

    rows: Integers
    log_offset: Integers


_STORED = ("offset", "leader_epoch", "commit_timestamp", "expire_timestamp", "id_high", "id_low")
"""The columns of an operation that the table holds."""


class BulkReplay:
    """Takes records in the order of the log, and puts what they leave into an empty shard.

    CollisionError, UnicodeDecodeError or ProtocolError end it: the log must then be replayed record by record, which
    says what is wrong, if anything is.
    """

    def __init__(self) -> None:
        self._key_ids = WordIds()
        self._names_ids = StringIds()
        self._group_ids: dict[str, int] = {}
        self._topics: list[str] = []
        # last: the log offset of the last one in force, erased: of the last tombstone, -1 for none
        self._keys = _Columns(
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
        self._names = _Columns(live=(np.int64, 0), since=(np.int64, 0), group=(np.int32, 0))
        self._groups = _Columns(
            live=(np.int64, 0), since=(np.int64, 0), made=(np.int64, _NOBODY), made_rank=(np.int64, 0)
        )
        self._texts: dict[int, str] = {}
        self._durable: dict[int, GroupMetadataValue] = {}
        self._consumer: dict[int, dict[bytes, bytes]] = {}
        self._open: dict[int, list[int]] = {}
        self._carried: _Operations | None = None
        self._carried_texts: list[str] = []
        self._effects_before = 0
        self._unknown = 0
        self._early_deletions = 0

    # ---- one part of the log -----------------------------------------------------------------------------------

    def replay(self, records: StoredRecords, markers: Sequence[Marker] = ()) -> None:
        """Apply the next records and the markers among them."""
        offsets, others = stored_columns.split(records.buffer, *records[3:])
        offsets, events = self._read_others(records, offsets, others.tolist())
        operations, new, texts = self._operations(records, offsets)
        effects = self._effects(operations, new, markers)
        followed = np.zeros(len(self._group_ids), np.bool_)
        followed[operations.group[effects.rows[operations.is_tombstone[effects.rows]]]] = True
        followed[[event.group for event in events if event.value is None]] = True
        histories = self._count(operations, effects, followed)
        self._make_groups(operations, new, effects, events, histories)
        self._keep(operations, effects, texts)
        self._effects_before += len(effects.rows)
        self._carry(operations, texts)

    def _read_others(
        self, records: StoredRecords, offsets: OffsetColumns, others: list[int]
    ) -> tuple[OffsetColumns, list[_GroupEvent]]:
        """Read records that are not usual: return the offsets, some more among them, and what is said of groups."""
        buffer = records.buffer
        parsed: list[stored_columns.ParsedOffset] = []
        events: list[_GroupEvent] = []
        for record in others:
            if records.key_length[record] < 0:
                raise ProtocolError("it has no key")
            key = stored.parse_key(_slice(buffer, records.key_start, records.key_length, record))
            log_offset = int(records.log_offset[record])
            value = None
            if records.value_length[record] >= 0:
                value = _slice(buffer, records.value_start, records.value_length, record)
            if isinstance(key, stored.OffsetKey):
                entry = None if value is None else stored.parse_offset_value(value, log_offset)
                parsed.append((record, key, entry))
            elif isinstance(key, stored.GroupKey):
                metadata = None if value is None else stored.parse_group_value(value)
                events.append(_GroupEvent(log_offset, self._group(key.group), metadata, True))
            elif isinstance(key, ConsumerKey):
                if value is not None:
                    consumer_records.parse_value(key.type, value)
                raw = _slice(buffer, records.key_start, records.key_length, record), value
                events.append(_GroupEvent(log_offset, self._group(key.group), None, False, raw))
            else:
                self._unknown += 1
                if value is None and key.group is not None:
                    events.append(_GroupEvent(log_offset, self._group(key.group), None, False))
        return stored_columns.join(offsets, parsed), events

    def _group(self, name: str) -> int:
        group = self._group_ids.setdefault(name, len(self._group_ids))
        self._groups.grow(len(self._group_ids))
        return group

    def _operations(
        self, records: StoredRecords, offsets: OffsetColumns
    ) -> tuple[_Operations, int, list[str]]:
        """Number the names and keys; return all operations, how many of them are carried, and the texts."""
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
            records.log_offset[offsets.record],
            records.producer_id[offsets.record],
            keys,
            names,
            self._names.group[names].astype(np.int64),
            offsets.is_tombstone,
            *offsets[6:12],
            text,
        )
        if self._carried is None:
            return operations, 0, texts
        joined = [np.concatenate(pair) for pair in zip(self._carried, operations, strict=True)]
        return _Operations(*joined), len(self._carried.key), texts

    def _add_names(self, buffer: bytes, starts: list[int]) -> None:
        """Take in pairs of group and topic that come for the first time."""
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
        """Find what takes effect, and when. `self._open` afterwards holds what waits for a marker.

        new  index of the first operation that was not carried
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
        # What has been overtaken by an offset or tombstone of the same key does nothing.
        fresh = log_offset[effective] > self._keys.last[operations.key[effective]]
        effective, taking_effect = effective[fresh], taking_effect[fresh]
        order = np.argsort(taking_effect, kind="stable")
        effective, taking_effect = effective[order], taking_effect[order]
        in_force = _not_overtaken(operations.key[effective], effective)
        return _Effects(effective[in_force], taking_effect[in_force])

    def _carry(self, operations: _Operations, texts: list[str]) -> None:
        """Hold on to the operations of open transactions."""
        rows = np.array(sorted(row for rows in self._open.values() for row in rows), np.int64)
        if not rows.size:
            self._carried, self._carried_texts = None, []
            return
        carried = operations.take(rows)
        has_text = np.flatnonzero(carried.text >= 0)
        self._carried_texts = [texts[index] for index in carried.text[has_text].tolist()]
        carried.text[has_text] = np.arange(len(has_text))
        self._carried = carried
        place = {row: index for index, row in enumerate(rows.tolist())}
        self._open = {producer: [place[row] for row in waiting] for producer, waiting in self._open.items()}

    # ---- how many entries there are ----------------------------------------------------------------------------

    def _count(
        self, operations: _Operations, effects: _Effects, followed: Booleans
    ) -> dict[int, tuple[list[int], list[int]]]:
        """Count the entries of groups and topics, and note since when they have some.

        followed  by group: in these something is deleted
        Returns for each of these groups when its number of entries changes, and which it is from then on; it begins
        with (-1, the number before).
        """
        rows, sequence = effects.rows, self._effects_before + np.arange(len(effects.rows))
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
            columns.since[numbers[rows[first]]] = sequence[first]  # of several, the last assignment stays
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
        """Return by how much each operation changes the number of entries."""
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
        """Note since when each group exists.

        It comes with its metadata or its first offset, also when that only waits for the end of a transaction, or
        takes effect after a deletion; and goes when deleted.
        """
        rows = np.flatnonzero(~operations.is_tombstone[new:]) + new
        at = operations.log_offset[rows]
        late = np.flatnonzero(effects.log_offset != operations.log_offset[effects.rows])
        if late.size:
            rows = np.concatenate((rows, effects.rows[late]))
            at = np.concatenate((at, effects.log_offset[late]))
            order = np.argsort(at, kind="stable")
            rows, at = rows[order], at[order]
        group, rank = operations.group[rows], np.arange(len(rows))
        by_group: dict[int, list[_GroupEvent]] = {}
        for event in events:
            by_group.setdefault(event.group, []).append(event)
        if by_group:
            told = np.zeros(len(self._groups.made), np.bool_)
            told[list(by_group)] = True
            of_told = told[group]
            calls: dict[int, list[_Call]] = {number: [] for number in by_group}
            for number, *call in zip(
                *(column[of_told].tolist() for column in (group, at, rank)), strict=True
            ):
                calls[number].append((call[0], call[1]))
            for number, told_of in by_group.items():
                self._make_group(number, told_of, calls[number], histories)
            group, at, rank = group[~of_told], at[~of_told], rank[~of_told]
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
        """Follow one group through what is said of it: calls for the group, and events that are about it."""
        made: _Call = int(self._groups.made[group]), int(self._groups.made_rank[group])
        deleted = -1
        for event in events:
            if made[0] == _NOBODY:
                made = _first_between(calls, deleted, event.log_offset)
            if event.value is not None:
                made = (event.log_offset, 0) if made[0] == _NOBODY else made
                self._consumer.pop(group, None)
                self._durable[group] = event.value
                continue
            if event.consumer is not None:
                key, value = event.consumer
                if value is not None:
                    made = (event.log_offset, 0) if made[0] == _NOBODY else made
                    self._durable.pop(group, None)
                    self._consumer.setdefault(group, {})[key] = value
                    continue
                self._consumer.get(group, {}).pop(key, None)
                if int.from_bytes(key[:2]) != consumer_records.EPOCH:
                    continue
                self._consumer.pop(group, None)
            times, counts = histories[group]
            has_offsets = counts[bisect_right(times, event.log_offset) - 1] > 0
            self._early_deletions += has_offsets
            if event.known:
                self._durable.pop(group, None)
                if group in self._consumer:
                    continue
            if made[0] != _NOBODY and not has_offsets and group not in self._durable:
                made, deleted = (_NOBODY, 0), event.log_offset
        if made[0] == _NOBODY:
            made = _first_between(calls, deleted, None)
        self._groups.made[group], self._groups.made_rank[group] = made

    # ---- what is in force --------------------------------------------------------------------------------------

    def _keep(self, operations: _Operations, effects: _Effects, texts: list[str]) -> None:
        """Keep the last operation of each key."""
        columns = self._keys
        rows = np.sort(effects.rows)
        keys = operations.key[rows]
        index = np.arange(len(rows))
        columns.last[keys] = index  # of several of one key, the last
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

    # ---- into the shard ----------------------------------------------------------------------------------------

    def finish(self, shard: ShardState) -> None:
        """Put groups, offsets, open transactions and counters into a shard that has none yet."""
        group_names = list(self._group_ids)
        self._fill_table(shard.offsets, group_names)
        made = self._groups.made[: len(group_names)]
        there = np.flatnonzero(made != _NOBODY)
        for group in there[np.lexsort((self._groups.made_rank[there], made[there]))].tolist():
            name = group_names[group]
            held = self._consumer.get(group)
            if held is None:
                classic = shard.groups[name] = ClassicGroup(name)
                classic.durable = self._durable.get(group)
            else:
                consumer = shard.groups[name] = ConsumerGroup(name)
                consumer.durable = held
        self._fill_pending(shard, group_names)
        shard.unknown_records += self._unknown
        shard.early_deletions += self._early_deletions

    def _fill_table(self, table: OffsetTable, group_names: list[str]) -> None:
        keys, names, columns = self._keys, self._names, self._keys
        live = np.flatnonzero(keys.live)
        if not live.size:
            return
        rank = np.empty(len(names.live), np.int64)
        rank[np.lexsort((names.since, self._groups.since[names.group]))] = np.arange(len(rank))
        live = live[np.lexsort((keys.partition[live], rank[keys.names[live]]))]
        number = keys.names[live].astype(np.int64)
        partition = keys.partition[live].astype(np.int64)
        rows = np.empty(len(live), [("o", "=i8"), ("e", "=i4"), ("t", "=i8"), ("l", "=i8")])
        rows["o"], rows["e"] = columns.offset[live], columns.leader_epoch[live]
        rows["t"], rows["l"] = columns.commit_timestamp[live], columns.last[live]
        page = number << 32 | partition // PAGE_PARTITIONS & 0xFFFFFFFF
        begins = np.flatnonzero(np.append(True, page[1:] != page[:-1]))
        ends = np.append(begins[1:], len(live))
        packed, size = rows.tobytes(), rows.dtype.itemsize
        ids = np.stack((columns.id_high[live], columns.id_low[live]), axis=1).astype("<i8").tobytes()
        group_of, topics = names.group.tolist(), self._topics
        partitions = partition.tolist()
        for begin, end, which in zip(begins.tolist(), ends.tolist(), number[begins].tolist(), strict=True):
            table.add_page(
                group_names[group_of[which]],
                topics[which],
                partitions[begin:end],
                packed[begin * size : end * size],
                ids[begin * 16 : begin * 16 + 16],
            )
        first = np.repeat(begins, ends - begins)
        odd = columns.has_text[live] | (columns.expire_timestamp[live] != -1)
        odd |= columns.id_high[live] != columns.id_high[live[first]]
        odd |= columns.id_low[live] != columns.id_low[live[first]]
        for row in np.flatnonzero(odd).tolist():
            key = int(live[row])
            which = int(number[row])
            entry = _entry(columns, key, self._texts.get(key, ""), int(columns.last[key]))
            table.put(group_names[group_of[which]], topics[which], partitions[row], entry)

    def _fill_pending(self, shard: ShardState, group_names: list[str]) -> None:
        operations = self._carried
        for producer_id, rows in self._open.items():
            assert operations is not None
            pending = shard.pending.setdefault(producer_id, {})
            for row in rows:
                key, log_offset = int(operations.key[row]), int(operations.log_offset[row])
                if log_offset < self._keys.erased[key]:
                    continue
                text = int(operations.text[row])
                entry = _entry(operations, row, self._carried_texts[text] if text >= 0 else "", log_offset)
                group = group_names[int(operations.group[row])]
                topic = self._topics[int(operations.names[row])]
                pending[stored.OffsetKey(group, topic, int(self._keys.partition[key]))] = entry


def _slice(buffer: bytes, starts: Integers, lengths: Integers, index: int) -> bytes:
    start = int(starts[index])
    return buffer[start : start + int(lengths[index])]


def _entry(columns: Any, row: int, metadata: str, log_offset: int) -> OffsetAndMetadata:
    topic_id = np.array([columns.id_high[row], columns.id_low[row]], "<i8").tobytes()
    return OffsetAndMetadata(
        int(columns.offset[row]),
        int(columns.leader_epoch[row]),
        metadata,
        int(columns.commit_timestamp[row]),
        int(columns.expire_timestamp[row]),
        topic_id,
        log_offset,
    )


def _count_within(
    columns: _Columns, numbers: Integers, changes: Integers, sequence: Integers
) -> tuple[Integers, Integers]:
    """Change the numbers of entries of groups or topics, and note since when they have some.

    numbers   which of them changes, with `changes` and `sequence` in the order in which that happens
    Returns these sorted by number, and how many entries there are after each.
    """
    order = np.argsort(numbers, kind="stable")
    numbers, changes = numbers[order], changes[order]
    counts: Integers = columns.live[numbers] + _sums_within(numbers, changes)
    begun = np.flatnonzero((changes > 0) & (counts == 1))
    columns.since[numbers[begun]] = sequence[order[begun]]  # of several, the last assignment stays
    columns.live[numbers] = counts
    return order, counts


def _sums_within(numbers: Integers, changes: Integers) -> Integers:
    """Return the running sums of `changes`, anew for each run of equal numbers."""
    sums = np.cumsum(changes)
    first = np.flatnonzero(_begins(numbers))
    before = (sums - changes)[first]
    within: Integers = sums - np.repeat(before, np.diff(np.append(first, len(numbers))))
    return within


def _first_between(calls: Iterable[_Call], after: int, before: int | None) -> _Call:
    """Return the first of rising calls that lies between two log offsets; _NOBODY when there is none."""
    for call in calls:
        if call[0] > after and (before is None or call[0] < before):
            return call
    return _NOBODY, 0


def _begins(numbers: Integers) -> Booleans:
    """Return where runs of equal numbers begin."""
    begins = np.ones(len(numbers), np.bool_)
    begins[1:] = numbers[1:] != numbers[:-1]
    return begins


def _not_overtaken(keys: Integers, rows: Integers) -> Booleans:
    """Return which rows have no higher row of the same key before them."""
    order = np.argsort(keys, kind="stable")
    # Each run of a key lies above the one before it, so that one running maximum serves them all.
    heights = np.cumsum(_begins(keys[order])) * (int(rows.max(initial=0)) + 1) + rows[order]
    kept = np.empty(len(rows), np.bool_)
    kept[order] = np.maximum.accumulate(heights) == heights
    return kept
