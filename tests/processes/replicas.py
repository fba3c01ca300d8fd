"""Replicas on the disk: are the partitions of three data directories the same, when their brokers have stopped?"""

from pathlib import Path

from kafka_offsets.protocol.records import batch_spans, read_batch_header, read_records, verify_crc

OFFSETS_TOPIC = "__consumer_offsets"


def read_log(folder: Path) -> bytes:
    """Return the batches of a partition, in order; checksums are verified."""
    found = bytearray()
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        for position, size, _ in batch_spans(data):
            verify_crc(data, position, read_batch_header(data, position))
            found += data[position : position + size]
    return bytes(found)


def live_records(log: bytes) -> dict[bytes, bytes]:
    """Return the last value of each key; what a tombstone has removed is not there."""
    found: dict[bytes, bytes] = {}
    for position, _, _ in batch_spans(log):
        header = read_batch_header(log, position)
        if header.is_control:
            continue
        for record in read_records(log, position, header):
            assert record.key is not None
            if record.value is None:
                found.pop(record.key, None)
            else:
                found[record.key] = record.value
    return found


def end_offset(log: bytes) -> int:
    """Return the offset after the last batch."""
    last = max((position for position, _, _ in batch_spans(log)), default=-1)
    return 0 if last < 0 else read_batch_header(log, last).last_offset + 1


def compare(data_dirs: list[Path], topic: str) -> tuple[int, int]:
    """Fail unless all replicas of the topic are the same; return the partitions and batches compared.

    A compacted topic is compared by the state that it holds: brokers compact when they like.
    """
    names = {each.name for folder in data_dirs for each in folder.glob(f"{topic}-*") if each.is_dir()}
    batches = 0
    for name in sorted(names):
        logs = [read_log(folder / name) for folder in data_dirs]
        batches += sum(1 for _ in batch_spans(logs[0]))
        if topic == OFFSETS_TOPIC:
            states = [live_records(log) for log in logs]
            assert states[0] == states[1] == states[2], f"{name}: {_differences(states)}"
        else:
            ends = [end_offset(log) for log in logs]
            assert len(set(ends)) == 1, f"{name}: the replicas end at {ends}"
            assert logs[0] == logs[1] == logs[2], f"{name}: the replicas differ, and all end at {ends[0]}"
    return len(names), batches


def _differences(states: list[dict[bytes, bytes]]) -> list[tuple[bytes, list[bytes | None]]]:
    keys = {key for state in states for key in state}
    found = [(key, [state.get(key) for state in states]) for key in sorted(keys)]
    return [(key, values) for key, values in found if len(set(values)) > 1][:5]
