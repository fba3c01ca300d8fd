"""The oracle's half for consumer groups (KIP-848): heartbeats, epochs, reconciliation, and both ways between protocols.

What an assignor chooses is not predicted: `choose` tells what the broker has chosen, and it is asked whether that is
complete, disjoint, and only to members that subscribe. Everything that follows from it is said here, to the error code.
Not modelled: racks, more than one kind of metadata of a classic member, and other migration policies than both ways.
Written from KIP-848 and 1251 and the behaviour of Apache Kafka 4.3.1.
"""

import copy
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

from tests.simulation.consumer_model import (
    AWAY,
    GIVES_UP,
    KEEPS,
    LEFT,
    SESSION_MS,
    WAITS,
    Beat,
    Beaten,
    Consumer,
    Modern,
    Place,
    RefusedError,
    check_regex,
    modern_of,
    step,
)
from tests.simulation.exchanged import assigned_in, assignment, read_consumer
from tests.simulation.java_maps import hash_map, timeline_map
from tests.simulation.members import Membership
from tests.simulation.model import EMPTY, STABLE, Group, Joined, Member, Synced, Table, Token


class Consumers(Membership):
    """All consumer groups of one broker.

    topics     name -> number of partitions; topic_ids  name -> id
    created    counts topics that came; changes  whatever happened to topics
    choose     group -> the target assignments that the broker has just written, by member
    """

    topics: dict[str, int]
    topic_ids: dict[str, bytes]
    table: Table
    created: int
    changes: int
    choose: Callable[[str], dict[str, frozenset[Place]]]

    def committed(self, group: Modern) -> Modern:
        """The group as far as the log says it: what readers see."""
        record = self.table.records.get(group.id, {})
        return modern_of(group.id, record) if record.get("life") == group.life else Modern(group.id)

    def _metadata(
        self, group: Modern, also: frozenset[str] = frozenset()
    ) -> frozenset[tuple[str, bytes, int]]:
        found = [name for name in group.names() | also if self.topics.get(name)]
        return frozenset((name, self.topic_ids[name], self.topics[name]) for name in found)

    # A heartbeat

    def beat(self, token: Token, version: int, client: tuple[str, str], beat: Beat) -> None:
        try:
            self._check_beat(version, beat)
            if beat.epoch < 0:
                self._leave(token, beat)
            else:
                self.answers[token] = self._beat(token, client, beat)
        except RefusedError as refusal:
            self.answers[token] = Beaten(refusal.error)

    def _check_beat(self, version: int, beat: Beat) -> None:
        needs_id = version >= 1 or beat.epoch > 0 or beat.epoch == LEFT
        wrong = (needs_id and not beat.member) or not beat.group or beat.instance == "" or beat.epoch < AWAY
        wrong = wrong or (beat.epoch == AWAY and beat.instance is None)
        if beat.epoch == 0:
            wrong = wrong or beat.rebalance_ms == -1 or beat.owned != frozenset()
            wrong = wrong or (beat.topics is None and beat.regex is None)
        if wrong:
            raise RefusedError(42)
        if beat.assignor not in (None, "uniform", "range"):
            raise RefusedError(112)

    def _beat(self, token: Token, client: tuple[str, str], beat: Beat) -> Beaten:
        group = self._group_of(beat)
        self._check_room(group, beat.member)
        member_id = beat.member or self.new_id("")[1:]
        owner = group.owner_of(beat.instance)
        old = self._find(group, owner, member_id, beat)
        new = copy.copy(old)
        new.client, new.protocols = client, None
        for name in "instance", "topics", "regex", "assignor":
            said = getattr(beat, name)
            if said is not None:
                setattr(new, name, said)
        new.rebalance_ms = old.rebalance_ms if beat.rebalance_ms == -1 else beat.rebalance_ms
        self._step(token, group, owner, old, new, beat.owned)
        new.ends = self.now + SESSION_MS
        changed = old.assigned != new.assigned
        shown = frozenset(new.assigned) if beat.is_full() or changed else None
        return Beaten(0, new.id, new.epoch, shown)

    def _group_of(self, beat: Beat) -> Modern:
        group = self.groups.get(beat.group)
        if isinstance(group, Modern):
            return group
        if beat.epoch != 0:
            raise RefusedError(69)
        return Modern(beat.group) if group is None or group.state == EMPTY else self._upgraded(group)

    def _check_room(self, group: Modern, member: str) -> None:
        if len(group.members) >= self.settings.max_consumers and member not in group.members:
            raise RefusedError(81)

    def _find(self, group: Modern, owner: Consumer | None, member_id: str, beat: Beat) -> Consumer:
        if beat.instance is not None and beat.epoch == 0:
            if owner is not None:
                if owner.protocols is None and owner.epoch != AWAY:
                    raise RefusedError(111)
                return self._in_place_of(owner, member_id)
            return group.members.get(member_id) or Consumer(member_id)
        if beat.instance is not None:
            member = self._known(owner, member_id)
        else:
            found = group.members.get(member_id) or (Consumer(member_id) if beat.epoch == 0 else None)
            if found is None:
                raise RefusedError(25)
            member = found
        lost = beat.epoch == member.previous and beat.owned is not None and beat.owned <= {*member.assigned}
        if beat.epoch not in (0, member.epoch) and not (beat.epoch < member.epoch and lost):
            raise RefusedError(110)
        return member

    def _known(self, owner: Consumer | None, member_id: str) -> Consumer:
        if owner is None:
            raise RefusedError(25)
        if owner.id != member_id:
            raise RefusedError(82)
        return owner

    def _in_place_of(self, owner: Consumer, member_id: str) -> Consumer:
        """A static member that comes back has what the one before had."""
        came = copy.copy(owner)
        came.id, came.epoch, came.previous = member_id, 0, 0
        if owner.id != member_id:
            came.gives_up_by = came.joins_by = came.syncs_by = None
        return came

    def _step(self, token: Token, group: Modern, owner: Consumer | None, old: Consumer, new: Consumer,
              owned: frozenset[Place] | None) -> None:  # fmt: skip
        """Take up what a member says now, count the group on, assign, and let the member take its step."""
        before, was, users, held = self.groups.get(group.id), group.record(), group.users(), group.held()
        renamed, matches = new.topics != old.topics, new.regex != old.regex
        is_unresolved = matches and bool(new.regex) and not users[new.regex]
        if is_unresolved:
            check_regex(new.regex)
        is_known = matches and not is_unresolved and (new.regex in group.regexes or not new.regex)
        if is_unresolved or users:
            wanted = (users - Counter([old.regex]) + Counter([new.regex])).keys() - {""}
            self._resolve_later(group, wanted, is_unresolved=is_unresolved)
        names = group.names_of(new)
        holder = group.owner_of(new.instance)
        last = group.targets.get(new.id if new.instance is None else holder.id if holder else "", frozenset())
        also = frozenset[str]()
        if owner is not None and owner is not old:
            del group.members[owner.id]
            if new.id in group.members:  # Kafka counts what it read as itself for this once
                also = group.members[new.id].topics
            group.targets[new.id] = group.targets.pop(owner.id, frozenset())
        group.members[new.id] = new
        if matches and users[old.regex] == 1:
            group.regexes.pop(old.regex, None)
        self._count_on(group, changed=renamed or (is_known if new.protocols is None else matches), also=also)
        target = self._assign_anew(group, new, last)
        had = new.has()
        step(group, new, target, owned, held, self._ids(names), bool(names), changed=renamed or matches)
        if new.has() != had and new.protocols is None:
            new.gives_up_by = (self.now + new.rebalance_ms, new.epoch) if new.state == GIVES_UP else None
        if before is not None and before is not group:
            self.retire(before)
        self.groups[group.id] = group
        if before is not group or (owner is not None and owner is not old) or group.record() != was:
            self._write(token, group.id, record=group.record())

    def _ids(self, names: Collection[str]) -> set[bytes]:
        return {self.topic_ids[name] for name in names if name in self.topics}

    def _count_on(self, group: Modern, *, changed: bool, also: frozenset[str] = frozenset()) -> None:
        """Another epoch if something changed; topics are looked at when there is reason to."""
        if not changed and group.seen == self.changes:
            return
        group.seen, metadata = self.changes, self._metadata(group, also)
        if changed or metadata != group.metadata:
            group.epoch, group.metadata = group.epoch + 1, metadata

    def _assign_anew(self, group: Modern, member: Consumer, last: frozenset[Place]) -> frozenset[Place]:
        """The member's target, by a new assignment if the group has counted on."""
        pause_ms = self.settings.assignment_pause_ms
        is_early = group.target_at and group.target_at <= self.wall < group.target_at + pause_ms
        if group.target_epoch >= group.epoch or is_early:
            return last
        for member_id, target in self.choose(group.id).items():
            group.targets[member_id] = target
        group.targets = {m: group.targets.get(m, frozenset()) for m in group.members}
        group.target_epoch, group.target_at = group.epoch, self.wall
        self._check_targets(group)
        return group.targets[member.id]

    def _check_targets(self, group: Modern) -> None:
        """Every partition of every topic goes to one member that subscribes to it, and all get as many if they can."""
        given = Counter(place for target in group.targets.values() for place in target)
        known = {m.id: self._ids(group.names_of(m)) for m in group.members.values()}
        every = {(id_, p) for name, id_ in self.topic_ids.items() for p in range(self.topics.get(name, 0))}
        assert given == Counter(place for place in every if any(place[0] in ids for ids in known.values())), (
            f"{group.id} is assigned {given} of {every} for {known}"
        )
        for member_id, target in group.targets.items():
            assert all(place[0] in known[member_id] for place in target), (
                f"{member_id} gets what it does not read"
            )
        sizes = [len(target) for target in group.targets.values()]
        uniform = all(m.assignor in (None, "uniform") for m in group.members.values())
        if uniform and all(ids == next(iter(known.values())) for ids in known.values()):
            assert max(sizes) - min(sizes) <= 1, f"{group.id} is assigned unevenly: {group.targets}"

    # Leaving

    def _leave(self, token: Token, beat: Beat) -> None:
        group = self.groups.get(beat.group)
        if not isinstance(group, Modern):
            raise RefusedError(69)
        if beat.instance is not None:
            member = self._known(group.owner_of(beat.instance), beat.member)
        elif beat.member in group.members:
            member = group.members[beat.member]
        else:
            raise RefusedError(25)
        self.answers[token] = Beaten(0, beat.member, beat.epoch)
        if beat.instance is None or beat.epoch == LEFT:
            self._remove_consumers(token, group, [member])
            return
        member.epoch, member.assigned, member.revoking = AWAY, dict.fromkeys(member.assigned, 0), {}
        self._write(token, group.id, record=group.record())

    def _remove_consumers(self, token: Token, group: Modern, leaving: list[Consumer]) -> None:
        if self._is_to_be_classic(group, leaving):
            self._downgrade(token, group, leaving)
            return
        before = group.users()
        for member in leaving:
            del group.members[member.id]
            group.targets.pop(member.id, None)
        for expression in before.keys() - group.users().keys():
            group.regexes.pop(expression, None)
        group.epoch, group.metadata = group.epoch + 1, self._metadata(group)
        self._write(token, group.id, record=group.record())

    # Regular expressions

    def _resolve_later(self, group: Modern, wanted: Collection[str], *, is_unresolved: bool) -> None:
        last = next((at for _, at in group.regexes.values()), None)
        if (
            group.resolves is not None
            or (last is not None and last <= self.wall <= last + self.settings.regex_pause_ms)
            or not wanted
        ):
            return
        is_old = last is not None and not last <= self.wall <= last + 600_000
        if is_unresolved or len(wanted) != len(group.regexes) or group.resolved != self.created or is_old:
            group.resolves = self.now

    def _resolve(self, group: Modern) -> None:
        group.resolves = None
        found = {e: frozenset(t for t in self.topics if re.fullmatch(e, t)) for e in group.users()}
        changed = any(topics != group.regexes.get(e, (frozenset(), 0))[0] for e, topics in found.items())
        group.regexes |= {expression: (topics, self.wall) for expression, topics in found.items()}
        group.seen = None
        self._count_on(group, changed=changed)
        group.resolved = self.created
        if found:
            self._write(None, group.id, record=group.record())

    # Members that speak the classic protocol

    def join(self, token: Token, version: int, client: tuple[str, str], group_id: str, member: str,
             instance: str | None, type_: str, protocols: list[tuple[str, bytes]], session_ms: int,
             rebalance_ms: int) -> None:  # fmt: skip
        group = self.groups.get(group_id)
        low, high = self.settings.min_session_ms, self.settings.max_session_ms
        if isinstance(group, Modern) and group.members and low <= session_ms <= high:
            asking = Consumer(member, instance, client, rebalance_ms=rebalance_ms if version else session_ms,
                              protocols=list(dict(protocols).items()), session_ms=session_ms)  # fmt: skip
            try:
                self.answers[token] = self._join_modern(token, version, group, asking, type_)
            except RefusedError as refusal:
                self.answers[token] = Joined(refusal.error)
            return
        empty = self.groups.pop(group_id) if isinstance(group, Modern) else None
        super().join(
            token, version, client, group_id, member, instance, type_, protocols, session_ms, rebalance_ms
        )
        if empty is not None and self.groups.setdefault(group_id, empty) is not empty:
            self.retire(empty)

    def _join_modern(self, token: Token, version: int, group: Modern, asking: Consumer, type_: str) -> Joined:
        assert asking.protocols is not None
        member_id = asking.id or self.new_id("")[1:]
        self._check_room(group, member_id)
        spoken = [{name for name, _ in m.protocols or ()} for m in group.classic()]
        if type_ != "consumer" or not any(all(n in s for s in spoken) for n, _ in asking.protocols):
            raise RefusedError(23)
        if not asking.id and asking.instance is None and version >= 4:
            return Joined(79, member=member_id)
        owner = group.owner_of(asking.instance)
        if asking.instance is None or (owner is None and not asking.id):
            old = group.members.get(member_id) or Consumer(member_id)
        else:
            old = (
                self._known(owner, asking.id)
                if asking.id or owner is None
                else self._in_place_of(owner, member_id)
            )
        said = read_consumer(asking.protocols[0][1])
        if said is None:
            raise RefusedError(-1)
        new = copy.copy(old)
        new.instance, new.client = asking.instance or old.instance, asking.client
        new.rebalance_ms = old.rebalance_ms if asking.rebalance_ms == -1 else asking.rebalance_ms
        new.protocols, new.session_ms = asking.protocols, asking.session_ms
        new.topics, new.regex = frozenset(said[0]), ""
        owned = frozenset((self.topic_ids[t], p) for t, p in said[1] if t in self.topics)
        if owner is not None and self._is_to_be_classic(group, [owner], replaced=True):
            self._replace_last(token, group, owner, old, new, owned)
        else:
            self._step(token, group, owner, old, new, owned)
        new.joins_by, new.ends = None, self.now + new.session_ms
        new.syncs_by = self.now + new.rebalance_ms
        return Joined(0, new.epoch, "consumer", new.protocols[0][0], "", new.id)

    def _check_classic(self, group: Modern, member: str, instance: str | None, generation: int) -> Consumer:
        found = group.members.get(member) if instance is None else group.owner_of(instance)
        if instance is not None and found is not None and found.id != member:
            raise RefusedError(82)
        if found is None or found.protocols is None:
            raise RefusedError(25)
        if found.epoch != generation:
            raise RefusedError(22)
        return found

    def sync(self, token: Token, version: int, group_id: str, generation: int, member_id: str, instance: str | None,
             type_: str | None, protocol: str | None, assignments: dict[str, bytes]) -> None:  # fmt: skip
        group = self.groups.get(group_id)
        incomplete = version >= 5 and (type_ is None or protocol is None)
        if not isinstance(group, Modern) or not group.members or incomplete:
            super().sync(
                token, version, group_id, generation, member_id, instance, type_, protocol, assignments
            )
            return
        try:
            member = self._check_classic(group, member_id, instance, generation)
            assert member.protocols is not None
            if type_ not in (None, "consumer") or protocol not in (None, member.protocols[0][0]):
                raise RefusedError(23)
            if group.target_epoch > member.epoch and member.state != GIVES_UP:
                self._await_join(member)
                raise RefusedError(27)
        except RefusedError as refusal:
            self.answers[token] = Synced(refusal.error)
            return
        member.syncs_by, member.ends = None, self.now + member.session_ms
        self.answers[token] = Synced(
            0, type_, protocol, self._encoded(member.assigned, member.protocols[0][1])
        )

    def heartbeat(self, group_id: str, generation: int, member: str, instance: str | None) -> int:
        group = self.groups.get(group_id)
        if not isinstance(group, Modern):
            return super().heartbeat(group_id, generation, member, instance)
        try:
            found = self._check_classic(group, member, instance, generation)
        except RefusedError as refusal:
            return refusal.error
        found.ends = self.now + found.session_ms
        held, missing = group.held(), group.targets.get(found.id, frozenset()) - found.assigned.keys()
        free = found.state == WAITS and not any(held[place] for place in missing)
        if found.epoch < group.target_epoch or found.state == GIVES_UP or free:
            self._await_join(found)
            return 27
        return 0

    def _await_join(self, member: Consumer) -> None:
        if member.joins_by is None:
            member.joins_by = self.now + member.rebalance_ms

    def leave(self, token: Token, group_id: str, leaving: list[tuple[str, str | None]]) -> list[int]:
        group = self.groups.get(group_id)
        if not isinstance(group, Modern):
            return super().leave(token, group_id, leaving)
        errors, gone = [], []
        for member, instance in leaving:
            found = group.members.get(member) if instance is None else group.owner_of(instance)
            errors.append(25 if found is None else 82 if instance and member and found.id != member else 0)
            if found is not None and not errors[-1] and found not in gone:
                gone.append(found)
        if gone:
            self._remove_consumers(token, group, gone)
        return errors

    # From one protocol to the other

    def _upgraded(self, old: Group) -> Modern:
        """A consumer group of a classic one's members, who have what they have."""
        if old.type != "consumer" or len(old.members) > self.settings.max_consumers:
            raise RefusedError(69)
        self._answer_waiting(old)
        group = Modern(old.id, old.generation, target_epoch=old.generation)
        for m in map(old.members.__getitem__, timeline_map(hash_map(old.members))):
            if old.protocol not in dict(m.protocols):  # nobody has chosen one yet, or it is about to change
                raise RefusedError(-1)
            said, places = read_consumer(m.metadata(old.protocol)), self._decoded(m.assignment)
            if said is None or places is None:
                raise RefusedError(69)
            group.members[m.id] = Consumer(
                m.id, m.instance, m.client, frozenset(said[0]), "", m.rebalance_ms, None, m.protocols, m.session_ms,
                old.generation, old.generation, KEEPS, dict.fromkeys(places, old.generation),
                ends=self.now + m.session_ms,
            )  # fmt: skip
            group.targets[m.id] = places
        group.metadata = self._metadata(group)
        return group

    def _answer_waiting(self, old: Group) -> None:
        """All are to join again, whatever comes of the newcomer; their sessions are what they were."""
        for member in old.members.values():
            if member.join is not None:
                self._refuse_join(member.join, 27, member.id)
            if member.sync is not None:
                self.answers[member.sync] = Synced(27)
            member.join = member.sync = None

    def _is_to_be_classic(self, group: Modern, leaving: list[Consumer], *, replaced: bool = False) -> bool:
        staying = len(group.members) - len(leaving)
        classic = sum(m not in leaving for m in group.classic())
        if classic != staying or (replaced and leaving[0].protocols is not None):
            return False
        size = staying + replaced
        return 0 < size <= self.settings.max_size

    def _downgrade(self, token: Token, old: Modern, leaving: list[Consumer], came: Consumer | None = None, *,
                   rebalances: bool = True) -> None:  # fmt: skip
        """A classic group of those that stay, and of who came in the place of the last other one."""
        group = Group(old.id, generation=old.epoch, type="consumer", is_recorded=True, since=self.wall)
        found = old.members | {m.id: m for m in leaving}
        staying = [found[id_] for id_ in timeline_map(found) if found[id_] not in leaving]
        for m in [*staying, *([came] if came else [])]:
            member = Member(
                m.id, m.instance, m.client, m.rebalance_ms, m.session_ms, m.protocols or [], is_new=False
            )
            member.ends = self.now + m.session_ms
            group.members[m.id] = member
        group.leader, group.state = next(iter(group.members)), STABLE
        group.protocol = group.elect()
        group.subscribed = group.subscriptions()
        for member in group.members.values():
            holder = leaving[0].id if came is not None and member.id == came.id else member.id
            target = old.targets.get(holder, frozenset())
            member.assignment = self._encoded(target, member.metadata(group.protocol))
        self.retire(old)
        self.groups[old.id] = group
        self._write(token, group.id, record=group.record())
        if rebalances:
            self._begin(group)

    def _replace_last(self, token: Token, group: Modern, owner: Consumer, old: Consumer, new: Consumer,
                      owned: frozenset[Place]) -> None:  # fmt: skip
        """A static member that speaks the classic protocol now comes for the last one that did not."""
        changed, names, held = (new.topics, "") != (old.topics, old.regex), group.names_of(new), group.held()
        target, users = group.targets.get(owner.id, frozenset()), group.users()
        epoch, metadata = group.epoch, group.metadata
        group.members = {m.id: m for m in group.members.values() if m is not owner} | {new.id: new}
        if users[old.regex] == 1 and old.regex != "":
            group.regexes.pop(old.regex, None)
        self._count_on(group, changed=changed)
        rebalances = group.target_epoch < group.epoch
        group.epoch, group.metadata = epoch, metadata
        if not rebalances:
            step(group, new, target, owned, held, self._ids(names), bool(names), changed=changed)
        group.members = {m.id: m for m in group.members.values() if m is not new}
        group.targets[owner.id] = target
        self._downgrade(token, group, [owner], new, rebalances=rebalances)

    def _encoded(self, places: Collection[Place], metadata: bytes) -> bytes:
        names = {id_: name for name, id_ in self.topic_ids.items() if name in self.topics}
        version = int.from_bytes(metadata[:2], "big", signed=True)
        return assignment(version, {(names[id_], p) for id_, p in places if id_ in names})

    def _decoded(self, data: bytes) -> frozenset[Place] | None:
        found = assigned_in(data) if data else []
        if found is None:
            return None
        return frozenset((self.topic_ids[t], p) for t, p in found if 0 <= p < self.topics.get(t, 0))

    # Time

    def _timers(self) -> Iterator[tuple[int, int, Any, Any]]:
        yield from super()._timers()
        for group in self.groups.values():
            if isinstance(group, Modern):
                if group.resolves is not None:
                    yield group.resolves, 8, group, ""
                for m in group.members.values():
                    by = m.gives_up_by and m.gives_up_by[0]
                    for kind, due in enumerate((m.ends, by, m.joins_by, m.syncs_by), 4):
                        if due is not None:
                            yield due, kind, group, m.id

    def _time_is_over(self, kind: int, group: Any, what: str) -> None:
        if kind == 8:
            self._resolve(group)
            return
        member = group.members[what]
        if kind == 5 and member.gives_up_by[1] != member.epoch:
            member.gives_up_by = None
            return
        self._remove_consumers(None, group, [member])

    def _wake(self, group: Modern) -> None:
        """After a load: fresh sessions, and time to give up what is to be given up."""
        for member in group.members.values():
            member.ends = self.now + SESSION_MS
            if member.state == GIVES_UP:
                member.gives_up_by = self.now + member.rebalance_ms, member.epoch

    # Committing and fetching

    def _check_member_commit(
        self, version: int | None, group: Modern, epoch: int, member_id: str, places: list[Place | None]
    ) -> int:
        """`places` are the partitions that are asked for and would be accepted; `version` is None in a transaction."""
        member = group.members.get(member_id)
        if member is None:
            return 25
        if member.protocols is None and version is not None and version < 9:
            return 35
        has = member.assigned | member.revoking
        since_then = all(place in has and epoch >= has[place] for place in places)
        if epoch == member.epoch or (epoch < member.epoch and since_then):
            return 0
        return 113 if member.protocols is None and version is not None else 22

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> int:
        """What is wrong with a member that fetches."""
        group = self.readable(group_id)
        if not isinstance(group, Modern):
            return 0
        if member_id is None:
            return 0 if epoch < 0 else -1
        member = self.committed(group).members.get(member_id)
        if member is None:
            return 25
        return 0 if epoch == member.epoch else 113 if member.protocols is None else 22
