"""Group metadata: a partial decoder for the fields of its columns, in a tenth of the compiled codec's time.

A log holds one such record for each rebalance of a classic group, each with all members. Full decoding would cost more
than all the offsets between them. The codec decodes every value that does not have the layout of versions 0 to 3.

::

    value  version int16 | protocol_type string | generation int32 | protocol string? | leader string?
           | current_state_timestamp int64 (2+) | members [int32]
    member member_id string | group_instance_id string? (3+) | client_id string | client_host string
           | rebalance_timeout int32 (1+) | session_timeout int32 | subscription bytes | assignment bytes

Source: GroupMetadataValue.json of Kafka 4.3.
"""

import struct
from typing import NamedTuple

_VERSION = struct.Struct(">h")
_LENGTH16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Glance(NamedTuple):
    """The fields of a classic group for its columns."""

    protocol_type: str
    generation: int
    members: int


def glance(value: bytes) -> Glance | None:
    """Return the fields of a value, None if the codec must decode it."""
    try:
        return _read(value)
    except (struct.error, UnicodeDecodeError):
        return None


def _read(value: bytes) -> Glance | None:
    (version,) = _VERSION.unpack_from(value)
    if not 0 <= version <= 3:
        return None
    (length,) = _LENGTH16.unpack_from(value, 2)
    at = 4 + length
    protocol_type = value[4:at].decode()
    (generation,) = _INT32.unpack_from(value, at)
    if length < 0:
        return None
    at = _skip_text(value, _skip_text(value, at + 4, nullable=True), nullable=True)
    if version >= 2:
        at += 8
    (members,) = _INT32.unpack_from(value, at)
    at += 4
    for _ in range(members):
        at = _skip_text(value, at)
        if version >= 3:
            at = _skip_text(value, at, nullable=True)
        at = _skip_text(value, _skip_text(value, at)) + (8 if version >= 1 else 4)
        at = _skip_bytes(value, _skip_bytes(value, at))
    # The codec handles fewer or more bytes.
    return Glance(protocol_type, generation, members) if at == len(value) and members >= 0 else None


def _skip_text(value: bytes, at: int, *, nullable: bool = False) -> int:
    length: int = _LENGTH16.unpack_from(value, at)[0]
    if length < 0:
        if length == -1 and nullable:
            return at + 2
        raise struct.error("no string begins here")
    end = at + 2 + length
    value[at + 2 : end].decode()
    return end


def _skip_bytes(value: bytes, at: int) -> int:
    length: int = _INT32.unpack_from(value, at)[0]
    if length < 0:
        raise struct.error("no bytes begin here")
    return at + 4 + length
