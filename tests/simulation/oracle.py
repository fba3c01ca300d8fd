"""What a Kafka broker answers about groups and offsets, as plainly as it can be said: the judge of the simulation.

Groups and members are plain objects, offsets a dict, timers are times that are looked at. Nothing is quick, and
nothing is taken from the coordinator that it judges. It is written from the behaviour of Apache Kafka 4.3.1 and from
KIP-211, 345, 394, 496, 559 and 814; what docs/differences.md decides otherwise is marked *ours*.

A request is decided at a moment (`join`, `commit` ...), may be answered later, and what it writes takes effect when
the log has it: in the order of the decisions of its shard, before its answer leaves. So every decision that writes
goes into the queue of its shard with the token of its request, and `took_effect` takes it out. A crash leaves some
first part of the queue; `survivors` are the tables that may be found then.

Not modelled: what assignors choose (consumers.py), commits on condition (tests/properties/linearizability.py), rules
that are off by default such as offsets.commit.owner.check, other brokers.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from tests.simulation.consumer_model import Modern, Place, loaded
from tests.simulation.consumers import Consumers
from tests.simulation.model import (
    COMPLETING,
    EMPTY,
    STABLE,
    Decision,
    Group,
    Item,
    Key,
    Offset,
    Settings,
    Table,
    Token,
)
from tests.simulation.transactions import Producer, Transaction, Transactions


class Oracle(Consumers):
    """One broker's groups and offsets.

    topics    name -> number of partitions; topic_ids  name -> the id that the broker has made up
    table     what has taken effect
    queues    of each shard, what is decided and has not
    doomed    offsets whose topic was deleted
    leaving   groups that are deleted or of another kind now, which readers see until the log says so
    """

    def __init__(self, settings: Settings, new_id: Callable[[str], str],
                 choose: Callable[[str], dict[str, frozenset[Place]]],
                 given: Callable[[str], Transaction]) -> None:  # fmt: skip
        super().__init__(settings, new_id)
        self.choose = choose
        self.transactions = Transactions(given)
        self.created = self.changes = 0
        self.topics: dict[str, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.doomed: list[tuple[Key, Offset]] = []
        self.leaving: dict[str, list[Group | Modern]] = {}
        self.table = Table()
        self.queues: list[deque[Decision]] = [deque() for _ in range(settings.shards)]

    # What is written

    def shard_of(self, group: str) -> int:
        hashed = 0
        for character in group:
            hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
        return min(hashed, (1 << 32) - hashed) % self.settings.shards

    def _write(
        self, token: Token, group: str, offsets: Iterable[tuple[Key, Offset | None]] = (), record: Any = ""
    ) -> None:
        groups = [] if record == "" else [(group, record)]
        self.queues[self.shard_of(group)].append(Decision(token, list(offsets), groups))

    def took_effect(self, token: Token) -> None:
        """The decision with this token has taken effect, and all before it in its shard."""
        for queue in self.queues:
            if any(decision.token == token for decision in queue):
                while self._effect(queue).token != token:
                    pass
                return

    def settle_but(self, under_way: Iterable[tuple[int, int]]) -> None:
        """Everything in the queues has taken effect but the last so many decisions of each shard."""
        for shard, count in under_way:
            while len(self.queues[shard]) > count:
                self._effect(self.queues[shard])

    def _effect(self, queue: deque[Decision]) -> Decision:
        decision = queue.popleft()
        for group_id in self.table.apply(decision) - self.groups.keys() - self.leaving.keys():
            self.groups[group_id] = Group(group_id)
        for name, record in decision.groups:
            leaving = self.leaving.get(name, [])
            if leaving and (record is None or ("life" in record) is not isinstance(leaving[0], Modern)):
                del leaving[0]
                if not leaving:
                    del self.leaving[name]
            group = leaving[0] if leaving else self.groups.get(name)
            if isinstance(group, Group) and (record is None or "life" not in record):
                group.is_in_log = record is not None
        return decision

    # Crashes and loads

    def table_of(self, shard: int) -> Table:
        """What the log of one shard says, a copy."""
        return self.table.copy(lambda group: self.shard_of(group) == shard)

    def survivors(self, shard: int) -> Iterator[Table]:
        """The tables of one shard that a crash may leave, the most complete first."""
        for count in range(len(self.queues[shard]), -1, -1):
            table = self.table_of(shard)
            for index in range(count):
                table.apply(self.queues[shard][index])
            yield table

    def load(self, tables: list[Table]) -> None:
        """Come up with these tables: members get fresh sessions, whoever waited is forgotten."""
        self.groups.clear()
        self.answers.clear()
        self.doomed.clear()
        self.leaving.clear()
        self.table = Table()
        for queue, table in zip(self.queues, tables, strict=True):
            queue.clear()
            self.table.join(table)
        for name in self.table.simple:
            self.groups[name] = Group(name)
        for name, record in self.table.records.items():
            self.groups[name] = group = loaded(name, record)
            if isinstance(group, Modern):
                self._wake(group)
                continue
            for member in group.members.values():
                member.ends = self.now + member.session_ms
        for group in list(self.groups.values()):
            if isinstance(group, Group) and len(group.members) > self.settings.max_size:
                self._begin(group)

    # Offsets

    def commit(self, token: Token, version: int, group_id: str, generation: int, member: str, instance: str | None,
               retention_ms: int, items: list[Item]) -> None:  # fmt: skip
        """Answered [(topic, partition, error)]."""
        missing = {
            place: 100 if version >= 10 and place[0] not in self.topics else 3
            for place in self.missing(items)
        }
        group, error = self.groups.get(group_id), 0
        if len(missing) < len(items):
            places = self._judged(items, missing)
            error = self._check_commit(version, group_id, generation, member, instance, places)
            if not error and isinstance(group, Group) and group.state != EMPTY and member in group.members:
                self._arm(group.members[member])
        expires = -1 if retention_ms == -1 else self.wall + retention_ms
        self._accept(token, group_id, items, missing, error, expires)

    def _judged(self, items: list[Item], missing: Collection[tuple[str, int]]) -> list[Place | None]:
        """The partitions for which the epoch of a member counts; None for one whose topic is gone."""
        longest = self.settings.max_metadata
        return [
            (self.topic_ids[t], p) if t in self.topics else None
            for t, p, _, _, text, _ in items
            if (t, p) not in missing and len(text or "") <= longest
        ]

    def missing(self, items: list[Item]) -> set[tuple[str, int]]:
        """Those of the partitions that do not exist."""
        return {(topic, p) for topic, p, *_ in items if not 0 <= p < self.topics.get(topic, 0)}

    def _check_commit(self, version: int | None, group_id: str, generation: int, member: str, instance: str | None,
                      places: list[Place | None]) -> int:  # fmt: skip
        """What a group has against a commit; `version` is None in a transaction."""
        group = self.groups.get(group_id)
        if group is None:
            return 0 if generation < 0 else 69 if (version or 0) >= 9 else 22
        is_nobody = generation < 0 and not member and instance is None
        if (generation < 0 and group.state == EMPTY) or (is_nobody and version is None):
            return 0
        if isinstance(group, Modern):
            return self._check_member_commit(version, group, generation, member, places)
        error = 25 if is_nobody else group.check(member, instance)
        if not error and generation != group.generation:
            error = 22
        return error or (27 if group.state == COMPLETING and version is not None else 0)

    def _accept(self, token: Token, group_id: str, items: list[Item], missing: dict[tuple[str, int], int], error: int,
                expires: int, producer: int | None = None) -> bool:  # fmt: skip
        """Write what nothing is wrong with: `missing` says it of some, `error` of all; return whether there is any."""
        answer, written = [], []
        for topic, partition, offset, epoch, metadata, at in items:
            text = metadata or ""
            too_long = 12 if len(text) > self.settings.max_metadata else 0
            wrong = missing.get((topic, partition), error or too_long)
            answer.append((topic, partition, wrong))
            if not wrong:
                value = Offset(offset, epoch, text, self.wall if at == -1 else at, expires)
                written.append(((group_id, topic, partition), value))
        if written:
            self.queues[self.shard_of(group_id)].append(Decision(token, list(written), [], producer))
        self.answers[token] = sorted(answer)
        return bool(written)

    # Transactions

    def enter(self, version: int, name: str, producer: Producer, group_id: str) -> int:
        """What is wrong with a producer that commits offsets of a group in its transaction."""
        shard = self.shard_of(group_id)
        if not group_id:
            return 24
        if version >= 5:
            error = self.transactions.add(name, producer, shard, self.wall)
        else:
            error = self.transactions.verify(name, producer, shard)
        return {90: 47, 120: 120 if version >= 4 else 48}.get(error, error)

    def commit_in_transaction(self, token: Token, name: str, producer: Producer, group_id: str, generation: int,
                              member: str, instance: str | None, items: list[Item],
                              missing: dict[tuple[str, int], int]) -> None:  # fmt: skip
        """`missing` are the partitions that there were not when it was asked; answered as a commit is."""
        places = self._judged(items, missing)
        error = self._check_commit(None, group_id, generation, member, instance, places)
        if self._accept(token, group_id, items, missing, error, -1, producer[0]):
            self.transactions.written(name, producer, self.shard_of(group_id))

    def marked(self, producer_id: int, shard: int, *, commits: bool) -> None:
        """A marker is decided."""
        self.transactions.marked(producer_id, shard, commits=commits)
        self.queues[shard].append(Decision(None, [], [], producer_id, commits))

    def fetch(
        self, version: int, group_id: str, asked: list[tuple[str, int]] | None, *, stable: bool = False
    ) -> list[tuple[str, int, int, int, str, int]]:
        """(topic, partition, offset, epoch, metadata, error) of what is asked for, or of everything."""
        offsets, waiting = self.table.offsets, self.table.waiting(group_id) if stable else ()
        if asked is None:
            asked = [(t, p) for g, t, p in offsets if g == group_id and (version < 10 or t in self.topics)]
        found = []
        for topic, partition in asked:
            if version >= 10 and topic not in self.topics:
                found.append((topic, partition, -1, -1, "", 100))
                continue
            if (group_id, topic, partition) in waiting:
                found.append((topic, partition, -1, -1, "", 88))
                continue
            value = offsets.get((group_id, topic, partition), Offset(-1, -1, "", -1, -1))
            epoch = value.epoch if version >= 5 else -1
            found.append((topic, partition, value.offset, epoch, value.metadata, 0))
        return sorted(found)

    def fetch_after(self, version: int, group_id: str, asked: list[tuple[str, int]] | None) -> Any:
        """The same for require_stable: once all that is decided has taken effect (KIP-447)."""
        live, self.table = self.table, next(self.survivors(self.shard_of(group_id)))
        try:
            return self.fetch(version, group_id, asked, stable=True)
        finally:
            self.table = live

    def delete_offsets(self, token: Token, group_id: str, asked: list[tuple[str, int]]) -> None:
        """Answered (error, [(topic, partition, error)]): what is wrong with the group, or with each partition."""
        group = self.decided(group_id)
        if error := self._check_delete_offsets(group_id, group):
            self.answers[token] = (error, [])
            return
        known = [(t, p) for t, p in asked if 0 <= p < self.topics.get(t, 0)]
        answer = [(t, p, 3) for t, p in asked if (t, p) not in known]
        written = []
        for topic, partition in known:
            assert group is not None
            if group.is_subscribed(topic):
                answer.append((topic, partition, 86))
                continue
            answer.append((topic, partition, 0))
            if (group_id, topic, partition) in self._keys_of(group_id):
                written.append(((group_id, topic, partition), None))
        if written:
            self._write(token, group_id, written)
        self.answers[token] = (0, sorted(answer))

    def _check_delete_offsets(self, group_id: str, group: Group | None) -> int:
        if not group_id:
            return 24
        if group is None:
            return 69
        return 68 if group.state != EMPTY and group.type != "consumer" else 0

    def delete_group(self, token: Token, group_id: str) -> int:
        """Return the error; what is deleted takes effect with `token`."""
        group = self.decided(group_id)
        if group is None:
            return 69
        if group.state != EMPTY:
            return 68
        self.retire(group)
        self.groups.pop(group_id, None)
        self._write(token, group_id, [(key, None) for key in self._keys_of(group_id)], None)
        return 0

    def _keys_of(self, group_id: str) -> set[Key]:
        """What a group has offsets of, those that wait for a marker and those that are decided included."""
        offsets = {key for key in self.table.offsets if key[0] == group_id} | self.table.waiting(group_id)
        return offsets | self._decided_keys(group_id)

    def _decided_keys(self, group_id: str) -> set[Key]:
        """The offsets of a group that are decided, less those whose deletion is decided after them."""
        latest = {key: value for each in self.queues[self.shard_of(group_id)] for key, value in each.offsets}
        return {key for key, value in latest.items() if value is not None and key[0] == group_id}

    def decided(self, group_id: str) -> Group | Modern | None:
        """The group that decisions see: its first offsets may not have taken effect."""
        group = self.groups.get(group_id)
        if group is None and self._decided_keys(group_id):
            group = Group(group_id)
            group.is_recorded = True
        return group

    def delete_topic(self, topic: str) -> None:
        """The topic is gone, and the offsets that were decided before go with it, by and by.

        Of a topic that there is not, because it was deleted before a crash, nothing goes.
        """
        if topic not in self.topics:
            return
        self.changes += 1
        del self.topics[topic]
        self.topic_ids.pop(topic, None)
        written = [
            *self.table.offsets.items(),
            *(item for offsets in self.table.pending.values() for item in offsets.items()),
            *(o for queue in self.queues for d in queue for o in d.offsets),
        ]
        self.doomed += [(key, value) for key, value in written if key[1] == topic and value is not None]

    # What goes by itself

    def is_expired(self, key: Key, wall: int) -> bool:
        """Whether an offset may go at this time (KIP-211, KIP-496)."""
        group, offset = self.groups.get(key[0]), self.table.offsets.get(key)
        begins = None if group is None or offset is None else group.retention_begins(offset)
        if group is None or offset is None or begins is None or group.is_subscribed(key[1]):
            return False
        if key in self.table.waiting(key[0]):
            return False
        return wall >= offset.expires if offset.expires != -1 else wall - begins >= self.settings.retention_ms

    def is_doomed(self, key: Key) -> bool:
        """Whether all that is known of an offset goes because its topic was deleted after it was committed."""
        found = [table[key] for table in (self.table.offsets, *self.table.pending.values()) if key in table]
        return bool(found) and all(any(value is gone for _, gone in self.doomed) for value in found)

    def drop_gone(self) -> None:
        """Forget of the doomed offsets those that are gone; others wait beside one of the topic made anew."""
        tables = (self.table.offsets, *self.table.pending.values())
        self.doomed = [(key, gone) for key, gone in self.doomed if any(t.get(key) is gone for t in tables)]

    def is_left_over(self, group_id: str, gone: Iterable[Key] = ()) -> bool:
        """Whether a group has neither members nor offsets but those that are going."""
        group = self.groups.get(group_id)
        return group is not None and group.state == EMPTY and self._keys_of(group_id) <= set(gone)

    def is_busy(self, group_id: str) -> bool:
        """Whether something is under way for a group."""
        return any(d.is_about(group_id) for queue in self.queues for d in queue)

    def went(self, keys: list[Key], group_ids: list[str], walls: Iterable[int]) -> str | None:
        """The broker has let these go, at one of these wall times; return what is wrong with that."""
        for key in keys:
            if not self.is_doomed(key) and not any(self.is_expired(key, wall) for wall in walls):
                return f"the offset of {key}, {self.table.offsets.get(key)}, went too early"
        for group_id in group_ids:
            if not self.is_left_over(group_id, keys):
                return f"the group {group_id} went, {self.groups.get(group_id)}"
            self.retire(self.groups[group_id])
            del self.groups[group_id]
        shard = self.shard_of(keys[0][0] if keys else group_ids[0])
        decision = Decision(None, [(key, None) for key in keys], [(group_id, None) for group_id in group_ids])
        self.queues[shard].append(decision)
        return None

    # Looking at groups

    def is_known(self, group: Group | Modern) -> bool:
        """Whether the log says that there is such a group."""
        if isinstance(group, Modern):
            record = self.table.records.get(group.id) or {}
            return record.get("life") == group.life
        return group.is_in_log or not group.is_recorded

    def readable(self, group_id: str) -> Group | Modern | None:
        """The group that readers see."""
        group = self.groups.get(group_id)
        found = [*self.leaving.get(group_id, ()), *([] if group is None else [group])]
        return next(filter(self.is_known, found), None)

    def retire(self, group: Group | Modern) -> None:
        """It goes, or gives way to one of the other kind."""
        self.leaving.setdefault(group.id, []).append(group)

    def describe(self, version: int, group_id: str) -> Any:
        """(error, state, type, protocol, {(id, instance, client, host, metadata, assignment)})."""
        group = self.readable(group_id)
        if not isinstance(group, Group):
            return (69 if version >= 6 else 0, "Dead", "", "", frozenset())
        protocol = group.protocol if group.state == STABLE else None
        members = frozenset((m.id, m.instance if version >= 4 else None, *m.client, m.metadata(protocol), m.assignment)
                            for m in group.members.values())  # fmt: skip
        return (0, group.state, group.type or "", protocol or "", members)

    def listed(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> frozenset[tuple[str, str, str]]:
        """(group, type, state) of those asked for."""
        states, types = {s.strip().lower() for s in states}, {t.lower() for t in types}
        found = set()
        for group in filter(None, map(self.readable, self.groups.keys() | self.leaving.keys())):
            is_modern = isinstance(group, Modern)
            state = self.committed(group).state if is_modern else group.state
            if (not states or state.lower() in states) and (
                not types or ("consumer" if is_modern else "classic") in types
            ):
                found.add((group.id, group.type or "", state))
        return frozenset(found)

    def describe_consumers(self, group_id: str) -> Any:
        """(error, state, epoch, assignment epoch, {(id, instance, epoch, topics, regex, has, shall have, kind)})."""
        if not group_id:
            return (24, "", 0, 0, frozenset())
        live = self.readable(group_id)
        if not isinstance(live, Modern):
            return (69, "", 0, 0, frozenset())
        group, ids = self.committed(live), self._ids(self.topics)
        members = frozenset(
            (m.id, m.instance, m.epoch, m.topics, m.regex, frozenset(p for p in m.held() if p[0] in ids),
             frozenset(p for p in group.targets.get(m.id, ()) if p[0] in ids), int(m.protocols is None))
            for m in group.members.values()
        )  # fmt: skip
        return (0, group.state, group.epoch, group.target_epoch, members)
