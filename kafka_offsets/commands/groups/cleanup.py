"""`kafka-offsets offsets cleanup`: lists committed offsets with their commit times, and deletes old ones.

OffsetFetch has no commit times, so the tool fetches the offsets topic, as a consumer does, and replays it as a
coordinator does. The coordinators delete the offsets: they write the tombstones. A group with members is refused, since
it uses its offsets. Source: the design of the inbuilt offset management, 5 (b), manual cleanup.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from kafka_offsets.broker.groups.loading import replay_records
from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.clock import utc_text
from kafka_offsets.commands.options.connections import Refusals, why_without_offsets
from kafka_offsets.commands.output.tables import print_rows
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state.shard_state import GroupSettings
from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.protocol.records import batch_headers, read_records
from kafka_offsets.terminal import note

_OFFSETS_TOPIC = "__consumer_offsets"
_WITHOUT_MEMBERS = ("Empty", "Dead")

_TOGETHER = 1000
"""How many offsets one request deletes: their tombstones are one batch, whose size a broker limits."""

_COLUMNS = {
    "group": "GROUP",
    "topic": "TOPIC",
    "partition": "PARTITION",
    "offset": "CURRENT-OFFSET",
    "commit_timestamp": "COMMITTED",
}


class _TimedOffset(NamedTuple):
    group: str
    topic: str
    partition: int
    offset: int
    commit_timestamp: int

    def row(self, *, as_json: bool) -> dict[str, object]:
        """Return the fields; in a table with the commit time in UTC."""
        if as_json:
            return self._asdict()
        return {**self._asdict(), "commit_timestamp": utc_text(self.commit_timestamp)}


def clean_up(options: argparse.Namespace) -> int:
    """Print the offsets that are old enough, and delete them with --execute; return the exit code.

    Without groups all of the cluster are visited: those with members are then named and passed over. A named group that
    has members, or no offsets, is an error.
    """
    refused = Refusals()
    with options.connections.cluster() as cluster:
        committed = sorted(_read(cluster, options.groups))
    for group in sorted(set(options.groups) - {offset.group for offset in committed}):
        with options.connections.coordinator(group) as coordinator:
            refused.add(why_without_offsets(options, coordinator))
    if not committed and not refused.code:
        note("no offsets are committed")
        return 0
    if options.older_than is None:
        _print(committed, options)
        return refused.code
    period, period_ms = options.older_than
    before_ms = round(time.time() * 1000) - period_ms
    old = [offset for offset in committed if offset.commit_timestamp <= before_ms]
    chosen: dict[str, list[_TimedOffset]] = {}
    for group, group_offsets in groupby(old, lambda offset: offset.group):
        with options.connections.coordinator(group) as coordinator:
            state = coordinator.describe().state
        if state in _WITHOUT_MEMBERS:
            chosen[group] = list(group_offsets)
        else:
            message = f"group {group} is {state}: only offsets of a group without members are deleted"
            refused.add(message, counts=group in options.groups)
    _print([offset for offsets in chosen.values() for offset in offsets], options)
    if options.execute:
        for group, offsets in chosen.items():
            with options.connections.coordinator(group) as coordinator:
                _delete(coordinator, offsets, refused)
    count = sum(map(len, chosen.values()))
    if not old and not refused.code:
        note(f"nothing is older than {period}")
    if count and not options.execute:
        note(f"nothing is deleted: add --execute to delete {'it' if count == 1 else f'these {count}'}")
    return refused.code


def _print(offsets: Sequence[_TimedOffset], options: argparse.Namespace) -> None:
    print_rows(_COLUMNS, [offset.row(as_json=options.json) for offset in offsets], as_json=options.json)


def _delete(coordinator: Coordinator, offsets: Sequence[_TimedOffset], refused: Refusals) -> None:
    for begin in range(0, len(offsets), _TOGETHER):
        partitions = [(offset.topic, offset.partition) for offset in offsets[begin : begin + _TOGETHER]]
        try:
            answered = coordinator.delete_offsets(partitions)
        except RefusedError as error:
            refused.add(str(error))
            return
        for (topic, partition), error_code in answered.items():
            if error_code:
                name = f"group {coordinator.group}: {topic}-{partition}"
                refused.add(f"{name} {error_code.name} ({error_code.value})")


def _read(cluster: ClusterClient, groups: Collection[str]) -> Iterator[_TimedOffset]:
    """Yield the committed offsets of groups, of all groups if none is named, in no order.

    An offset that an open transaction is about to replace is not yielded: its commit time is that of the transaction.
    """
    try:
        log_partitions = cluster.leaders([_OFFSETS_TOPIC])
    except RefusedError as error:
        if error.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return  # no group has committed yet
    wanted_indexes = {partition_for(group, len(log_partitions)) for group in groups}
    for log_partition in sorted(log_partitions):
        if wanted_indexes and log_partition[1] not in wanted_indexes:
            continue
        shard = _replayed(cluster, log_partition)
        for group in groups or shard.offsets.groups():
            for topic, partition, entry in shard.offsets.items(group):
                if not shard.has_pending_offset(group, topic, partition):
                    yield _TimedOffset(group, topic, partition, entry.offset, entry.commit_timestamp)


class _NoTopics:
    """Topics for a shard that decides nothing."""

    version = created_version = 0

    def id_and_partition_count(self, topic: str) -> tuple[bytes, int]:
        return bytes(16), 0

    def topic_name(self, topic_id: bytes) -> None:
        return None

    def names(self) -> tuple[str, ...]:
        return ()


def _replayed(cluster: ClusterClient, log_partition: tuple[str, int]) -> Shard:
    """Return the state that a partition of the offsets topic has at its end."""
    shard = Shard(log_partition[1], GroupSettings(), lambda prefix: prefix, _NoTopics())
    for data in cluster.batches(log_partition):
        for position, header in batch_headers(data):
            replay_records(shard, header, read_records(data, position, header))
    return shard
