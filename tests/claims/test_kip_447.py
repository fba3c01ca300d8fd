"""Source: KIP-447, producers that scale with exactly-once semantics.

Not served, and so without a test, for they are matters of clients: sendOffsetsToTransaction with what a consumer knows
of its group, how a consumer waits and asks again, and the shorter transaction timeout of Kafka Streams.
"""

from typing import Any

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.claims.claimed import CoreClient, after, broker, killed, stable, turn
from tests.drivers.members import join_request
from tests.drivers.shard import subscription
from tests.drivers.transactions import OLD, Producer

UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
GONE = ErrorCode.UNKNOWN_MEMBER_ID
OLD_GENERATION = ErrorCode.ILLEGAL_GENERATION
CONFIG = {"transaction_state_log_num_partitions": 1}


def transaction(core: BrokerCore, name: str = "x", **options: int) -> Producer:
    """A producer whose transaction has the offsets of group g, by the request that precedes TxnOffsetCommit."""
    producer = Producer(core, name)
    assert producer.init(**options) == 0
    added = messages.AddOffsetsToTxnRequest(name, producer.id, producer.epoch, "g")
    assert producer.client.call(added, 3).error_code == 0
    return producer


def commit(
    producer: Producer,
    partition: int = 0,
    *,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    version: int = 3,
) -> int:
    """Commit offset 5 within a transaction."""
    request = messages.TxnOffsetCommitRequest
    topics = [request.Topic("t", [request.Partition(partition, 5, committed_metadata="")])]
    identity = (generation, member, instance) if version >= 3 else ()
    made = request(producer.name, "g", producer.id, producer.epoch, *identity, topics=topics)
    answer = producer.client.call(made, version)
    return int(answer.topics[0].partitions[0].error_code)


def fetched(core: BrokerCore, *partitions: int, stable: bool = True, version: int = 7) -> Any:
    """Error and offset by partition, of all partitions if none is named."""
    request = messages.OffsetFetchRequest
    if version >= 8:
        topics = [request.Topics("t", partition_indexes=[*partitions])] if partitions else None
        made = request(groups=[request.Group("g", topics=topics)], require_stable=stable)
        (answer,) = CoreClient(core).call(made, version).groups
    else:
        named = [request.Topic("t", [*partitions])] if partitions else None
        made = request("g", named) if version < 7 else request("g", named, require_stable=stable)
        answer = CoreClient(core).call(made, version)
    assert answer.error_code == 0
    return {
        p.partition_index: (p.error_code, p.committed_offset) for t in answer.topics for p in t.partitions
    }


def with_open_transaction(**options: int) -> tuple[BrokerCore, Producer]:
    """A group that has committed 1 for two partitions, and by a transaction that has not ended 5 for the first."""
    core = broker(**CONFIG)
    CoreClient(core).commit("g", {("t", 0): 1, ("t", 1): 1})
    producer = transaction(core, **options)
    assert commit(producer) == 0
    return core, producer


# ---- reading offsets of open transactions ---------------------------------------------------------------------


@pytest.mark.parametrize("version", [7, 8, 9])
@pytest.mark.parametrize("asked", [(0, 1), ()])
def test_a_reader_of_stable_offsets_gets_an_error_for_an_open_transaction(
    version: int, asked: tuple[int, ...]
) -> None:
    """Proposed changes, pending offsets: UNSTABLE_OFFSET_COMMIT for those partitions; the others are answered."""
    core, _ = with_open_transaction()
    assert fetched(core, *asked, version=version) == {0: (UNSTABLE, -1), 1: (0, 1)}


@pytest.mark.parametrize("version", [1, 6, 7, 8])
def test_others_read_what_was_committed_before(version: int) -> None:
    """Compatibility: without the flag, and from older clients, the answer is as ever."""
    core, _ = with_open_transaction()
    assert fetched(core, 0, 1, stable=False, version=version) == {0: (0, 1), 1: (0, 1)}


def test_a_partition_that_has_only_a_pending_offset_is_unstable_too() -> None:
    """Proposed changes, pending offsets: the first commit of a partition is waited for as well."""
    core = broker(**CONFIG)
    assert commit(transaction(core)) == 0
    assert fetched(core, 0) == {0: (UNSTABLE, -1)}
    assert fetched(core, 0, stable=False) == {0: (0, -1)}


@pytest.mark.parametrize(("committed", "offset"), [(True, 5), (False, 1)])
def test_when_the_transaction_has_ended_its_outcome_is_read(committed: bool, offset: int) -> None:
    """Proposed changes: a marker makes the offsets stable, committed or not."""
    core, producer = with_open_transaction()
    assert producer.end(committed, OLD) == 0
    turn(core)
    assert fetched(core, 0) == {0: (0, offset)}


def test_an_abandoned_transaction_blocks_readers_until_its_timeout() -> None:
    """Proposed changes, transaction timeout: it is what a reader waits for at the longest."""
    core, _ = with_open_transaction(timeout_ms=10_000)
    after(core, 9_999)
    assert fetched(core, 0) == {0: (UNSTABLE, -1)}
    after(core, 10_001)
    assert fetched(core, 0) == {0: (0, 1)}


def test_each_of_several_producers_holds_up_the_partitions_of_its_own_transaction() -> None:
    """Motivation: one producer a process instead of one a partition, each with a transactional id of its own."""
    core, first = with_open_transaction()
    second = transaction(core, "y")
    assert commit(second, 1) == 0
    assert fetched(core, 0, 1) == {0: (UNSTABLE, -1), 1: (UNSTABLE, -1)}
    first.end(True, OLD)
    turn(core)
    assert fetched(core, 0, 1) == {0: (0, 5), 1: (UNSTABLE, -1)}


def test_a_new_coordinator_knows_of_the_open_transaction() -> None:
    """Proposed changes, pending offsets: they are in the log, and so is what ends them."""
    core, producer = with_open_transaction()
    later = killed(core, **CONFIG)
    assert fetched(later, 0) == {0: (UNSTABLE, -1)}
    producer.client = CoreClient(later)
    assert producer.end(True, OLD) == 0
    turn(later)
    assert fetched(later, 0) == {0: (0, 5)}


def test_the_flag_is_part_of_version_7() -> None:
    """Public interfaces: require_stable in OffsetFetch from version 7 on."""
    asked = messages.OffsetFetchRequest("g", [messages.OffsetFetchRequest.Topic("t", [0])])
    asked.require_stable = True
    encoded = messages.encode(asked, 7)
    assert messages.decode(messages.OffsetFetchRequest, encoded, 7)[0].require_stable
    with pytest.raises(ValueError, match="require_stable"):
        messages.encode(asked, 6)


# ---- fencing by the group -------------------------------------------------------------------------------------


def test_a_transactional_commit_is_checked_as_a_members_commit_is() -> None:
    """Public interfaces, TxnOffsetCommit version 3: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID; nothing is pending then."""
    core = broker(**CONFIG)
    (member,) = stable(core, [b""])
    producer = transaction(core)
    name, generation = member.member_id, member.generation
    assert commit(producer, member=name, generation=generation + 1) == OLD_GENERATION
    assert commit(producer, member=name, generation=generation - 1) == OLD_GENERATION
    assert commit(producer, member="a stranger", generation=generation) == GONE
    assert fetched(core, 0) == {0: (0, -1)}
    assert commit(producer, member=name, generation=generation) == 0
    assert fetched(core, 0) == {0: (UNSTABLE, -1)}


def test_a_zombie_is_fenced_by_the_group_whatever_its_transactional_id() -> None:
    """Proposed changes, fence zombie: who fell out of the group commits nothing, though no producer took its id."""
    core = broker(**CONFIG)
    (zombie,) = stable(core, [b""])
    producer = transaction(core)
    after(core, 10_000)
    (member,) = stable(core, [b""])
    assert commit(producer, member=zombie.member_id, generation=zombie.generation) == GONE
    assert commit(producer, member=member.member_id, generation=zombie.generation) == OLD_GENERATION
    other = transaction(core, "y")
    assert commit(other, member=member.member_id, generation=member.generation) == 0


def test_an_instance_that_was_replaced_is_fenced() -> None:
    """Public interfaces, TxnOffsetCommit version 3: FENCED_INSTANCE_ID."""
    core = broker(**CONFIG)
    (old,) = stable(core, [b""], instances=["i"])
    new = CoreClient(core).call(join_request(instance="i", metadata=subscription("t")), 5)
    assert new.generation_id == old.generation
    producer, generation = transaction(core), old.generation
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert commit(producer, member=old.member_id, generation=generation, instance="i") == fenced
    assert commit(producer, member=new.member_id, generation=generation, instance="i") == 0


def test_a_generation_of_a_group_that_does_not_exist_is_an_old_one() -> None:
    """Public interfaces, TxnOffsetCommit version 3: the group has ended, and its members with it."""
    producer = transaction(broker(**CONFIG))
    assert commit(producer, member="m", generation=1) == OLD_GENERATION


@pytest.mark.parametrize("version", [0, 2, 3])
def test_producers_that_do_not_name_a_member_are_not_checked(version: int) -> None:
    """Compatibility: one producer a partition, fenced by its transactional id alone, goes on as before."""
    core = broker(**CONFIG)
    stable(core, [b""])
    assert commit(transaction(core), version=version) == 0
    assert fetched(core, 0) == {0: (UNSTABLE, -1)}
