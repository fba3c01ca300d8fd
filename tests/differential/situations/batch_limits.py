"""Limits of a batch that a topic sets: its size, the size of a segment, timestamps."""

from kafka_offsets.protocol.compression import Compression
from tests.differential.play import Play
from tests.differential.situations.produced import VERSIONS, configured, in_turn, made
from tests.differential.situations.records import fetch, offsets_at, produce
from tests.differential.table import situation


@situation("MESSAGE_TOO_LARGE: batches beyond max.message.bytes", VERSIONS)
def too_large(w: Play, version: int) -> None:
    a, name = w.client("a"), configured(w, max_message_bytes="100")
    in_turn(a, name, version, made("x" * 10), made("x" * 30), made("x" * 31), made("x" * 32), made("x" * 200))
    in_turn(a, name, version, made("x" * 200, compression=Compression.GZIP))
    fetch(a, name, (0, 0))


@situation("Produce of timestamps in the far future, within the bounds of the topic", VERSIONS)
def out_of_range(w: Play, version: int) -> None:
    a = w.client("a")
    name = configured(w, message_timestamp_before_max_ms="0", message_timestamp_after_max_ms="9000000000000")
    answer = produce(a, name, made("x", "y", first_ms=4_000_000_000_000), version)
    assert answer is not None
    fetch(a, name, (0, 0))
    offsets_at(a, name, (0, 4_000_000_000_000), (0, -3))


@situation("INVALID_TIMESTAMP: Produce of timestamps that the topic does not allow", (3, 7))
def refused_times(w: Play, version: int) -> None:
    a, name = w.client("a"), configured(w, message_timestamp_before_max_ms="1000")
    in_turn(a, name, version, *(made("x", first_ms=ms) for ms in (1_600_000_000_000, 4_000_000_000_000, -1)))
    fetch(a, name, (0, 0))


@situation("RECORD_LIST_TOO_LARGE: Produce of a batch larger than segment.bytes", VERSIONS)
def larger_than_a_segment(w: Play, version: int) -> None:
    a, name = w.client("a"), configured(w, segment_bytes="1048576", max_message_bytes="2097152")
    produce(a, name, made(" " * 1_048_576), version)
    produce(a, name, made("x"), version)
    fetch(a, name, (0, 0))
