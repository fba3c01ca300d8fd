"""Offset layout: the value of a committed offset in the offsets topic, versions 0 to 4. It needs no numpy.

::

    version int16, then
    0, 2  offset int64 | metadata string | commit_timestamp int64
    1     offset int64 | metadata string | commit_timestamp int64 | expire_timestamp int64
    3     offset int64 | leader_epoch int32 | metadata string | commit_timestamp int64
    4     offset int64 | leader_epoch int32 | metadata compact string | commit_timestamp int64 | tagged fields:
          00, or 01 00 10 | topic_id 16 bytes

The schema of OffsetCommitValue describes the same for the codecs, which read every value. What is here serves those
who read or write many: one value by structs, the values of a log in columns, and runs of plain values at a start. A
*plain* value has version 4, no metadata, and a topic id: nearly all are plain.

Source: OffsetCommitValue.json of Kafka 4.3.
"""

import struct

VERSIONS = range(5)
WITH_EXPIRY, WITH_EPOCH, COMPACT = (1,), (3, 4), 4
"""Versions with an expire timestamp, with a leader epoch, and with compact metadata and tagged fields."""

VERSION_BYTES, OFFSET_BYTES, EPOCH_BYTES, TIMESTAMP_BYTES, TOPIC_ID_BYTES = 2, 8, 4, 8, 16
EPOCH_AT = VERSION_BYTES + OFFSET_BYTES
"""Where the leader epoch is; in versions without, the metadata's length."""

TOPIC_ID_TAG = b"\x01\x00\x10"
"""One tagged field, number 0, of 16 bytes."""

LONGEST_COMPACT = 127
"""The most that the single byte before compact metadata holds: its length + 1."""

LENGTH_AT = tuple(EPOCH_AT + EPOCH_BYTES * (version in WITH_EPOCH) for version in VERSIONS)
METADATA_AT = tuple(at + (1 if version == COMPACT else 2) for version, at in enumerate(LENGTH_AT))
"""Where the length of metadata is, and where metadata begins, by version; of compact metadata with a short length."""

TAGGED_TAIL_BYTES = TIMESTAMP_BYTES + len(TOPIC_ID_TAG) + TOPIC_ID_BYTES
BARE_TAIL_BYTES = TIMESTAMP_BYTES + 1
"""What follows the metadata in version 4, with and without a topic id."""

HEAD = struct.Struct(">hqiB")
TAIL = struct.Struct(">q3s16s")
BARE_TAIL = struct.Struct(">qB")
"""Before and after the metadata in version 4."""

EXPIRING_HEAD = struct.Struct(">hqh")
EXPIRING_TAIL = struct.Struct(">qq")
"""Before and after the metadata in version 1."""

PLAIN = struct.Struct(">hqiBq3s16s")


def read_plain(data: bytes | bytearray, position: int) -> tuple[int, int, int, bytes] | None:
    """Return offset, leader epoch, timestamp and topic id of a value of the size of a plain one; None of another."""
    version, offset, leader_epoch, length, timestamp, tag, topic_id = PLAIN.unpack_from(data, position)
    if version != COMPACT or length != 1 or tag != TOPIC_ID_TAG:
        return None
    return offset, leader_epoch, timestamp, topic_id
