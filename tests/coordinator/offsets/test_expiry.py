"""Expiry against a dict that knows the rules of KIP-211 and KIP-496, and against what a real Kafka let expire."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.offsets import expiry
from kafka_offsets.coordinator.offsets import requests as offsets
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import read_batch_header, read_records
from tests.conftest import DATA
from tests.drivers.shard import ShardDriver, subscription

RETENTION_MS = 1000
GROUPS = ("a", "b", "c")
TOPICS = ("orders", "clicks", "t")

Key = tuple[str, str, int]


class Oracle:
    """Offsets as (commit timestamp, own expiry or None); groups by what their retention counts from."""

    def __init__(self) -> None:
        self.offsets: dict[Key, tuple[int, int | None]] = {}
        self.pending: dict[int, dict[Key, tuple[int, int | None]]] = {}
        self.live: dict[str, frozenset[str] | None] = {}  # stable consumers: what they read; None: not known
        self.emptied: dict[str, int] = {}
        self.known: set[str] = set()

    def is_expired(self, key: Key, now_ms: int) -> bool:
        group, topic, _ = key
        committed, own = self.offsets[key]
        if group in self.live:
            topics = self.live[group]
            if topics is None or topic in topics:
                return False
        if any(key in pending for pending in self.pending.values()):
            return False
        if own is not None:
            return now_ms >= own
        since = committed if group in self.live else self.emptied.get(group, committed)
        return now_ms - since >= RETENTION_MS

    def expire(self, now_ms: int) -> None:
        for key in [key for key in self.offsets if self.is_expired(key, now_ms)]:
            del self.offsets[key]
        used = {key[0] for key in self.offsets} | {
            key[0] for pending in self.pending.values() for key in pending
        }
        for group in self.known - used - self.live.keys():
            self.known.discard(group)
            self.emptied.pop(group, None)

    def delete_topic(self, topic: str) -> None:
        for table in (self.offsets, *self.pending.values()):
            for key in [key for key in table if key[1] == topic]:
                del table[key]


class Pair:
    """A shard and the oracle, told the same."""

    def __init__(self) -> None:
        self.driver = ShardDriver()
        self.oracle = Oracle()

    @property
    def now(self) -> Now:
        return self.driver.clock.now()

    def commit(self, group: str, topic: str, partition: int, retention_ms: int | None) -> None:
        if group in self.oracle.live:  # their members commit; a stranger may not
            return
        request = messages.OffsetCommitRequest
        partitions = [request.Partition(partition, 1, committed_metadata="")]
        made = request(group, topics=[request.Topic(topic, partitions=partitions)])
        if retention_ms is not None:
            made.retention_time_ms = retention_ms
        self.driver.ask(8, offsets.commit, made, 3)
        own = None if retention_ms is None else self.now.wall_ms + retention_ms
        self.oracle.offsets[group, topic, partition] = (self.now.wall_ms, own)
        self.oracle.known.add(group)

    def commit_in_transaction(self, group: str, topic: str, partition: int, producer_id: int) -> None:
        entry = OffsetAndMetadata(5, commit_timestamp=self.now.wall_ms)
        record = stored.offset_record(group, topic, partition, entry)
        self.driver.shard.replay(record.key, record.value, len(self.driver.durable), producer_id)
        self.driver.durable.append(record)
        key = (group, topic, partition)
        self.oracle.pending.setdefault(producer_id, {})[key] = (self.now.wall_ms, None)
        self.oracle.known.add(group)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        # No plain commit stands after one that is pending here: what is committed counts.
        self.driver.shard.end_transaction(producer_id, committed=committed)
        ended = self.oracle.pending.pop(producer_id, {})
        if committed:
            self.oracle.offsets |= ended

    def live(self, group: str, topics: frozenset[str] | None) -> None:
        if group in self.oracle.live:
            return
        metadata = b"\xff" if topics is None else subscription(*topics)
        self.driver.stable(group=group, protocols={"range": metadata}, session_ms=1_000_000)
        self.oracle.live[group] = topics
        self.oracle.emptied.pop(group, None)
        self.oracle.known.add(group)

    def leave(self, group: str) -> None:
        if group not in self.oracle.live:
            return
        self.driver.leave(*self.driver.group(group).members, group=group)
        del self.oracle.live[group]
        self.oracle.emptied[group] = self.now.wall_ms

    def expire(self) -> None:
        take(self.driver, expiry.expire(self.driver.shard, self.now, RETENTION_MS, lambda: expiry.NOTHING))
        self.oracle.expire(self.now.wall_ms)

    def delete_topic(self, topic: str) -> None:
        end = len(self.driver.durable)
        take(self.driver, expiry.forget_topic(self.driver.shard, topic, end, lambda: expiry.NOTHING, set()))
        self.oracle.delete_topic(topic)

    def restart(self) -> None:
        """The state is a replay of the log; open transactions are left out, which the driver does not log."""
        if not self.oracle.pending:
            self.driver = self.driver.restart()

    def compare(self) -> None:
        table = self.driver.shard.offsets
        found = {(group, topic, p) for group in table.groups() for topic, p, _ in table.items(group)}
        assert found == self.oracle.offsets.keys()
        assert self.driver.shard.groups.keys() == self.oracle.known
        pending = {key for each in self.driver.shard.pending.values() for key in each}
        assert pending == {key for each in self.oracle.pending.values() for key in each}


def take(driver: ShardDriver, steps: Iterator[expiry.ExpiryStep]) -> list[Any]:
    taken = []
    for step in steps:
        taken += step.result.records
        driver.take(step.result)
    return taken


groups, topics = st.sampled_from(GROUPS), st.sampled_from(TOPICS)
partitions = st.sampled_from((0, 1, 3))
retentions = st.sampled_from((None, None, 0, 500, 3000))
subscriptions = st.one_of(st.none(), st.frozensets(topics))
operations = st.one_of(
    st.tuples(st.just("commit"), groups, topics, partitions, retentions),
    st.tuples(st.just("commit"), groups, topics, partitions, retentions),
    st.tuples(st.just("live"), groups, subscriptions),
    st.tuples(st.just("leave"), groups),
    st.tuples(st.just("advance"), st.sampled_from((1, 499, 500, 999, 1000))),
    st.tuples(st.just("advance"), st.sampled_from((1, 499, 500, 999, 1000))),
    st.tuples(st.just("expire")),
    st.tuples(st.just("delete_topic"), topics),
    st.tuples(st.just("restart")),
)


@pytest.mark.slow
@given(st.lists(operations, max_size=40))
@settings(max_examples=150, deadline=None)
def test_expiration_follows_the_rules(told: list[tuple[Any, ...]]) -> None:
    pair = Pair()
    for name, *arguments in told:
        if name == "advance":
            pair.driver.advance(*arguments)
        else:
            getattr(pair, name)(*arguments)
        pair.compare()


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("commit_in_transaction"), groups, topics, partitions, st.integers(7, 8)),
            st.tuples(st.just("end_transaction"), st.integers(7, 8), st.booleans()),
            st.tuples(st.just("advance"), st.sampled_from((1, 999, 1000))),
            st.tuples(st.just("expire")),
            st.tuples(st.just("delete_topic"), topics),
        ),
        max_size=30,
    )
)
@settings(max_examples=100, deadline=None)
def test_offsets_of_open_transactions_do_not_expire_and_go_with_their_topic(
    told: list[tuple[Any, ...]],
) -> None:
    pair = Pair()
    for name, *arguments in told:
        if name == "advance":
            pair.driver.advance(*arguments)
            continue
        getattr(pair, name)(*arguments)
        pair.compare()


def test_a_group_that_the_log_refuses_to_delete_is_there_again() -> None:
    driver = ShardDriver()
    driver.stable(group="g", session_ms=1_000_000)
    driver.leave(*driver.group().members)
    driver.hold = True
    before = driver.group()
    take(driver, expiry.expire(driver.shard, driver.clock.now(), RETENTION_MS, lambda: expiry.NOTHING))
    assert "g" not in driver.shard.groups
    driver.fail_log()
    assert driver.group() is before


def test_a_group_with_a_record_under_way_stays() -> None:
    driver = ShardDriver()
    driver.stable(group="g", session_ms=1_000_000)
    driver.leave(*driver.group().members)
    busy = expiry.UnderWay(groups=frozenset(("g",)))
    assert take(driver, expiry.expire(driver.shard, driver.clock.now(), RETENTION_MS, lambda: busy)) == []
    assert "g" in driver.shard.groups


def gone(driver: ShardDriver, retention_ms: int = RETENTION_MS) -> set[tuple[Any, ...]]:
    """What a round lets go of now, the groups themselves left out."""
    steps = expiry.expire(driver.shard, driver.clock.now(), retention_ms, lambda: expiry.NOTHING)
    return {record.offset_key for record in take(driver, steps) if record.offset_key is not None}


def test_an_expiry_of_its_own_counts_from_its_millisecond_on() -> None:
    pair = Pair()
    pair.commit("a", "orders", 0, 5000)
    pair.driver.advance(4999)
    assert gone(pair.driver) == set()
    pair.driver.advance(1)
    assert gone(pair.driver) == {("a", "orders", 0)}


def test_the_longest_retention_time_is_one_that_never_ends() -> None:
    """The sum of now and Long.MAX_VALUE fits no record: the commit failed. Kafka's sum overflows."""
    pair = Pair()
    pair.commit("a", "t", 0, 2**63 - 1)
    assert [record.offset_key for record in pair.driver.durable] == [("a", "t", 0)]
    pair.driver.advance(10**12)
    assert gone(pair.driver) == set()


def test_an_offset_that_an_open_transaction_is_about_to_replace_stays() -> None:
    pair = Pair()
    pair.commit("a", "orders", 0, None)
    pair.commit("a", "orders", 1, None)
    pair.commit_in_transaction("a", "orders", 0, 7)
    pair.driver.advance(RETENTION_MS)
    assert gone(pair.driver) == {("a", "orders", 1)}
    pair.end_transaction(7, committed=False)
    assert gone(pair.driver) == {("a", "orders", 0)}


def test_a_group_of_an_old_record_that_does_not_say_when_it_emptied_counts_from_the_commits() -> None:
    pair = Pair()
    pair.live("a", frozenset())
    pair.leave("a")
    pair.driver.advance(RETENTION_MS)
    pair.commit("a", "orders", 0, None)
    pair.driver.group("a").state_since_ms = -1
    assert gone(pair.driver) == set()
    pair.driver.advance(RETENTION_MS)
    assert gone(pair.driver) == {("a", "orders", 0)}


def forgotten(
    driver: ShardDriver,
    before: int,
    under_way: expiry.UnderWay = expiry.NOTHING,
    left: set[stored.OffsetKey] | None = None,
) -> set[Any]:
    left = set() if left is None else left
    steps = expiry.forget_topic(driver.shard, "orders", before, lambda: under_way, left)
    return {record.offset_key for record in take(driver, steps)}


def test_an_offset_that_is_being_committed_again_does_not_go_with_the_topic_that_was() -> None:
    pair = Pair()
    pair.commit("a", "orders", 0, None)
    pair.commit("a", "orders", 1, None)
    busy = expiry.UnderWay(offsets=frozenset((("a", "orders", 1),)))
    assert forgotten(pair.driver, len(pair.driver.durable), busy) == {("a", "orders", 0)}


def test_an_offset_of_a_deleted_topic_goes_whose_transaction_ends_between_two_steps() -> None:
    pair = Pair()
    driver, shard = pair.driver, pair.driver.shard
    for number in range(300):
        pair.commit(f"a{number}", "orders", 0, None)
    pair.commit_in_transaction("z", "orders", 0, 7)
    steps = expiry.forget_topic(shard, "orders", len(driver.durable), lambda: expiry.NOTHING, set())
    driver.take(next(steps).result)
    shard.end_transaction(7, committed=True)
    take(driver, steps)
    assert not shard.offsets.has_topic("orders")


def test_a_commit_to_a_topic_created_again_does_not_go_with_a_transaction_on_the_one_that_was() -> None:
    pair = Pair()
    pair.commit_in_transaction("a", "orders", 0, 7)
    pair.commit_in_transaction("a", "orders", 1, 7)
    deleted_at = len(pair.driver.durable)
    pair.commit("a", "orders", 0, None)
    assert forgotten(pair.driver, deleted_at) == {("a", "orders", 1)}
    pair.driver.shard.end_transaction(7, committed=True)
    entry = pair.driver.shard.offsets.get("a", "orders", 0)
    assert entry is not None and entry.log_offset >= deleted_at
    assert pair.driver.shard.offsets.get("a", "orders", 1) is None


def left_of(driver: ShardDriver, before: int, left: set[stored.OffsetKey]) -> set[Any]:
    steps = expiry.forget_left(driver.shard, before, lambda: expiry.NOTHING, left)
    return {record.offset_key for record in take(driver, steps)}


ORDERS = stored.OffsetKey("a", "orders", 0)


def test_an_offset_that_a_transaction_on_the_topic_created_again_hides_goes_when_that_is_dropped() -> None:
    pair = Pair()
    shard = pair.driver.shard
    pair.commit("a", "orders", 0, None)
    deleted_at = len(pair.driver.durable)
    pair.commit_in_transaction("a", "orders", 0, 7)
    left: set[stored.OffsetKey] = set()
    assert forgotten(pair.driver, deleted_at, left=left) == set()
    assert left == {ORDERS}
    assert expiry.waits_for(shard, left) == {7}
    shard.end_transaction(7, committed=False)
    assert left_of(pair.driver, deleted_at, left) == {ORDERS}
    assert left == set()
    assert shard.offsets.get(*ORDERS) is None


def test_an_offset_of_a_topic_created_again_stays_when_its_transaction_is_committed() -> None:
    pair = Pair()
    shard = pair.driver.shard
    pair.commit("a", "orders", 0, None)
    deleted_at = len(pair.driver.durable)
    pair.commit_in_transaction("a", "orders", 0, 7)
    left: set[stored.OffsetKey] = set()
    forgotten(pair.driver, deleted_at, left=left)
    shard.end_transaction(7, committed=True)
    assert left_of(pair.driver, deleted_at, left) == set()
    assert left == set()
    entry = shard.offsets.get(*ORDERS)
    assert entry is not None and entry.log_offset == deleted_at


@pytest.mark.parametrize("old_is_first", [True, False])
@pytest.mark.parametrize("old_is_committed", [True, False])
@pytest.mark.parametrize("new_is_committed", [True, False])
def test_of_two_transactions_the_one_on_the_deleted_topic_leaves_nothing(
    old_is_first: bool, old_is_committed: bool, new_is_committed: bool
) -> None:
    pair = Pair()
    shard = pair.driver.shard
    pair.commit_in_transaction("a", "orders", 0, 7)
    deleted_at = len(pair.driver.durable)
    pair.commit_in_transaction("a", "orders", 0, 8)
    left: set[stored.OffsetKey] = set()
    assert forgotten(pair.driver, deleted_at, left=left) == set()
    assert expiry.waits_for(shard, left) == {7, 8}
    ends = [(7, old_is_committed), (8, new_is_committed)]
    for producer_id, committed in ends if old_is_first else reversed(ends):
        shard.end_transaction(producer_id, committed=committed)
        left_of(pair.driver, deleted_at, left)
    entry = shard.offsets.get(*ORDERS)
    assert left == set()
    assert (None if entry is None else entry.log_offset) == (deleted_at if new_is_committed else None)


def test_a_callback_for_the_end_of_a_transaction_is_called_once_when_it_has_taken_effect() -> None:
    pair = Pair()
    shard = pair.driver.shard
    seen: list[Any] = []
    shard.ended[7] = [lambda: seen.append(shard.offsets.get(*ORDERS))]
    pair.commit_in_transaction("a", "orders", 0, 7)
    pair.commit_in_transaction("a", "orders", 1, 8)
    shard.end_transaction(8, committed=True)
    assert seen == []
    shard.end_transaction(7, committed=True)
    shard.end_transaction(7, committed=True)
    assert seen == [shard.offsets.get(*ORDERS)] != [None]


@pytest.mark.parametrize("how", ["expire", "forget", "forget pending"])
def test_each_step_looks_again_at_what_is_under_way(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(expiry, "_STEP", 1)
    pair = Pair()
    groups = ["a", "b", "c"]
    for number, group in enumerate(groups):
        if how == "forget pending":
            pair.commit_in_transaction(group, "orders", 0, number)
        else:
            pair.commit(group, "orders", 0, None)
    pair.driver.advance(RETENTION_MS)
    busy: set[tuple[str, str, int]] = set()

    def under_way() -> expiry.UnderWay:
        return expiry.UnderWay(offsets=frozenset(busy))

    shard = pair.driver.shard
    if how == "expire":
        steps = expiry.expire(shard, pair.driver.clock.now(), RETENTION_MS, under_way)
    else:
        steps = expiry.forget_topic(shard, "orders", len(pair.driver.durable), under_way, set())
    taken: set[Any] = set()
    for step in steps:
        taken |= {record.offset_key for record in step.result.records if record.offset_key is not None}
        if taken:
            busy.add(("b", "orders", 0))
    assert taken == {("a", "orders", 0), ("c", "orders", 0)}


# -- beside a real Kafka

LOGS = DATA / "logs" / "expiry"
SERVED = {"e-simple", "e-classic", "e-refreshed", "e-live"}
KAFKA_RETENTION_MS = 60_000
KAFKA_CHECK_MS = 1_000


def batches(partition: int) -> list[bytes]:
    """The batches of one partition of the offsets topic, in their order."""
    found = []
    for path in sorted(LOGS.glob(f"__consumer_offsets-{partition}/*.log")):
        data = path.read_bytes()
        while data:
            size = 12 + int.from_bytes(data[8:12], "big")
            found.append(data[:size])
            data = data[size:]
    return found


def loaded(before: list[bytes]) -> Shard:
    shard = ShardDriver().new_shard()
    for batch in before:
        for record in read_records(batch):
            assert record.key is not None
            shard.replay(record.key, record.value, record.offset)
    shard.finish_loading(Now(0, 0))
    return shard


def tombstones(batch: bytes) -> set[tuple[str, ...]]:
    """What a batch deletes, as the groups that are served are concerned."""
    keys = [stored.parse_key(record.key or b"") for record in read_records(batch) if record.value is None]
    return {
        tuple(map(str, key)) for key in keys if not isinstance(key, stored.UnknownKey) and key.group in SERVED
    }


def ours(shard: Shard, wall_ms: int) -> set[tuple[str, ...]]:
    found = set()
    for step in expiry.expire(shard, Now(wall_ms, 0), KAFKA_RETENTION_MS, lambda: expiry.NOTHING):
        found |= {tuple(map(str, stored.parse_key(record.key))) for record in step.result.records}
    return {key for key in found if key[0] in SERVED}


@pytest.mark.parametrize("partition", range(4))
def test_offsets_expire_in_the_same_check_as_in_kafka_and_no_others(partition: int) -> None:
    found = batches(partition)
    for at, batch in enumerate(found):
        wall_ms = read_batch_header(batch).max_timestamp
        if tombstones(batch):
            assert ours(loaded(found[:at]), wall_ms) == tombstones(batch)
            assert not ours(loaded(found[:at]), wall_ms - 2 * KAFKA_CHECK_MS) & tombstones(batch)
    last_ms = max((read_batch_header(batch).max_timestamp for batch in found), default=0)
    assert ours(loaded(found), last_ms) == set()


def test_the_real_log_has_what_is_compared() -> None:
    gone = set().union(*(tombstones(batch) for partition in range(4) for batch in batches(partition)))
    assert {key[0] for key in gone} == SERVED
