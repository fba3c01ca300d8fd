"""One group under random joins, syncs, heartbeats, leaves, time, slow and failing logs."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.classic_group import ClassicGroup, ClassicGroupState
from kafka_offsets.protocol import messages
from tests.drivers.shard import Asked, ShardDriver, subscription

INSTANCES = st.sampled_from([None, None, "one", "two"])
PROTOCOLS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",)])
REBALANCE_MS = st.sampled_from([0, 500, 20_000, 20_000])
PICK = st.integers(0, 1 << 16)


class GroupMachine(RuleBasedStateMachine):
    """Clients know what they were answered, and sometimes something else."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = ShardDriver(
            group_initial_rebalance_delay_ms=200, group_max_size=4, group_min_session_timeout_ms=100
        )
        self.known: dict[str, str | None] = {}
        self.generation = 0
        self.parked: list[Asked] = []
        self.has_failed = False

    def pick(self, number: int) -> tuple[str, str | None]:
        """Mostly a member; else one of the member ids that were ever handed out, or one of nobody."""
        names = [*self.known, "nobody"]
        if number % 5 and self.group is not None and self.group.members:
            names = [*self.group.members]
        name = names[number % len(names)]
        return name, self.known.get(name)

    @property
    def group(self) -> ClassicGroup | None:
        return self.driver.shard.groups.get("g")

    @property
    def current(self) -> int:
        return self.group.generation if self.group is not None else 0

    def learn(self) -> None:
        for asked in self.driver.asked.values():
            if asked.context.api_key == 11 and asked.answers and asked.answer.member_id:
                self.known[asked.answer.member_id] = asked.context.request.group_instance_id

    @rule(instance=INSTANCES, version=st.integers(0, 9), protocols=PROTOCOLS, rebalance_ms=REBALANCE_MS)
    def join_anew(
        self, instance: str | None, version: int, protocols: tuple[str, ...], rebalance_ms: int
    ) -> None:
        if instance is not None:
            version = max(version, 5)
        self.driver.join(
            "", instance, version=version, protocols=protocols, rebalance_ms=rebalance_ms, session_ms=5_000
        )
        self.learn()

    @rule(number=PICK, protocols=PROTOCOLS, rebalance_ms=REBALANCE_MS)
    def join_again(self, number: int, protocols: tuple[str, ...], rebalance_ms: int) -> None:
        member_id, instance = self.pick(number)
        self.driver.join(
            member_id, instance, protocols=protocols, rebalance_ms=rebalance_ms, session_ms=5_000
        )
        self.learn()

    @rule(number=PICK, stale=st.integers(0, 9))
    def sync(self, number: int, stale: int) -> None:
        member_id, instance = self.pick(number)
        given = {name: name.encode() for name in self.known}
        self.driver.sync(member_id, self.current - (stale == 0), given, version=4, instance=instance)

    @initialize(instances=st.lists(INSTANCES, max_size=3))
    def begin_stable(self, instances: list[str | None]) -> None:
        for number, instance in enumerate(instances):
            self.join_anew(instance, 5 if instance else number, ("range", "sticky"), 20_000)
        self.everybody_joins_and_syncs()

    @rule()
    def everybody_joins_and_syncs(self) -> None:
        """Lead a group to the next generation, so that runs see more than its beginning."""
        if self.group is None:
            return
        self.driver.advance(500)
        for member in list(self.group.members.values()):
            if member.join is None:
                self.driver.join(
                    member.member_id,
                    member.group_instance_id,
                    protocols={**member.protocols},
                    session_ms=5_000,
                )
        self.learn()
        given = {name: name.encode() for name in self.known}
        for member in list(self.group.members.values()):
            if member.sync is None:
                self.driver.sync(
                    member.member_id, self.current, given, version=4, instance=member.group_instance_id
                )

    @rule(number=PICK)
    def beat(self, number: int) -> None:
        if not self.driver.hold:
            member_id, instance = self.pick(number)
            self.driver.beat(member_id, self.current, instance)

    @rule(number=PICK)
    def commit(self, number: int) -> None:
        member_id, instance = self.pick(number)
        self.driver.commit_later(member_id, self.current, instance)

    @rule()
    def commit_without_membership(self) -> None:
        self.driver.commit_later()

    @rule(number=PICK, by_instance=st.booleans())
    def leave(self, number: int, by_instance: bool) -> None:
        member_id, instance = self.pick(number)
        request = messages.LeaveGroupRequest.MemberIdentity("" if by_instance else member_id, instance)
        self.driver.leave_later(request)

    @rule()
    def delete(self) -> None:
        before = self.group
        if before is None or before.state is ClassicGroupState.EMPTY:
            self.generation = 0
        self.driver.delete()

    @rule(ms=st.sampled_from([0, 1, 100, 600, 2_500, 6_000]))
    def time_passes(self, ms: int) -> None:
        self.driver.advance(ms)
        self.learn()

    @rule()
    def log_is_slow(self) -> None:
        self.driver.hold = True

    @rule(count=st.integers(1, 3))
    def log_is_synced_up_to_some_decision(self, count: int) -> None:
        self.driver.sync_log(count)
        self.learn()

    @rule(instance=INSTANCES, is_refused=st.booleans(), is_first=st.booleans(), commits=st.booleans())
    def group_is_deleted_in_a_turn_with_others(
        self, instance: str | None, is_refused: bool, is_first: bool, commits: bool
    ) -> None:
        """Deletions race with joins and commits, whichever is decided first."""
        was_held, self.driver.hold = self.driver.hold, True
        if commits:
            self.driver.commit_later()
        if not is_first:
            self.delete()
        self.driver.join(
            "", instance, version=5, protocols=() if is_refused else ("range",), session_ms=5_000
        )
        if is_first:
            self.delete()
        self.driver.hold = was_held
        if not was_held:
            self.log_is_synced()

    @rule()
    def log_is_synced(self) -> None:
        self.driver.hold = False
        self.driver.sync_log()
        self.learn()

    @rule()
    def log_fails(self) -> None:
        self.generation = 0  # a deletion or a creation may be taken back
        self.has_failed |= bool(self.driver.held)
        self.driver.fail_log()
        self.driver.hold = False

    @rule()
    def broker_is_killed(self) -> None:
        """What was not durable is lost, with whoever waited for it."""
        self.driver = self.driver.restart(
            group_initial_rebalance_delay_ms=200, group_max_size=4, group_min_session_timeout_ms=100
        )
        self.generation = 0
        self.has_failed = False

    @invariant()
    def generations_do_not_fall(self) -> None:
        if self.group is not None:
            assert self.group.generation >= self.generation
            self.generation = self.group.generation

    @invariant()
    def counters_agree_with_members(self) -> None:
        if self.group is None:
            return
        group, members = self.group, self.group.members.values()
        assert group.joined == sum(member.join is not None for member in members)
        assert group.unsynced <= set(group.members)
        assert group.static_members == {
            m.group_instance_id: m.member_id for m in members if m.group_instance_id is not None
        }
        assert all(
            group.supporters[name] == sum(name in m.protocols for m in members)
            for name in ("range", "sticky", *group.supporters)
        )
        assert 0 not in group.supporters.values()
        assert (group.leader in group.members) if group.members else group.leader is None
        assert not group.pending.keys() & group.members.keys()
        assert all(key == member.member_id for key, member in group.members.items())
        assert group.joined <= 4
        if group.state is ClassicGroupState.EMPTY:
            assert not group.members
        if group.state in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
            assert group.members
            assert all(group.protocol in m.protocols for m in members)

    @invariant()
    def whoever_is_parked_has_a_timer_and_one_answer_to_come(self) -> None:
        waiting = []
        if self.group is not None:
            group, due = self.group, {(t.kind, t.due_ms, t.member_id) for t in self.driver.shard.timers._heap}
            for member in group.members.values():
                if member.join is not None:
                    assert group.state is ClassicGroupState.PREPARING_REBALANCE
                    assert ("join", group.join_due_ms, "") in due
                    waiting.append(member.join)
                if member.sync is not None:
                    assert group.state is ClassicGroupState.COMPLETING_REBALANCE
                    assert ("sync", group.sync_due_ms, "") in due
                    waiting.append(member.sync)
                if not member.waits:
                    assert ("session", member.scheduled_ms, member.member_id) in due
                    assert member.scheduled_ms <= member.deadline_ms
            for member_id, due_ms in group.pending.items():
                assert ("pending", due_ms, member_id) in due
        waiting += [reply.context for result in self.driver.held for reply in result.replies]
        silent = [asked for asked in self.driver.asked.values() if asked.is_parked]
        assert len(waiting) == len(silent)
        assert {context.correlation_id for context in waiting} == {a.context.correlation_id for a in silent}
        assert all(len(asked.answers) <= 1 for asked in self.driver.asked.values())

    @invariant()
    def the_log_makes_the_group_again(self) -> None:
        last = [r.value for r in self.driver.durable if stored.parse_key(r.key) == stored.GroupKey("g")][-1:]
        again = self.driver.restart(group_min_session_timeout_ms=100).shard.groups.get("g")
        if not last or last[0] is None:
            assert again is None or again.is_provisional
            return
        value = stored.parse_group_value(last[0])
        assert again is not None
        assert (again.generation, again.leader, again.protocol) == (
            value.generation,
            value.leader,
            value.protocol,
        )
        assert [(m.member_id, m.assignment, m.group_instance_id) for m in again.members.values()] == [
            (m.member_id, m.assignment, m.group_instance_id) for m in value.members
        ]
        assert again.state is (ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY)

    @invariant()
    def a_restart_finds_the_same_groups(self) -> None:
        """Once everything decided is durable; members may be about to write their group's first generation."""
        if self.driver.held or self.has_failed:
            return
        loaded = self.driver.restart(group_min_session_timeout_ms=100).shard
        if self.group is None:
            assert "g" not in loaded.groups
        elif self.group.state is ClassicGroupState.EMPTY:
            again = loaded.groups["g"]
            assert (again.state, again.generation) == (ClassicGroupState.EMPTY, self.group.generation)
            assert (again.protocol_type, again.durable) == (self.group.protocol_type, self.group.durable)
        assert {*loaded.offsets.items("g")} == {*self.driver.shard.offsets.items("g")}

    def teardown(self) -> None:
        """Everybody is answered in the end."""
        self.driver.hold = False
        self.driver.sync_log()
        self.driver.take(self.driver.shard.unload())
        assert all(len(asked.answers) == 1 for asked in self.driver.asked.values())


GroupMachine.TestCase.settings = settings(stateful_step_count=40, deadline=None)
test_one_group_keeps_its_promises = pytest.mark.slow(GroupMachine.TestCase)


@pytest.mark.slow
def test_a_thousand_members_and_ten_thousand_groups_cost_no_squares() -> None:
    """Steps are counted, not seconds: no member is looked at more often than a few times a generation."""
    looks = 0

    class Counting(dict):  # type: ignore[type-arg]
        def values(self):  # type: ignore[no-untyped-def]
            nonlocal looks
            looks += len(self)
            return super().values()

    driver = ShardDriver(group_initial_rebalance_delay_ms=10)
    joins = [driver.join(version=3, protocols={"range": subscription("orders")})]
    driver.group().members = Counting(driver.group().members)
    joins += [driver.join(version=3, protocols={"range": subscription("orders")}) for _ in range(999)]
    driver.advance(60)
    members = [joined.answer.member_id for joined in joins]
    for member in members[1:]:
        driver.sync(member, 1, version=4)
    driver.sync(members[0], 1, dict.fromkeys(members, b"a"), version=4)
    for member in members:
        assert driver.beat(member, 1) == 0
    driver.join(members[0], protocols={"range": subscription("orders")})
    for member in members[1:]:
        driver.leave(member)
    assert driver.group().generation == 2
    assert looks < 30 * len(members)
    for number in range(10_000):
        driver.join(version=3, group=f"g{number}")
    scheduled = len(driver.shard.timers._heap)
    assert driver.beat(members[0], 2) == 0
    assert len(driver.shard.timers._heap) == scheduled
