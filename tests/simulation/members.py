"""The oracle's half for members: joining, syncing, heartbeats, leaving, and what time does to groups."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tests.simulation.java_maps import hash_map
from tests.simulation.model import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    Group,
    Joined,
    Key,
    Member,
    Offset,
    Settings,
    Synced,
    Token,
)

NEW_MEMBER_JOIN_MS = 300_000
KINDS = ("session", "pending", "join", "sync", "consumer session", "consumer rebalance", "consumer join",
         "consumer sync", "consumer regex")  # fmt: skip


class Membership(ABC):
    """All groups of one broker.

    answers   token -> what its request must be answered; taken out by whoever compares
    new_id    prefix -> the member id that the broker has made up
    now, wall  both clocks, in milliseconds
    """

    def __init__(self, settings: Settings, new_id: Callable[[str], str]) -> None:
        self.settings = settings
        self.new_id = new_id
        self.now = self.wall = 0
        self.groups: dict[str, Any] = {}
        self.answers: dict[Token, Any] = {}

    @abstractmethod
    def _write(
        self, token: Token, group: str, offsets: Iterable[tuple[Key, Offset | None]] = (), record: Any = ""
    ) -> None:
        """Write something: see Decision."""

    @abstractmethod
    def _time_is_over(self, kind: int, group: Any, what: str) -> None:
        """A timer of a consumer group falls due."""

    # Joining

    def join(self, token: Token, version: int, client: tuple[str, str], group_id: str, member: str,
             instance: str | None, type_: str, protocols: list[tuple[str, bytes]], session_ms: int,
             rebalance_ms: int) -> None:  # fmt: skip
        """`protocols` are (name, metadata); `client` is its id and its host."""
        protocols = list(dict(reversed(protocols)).items())[::-1]
        rebalance_ms = session_ms if version == 0 else rebalance_ms
        low, high = self.settings.min_session_ms, self.settings.max_session_ms
        if not group_id or not low <= session_ms <= high:
            self._refuse_join(token, 26 if group_id else 24, member)
            return
        group = self.groups.get(group_id)
        if group is None:
            if member:
                self._refuse_join(token, 25, member)
                return
            group = self.groups[group_id] = Group(group_id, is_recorded=True, since=self.wall)
            self._write(token, group_id, record=group.record())
        asking = Member(member, instance, client, rebalance_ms, session_ms, protocols, b"", token, version)
        self._join(group, asking, type_)

    def _join(self, group: Group, asking: Member, type_: str) -> None:
        token, member = asking.join, asking.id
        names = {name for name, _ in asking.protocols}
        supported = type_ and names if group.state == EMPTY else type_ == group.type and group.common(names)
        if not self._has_room(group, member):
            self._refuse_join(token, 81, "")
            self._remove(group, member)
            self._complete_if_all_joined(group)  # ours: Kafka lets the others wait
        elif not supported:
            self._refuse_join(token, 23, member)
        elif not member:
            self._join_new(group, asking, type_)
        elif member in group.pending:
            if asking.instance is None:
                self._add(group, asking, type_)
            else:
                self._refuse_join(token, -1, "")
        elif error := group.check(member, asking.instance):
            self._refuse_join(token, error, member)
        else:
            self._rejoin(group, group.members[member], asking)

    def _has_room(self, group: Group, member: str) -> bool:
        if group.state == EMPTY:
            return True
        if group.state == PREPARING:
            known = member in group.members and group.members[member].join is not None
            return known or group.joined() < self.settings.max_size
        return member in group.members or len(group.members) < self.settings.max_size

    def _join_new(self, group: Group, asking: Member, type_: str) -> None:
        asking.id = self.new_id(asking.client[0] if asking.instance is None else asking.instance)
        old = group.owner_of(asking.instance) if asking.instance is not None else None
        if old is not None:
            self._replace(group, group.members[old], asking)
        elif asking.instance is None and asking.join_version >= 4:
            group.pending[asking.id] = self.now + asking.session_ms
            self._refuse_join(asking.join, 79, asking.id)
        else:
            self._add(group, asking, type_)

    def _add(self, group: Group, member: Member, type_: str) -> None:
        if not group.members:
            group.type = type_
        if group.state == PREPARING and group.initial:
            group.newcomers = True
        group.pending.pop(member.id, None)
        group.members[member.id] = member
        group.leader = group.leader or member.id
        member.ends = self.now + NEW_MEMBER_JOIN_MS
        self._begin_or_complete(group)

    def _rejoin(self, group: Group, member: Member, asking: Member) -> None:
        is_leader, same = member.id == group.leader, member.protocols == asking.protocols
        if same and (group.state == COMPLETING or (group.state == STABLE and not is_leader)):
            self.answers[asking.join] = self._joined(group, member, with_members=is_leader)
            return
        self._update(member, asking)
        self._begin_or_complete(group)

    def _update(self, member: Member, asking: Member) -> None:
        if member.join is not None:
            self._refuse_join(member.join, 27, member.id)  # ours: Kafka never answers it
        member.protocols, member.session_ms = asking.protocols, asking.session_ms
        member.rebalance_ms, member.join, member.join_version = (
            asking.rebalance_ms,
            asking.join,
            asking.join_version,
        )

    def _replace(self, group: Group, old: Member, asking: Member) -> None:
        """A static member was restarted: it takes its place under another id."""
        was_leader, before = group.leader == old.id, group.leader
        if old.join is not None:
            self._refuse_join(old.join, 82, old.id)
        if old.sync is not None:
            self.answers[old.sync] = Synced(82)
        member = copy.copy(old)
        member.id, member.join, member.sync, member.is_new = asking.id, None, None, False
        del group.members[old.id]
        group.members[member.id] = member
        if old.id in group.unsynced:
            group.unsynced ^= {old.id, member.id}
        if was_leader:
            group.leader = member.id
        self._arm(member)
        self._update(member, asking)
        if group.state == PREPARING:
            self._complete_if_all_joined(group)
        elif group.state == STABLE and group.elect() == group.protocol:
            member.join = None
            answer = self._joined(group, member, with_members=was_leader and asking.join_version >= 9)
            if asking.join_version >= 9:
                answer = answer._replace(skip=was_leader)
            else:
                answer = answer._replace(leader=before or "")
            self.answers[asking.join] = answer
            self._write(asking.join, group.id, record=group.record())
        else:
            self._begin(group)

    def _refuse_join(self, token: Token, error: int, member: str) -> None:
        self.answers[token] = Joined(error, member=member)

    def _joined(self, group: Group, member: Member, *, with_members: bool) -> Joined:
        members = (
            [(m.id, m.instance, m.metadata(group.protocol)) for m in group.members.values()]
            if with_members
            else ()
        )
        return Joined(
            0, group.generation, group.type, group.protocol, group.leader or "", member.id, frozenset(members)
        )

    # Phases of a rebalance

    def _begin_or_complete(self, group: Group) -> None:
        if group.state == PREPARING:
            self._complete_if_all_joined(group)
        else:
            self._begin(group)

    def _begin(self, group: Group) -> None:
        if group.state == COMPLETING:
            for member in group.members.values():
                member.assignment = b""
                if member.sync is not None:
                    self.answers[member.sync] = Synced(27)
                    member.sync = None
                    self._arm(member)
        group.unsynced, group.sync_ends = set(), None
        group.initial, group.state = group.state == EMPTY, PREPARING
        if group.initial:
            group.newcomers, group.delay_ms = False, self.settings.initial_delay_ms
            group.left_ms = max(group.rebalance_ms() - group.delay_ms, 0)
            group.join_ends = self.now + group.delay_ms
        elif group.all_joined():
            self._complete(group)
        else:
            group.join_ends = self.now + group.rebalance_ms()

    def _complete_if_all_joined(self, group: Group) -> None:
        if group.state == PREPARING and not group.initial and group.all_joined():
            self._complete(group)

    def _complete(self, group: Group) -> None:
        """The next generation: of those that have joined, and of static members."""
        group.join_ends = None
        for member in [m for m in group.members.values() if m.join is None and m.instance is None]:
            self._remove(group, member.id)
        if group.members and not group.joined():
            group.join_ends = self.now + max(group.rebalance_ms(), 1)
            return
        if group.members and (group.leader is None or group.members[group.leader].join is None):
            group.leader = hash_map(m.id for m in group.members.values() if m.join is not None)[0]
        group.generation += 1
        group.protocol = group.elect() if group.members else None
        group.subscribed = group.subscriptions()
        if not group.members:
            group.state, group.since = EMPTY, self.wall
            self._write(None, group.id, record=group.record())
            return
        group.state, group.unsynced = COMPLETING, set(group.members)
        for member in group.members.values():
            if member.join is not None:
                self.answers[member.join] = self._joined(
                    group, member, with_members=member.id == group.leader
                )
            member.join, member.is_new = None, False
            self._arm(member)
        group.sync_ends = self.now + group.rebalance_ms()

    def sync(self, token: Token, version: int, group_id: str, generation: int, member_id: str, instance: str | None,
             type_: str | None, protocol: str | None, assignments: dict[str, bytes]) -> None:  # fmt: skip
        group = self.groups.get(group_id)
        if version >= 5 and (type_ is None or protocol is None):
            error = 23
        elif not group_id:
            error = 24
        elif group is None or group.state == EMPTY:
            error = 25
        else:
            error = group.check(member_id, instance) or (22 if generation != group.generation else 0)
            if not error and (type_ not in (None, group.type) or protocol not in (None, group.protocol)):
                error = 23
            error = error or (27 if group.state == PREPARING else 0)
        if error or group is None:
            self.answers[token] = Synced(error)
            return
        member = group.members[member_id]
        group.unsynced.discard(member_id)
        if not group.unsynced:
            group.sync_ends = None
        if group.state == STABLE:
            self.answers[token] = Synced(0, group.type, group.protocol, member.assignment)
            return
        if member.sync is not None:
            self.answers[member.sync] = Synced(27)
        member.sync = token
        if member_id == group.leader:
            self._assign(token, group, assignments)

    def _assign(self, token: Token, group: Group, assignments: dict[str, bytes]) -> None:
        group.state = STABLE
        for member in group.members.values():
            member.assignment = assignments.get(member.id, b"")
            if member.sync is not None:
                self.answers[member.sync] = Synced(0, group.type, group.protocol, member.assignment)
                member.sync = None
                self._arm(member)
        self._write(token, group.id, record=group.record())

    # Being a member

    def _arm(self, member: Member) -> None:
        member.ends = self.now + member.session_ms

    def heartbeat(self, group_id: str, generation: int, member: str, instance: str | None) -> int:
        if not group_id:
            return 24
        group = self.groups.get(group_id)
        if group is None:
            return 25
        error = group.check(member, instance) or (22 if generation != group.generation else 0)
        if error:
            return error
        self._arm(group.members[member])
        return 27 if group.state == PREPARING else 0

    def leave(self, token: Token, group_id: str, leaving: list[tuple[str, str | None]]) -> list[int]:
        """Return an error for each."""
        group = self.groups.get(group_id)
        if group is None:
            return [25 for _ in leaving]
        errors = []
        for member, instance in leaving:
            if member in group.pending:
                del group.pending[member]
                errors.append(0)
                continue
            if not member and instance is not None:
                member = group.owner_of(instance) or ""
            errors.append(group.check(member, instance))
            if not errors[-1]:
                self._dismiss(group, group.members[member])
        if 0 in errors and group.state != EMPTY:
            self._begin_or_complete(group)
        return errors

    def _dismiss(self, group: Group, member: Member) -> None:
        if member.join is not None:
            self._refuse_join(member.join, 25, "")
        if member.sync is not None:
            self.answers[member.sync] = Synced(25)  # ours: Kafka never answers it
        self._remove(group, member.id)

    def _remove(self, group: Group, member: str) -> None:
        group.members.pop(member, None)
        group.pending.pop(member, None)
        group.unsynced.discard(member)
        if group.leader == member:
            group.leader = next(iter(hash_map(group.members)), None)

    # Time

    def _timers(self) -> Iterator[tuple[int, int, Any, Any]]:
        for group in self.groups.values():
            if not isinstance(group, Group):
                continue
            for member in group.members.values():
                if member.ends is not None:
                    yield member.ends, 0, group, member
            for member_id, ends in group.pending.items():
                yield ends, 1, group, member_id
            if group.join_ends is not None:
                yield group.join_ends, 2, group, None
            if group.sync_ends is not None:
                yield group.sync_ends, 3, group, None

    def next_deadline(self) -> int | None:
        return min((timer[0] for timer in self._timers()), default=None)

    def tick(self, seen: Sequence[tuple[str, str, str]] = (), *, no_others: bool = False) -> None:
        """Carry out what is due, in the order of time.

        seen       (kind of timer, group, member) in the order of the broker: what is due at one time may come in any
        no_others  only those, as something else has happened after them
        """

        def name(timer: tuple[int, int, Group, Any]) -> tuple[str, str, str]:
            _, kind, group, what = timer
            return KINDS[kind], group.id, what.id if kind == 0 else what or ""

        def place(timer: tuple[int, int, Group, Any]) -> tuple[bool, int, int, int]:
            """Expressions are resolved after all that was due, in steps."""
            called = name(timer)
            return timer[1] == 8, timer[0], seen.index(called) if called in seen else len(seen), timer[1]

        while due := [
            timer
            for timer in self._timers()
            if timer[0] <= self.now and (not no_others or name(timer) in seen)
        ]:
            _, kind, group, what = min(due, key=place)
            if kind == 0:
                self._session_ended(group, what)
            elif kind == 1:
                self._remove(group, what)
                if group.state == PREPARING and group.all_joined():
                    self._complete(group)
            elif kind == 2:
                self._join_ended(group)
            elif kind == 3:
                group.sync_ends = None
                for member in sorted(group.unsynced):
                    self._remove(group, member)
                self._begin(group)
            else:
                self._time_is_over(kind, group, what)

    def _session_ended(self, group: Group, member: Member) -> None:
        member.ends = None
        if not member.is_new and (member.join is not None or member.sync is not None):
            return  # it waits for us; the answer begins its session anew
        self._dismiss(group, member)
        if group.state != PREPARING:
            self._begin(group)
        elif group.all_joined():
            self._complete(group)

    def _join_ended(self, group: Group) -> None:
        if not (group.initial and group.newcomers and group.left_ms):
            self._complete(group)
            return
        group.newcomers = False
        left, group.left_ms = group.left_ms, max(group.left_ms - group.delay_ms, 0)
        group.delay_ms = min(self.settings.initial_delay_ms, left)
        group.join_ends = self.now + group.delay_ms
