"""Brokers of tests whose directory has a snapshot of the offsets topic."""

import os
from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.groups import snapshots
from kafka_offsets.broker.groups.snapshots import SNAPSHOT_FILE
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.coordinator import snapshot as coordinator_snapshot
from kafka_offsets.storage.files.files import MemoryFiles
from tests.drivers.core import CoreClient, make_core
from tests.drivers.shard import contents_of
from tests.storage.faults import FaultyFiles

PATH = f"{OFFSETS_TOPIC}-0/{SNAPSHOT_FILE}"
LOG = f"{OFFSETS_TOPIC}-0/00000000000000000000.log"
ROUNDS = 400 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 25


def kept(files: MemoryFiles | None = None) -> FaultyFiles:
    """Files that another process finds again; those of a dead one when given."""
    found = FaultyFiles() if files is None else FaultyFiles.copy_of(files)
    found.outlives_process = True
    return found


def start(files: MemoryFiles, interval_bytes: int = 1, **settings: Any) -> BrokerCore:
    return make_core(
        files,
        offsets_topic_num_partitions=1,
        offsets_snapshot_interval_bytes=interval_bytes,
        auto_create_topics_enable=False,
        **settings,
    )


def started(files: MemoryFiles, **settings: Any) -> CoreClient:
    core = start(files, **settings)
    if core.topics.get("t") is None:
        topic_admin.create_topic(core.context, "t", 300, {})
        topic_admin.create_topic(core.context, "u", 300, {})
    return CoreClient(core)


def let_time_pass(core: BrokerCore, ms: int) -> None:
    """Every millisecond is a turn in which whatever is due is carried out."""
    for _ in range(ms):
        core.clock.advance(1)  # type: ignore[attr-defined]
        core.run_due()
        core.end_turn()


def contents(core: BrokerCore) -> dict[str, Any]:
    if not core.shards.topic_exists:
        return {}
    shard = core.runtime.shard_of("g", core.clock.now()).shard
    return contents_of(shard)


def contents_after_start(files: MemoryFiles, interval_bytes: int = 1) -> dict[str, Any]:
    """What a new process finds, in files of its own."""
    return contents(start(kept(files), interval_bytes))


def written(*, extra: int = 0) -> FaultyFiles:
    """A directory that was stopped cleanly with a snapshot, and died after more commits."""
    files = kept()
    client = started(files)
    for number in range(5):
        client.commit(f"g{number}", {("t", number): number, ("u", 200): number})
    client.core.close()
    assert files.exists(PATH)
    if extra:
        client = started(files)
        for number in range(extra):
            client.commit("late", {("t", number): number})
    return kept(files)


def take_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a snapshot be taken and written in as many steps as possible."""
    monkeypatch.setattr(coordinator_snapshot, "_STEP", 1)
    monkeypatch.setattr(snapshots, "_WRITE_BYTES", 1)


def used(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of snapshots at a start, and forget it."""
    said = [record.getMessage() for record in caplog.records if record.name == snapshots.__name__]
    caplog.clear()
    return said
