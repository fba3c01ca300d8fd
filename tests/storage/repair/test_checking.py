"""`check` finds what opening refuses and what it cuts, tells where, and changes nothing."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.security.credential import ScramCredential
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles, ReadOnlyFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.repair.check import Checker, Finding, Severity
from tests.cases import each_case
from tests.conftest import DATA
from tests.storage.batches import batch, content, fill, write
from tests.storage.directory.test_client_settings import READS, TOKEN
from tests.storage.log.test_recovery import TWO, places_of_bits, small_store, store_content
from tests.storage.stores import everything

ONE = "one-0/00000000000000000000.log"


def findings(files: Files, *kinds: Severity) -> list[Finding]:
    return [found for found in Checker(files, {}).check_directory() if not kinds or found.kind in kinds]


def serious(files: Files) -> list[Finding]:
    return findings(files, Severity.DAMAGE, Severity.TORN)


@pytest.fixture
def store() -> MemoryFiles:
    files = MemoryFiles()
    small_store(files)
    return files


def flip(files: Files, path: str, position: int, mask: int = 1) -> None:
    data = bytearray(files.read_all(path))
    data[position] ^= mask
    write(files, path, data)


def test_a_whole_directory_has_no_findings_and_is_counted(store: MemoryFiles) -> None:
    before = everything(store)
    checker = Checker(store, {})
    assert list(checker.check_directory()) == []
    log_bytes = sum(len(data) for path, data in before.items() if path.endswith(".log"))
    assert checker.counts.as_dict() == {
        "partitions": 3,
        "segments": 5,
        "batches": 10,
        "records": 10,
        "bytes": log_bytes,
    }
    assert everything(store) == before


@each_case("scenario", sorted(path.name for path in (DATA / "logs").iterdir()))
def test_what_kafka_wrote_has_no_findings(scenario: str) -> None:
    checker = Checker(ReadOnlyFiles(DATA / "logs" / scenario), {})
    assert list(checker.check_directory()) == []
    assert checker.counts.records > 30


@pytest.mark.slow
def test_every_flipped_bit_that_stops_a_start_is_found_where_the_start_stops(rng: random.Random) -> None:
    """And one that `check` does not call damage is harmless: the same topics and records are read."""
    store = MemoryFiles()
    small_store(store)
    whole = everything(store)
    topics, records, _ = store_content(store)
    found, start = 0, 2 * len(whole[TWO]) // 3
    for path, data in whole.items():
        for position, bit in places_of_bits(data, rng):
            files = MemoryFiles()
            for other, content_ in whole.items():
                write(files, other, content_)
            flip(files, path, position, 1 << bit)
            damages = findings(files, Severity.DAMAGE)
            refusal = None
            try:
                assert store_content(files)[:2] == (topics, records)
            except StorageError as error:
                refusal = error
            if refusal is None:  # only deleted records may be damaged, which no reader needs
                assert all(
                    each[:2] == (Severity.DAMAGE, ONE) and (each.position or 0) < start for each in damages
                )
            else:
                assert refusal.path in {damage.path for damage in damages}, (path, position, bit, refusal)
                found += 1
    assert found > 500


def test_damage_is_reported_with_file_position_and_offsets(store: MemoryFiles) -> None:
    size = len(store.read_all(TWO)) // 3
    flip(store, TWO, size + 70)
    flip(store, ONE, size + 70)
    assert findings(store) == [
        (Severity.DAMAGE, ONE, size, f"{size} bytes, offset 1: the checksum of the batch is wrong"),
        (Severity.DAMAGE, TWO, size, f"{size} bytes, offset 1: the checksum of the batch is wrong"),
    ]


def test_a_torn_tail_is_distinguished_from_damage(store: MemoryFiles) -> None:
    data = store.read_all(TWO)
    write(store, TWO, data + data[: len(data) // 2])
    (found,) = serious(store)  # the stop was clean: nothing is torn
    assert (found.kind, found.path, found.position) == (Severity.DAMAGE, TWO, len(data))
    store.remove(".kafka_cleanshutdown")
    torn = serious(store)
    assert {(found.kind, found.path) for found in torn} == {(Severity.TORN, TWO)}
    assert torn[0].position == len(data)
    write(store, TWO, data[:-1])  # before the recovery point
    (damage,) = serious(store)
    assert damage[:3] == (Severity.DAMAGE, TWO, len(data) // 3 * 2)
    log = DataDirectory(store, keep_valid=True).open_log("two", 0, LogConfig())
    assert [damage.position for damage in log.damages] == [damage.position]


def test_a_log_that_ends_elsewhere_than_at_its_clean_stop_is_damaged(store: MemoryFiles) -> None:
    data = store.read_all(TWO)
    size = len(data) // 3
    write(store, TWO, data[: 2 * size])
    (found,) = serious(store)
    assert found == (Severity.DAMAGE, TWO, 2 * size, "the log ends at offset 2, 3 when it was closed")
    store.remove(TWO)
    assert (Severity.DAMAGE, "two-0", None, "the log ends at offset 0, 3 when it was closed") in serious(
        store
    )
    store.remove_tree("two-0")
    assert serious(store) == [
        (Severity.DAMAGE, "two-0", None, "the log is gone, and ended at offset 3 or later")
    ]


def test_small_files_that_do_not_parse_are_damaged(store: MemoryFiles) -> None:
    directory = DataDirectory(store)
    directory.clients.set_credentials({("alice", 1): ScramCredential(4096, b"salt", b"stored", b"server")})
    directory.clients.set_quotas({frozenset({("user", None)}): {"consumer_byte_rate": 1.0}})
    directory.clients.set_acls([READS])
    directory.clients.set_tokens({TOKEN.token_id: TOKEN})
    directory.clients.set_listener_stores({"k": "v"})
    directory.close()
    assert serious(store) == []
    for path in (
        "meta.properties",
        "topics",
        "recovery-point-offset-checkpoint",
        "one-0/partition.metadata",
        "scram-credentials",
        "client-quotas",
        "acls",
        "delegation-tokens",
        "listener-stores",
        "starts",
    ):
        files = MemoryFiles()
        for other, data in everything(store).items():
            write(files, other, data)
        flip(files, path, 12)
        assert (Severity.DAMAGE, path) in {(found.kind, found.path) for found in findings(files)}


def test_a_checkpoint_that_is_never_synced_is_worth_advice_alone(store: MemoryFiles) -> None:
    files = MemoryFiles()
    for path, data in everything(store).items():
        write(files, path, data)
    write(files, "cleaner-offset-checkpoint", b"0\n1\nt")
    assert {(found.kind, found.path) for found in findings(files)} == {
        (Severity.ADVICE, "cleaner-offset-checkpoint")
    }


def test_index_files_leftovers_and_epoch_checkpoints_are_worth_advice_alone(store: MemoryFiles) -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", LogConfig(index_interval_bytes=100))
    fill(log, 9)
    log.close()
    good = files.read_all("t-0/00000000000000000000.index")
    times = files.read_all("t-0/00000000000000000000.timeindex")
    assert len(good) >= 16 and len(times) >= 24

    def advice() -> list[tuple[str, int | None, str]]:
        found = list(Checker(files, {}).check_partition("t-0"))
        assert {each.kind for each in found} <= {Severity.ADVICE}
        return [each[1:] for each in found]

    assert advice() == []
    write(files, "t-0/00000000000000000000.index", good + bytes(4096))  # room that Kafka reserves
    write(files, "t-0/00000000000000000000.timeindex", times + bytes(4092))
    assert advice() == []
    write(files, "t-0/00000000000000000000.index", good[:7] + b"\xff" + good[8:])
    assert [each[:2] for each in advice()] == [("t-0/00000000000000000000.index", 0)]
    write(files, "t-0/00000000000000000000.index", good[:-3])
    assert [each[2] for each in advice()] == ["the file ends within an entry"]
    write(files, "t-0/00000000000000000000.index", good)
    write(files, "t-0/00000000000000000000.timeindex", b"\0" * 7 + b"\x01" + times[8:])
    assert advice() == [
        (
            "t-0/00000000000000000000.timeindex",
            0,
            f"timestamp 1, and {int.from_bytes(times[:8]) - 1} before offset {int.from_bytes(times[8:12])}",
        )
    ]
    write(files, "t-0/00000000000000000000.timeindex", times)
    write(files, "t-0/leader-epoch-checkpoint", b"0\n1\n7 0\n")
    assert [each[2] for each in advice()] == ["the batches have other leader epochs"]
    files.remove("t-0/leader-epoch-checkpoint")
    for name in (
        "x.log.cleaned",
        "x.index.swap",
        "topics.tmp",
        "1-2.damaged",
        "x.log.deleted",
        "segments-summary",
        "coordinator-snapshot",
    ):
        write(files, f"t-0/{name}", b"")
    assert len(advice()) == 7


def test_records_that_do_not_parse_after_a_valid_checksum_are_damaged() -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", LogConfig())
    log.append(batch([b"a", b"b"]))
    log.append(batch([b"c"], last_delta=3))
    wrong = batch([b"a", b"b"], last_delta=0)
    log.append(wrong)
    log.close()
    (found,) = Checker(files, {}).check_partition("t-0")
    assert (found.kind, found.position) == (
        Severity.DAMAGE,
        sum(len(each.data) for each in list(log_of(files))[:2]),
    )
    assert "offset 7 after 6 in the batch" in found.message


def log_of(files: Files) -> Iterator[object]:
    log = Log.open(files, "t-0", LogConfig())
    yield from log.batches()
    log.close()


def test_a_folder_alone_is_checked_as_well(store: MemoryFiles) -> None:
    assert list(Checker(store, {}).check_partition("one-0")) == []


def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    small_store(DiskFiles(tmp_path))
    (tmp_path / ONE).unlink()
    (tmp_path / ONE).mkdir()
    found = findings(ReadOnlyFiles(tmp_path))
    assert [(each.kind, each.path) for each in found] == [(Severity.DAMAGE, ONE)]
    assert content(Log.open(DiskFiles(tmp_path), "two-0", LogConfig()))


def test_read_only_files_refuse_every_change(tmp_path: Path) -> None:
    small_store(DiskFiles(tmp_path))
    files = ReadOnlyFiles(tmp_path)
    before = everything(files)
    file = files.open(TWO)
    for change in (
        lambda: files.open("new", create=True),
        lambda: files.make_directory("new"),
        lambda: files.remove(TWO),
        lambda: files.remove_tree("two-0"),
        lambda: files.rename(TWO, ONE),
        lambda: files.sync_directory(""),
        lambda: files.replace_atomically(TWO, b""),
        lambda: file.append(b"x"),
        lambda: file.truncate(0),
    ):
        with pytest.raises(StorageError, match="opened for reading only"):
            change()  # type: ignore[no-untyped-call]
    file.close()
    assert everything(files) == before
