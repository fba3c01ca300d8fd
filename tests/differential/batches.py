"""Record batches as text, and back: `<0 time=1700000000000 epoch=0 producer_id=71 … : k=first k=second@1>`.

The first number is the base offset; a record is its key, its value and its milliseconds after `time`. Only batches that
the text can give again byte by byte are written so.
"""

import re
from collections.abc import Iterator

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.records import batch_headers, encode_batch, read_records

_PLAIN = re.compile(rb"[\w.-]+", re.ASCII)
_RECORD = re.compile(r"([^=]+)=([^@]+)(?:@(-?\d+))?")
NULL = "null"


def texts_of(data: bytes) -> Iterator[str | bytes]:
    """Yield each batch as text where it can be, else as bytes, and what is no batch as bytes."""
    end = 0
    try:
        for position, header in batch_headers(data):
            batch = data[position : position + header.size]
            fields = {
                "time": header.base_timestamp,
                "epoch": header.leader_epoch,
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "sequence": header.base_sequence,
            }
            shown = [f"{name}={value}" for name, value in fields.items() if value != -1]
            shown += ["transactional"] * header.is_transactional
            records = [
                f"{_plain(record.key)}={_plain(record.value)}"
                + (
                    f"@{record.timestamp - header.base_timestamp}"
                    if record.timestamp != header.base_timestamp
                    else ""
                )
                for record in read_records(batch)
            ]
            text = f"<{' '.join([str(header.base_offset), *shown, ':', *records])}>"
            yield text if data_of(text) == batch else batch
            end = position + header.size
    except (ProtocolError, ValueError):
        pass  # the rest is no batch, or none that text can give again
    if end < len(data):
        yield data[end:]


def _plain(data: bytes | None) -> str:
    if data is None:
        return NULL
    if not _PLAIN.fullmatch(data) or data == NULL.encode():
        raise ValueError("not plain")
    return data.decode()


def data_of(text: str) -> bytes:
    """Return the batch of a text."""
    front, _, back = text.strip("<>").partition(" :")
    offset, *shown = front.split()
    fields = dict(each.partition("=")[::2] for each in shown)
    time = int(fields.get("time", -1))
    records = []
    for each in back.split():
        key, value, after = _RECORD.fullmatch(each).groups("0")  # type: ignore[union-attr]
        key_and_value = [None if part == NULL else part.encode() for part in (key, value)]
        records.append((*key_and_value, (), time + int(after)))
    return bytes(
        encode_batch(
            records,  # type: ignore[arg-type]
            base_offset=int(offset),
            leader_epoch=int(fields.get("epoch", -1)),
            producer_id=int(fields.get("producer_id", -1)),
            producer_epoch=int(fields.get("producer_epoch", -1)),
            base_sequence=int(fields.get("sequence", -1)),
            transactional="transactional" in fields,
        )
    )
