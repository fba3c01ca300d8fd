"""Who leads a classic group that was a consumer group, or whose leader is gone: ids and leaders of Kafka 4.3.1."""

from tests.drivers.shard import ShardDriver, subscription

CLASSIC = {"protocols": {"range": subscription("a")}}


def driver_with(*member_ids: str) -> ShardDriver:
    """A shard that gives these ids to its next members."""
    driver, made = ShardDriver({"a": 3}), iter(member_ids)
    driver.shard.new_member_id = lambda _: next(made)
    return driver


def test_the_first_member_in_the_order_of_kafkas_map_leads_a_downgraded_group() -> None:
    ids = [
        "kafka-offsets-1de5479b-a97e-4ece-a5a5-ee83a08a5c51",
        "kafka-offsets-b7eb4837-e6fb-44ec-b7dd-9b01559a1096",
    ]
    driver = driver_with(*ids)
    oldest, first = driver.stable(2, **CLASSIC)
    for member in driver.group().members.values():
        member.assignment = b""
    driver.enter_consumer("m1", "a")
    assert [*driver.members()] == [oldest, first, "m1"]
    driver.heartbeat("m1", -1)
    joins = [driver.join(member, **CLASSIC) for member in (oldest, first)]
    assert {joined.answer.leader for joined in joins} == {first}


def test_the_first_member_in_the_order_of_kafkas_map_follows_a_leader_that_leaves() -> None:
    ids = [
        "kafka-offsets-680d235b-3132-44a7-8c92-681dd7285ec0",
        "kafka-offsets-5b9bfcc2-6407-4ea3-a431-8fd60d9355bb",
        "kafka-offsets-87bb0d9b-5222-4ff6-9f23-e5e489eb7919",
    ]
    driver = driver_with(*ids)
    leader, oldest, first = driver.stable(3)
    assert driver.group().leader == leader
    driver.leave((leader, None))
    joins = [driver.join(member) for member in (oldest, first)]
    assert {joined.answer.leader for joined in joins} == {first}


def test_the_first_member_in_the_order_of_kafkas_map_that_has_joined_is_elected() -> None:
    ids = [
        "i0-aef610c5-d19d-4064-b234-b8a21754ee54",
        "i1-b73dcc71-491c-483e-ac14-a94d8f8e4534",
        "i2-cb49faa2-5006-4790-9668-046b31c61f1c",
        "new-bebb8ab6-c9c6-4f7d-8a62-bee173f4ef48",
    ]
    driver = driver_with(*ids)
    _, oldest, first = driver.stable(instances=("i0", "i1", "i2"), rebalance_ms=1500, session_ms=30_000)
    joins = [driver.join(instance="new", rebalance_ms=1500, session_ms=30_000)]
    for member, instance in ((oldest, "i1"), (first, "i2")):
        joins.append(driver.join(member, instance, rebalance_ms=1500, session_ms=30_000))
    driver.advance(1500)
    assert {joined.answer.leader for joined in joins} == {first}


def test_kafkas_map_of_members_keeps_its_size_when_members_leave() -> None:
    """With thirteen members it has 32 buckets, of which "p" has the 16th and "a" the first; of 16, "p" has the 0th."""
    driver = driver_with(*"zpabcdefghijk")
    leader, *others = driver.stable(13)
    driver.leave(*others[2:])
    assert {*driver.group().members} == {"z", "p", "a"}
    driver.leave(leader)
    assert driver.group().leader == "a"
