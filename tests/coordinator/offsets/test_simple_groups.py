"""Groups that only have offsets: they have no object, and every answer is that of a group."""

import tracemalloc
from collections.abc import Callable

import pytest

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.offsets.expiry import UnderWay, expire
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.errors import ErrorCode as E
from tests.drivers.shard import TOPIC, ShardDriver


@pytest.fixture(params=[lambda driver: driver, ShardDriver.restart], ids=["live", "load"])
def driver(request: pytest.FixtureRequest) -> ShardDriver:
    """A shard with a group that has only committed, now, and after a load."""
    made = ShardDriver()
    made.commit()
    found: ShardDriver = request.param(made)
    return found


def test_a_group_that_only_committed_has_no_object(driver: ShardDriver) -> None:
    assert driver.commit() == 0
    assert not driver.shard.groups.held
    assert (len(driver.shard.groups), [*driver.shard.groups], "g" in driver.shard.groups) == (1, ["g"], True)
    assert driver.describe().group_state == "Empty"
    assert [(g.group_id, g.group_state, g.group_type, g.protocol_type) for g in driver.list_groups()] == [
        ("g", "Empty", "classic", "")
    ]
    assert [
        len(driver.list_groups(*filters)) for filters in ((("Empty",),), (("Dead",),), ((), ("consumer",)))
    ] == [
        1,
        0,
        0,
    ]
    assert not driver.shard.groups.held


def test_it_has_no_members(driver: ShardDriver) -> None:
    assert driver.commit("m", 1) == driver.beat("m", 1) == driver.sync("m", 1).error == E.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("m", 1, member_epoch=1).error_code == E.GROUP_ID_NOT_FOUND
    assert driver.leave("m").members[0].error_code == E.UNKNOWN_MEMBER_ID
    assert not driver.shard.groups.held


def test_a_member_gives_it_an_object(driver: ShardDriver) -> None:
    assert driver.enter().answer.generation_id == 1
    assert [*driver.shard.groups.held] == [*driver.shard.groups] == ["g"]


def test_a_consumer_replaces_it(driver: ShardDriver) -> None:
    assert driver.enter_consumer("m", TOPIC).error_code == 0
    assert driver.described().group_state == "Stable"
    assert driver.shard.offsets.get("g", TOPIC, 0) is not None


def test_it_remains_without_offsets(driver: ShardDriver) -> None:
    """OffsetDelete of the last offset leaves an empty group, as in Kafka; only expiration or a deletion removes it."""
    assert driver.delete_offset().error_code == 0
    for each in (driver, driver.restart()):
        assert each.describe().group_state == "Empty"
        assert [g.group_id for g in each.list_groups()] == ["g"]
        assert each.delete().error == 0
        assert not each.shard.groups


def test_it_is_removed_when_its_deletion_is_decided_and_back_when_the_log_refuses_it(
    driver: ShardDriver,
) -> None:
    driver.hold = True
    asked = driver.delete()
    assert "g" not in driver.shard.groups
    assert driver.describe().group_state == "Empty"  # readers see it until the deletion is durable
    assert [g.group_id for g in driver.list_groups()] == ["g"]
    driver.fail_log()
    assert asked.error == E.NOT_COORDINATOR
    driver.hold = False
    assert driver.delete().error == 0
    assert not driver.shard.groups


def test_it_expires_with_its_last_offset(driver: ShardDriver) -> None:
    def step(now: Now) -> list[stored.OffsetKey | stored.GroupKey]:
        made = [step.result for step in expire(driver.shard, now, 1000, lambda: UnderWay(set(), set()))]
        for result in made:
            driver.take(result)
        return [stored.parse_key(record.key) for result in made for record in result.records]

    assert step(driver.clock.now()) == []
    driver.clock.advance(1000)
    assert step(driver.clock.now()) == [stored.OffsetKey("g", TOPIC, 0), stored.GroupKey("g")]
    assert not driver.shard.groups
    assert not driver.shard.groups.held


def test_an_aborted_transaction_leaves_a_group() -> None:
    driver = ShardDriver()
    record = stored.offset_record("g", TOPIC, 0, OffsetAndMetadata(1))
    driver.shard.replay(record.key, record.value, 0, producer_id=5)
    assert driver.describe().group_state == "Empty"
    driver.shard.end_transaction(5, committed=False)
    assert driver.describe().group_state == "Empty"


@pytest.mark.slow
@pytest.mark.parametrize(("partitions", "groups", "most"), [(1, 4000, 160), (12, 400, 75), (100, 400, 45)])
def test_a_group_takes_the_memory_of_its_offsets_and_its_name(
    partitions: int, groups: int, most: int
) -> None:
    """Bytes an entry, with the names of groups of 21 characters, which take 70 bytes.

    With 400 groups of one partition it is 155 to 205, by the seed of Python's hashes; with 4,000 it is 135 to 145.
    """
    shard = ShardDriver().shard

    def fill(count: int) -> None:
        for group in range(count):
            for partition in range(partitions):
                entry = OffsetAndMetadata(1, -1, "", 1_700_000_000_000)
                record = stored.offset_record(f"consumer-group-{group:06d}", TOPIC, partition, entry)
                shard.replay_written(record, partition)

    traced(lambda: fill(10))
    assert traced(lambda: fill(groups)) / (groups * partitions) <= most


def traced(work: Callable[[], None]) -> int:
    """Return the bytes that `work` leaves in use."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
