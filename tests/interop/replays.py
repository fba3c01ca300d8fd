"""What the offsets topic of a data directory comes to, as it is and compacted: by a replay of its own.

Keys and values are taken apart by hand, so that our codecs do not judge themselves.
"""

import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.clock import SystemClock
from kafka_offsets.commands.compact import compact_directory
from kafka_offsets.storage.files.files import DiskFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.storage.keyed import check_legal, table

OFFSETS_TOPIC = "__consumer_offsets"

Offsets = dict[tuple[str, str, int], tuple[int, str]]
"""Group, topic and partition -> offset and metadata."""


def replay(data_dir: Path) -> Offsets:
    """The last value of each key of a committed offset, over all partitions of the offsets topic."""
    found: Offsets = {}
    files = DiskFiles(data_dir)
    for folder in sorted(data_dir.glob(f"{OFFSETS_TOPIC}-*")):
        log = Log.open(files, folder.name, LogConfig())
        try:
            check_legal(log)
            for key, (_, value) in table(log).items():
                if struct.unpack_from(">h", key)[0] in {0, 1}:
                    found[_key(key)] = _value(value)
        finally:
            log.close(sync=False)
    return found


def replay_before_and_after(
    data_dir: Path, scratch: Path, settings: Mapping[str, str]
) -> tuple[Offsets, Offsets, int]:
    """Replay a copy of a directory that no broker uses, compact it to the end, and replay it again.

    Returns both, and how many records compaction has taken.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(data_dir, scratch)
    before = replay(scratch)
    now = SystemClock().now()
    done = list(compact_directory(scratch, Config.load(dict(settings)), now, include_active=True))
    assert not [each for each in done if each.error is not None], done
    after = replay(scratch)
    shutil.rmtree(scratch)
    return before, after, done[-1].records_gone


def _key(key: bytes) -> tuple[str, str, int]:
    group, at = _string(key, 2)
    topic, at = _string(key, at)
    return group, topic, int.from_bytes(key[at:], "big", signed=True)


def _value(value: bytes) -> tuple[int, str]:
    version, offset = struct.unpack_from(">hq", value)
    if version == 4:  # its lengths are varints, of one byte for what our tests commit
        assert 0 < value[14] < 128
        return offset, value[15 : 14 + value[14]].decode()
    metadata, _ = _string(value, 14 if version == 3 else 10)
    return offset, metadata


def _string(data: bytes, at: int) -> tuple[str, int]:
    size = int.from_bytes(data[at : at + 2], "big")
    return data[at + 2 : at + 2 + size].decode(), at + 2 + size
