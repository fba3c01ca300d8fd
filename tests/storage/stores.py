"""Directories full of commits, with a plain dict beside them that knows what each group has committed when."""

import random
from collections.abc import Mapping
from typing import NamedTuple

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.files.files import Files, MemoryFiles
from tests.drivers.core import CoreClient, make_core
from tests.storage.batches import write

GROUPS = tuple(f"group-{number}" for number in range(5))
TOPIC = "t"
PARTITIONS = 64
OFFSETS_FOLDER = "__consumer_offsets-0"

Key = tuple[str, int]
"""Group and partition."""

Table = Mapping[Key, int]
"""What is committed."""


class Durable(MemoryFiles):
    """Files in memory of which the broker believes that another process reads them, so it writes recovery points."""

    outlives_process = True


class Store(NamedTuple):
    """A directory.

    contents  path -> bytes
    tables    of the offsets topic: the end of each batch of its last segment -> the table of offsets there, from 0 on
    ever      every offset that was ever committed, by key
    produced  offset -> value of the records of the user topic
    """

    contents: dict[str, bytes]
    tables: dict[int, Table]
    ever: dict[Key, set[int]]
    produced: dict[int, bytes | None]

    def files(self, **changed: bytes) -> MemoryFiles:
        """The directory, as a new process finds it. `changed` by path."""
        files = MemoryFiles()
        for path, data in (self.contents | changed).items():
            write(files, path, data)
        return files


def everything(files: Files, directory: str = "") -> dict[str, bytes]:
    """Every file of a tree."""
    found: dict[str, bytes] = {}
    for name in files.list_directory(directory):
        path = f"{directory}/{name}" if directory else name
        if files.is_directory(path):
            found |= everything(files, path)
        else:
            found[path] = files.read_all(path)
    return found


def committing_core(files: Files, **config: object) -> BrokerCore:
    """A broker with one partition of the offsets topic."""
    return make_core(files, offsets_topic_num_partitions=1, **config)


def committed(core: BrokerCore) -> dict[Key, int]:
    """The table of a broker, through its public door."""
    return {
        (group, partition): entry.offset
        for group in GROUPS
        for (_, partition), entry in core.shards.committed(group).items()
    }


def commit(client: CoreClient, group: str, offsets: Mapping[int, int]) -> None:
    """Commit; every partition must be accepted."""
    errors = client.commit(group, {(TOPIC, partition): offset for partition, offset in offsets.items()})
    assert set(errors.values()) == {0}, errors


def make_store(chance: random.Random, size: int, *, clean: bool, segment_bytes: int = 1 << 30) -> Store:
    """Commit at random until the last segments of the offsets log have about `size` bytes.

    clean  stop the broker; else the process is gone without a word
    """
    files = Durable()
    core = committing_core(files, offsets_topic_segment_bytes=segment_bytes)
    topic_admin.create_topic(core.broker, TOPIC, PARTITIONS, {})
    client = CoreClient(core)
    table: dict[Key, int] = {}
    tables: dict[int, Table] = {0: {}}
    ever: dict[Key, set[int]] = {}
    produced: dict[int, bytes | None] = {}
    number = 0
    log = None
    while log is None or log.appended_bytes < size:
        group = chance.choice(GROUPS)
        offsets = {}
        for partition in chance.sample(range(PARTITIONS), chance.choice((1, 2, 3, 20, 40))):
            number += 1
            offsets[partition] = number
            table[group, partition] = number
            ever.setdefault((group, partition), set()).add(number)
        commit(client, group, offsets)
        log = core.directory.logs["__consumer_offsets", 0]
        active = log.segments[-1]
        if active.base_offset and len(tables) > 1 and active.size < max(tables):
            tables = {0: tables[max(tables)]}  # it was rolled
        tables[active.size] = dict(table)
        if chance.random() < 0.1:
            value = b"record %d" % number
            opened = core.topics.partition(TOPIC, 0)
            assert opened is not None
            produced[opened.log.append(encode_batch([(None, value, (), number)]))] = value
    if clean:
        core.close()
    return Store(everything(files), tables, ever, produced)
