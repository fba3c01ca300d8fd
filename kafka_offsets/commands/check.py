"""`kafka-offsets check`: verifies a data directory, or the folder of one partition, without changing it.

It combines the file checks of the storage with the record checks of the coordinator.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from kafka_offsets.broker.partition.producers import Producers
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.commands.options.directories import existing_directory, is_partition_folder, segment_bytes
from kafka_offsets.commands.output.progress import progress
from kafka_offsets.coordinator.state import consumer_records, stored
from kafka_offsets.coordinator.state.consumer_records import ConsumerKey
from kafka_offsets.coordinator.transactions import records as transaction_records
from kafka_offsets.errors import ProtocolError, StorageError, UnreadableError
from kafka_offsets.protocol.records import Record
from kafka_offsets.storage.directory.data_directory import (
    LOCK,
    META_PROPERTIES,
)
from kafka_offsets.storage.files.files import ReadOnlyFiles
from kafka_offsets.storage.repair.check import Checker, Finding, Severity

_IS_DAMAGE = (Severity.DAMAGE, Severity.TORN)


def check_offsets_record(record: Record) -> None:
    """Raise ProtocolError unless a record of the offsets topic parses; an unknown type is accepted."""
    if record.key is None:
        raise ProtocolError("it has no key")
    key = stored.parse_key(record.key)
    if record.value is None:
        return
    if isinstance(key, stored.OffsetKey):
        stored.parse_offset_value(record.value, record.offset)
    elif isinstance(key, stored.GroupKey):
        stored.parse_group_value(record.value)
    elif isinstance(key, ConsumerKey):
        consumer_records.parse_value(key.type, record.value)


def check_transaction_record(record: Record) -> None:
    """Raise ProtocolError unless a record of the transactions topic parses; an unknown version is accepted."""
    if record.key is None:
        raise ProtocolError("it has no key")
    transaction_records.parse_key(record.key)
    if record.value is not None:
        transaction_records.parse_value(record.value)


def check(directory: Path, *, as_json: bool) -> Iterator[tuple[str, bool]]:
    """Check a directory; yield a line for each finding and a summary, each with whether it reports damage.

    as_json  one object per line
    Raises StorageError if it cannot be read or a broker uses it.
    """
    directory = existing_directory(directory)
    is_folder = is_partition_folder(directory)
    files = ReadOnlyFiles(directory.parent if is_folder else directory)
    lock = files.lock(LOCK)
    try:
        records = {OFFSETS_TOPIC: check_offsets_record, TRANSACTIONS_TOPIC: check_transaction_record}
        checker = Checker(files, records, Producers.loads)
        findings = checker.check_partition(directory.name) if is_folder else checker.check_directory()
        finding_counts = dict.fromkeys(Severity, 0)
        with progress("checking", segment_bytes(directory), lambda: checker.counts.bytes):
            for finding in findings:
                finding_counts[finding.kind] += 1
                yield _line(finding, as_json=as_json), finding.kind in _IS_DAMAGE
        if not is_folder and not checker.counts.segments and not files.exists(META_PROPERTIES):
            raise StorageError("no partition of a topic is in it", str(directory))
        yield _summary(checker, finding_counts, as_json=as_json), False
    except UnreadableError as error:
        path = os.path.normpath(os.path.join(files.root, error.path or ""))
        raise StorageError("this user may not read it", path) from error
    finally:
        lock.release()


def _line(finding: Finding, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(finding._asdict())
    where = finding.path if finding.position is None else f"{finding.path} at byte {finding.position}"
    return f"{where}: {finding.kind.value}: {finding.message}"


def _summary(checker: Checker, finding_counts: dict[Severity, int], *, as_json: bool) -> str:
    counts = checker.counts.as_dict()
    if not finding_counts[Severity.NOT_SERVED]:  # most directories have nothing such
        del finding_counts[Severity.NOT_SERVED]
    if as_json:
        return json.dumps(counts | {kind.value: number for kind, number in finding_counts.items()})
    read = ", ".join(f"{number} {name}" for name, number in counts.items())
    return f"{read}; " + ", ".join(f"{kind.value}: {number}" for kind, number in finding_counts.items())
