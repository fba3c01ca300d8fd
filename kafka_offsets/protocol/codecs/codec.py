"""Message and version -> functions that decode and encode it, compiled on first use.

Their text comes from the schema alone (decoding.py and encoding.py write it); ``source(message, version)`` shows it.
Nested structs are inlined as loops: nothing recurses. A struct that occurs more than once in a message is a function of
its own. Tagged fields are rare, so those of a struct are a function of their own, compiled when they first occur.
"""

from collections.abc import Callable
from typing import Any

from kafka_offsets.protocol.codecs.codec_text import CodecWriter, variable_fields
from kafka_offsets.protocol.codecs.decoding import BriefDecoding, Decoding
from kafka_offsets.protocol.codecs.encoding import BriefEncoding, Encoding
from kafka_offsets.protocol.codecs.schema import Message

Decoder = Callable[[bytes, int], tuple[Any, int]]
Encoder = Callable[[Any, bytearray], None]


FLAT_FIELDS = {"decode": 10, "encode": 14}
"""A message of more fields without a fixed size is written with calls: half as fast, and compiled in half the time. All
that clients send often has fewer. Text that encodes is shorter."""


def _writer(kind: str, message: Message, version: int, classes: dict[str, type]) -> CodecWriter:
    if version not in message.versions:
        raise ValueError(f"{message.name} has no version {version}, only {message.versions}")
    brief = variable_fields(message, version) > FLAT_FIELDS[kind]
    if kind == "decode":
        return (BriefDecoding if brief else Decoding)(message, version, classes)
    return (BriefEncoding if brief else Encoding)(message, version, classes)


def source(message: Message, version: int, classes: dict[str, type], kind: str) -> str:
    """Return the Python text of the functions that decode or encode one version of a message."""
    pending = [_writer(kind, message, version, classes)]
    texts = []
    while pending:
        writer = pending.pop()
        texts.append(writer.text())
        pending += writer.sections
    return "\n\n".join(texts)


def compile_decoder(message: Message, version: int, classes: dict[str, type]) -> Decoder:
    """Make the function (buffer, position) -> (message, end) for one version.

    classes  value classes by name of their struct
    """
    decoder: Decoder = _writer("decode", message, version, classes).compile()
    return decoder


def compile_encoder(message: Message, version: int, classes: dict[str, type]) -> Encoder:
    """Make the function (message, out) that appends one version's bytes to `out`."""
    encoder: Encoder = _writer("encode", message, version, classes).compile()
    return encoder
