"""recovery=keep-valid: damaged commits are never applied, the value before them counts, and the log says so again."""

import logging

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.groups.repair import readable_keys
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.state import stored
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import read_records
from kafka_offsets.storage.log.log import Log
from tests.drivers.core import CoreClient, make_core
from tests.storage.batches import varint, write
from tests.storage.crash.faults import FaultyFiles

SEGMENT = "__consumer_offsets-0/00000000000000000000.log"
SETTINGS = {"offsets_topic_num_partitions": 1}
EVERYTHING = {("t", 0): 0, ("t", 1): 0}


def committed_store(count: int = 6, **config: object) -> FaultyFiles:
    """A directory whose group g has committed 0, 1, 2, …, a batch each, and that was closed well.

    Its time is the same in every run: the bytes of a timestamp may look like a key.
    """
    files = FaultyFiles()
    core = make_core(files, clock=ManualClock(), **SETTINGS, **config)
    topic_admin.create_topic(core.broker, "t", 3, {})
    client = CoreClient(core)
    for number in range(count):
        assert set(client.commit("g", {("t", 0): number, ("t", 1): number}).values()) == {0}
    assert set(client.commit("other", {("t", 0): 77}).values()) == {0}
    core.close()
    return files


def batches(files: FaultyFiles) -> list[tuple[int, int]]:
    """Position and size of each batch of the offsets topic."""
    data = files.read_all(SEGMENT)
    found, position = [], 0
    while position < len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12])
        found.append((position, size))
        position += size
    return found


def flip(files: FaultyFiles, position: int) -> None:
    data = bytearray(files.read_all(SEGMENT))
    data[position] ^= 1
    write(files, SEGMENT, data)


def offsets_log(core: object) -> Log:
    log: Log = core.directory.logs["__consumer_offsets", 0]  # type: ignore[attr-defined]
    return log


def in_log(log: Log) -> dict[bytes | None, bytes | None]:
    """The last value of each key: what compaction keeps."""
    return {record.key: record.value for batch in log.batches() for record in read_records(batch.data)}


@pytest.mark.parametrize("codec", [0, 2], ids=["plain", "snappy"])
def test_a_damaged_last_commit_is_replaced_by_the_one_before_it(
    codec: int, caplog: pytest.LogCaptureFixture
) -> None:
    files = committed_store(offsets_topic_compression_codec=codec)
    position, size = batches(files)[5]
    flip(files, position + 25)
    with pytest.raises(StorageError, match="checksum") as refused:
        make_core(files.survivors(), **SETTINGS)
    assert (refused.value.path, refused.value.position) == (SEGMENT, position)

    core = make_core(files, **SETTINGS, recovery="keep-valid")
    assert CoreClient(core).committed("g") == {("t", 0): 4, ("t", 1): 4}
    assert CoreClient(core).committed("other") == {("t", 0): 77}
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said[0].startswith(f"damaged: {SEGMENT} at byte {position}: {size} bytes, ")
    assert said[1:] == [
        f"__consumer_offsets-0: a damaged batch at offset 10 or later held the offset of group g, t-{n}: "
        "the previous value is used"
        for n in (0, 1)
    ]
    log = offsets_log(core)
    assert log.log_end_offset == 15, "the values in force stand after all others"
    last = list(log.batches())[-1]
    assert [stored.parse_key(record.key or b"") for record in read_records(last.data)] == [
        stored.OffsetKey("g", "t", n) for n in (0, 1)
    ]
    core.close()
    for recovery in (
        "strict",
        "keep-valid",
    ):  # from then on the directory is whole, and nothing is appended again
        core = make_core(files, **SETTINGS, recovery=recovery)
        assert CoreClient(core).committed("g") == {("t", 0): 4, ("t", 1): 4}
        assert offsets_log(core).log_end_offset == 15
        core.close()


def test_a_damaged_commit_that_was_overtaken_changes_nothing() -> None:
    files = committed_store()
    position, _ = batches(files)[3]
    flip(files, position + 25)
    core = make_core(files, **SETTINGS, recovery="keep-valid")
    assert CoreClient(core).committed("g") == {("t", 0): 5, ("t", 1): 5}
    assert offsets_log(core).log_end_offset == 13


def test_a_deletion_that_was_damaged_leaves_the_offset_in_force() -> None:
    files = FaultyFiles()
    core = make_core(files, **SETTINGS)
    topic_admin.create_topic(core.broker, "t", 3, {})
    client = CoreClient(core)
    client.commit("g", {("t", 0): 5, ("t", 1): 6})
    request = messages.OffsetDeleteRequest
    client.call(request("g", [request.Topic("t", [request.Partition(0)])]), 0)
    client.commit("other", {("t", 0): 1})
    core.close()
    position, _ = batches(files)[1]
    flip(files, position + 25)
    core = make_core(files, **SETTINGS, recovery="keep-valid")
    assert CoreClient(core).committed("g") == {("t", 0): 5, ("t", 1): 6}
    assert in_log(offsets_log(core))[stored.offset_key("g", "t", 0)] is not None
    assert offsets_log(core).log_end_offset == 5


def test_values_are_appended_again_although_the_first_start_dies_before_it_can() -> None:
    files = committed_store()
    position, _ = batches(files)[5]
    flip(files, position + 25)
    files.only = lambda operation, path: operation == "append" and path == SEGMENT
    files.calls.clear()
    files.fail_at = 1
    # The damage is out of the log, the append is refused.
    core = make_core(files, **SETTINGS, recovery="keep-valid")
    assert files.failed
    assert offsets_log(core).log_end_offset == 13
    core = make_core(files.survivors(), **SETTINGS)
    assert offsets_log(core).log_end_offset == 15


@pytest.mark.slow
def test_whatever_bit_of_a_commit_is_flipped_no_other_value_appears() -> None:
    """Each flip is refused with its place, or with keep-valid the value is the last or the one before it."""
    store = committed_store()
    position, size = batches(store)[5]
    end = batches(store)[6][0]
    for byte in range(position, end):
        files = store.survivors()
        data = bytearray(files.read_all(SEGMENT))
        data[byte] ^= 1 << byte % 8
        write(files, SEGMENT, data)
        core = make_core(files, **SETTINGS, recovery="keep-valid")
        found = CoreClient(core).committed("g")
        assert found in ({("t", 0): 4, ("t", 1): 4}, {("t", 0): 5, ("t", 1): 5}), byte - position
        taken = offsets_log(core).damages
        assert found[("t", 0)] == 5 or [damage.position for damage in taken] == [position], byte - position
        assert CoreClient(core).committed("other") == {("t", 0): 77}
    assert size == end - position


def test_every_key_that_can_be_read_is_found_and_nothing_else_in_force_is_touched() -> None:
    store = committed_store()
    position, size = batches(store)[5]
    data = store.read_all(SEGMENT)[position : position + size]
    keys = {stored.offset_key("g", "t", n) for n in (0, 1)}
    assert readable_keys(data) == keys
    for byte in range(61, size):
        damaged = bytearray(data)
        damaged[byte] ^= 0x41
        found = readable_keys(bytes(damaged))
        assert found & keys, byte  # one record is hit, the other's key is still there


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (stored.offset_key("g" * 40, "topic", 7), True),
        (stored.offset_key("g" * 400, "t" * 249, 7), True),
        (stored.group_tombstone("group").key, True),
        (b"\x00\x03\x00\x05group", True),  # of a KIP-848 group
        (b"\x00\x05\x00\x05group\x00\x02id", True),  # of a member of one
        (b"\x00\x01\x00\x05group\x00\x01t\x00\x00", False),
        (b"\x00\x01\x00\x05gro\xffp\x00\x01t\x00\x00\x00\x00", False),
        (b"\x00\x02\x00\x09group", False),
    ],
)
def test_a_key_is_found_by_its_announced_size_and_its_form(key: bytes, expected: bool) -> None:
    data = b"\x55" * 20 + varint(len(key)) + key + b"\xaa" * 20
    assert (readable_keys(data) == {key}) == expected
    if not expected:
        assert readable_keys(data) == set()
