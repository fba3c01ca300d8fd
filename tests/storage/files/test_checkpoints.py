import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files import checkpoints
from kafka_offsets.storage.files.checkpoints import EpochEntry

TOPIC_ID = bytes(range(16))


def test_offsets_are_read_as_kafka_writes_them() -> None:
    assert checkpoints.decode_offsets(b"0\n2\norders 1 20\n__consumer_offsets 0 7\n", "f") == {
        ("orders", 1): 20,
        ("__consumer_offsets", 0): 7,
    }
    assert checkpoints.decode_offsets(b"0\n0\n", "f") == {}
    assert checkpoints.decode_offsets(b"", "f") == {}


def test_what_is_written_is_read_and_looks_like_a_checkpoint_to_kafka() -> None:
    offsets = {("b", 0): 2**62, ("a", 10): 0, ("a", 2): 5}
    data = checkpoints.encode_offsets(offsets)
    assert data.startswith(b"0\n4\na 2 5\na 10 0\nb 0 4611686018427387904\n__crc32c 0 ")
    assert checkpoints.decode_offsets(data, "f") == offsets


@pytest.mark.parametrize(
    ("data", "position", "message"),
    [
        (b"1\n0\n", 0, "version '1'"),
        (b"0\n", 2, "a number expected"),
        (b"0\nx\n", 2, "a number expected"),
        (b"0\n2\na 0 1\n", 2, "2 entries announced, 1 found"),
        (b"0\n1\na 0 1", 9, "the last line does not end"),
        (b"0\n1\na 0\n", 4, "3 fields expected"),
        (b"0\n2\na 0 1\na 0 q\n", 10, "a number expected, not 'q'"),
        (b"0\n2\na 0 1\na 0 2\n", 10, "a second time"),
        (b"0\n1\na 0 01\n", 4, "a number expected, not '01'"),
        (b"0\n1\n\xe4 0 1\n", 4, "no ASCII"),
        (b"0\n2\na 0 1\n__crc32c 0 1\n", 10, "do not have this checksum"),
    ],
)
def test_a_damaged_offset_checkpoint_is_refused_with_its_position(
    data: bytes, position: int, message: str
) -> None:
    with pytest.raises(StorageError, match=message) as caught:
        checkpoints.decode_offsets(data, "some-checkpoint")
    assert (caught.value.path, caught.value.position) == ("some-checkpoint", position)


def test_a_flipped_bit_in_an_offset_checkpoint_is_always_noticed_or_harmless() -> None:
    offsets = {("orders", 0): 17, ("orders", 1): 42}
    data = checkpoints.encode_offsets(offsets)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found = checkpoints.decode_offsets(bytes(damaged), "f")
        except StorageError:
            continue
        else:  # the name of the checksum's topic
            assert offsets.items() <= found.items()


def test_epochs_are_read_as_kafka_writes_them() -> None:
    assert checkpoints.decode_epochs(b"0\n2\n0 0\n2 483\n", "f") == [EpochEntry(0, 0), EpochEntry(2, 483)]
    assert checkpoints.encode_epochs([EpochEntry(0, 0), EpochEntry(2, 483)]) == b"0\n2\n0 0\n2 483\n"
    with pytest.raises(StorageError, match="epoch 1 does not follow 2"):
        checkpoints.decode_epochs(b"0\n2\n2 0\n1 5\n", "f")


def test_a_topic_id_is_written_as_kafka_writes_it() -> None:
    data = checkpoints.encode_partition_metadata(TOPIC_ID)
    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoints.decode_partition_metadata(data, "f") == TOPIC_ID
    assert checkpoints.decode_partition_metadata(data + b"\n", "f") == TOPIC_ID


@pytest.mark.parametrize(
    "data", [b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\ntopic_id: x"]
)
def test_damaged_partition_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(StorageError, match="topic_id"):
        checkpoints.decode_partition_metadata(data, "f")


def test_a_uuid_whose_unused_bits_are_set_is_refused() -> None:
    with pytest.raises(StorageError, match="uuid"):
        checkpoints.decode_partition_metadata(b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODx", "f")


def test_properties_are_read_past_comments_and_come_back_with_a_checksum() -> None:
    assert checkpoints.decode_properties(b"#\n#Sat\n\nnode.id=1\nversion = 1\n", "f") == {
        "node.id": "1",
        "version": "1",
    }
    data = checkpoints.encode_properties({"version": "1", "node.id": "1"})
    assert checkpoints.decode_properties(data, "f") == {"version": "1", "node.id": "1"}
    with pytest.raises(StorageError, match="f at byte 20: the lines before"):
        checkpoints.decode_properties(data.replace(b"=1", b"=2", 1), "f")
    with pytest.raises(StorageError, match="f at byte 0: 'key=value' expected"):
        checkpoints.decode_properties(b"garbage", "f")
