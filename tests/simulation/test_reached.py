"""The simulations are no luck: each rule of the coordinator, of replication and of the cleaner is reached by few seeds.

What they do not reach is in a table, with the reason. The seeds are always the same, so that a rule is reached in every
run or in none; they end with the first that leaves only rules of the table.
"""

from collections.abc import Iterator

import pytest

from kafka_offsets.broker.groups import dead_records
from kafka_offsets.broker.partition import log_cleaner
from tests.replication.simulation.simulation import SIMULATION as REPLICAS
from tests.simulation.cluster.simulation import SIMULATION as CLUSTER
from tests.simulation.engine import Simulation
from tests.simulation.observed import LastingFiles
from tests.simulation.reached import modules_of, unreached
from tests.simulation.simulation import SIMULATION
from tests.storage.crash.crash_files import RecordingFiles

COORDINATOR = modules_of(
    "coordinator/classic/*.py",
    "coordinator/consumer/*.py",
    "coordinator/offsets/[!fs]*.py",  # without the fast forms of fetches and commits
    "coordinator/transactions/*.py",
    "coordinator/group_requests.py",
    "coordinator/shard.py",
    "coordinator/state/classic_group.py",
    "coordinator/state/consumer_group.py",
    "coordinator/state/groups.py",
    "storage/cleaner/*.py",
)
REPLICATION = modules_of("replication/*.py")
UNREACHED: dict[str, list[str]] = {
    "the log takes what is appended": [
        "coordinator.classic.join._confirm.undo",
        "coordinator.classic.join._create_group.undo",
        "coordinator.classic.join.fail_join",
        "coordinator.classic.membership.fail_heartbeat",
        "coordinator.classic.membership.fail_heartbeat COORDINATOR_LOAD_IN_PROGRESS",
        "coordinator.classic.rebalance.store_assignments.undo",
        "coordinator.classic.sync.fail_sync",
        "coordinator.consumer.draft.ConsumerDraft.result.undo",
        "coordinator.consumer.draft.restore",
        "coordinator.consumer.heartbeat.fail_heartbeat",
        "coordinator.consumer.migration._give_up",
        "coordinator.consumer.migration._give_up NOT_COORDINATOR",
        "coordinator.consumer.migration.downgrade.undo",
        "coordinator.consumer.migration.resume",
        "coordinator.offsets.expiry._ExpiryDraft.step.undo",
    ],
    "the offsets topic stays, and no group is given up": [
        "coordinator.classic.rebalance.unload",
        "coordinator.classic.rebalance.unload NOT_COORDINATOR",
        "coordinator.shard.Shard.unload",
        "coordinator.state.consumer_group.ConsumerGroup.give_up",
    ],
    "no request follows the end of its group in the same turn": [
        "coordinator.classic.join._decide COORDINATOR_NOT_AVAILABLE",
        "coordinator.classic.membership._heartbeat COORDINATOR_NOT_AVAILABLE",
        "coordinator.classic.membership.leave COORDINATOR_NOT_AVAILABLE",
        "coordinator.classic.sync._check COORDINATOR_NOT_AVAILABLE",
        "coordinator.state.classic_group.ClassicGroup.check_commit COORDINATOR_NOT_AVAILABLE",
        "coordinator.state.classic_group.ClassicGroup.check_offset_deletion GROUP_ID_NOT_FOUND",
        "coordinator.state.groups.Groups.keep_empty",
    ],
    "options that Kafka does not have are not set": [
        "coordinator.classic.assignment._counts",
        "coordinator.classic.assignment._subscriptions",
        "coordinator.classic.rebalance._close_connections",
        "coordinator.offsets.requests._all_or_none OPERATION_NOT_ATTEMPTED",
        "coordinator.offsets.requests._commit_if",
        "coordinator.offsets.requests._commit_if COMMITTED_OFFSET_MISMATCH",
        "coordinator.offsets.requests._commit_if COORDINATOR_LOAD_IN_PROGRESS",
        "coordinator.offsets.requests._commit_if INVALID_REQUEST",
        "coordinator.offsets.requests._commit_if OPERATION_NOT_ATTEMPTED",
        "coordinator.offsets.requests._latest_offset",
        "coordinator.state.classic_group.ClassicGroup.owned_partitions",
        "coordinator.state.consumer_group.ConsumerGroup.owned_partitions",
    ],
    "there are no ACLs": [
        "coordinator.offsets.requests._refuse_others",
        "coordinator.offsets.requests._refuse_others TOPIC_AUTHORIZATION_FAILED",
    ],
    "ids and lists are not too long, too many or malformed": [
        "coordinator.classic.join._decide UNKNOWN_SERVER_ERROR",
        "coordinator.classic.join._hand_out GROUP_MAX_SIZE_REACHED",
        "coordinator.classic.join.check_request UNKNOWN_SERVER_ERROR",
        "coordinator.consumer.classic_members.sync INCONSISTENT_GROUP_PROTOCOL",
        "coordinator.consumer.draft.ConsumerDraft.reconcile FENCED_MEMBER_EPOCH",
        "coordinator.consumer.heartbeat._check_request UNKNOWN_SERVER_ERROR",
        "coordinator.consumer.heartbeat.describe INVALID_GROUP_ID",
        "coordinator.consumer.migration._cannot_upgrade",
        "coordinator.consumer.migration._cannot_upgrade GROUP_ID_NOT_FOUND",
        "coordinator.consumer.migration.write_assignment UNKNOWN_SERVER_ERROR",
        "coordinator.classic.membership.heartbeat REBALANCE_IN_PROGRESS",
    ],
    "producers name no id in InitProducerId, nor use up epochs, and no client lists transactions": [
        "coordinator.transactions.decisions.TransactionState.title",
        "coordinator.transactions.decisions._end_of_old_client CONCURRENT_TRANSACTIONS",
        "coordinator.transactions.decisions._may_recover",
        "coordinator.transactions.decisions.expired",
        "coordinator.transactions.decisions.init_producer_id PRODUCER_FENCED",
        "coordinator.transactions.decisions.init_producer_id UNKNOWN_SERVER_ERROR",
        "coordinator.transactions.decisions.is_listed",
        "coordinator.transactions.decisions.known_states",
    ],
    "no leader proposes that, no disk is given up, no ISR shrinks under a batch": [
        "replication.elections._refusal INVALID_REQUEST",
        "replication.elections._refusal NOT_CONTROLLER",
        "replication.elections.cancel_reassignment INVALID_REPLICA_ASSIGNMENT",
        "replication.elections.may_resign",
        "replication.leader.LeaderReplica.check_replicated NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "replication.leader.LeaderReplica.lag_of",
        "replication.leader.LeaderReplica.low_watermark",
    ],
    "no topic is deleted whose offsets an open transaction holds": [
        "coordinator.offsets.expiry.forget_left",
        "coordinator.offsets.expiry.waits_for",
    ],
    "for readers, for other callers, or for what a schema forbids": [
        "coordinator.offsets.deletion._AnsweredRows.__init__",
        "coordinator.offsets.deletion._AnsweredRows.__len__",
        "coordinator.offsets.deletion._AnsweredRows._made",
        "coordinator.offsets.deletion._AnsweredRows.mirrored",
        "coordinator.state.consumer_group.ConsumerGroup.is_provisional",
        "storage.cleaner.compaction.compact",
        "storage.cleaner.compaction.load_columns",
        "storage.cleaner.compaction.run",
        "storage.cleaner.memory_cleaning.free_deleted",
        "storage.cleaner.offset_map.OffsetMap.get.latest",
        "storage.cleaner.offset_map._out_of_order",
    ],
}
"""Rules that no seed reaches, by the reason. Examples test them."""


def run(simulation: Simulation, seed: int) -> None:
    """Run a seed of a simulation."""
    failure = simulation.run_seed(seed)
    assert failure is None, f"{simulation.package} {seed}: {failure}"


@pytest.mark.timeout(900)
def test_each_rule_of_the_coordinator_and_the_cleaner_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (log_cleaner, dead_records):  # numpy may have been loaded by others
        monkeypatch.setattr(module, "load_columns", lambda: None)

    def in_memory_and_on_disk() -> Iterator[None]:
        with monkeypatch.context() as patch:
            for files in (LastingFiles, RecordingFiles):
                patch.setattr(files, "outlives_process", False)
            patch.setattr(dead_records, "LEAST_BYTES", 300)  # about three records
            for seed in range(20):
                yield run(SIMULATION, seed)
        for seed in range(20, 100):
            yield run(SIMULATION, seed)

    known = [rule for rules in UNREACHED.values() for rule in rules if not rule.startswith("replication.")]
    assert sorted(unreached(COORDINATOR, in_memory_and_on_disk(), known)) == sorted(known)


@pytest.mark.timeout(900)
def test_each_rule_of_replication_is_reached() -> None:
    def brokers_and_replicas() -> Iterator[None]:
        for seed in range(80):
            if seed % 4 == 0:
                yield run(CLUSTER, seed // 4)
            yield run(REPLICAS, seed)

    known = [rule for rules in UNREACHED.values() for rule in rules if rule.startswith("replication.")]
    assert sorted(unreached(REPLICATION, brokers_and_replicas(), known)) == sorted(known)
