"""How much memory a frame can make the decoders take: a multiple of its own bytes, whatever it announces.

Three kinds of hostile frames, made for every array of every message:

lies    a count or length that promises more than the frame holds: refused at once, at most 8 times the frame
dense   nothing but the smallest elements that the format allows: accepted, at most 64 times the frame
cut     a dense frame without its last byte: refused, but only when all else has been read; as much as a dense one

Dense frames come with tagged fields in every element too, those that we know and those that we do not.
"""

import sys
import tracemalloc
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import pytest

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from tests.conftest import LONG
from tests.properties.every_message import NAMES, versions

REFUSED_TIMES = 8
ACCEPTED_TIMES = 64
FRAME_BYTES = 16 * 1024 if LONG else 1024
OVERHEAD_BYTES = 4096
"""What a frame of any size may take: the message itself, or the error with its text and its traceback."""

LIES = {
    "int32 2^31-1": b"\x7f\xff\xff\xff",
    "int32 -2": b"\xff\xff\xff\xfe",
    "int16 2^15-1": b"\x7f\xff",
    "varint 2^32-1": b"\xff\xff\xff\xff\x0f",
    "varint 2^28": b"\x80\x80\x80\x80\x01",
    "varint 2^35": b"\xff\xff\xff\xff\x7f",
}

KNOWN: Literal["known"] = "known"
Tags = dict[int, bytes] | Literal["known"] | None

UNKNOWN_TAGS: list[dict[int, bytes]] = [
    {99: b""},
    {99: b"a"},
    {99: b"ab"},
    {300: b""},
    {1 << 31: b""},
    {99: b"", 100: b""},
    dict.fromkeys(range(50, 90), b""),
]

COSTLIEST: dict[str, Any] = {
    "int8": -100,  # below -5 the interpreter makes an object of each
    "int16": -1000,
    "uint16": 1000,
    "int32": -1000,
    "uint32": 1000,
    "int64": -1000,
    "float64": 1.5,
    "bool": True,
    "uuid": b"\x01" * 16,
    "string": "\u0101",  # the first letters outside Latin-1 take 76 bytes each
    "bytes": b"ab",
    "records": b"ab",
}
"""The value of each scalar that takes the most memory for its bytes."""


MEASUREMENTS = 3
"""So often a frame is decoded that seems to take too much. The smallest measurement counts, as what other
threads allocate without the interpreter's lock only adds to it."""

ALONE_S = 60.0
"""So long no other thread that runs Python has its turn."""


class Decoded(NamedTuple):
    """What became of a frame, the most memory that was taken meanwhile, and how much it may take."""

    is_accepted: bool
    peak: int
    allowed: int


def decode(cls: Any, version: int, frame: bytes, refused_times: int = ACCEPTED_TIMES) -> Decoded:
    """Decode a frame. Say what it takes, and what it may take: a multiple of its bytes, another if it is refused."""
    # First without tracing, so that no decoder is compiled while memory is traced.
    is_accepted = is_understood(cls, version, frame)
    times = ACCEPTED_TIMES if is_accepted else refused_times
    allowed = times * len(frame) + OVERHEAD_BYTES
    peak = traced_peak(cls, version, frame)
    for _ in range(MEASUREMENTS - 1):
        if peak > allowed:
            peak = min(peak, traced_peak(cls, version, frame))
    return Decoded(is_accepted, peak, allowed)


def traced_peak(cls: Any, version: int, frame: bytes) -> int:
    """Decode a frame while no other thread has its turn; return the most memory that was taken."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(ALONE_S)
    try:
        tracemalloc.start()
        is_understood(cls, version, frame)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        sys.setswitchinterval(interval)


def is_understood(cls: Any, version: int, frame: bytes) -> bool:
    try:
        messages.decode(cls, frame, version)
    except ProtocolError:
        return False
    return True


def arrays(struct: Struct, version: int, around: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    """Every array field of a message, with the fields on the way to it."""
    for field in struct.fields:
        if version in field.versions:
            if field.array:
                yield (*around, field)
            if field.struct is not None:
                yield from arrays(field.struct, version, (*around, field))


def smallest(cls: Any, struct: Struct, version: int) -> Any:
    """The value of a struct that takes the fewest bytes."""
    value = cls.CLASSES[struct.name]()
    for field in struct.fields:
        if version not in field.versions or field.tag is not None:
            continue
        if version in field.nullable:
            setattr(value, field.name, None)
        elif field.type == "struct" and not field.array:
            setattr(value, field.name, smallest(cls, field.struct, version))
        elif not field.array and field.type in ("string", "bytes", "records"):
            setattr(value, field.name, "" if field.type == "string" else b"")
    return value


def tagged(cls: Any, struct: Struct, version: int) -> Any:
    """The smallest value of a struct with all its tagged fields."""
    value = smallest(cls, struct, version)
    for field in struct.fields:
        if version not in field.versions or field.tag is None:
            continue
        if field.struct is None:
            made = COSTLIEST[field.type]
        else:
            made = smallest(cls, field.struct, version)
            for inner in field.struct.fields:  # one other than the default is enough for all to be written
                if (
                    inner.struct is None
                    and not inner.array
                    and inner.type != "bool"
                    and version in inner.versions
                ):
                    setattr(made, inner.name, COSTLIEST[inner.type])
        setattr(value, field.name, [made] if field.array else made)
    return value


def with_array(
    cls: Any, struct: Struct, version: int, path: tuple[Field, ...], count: int, tags: Tags
) -> Any:
    """A value with `count` of the smallest elements in the array at the end of `path`, else the smallest.

    tags  unknown ones of each element, or KNOWN for those that the schema knows
    """
    value = smallest(cls, struct, version)
    field, *rest = path
    if rest:
        assert field.struct is not None
        inner = with_array(cls, field.struct, version, tuple(rest), count, tags)
        setattr(value, field.name, [inner] if field.array else inner)
    elif field.struct is None:
        setattr(value, field.name, [COSTLIEST[field.type]] * count)
    else:
        if tags == KNOWN:
            element = tagged(cls, field.struct, version)
        else:
            element = smallest(cls, field.struct, version)
            element.unknown_tags = tags
        setattr(value, field.name, [element] * count)
    return value


def dense_frame(cls: Any, version: int, path: tuple[Field, ...], tags: Tags) -> bytes:
    def encoded(count: int) -> bytes:
        return messages.encode(with_array(cls, cls.SCHEMA.struct, version, path, count, tags), version)

    element_bytes = (len(encoded(30)) - len(encoded(20))) // 10
    return encoded(FRAME_BYTES // element_bytes)


def looked_at(name: str) -> list[int]:
    """All versions in the long form, else the last: flexible wherever there is one, so with the smallest elements."""
    return list(versions(name)) if LONG else [versions(name)[-1]]


def patterns(cls: Any, field: Field, version: int) -> list[Tags]:
    """The tagged fields to try in every element of an array."""
    if version not in cls.SCHEMA.flexible or field.struct is None:
        return [None]
    known: list[Tags] = [KNOWN] if any(inner.tag is not None for inner in field.struct.fields) else []
    return [None, *known, *UNKNOWN_TAGS]


@pytest.mark.parametrize("name", NAMES)
def test_a_frame_takes_a_bounded_multiple_of_its_bytes(name: str) -> None:
    cls = messages.find(name)
    for version in looked_at(name):
        for path in arrays(cls.SCHEMA.struct, version):
            where = f"{name} v{version} {'.'.join(field.name for field in path)}"
            for tags in patterns(cls, path[-1], version):
                frame = dense_frame(cls, version, path, tags)
                dense = decode(cls, version, frame)
                assert dense.is_accepted, where
                assert dense.peak <= dense.allowed, (where, tags, dense.peak / len(frame))
                cut = decode(cls, version, frame[:-1])
                assert not cut.is_accepted, where
                assert cut.peak <= cut.allowed, (where, tags, cut.peak / len(frame))


@pytest.mark.parametrize("name", NAMES)
def test_an_announced_number_allocates_nothing(name: str) -> None:
    cls = messages.find(name)
    struct = cls.SCHEMA.struct
    for version in looked_at(name):
        frames = {messages.encode(cls(), version)}
        for path in arrays(struct, version):
            frames.add(messages.encode(with_array(cls, struct, version, path, 1, None), version))
        for frame in frames:
            for place in range(len(frame) + 1):
                for lie, announced in list(LIES.items())[0 if LONG else place % 2 :: 1 if LONG else 2]:
                    check_lie(f"{name} v{version}: {lie} at {place}", cls, version, frame[:place] + announced)


def check_lie(where: str, cls: Any, version: int, start: bytes) -> None:
    # 0xff, a null wherever one may stand, so that what follows the lie is read as little as possible
    frame = start + b"\xff" * 1024
    decoded = decode(cls, version, frame, REFUSED_TIMES)
    assert decoded.peak <= decoded.allowed, (where, decoded)


def test_hundreds_of_unknown_tagged_fields_take_a_bounded_multiple_of_their_bytes() -> None:
    for name in NAMES:
        cls = messages.find(name)
        version = versions(name)[-1]
        if version in cls.SCHEMA.flexible:
            frame = messages.encode(cls(unknown_tags=dict.fromkeys(range(200, 600), b"")), version)
            decoded = decode(cls, version, frame)
            assert decoded.is_accepted, name
            assert decoded.peak <= decoded.allowed, (
                name,
                decoded.peak / len(frame),
            )
