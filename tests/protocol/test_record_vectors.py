"""Record batches of every format that Kafka's own classes wrote: what they say, and the same bytes written again.

tests/data/record_batches.jsonl.gz has a case a line: the bytes, and what Kafka reads from them.
"""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import message_set, records
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import BatchHeader, Record
from tests.cases import each_case

with gzip.open(
    Path(__file__).parent.parent / "data" / "record_batches.jsonl.gz", "rt", encoding="utf-8"
) as file:
    CASES = {case["name"]: case for case in map(json.loads, file)}

EACH_CASE = each_case("case", CASES.values(), ids=CASES.keys())


def buffer_of(case: dict[str, Any]) -> bytes:
    return bytes.fromhex(case["hex"])


def batches_of(case: dict[str, Any]) -> list[tuple[int, int, int, dict[str, Any]]]:
    """Position, size and magic of each batch as we find them, with what Kafka says of it."""
    spans = records.batch_spans(buffer_of(case))
    return [(*span, expected) for span, expected in zip(spans, case["batches"], strict=True)]


def is_plain(header: BatchHeader) -> bool:
    """Whether Kafka's bytes are the only way to write the batch: no codec, and records with their own timestamps."""
    return header.compression is Compression.NONE and not header.is_log_append_time


def is_valid(buffer: bytes, position: int, magic: int) -> bool:
    try:
        if magic == 2:
            records.verify_crc(buffer, position, records.read_batch_header(buffer, position))
        else:
            header = message_set.read_message_header(buffer, position)
            message_set.verify_message_crc(buffer, position, header)
    except ProtocolError:
        return False
    return True


def content(value: bytes | None) -> Any:
    """A key or a value as the cases print it."""
    if value is None or len(value) <= 4096:
        return None if value is None else value.hex()
    return {"length": len(value), "sha256": hashlib.sha256(value).hexdigest()}


def printed(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": content(record.key),
        "value": content(record.value),
        "headers": [{"key": header.key, "value": content(header.value)} for header in record.headers],
    }


@EACH_CASE
def test_the_batches_of_a_buffer_are_found_whatever_their_format(case: dict[str, Any]) -> None:
    for position, size, magic, expected in batches_of(case):
        assert (size, magic) == (expected["sizeInBytes"], expected["magic"])
        assert is_valid(buffer_of(case), position, magic) is expected["isValid"]


@EACH_CASE
def test_the_header_says_what_kafka_says(case: dict[str, Any]) -> None:
    buffer = buffer_of(case)
    for position, _, magic, expected in batches_of(case):
        if magic != 2:
            continue
        header = records.read_batch_header(buffer, position)
        assert {
            "magic": header.magic,
            "compression": header.compression.name.lower(),
            "sizeInBytes": header.size,
            "checksum": header.crc,
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "timestampType": "LogAppendTime" if header.is_log_append_time else "CreateTime",
            "maxTimestamp": header.max_timestamp,
            "partitionLeaderEpoch": header.leader_epoch,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "baseSequence": header.base_sequence,
            "isTransactional": header.is_transactional,
            "isControlBatch": header.is_control,
            "deleteHorizonMs": header.delete_horizon_ms,
            "baseTimestamp": header.base_timestamp,
            "count": header.record_count,
        }.items() <= expected.items()


@EACH_CASE
def test_the_header_of_a_message_says_what_kafka_says(case: dict[str, Any]) -> None:
    buffer = buffer_of(case)
    for position, _, magic, expected in batches_of(case):
        if magic == 2:
            continue
        header = message_set.read_message_header(buffer, position)
        assert header.crc == expected["checksum"]
        assert header.compression.name.lower() == expected["compression"]
        assert header.offset == expected["lastOffset"]
        assert header.is_log_append_time is (expected["timestampType"] == "LogAppendTime")
        assert header.timestamp == expected["maxTimestamp"]


@EACH_CASE
def test_the_records_are_those_that_kafka_reads(case: dict[str, Any]) -> None:
    buffer = buffer_of(case)
    for position, _, _, expected in batches_of(case):
        if not expected["isValid"]:
            continue
        of_kafka = [
            {name: record[name] for name in ("offset", "timestamp", "key", "value", "headers")}
            for record in expected["records"]
        ]
        assert [printed(record) for record in records.read_records(buffer, position)] == of_kafka
        assert [printed(record) for record in records.read_records(bytearray(buffer), position)] == of_kafka
        control_types = [record["controlType"] for record in expected["records"] if "controlType" in record]
        if expected["isControlBatch"]:
            read = records.read_records(buffer, position)
            assert [records.control_type(record).name for record in read] == control_types


@EACH_CASE
def test_an_uncompressed_batch_is_written_again_byte_for_byte(case: dict[str, Any]) -> None:
    buffer = buffer_of(case)
    for position, size, magic, expected in batches_of(case):
        if magic != 2 or not expected["isValid"]:
            continue
        header = records.read_batch_header(buffer, position)
        if is_plain(header):
            read = records.read_records(buffer, position, header)
            assert records.rewrite_batch(header, read) == buffer[position : position + size]


@EACH_CASE
def test_a_new_batch_of_the_same_records_is_the_producers(case: dict[str, Any]) -> None:
    buffer = buffer_of(case)
    for position, size, magic, expected in batches_of(case):
        if magic != 2 or not expected["isValid"] or not expected["count"]:
            continue
        header = records.read_batch_header(buffer, position)
        read = records.read_records(buffer, position, header)
        has_gaps = [record.offset for record in read] != list(
            range(header.base_offset, header.last_offset + 1)
        )
        if not is_plain(header) or has_gaps or header.delete_horizon_ms is not None:
            continue
        written = records.encode_batch(
            [(record.key, record.value, record.headers, record.timestamp) for record in read],
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            control=header.is_control,
        )
        assert written == buffer[position : position + size]


FILTERED = [name for name in CASES if name.startswith("filtered-v2") and name.endswith("-output")]


def kept_by(rule: dict[str, Any], record: Record) -> bool:
    assert rule["keep"] == "offset % 3 == 0 and offset < 26"
    return record.offset % 3 == 0 and record.offset < 26


@each_case("name", FILTERED)
def test_a_batch_is_thinned_out_as_kafkas_cleaner_does(name: str) -> None:
    rule = CASES[name]["filter"]
    assert rule["keepEmptyBatchIf"] == "producerId != -1"
    before = buffer_of(CASES[rule["input"]])
    after = b""
    for position, header in records.batch_headers(before):
        all_records = records.read_records(before, position, header)
        kept = [record for record in all_records if kept_by(rule, record)]
        if not kept and header.producer_id == -1:
            continue
        if len(kept) == len(all_records):
            after += before[position : position + header.size]
            continue
        has_tombstone = any(record.value is None for record in kept)
        horizon = rule["currentTimeMs"] + rule["deleteRetentionMs"] if has_tombstone else None
        after += records.rewrite_batch(header, kept, delete_horizon_ms=horizon)
    of_kafka = buffer_of(CASES[name])
    if "-none-" in name:
        assert after == of_kafka
        return
    for (ours_at, ours), (kafkas_at, kafkas) in zip(
        records.batch_headers(after), records.batch_headers(of_kafka), strict=True
    ):
        sizes = {"batch_length": 0, "crc": 0}  # what the codec's library makes of the same records
        assert ours._replace(**sizes) == kafkas._replace(**sizes)
        assert records.read_records(after, ours_at, ours) == records.read_records(of_kafka, kafkas_at, kafkas)


def test_the_cases_cover_all_formats_and_codecs() -> None:
    assert len(CASES) == 147
    seen = {(batch["magic"], batch["compression"]) for case in CASES.values() for batch in case["batches"]}
    codecs = {"none", "gzip", "snappy", "lz4"}
    assert seen == {(magic, codec) for magic in (0, 1, 2) for codec in codecs} | {(2, "zstd")}
