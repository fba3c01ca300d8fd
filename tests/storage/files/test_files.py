import errno
import os
import subprocess
import sys
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files import files, system
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles, join, parent


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """All files of this module are on a disk."""
    return disk_path


def test_appended_bytes_are_read_at_any_position_and_reading_stops_at_the_end(files: Files) -> None:
    file = files.open("a", create=True)
    file.append(b"0123")
    file.append(memoryview(b"456"))
    file.append(bytearray(b"789"))
    assert file.size == 10
    assert file.read(0, 10) == b"0123456789"
    assert file.read(3, 4) == b"3456"
    assert file.read(8, 5) == b"89"
    assert file.read(10, 1) == b""
    file.close()


def test_a_truncated_file_continues_where_it_was_cut(files: Files) -> None:
    file = files.open("a", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    file.append(b"x")
    file.sync()
    assert file.size == 5
    assert files.read_all("a") == b"0123x"
    file.close()
    file.close()
    again = files.open("a")
    assert again.size == 5
    again.close()


def test_a_refused_cut_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = DiskFiles(tmp_path).open("a", create=True)
    file.append(b"0123")
    with pytest.raises(StorageError, match="a: cannot truncate to -1 bytes: Invalid argument"):
        file.truncate(-1)
    assert file.size == 4 and file.read(0, 4) == b"0123"
    file.close()


def test_names_are_listed_in_order_and_gone_after_removal(files: Files) -> None:
    files.make_directory("d/e")
    files.make_directory("d/e")
    for name in ("b", "a", "c"):
        files.open(f"d/{name}", create=True).close()
    assert files.list_directory("d") == ["a", "b", "c", "e"]
    files.remove("d/b")
    assert not files.exists("d/b")
    assert files.exists("d/a") and not files.is_directory("d/a")
    assert files.is_directory("d/e") and files.is_directory("")
    files.remove_tree("d")
    assert files.list_directory("") == []


def test_a_rename_replaces_a_file_and_takes_a_directory_with_all_it_holds(files: Files) -> None:
    files.make_directory("d/e")
    for path, data in (("d/a", b"1"), ("d/e/b", b"2"), ("d/c", b"3")):
        file = files.open(path, create=True)
        file.append(data)
        file.close()
    files.rename("d/a", "d/c")
    files.rename("d", "other")
    assert files.list_directory("") == ["other"]
    assert files.list_directory("other") == ["c", "e"]
    assert files.read_all("other/c") == b"1"
    assert files.read_all("other/e/b") == b"2"
    files.sync_directory("other")


def test_replacing_a_file_leaves_no_temporary_one(files: Files) -> None:
    files.replace_atomically("a", b"long content")
    stale = files.open("a.tmp", create=True)
    stale.append(b"left by a crash, longer than what comes")
    stale.close()
    files.replace_atomically("a", b"short", sync=False)
    assert files.read_all("a") == b"short"
    assert files.list_directory("") == ["a"]


def test_a_failed_replacement_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DiskFiles(tmp_path)
    files.replace_atomically("a", b"old")

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError, match=r"a\.tmp: cannot sync: no"):
        files.replace_atomically("a", b"new")
    assert files.list_directory("") == ["a"]
    assert files.read_all("a") == b"old"


@pytest.mark.parametrize(
    "action",
    [
        lambda files: files.open("missing/file"),
        lambda files: files.open("missing/file", create=True),
        lambda files: files.list_directory("missing/file"),
        lambda files: files.remove("missing/file"),
        lambda files: files.remove_tree("missing/file"),
        lambda files: files.rename("missing/file", "x"),
        lambda files: files.read_all("missing/file"),
        lambda files: files.sync_directory("missing/file"),
    ],
)
def test_a_refusal_names_the_path(files: Files, action: object) -> None:
    with pytest.raises(StorageError, match="missing") as caught:
        action(files)  # type: ignore[operator]
    assert caught.value.path in ("missing/file", "missing")


def test_a_root_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=f"^{tmp_path}/file is a file, not a directory"):
        DiskFiles(tmp_path / "file").make_directory("")


def test_a_short_write_continues_with_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = files.pwrite
    monkeypatch.setattr(files, "pwrite", lambda fd, data, position: whole(fd, data[:3], position))
    file = DiskFiles(tmp_path).open("a", create=True)
    file.append(b"0123456789")
    assert file.size == 10
    assert file.read(0, 10) == b"0123456789"
    file.close()


def test_a_write_that_stops_half_way_is_an_error_and_the_size_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = files.pwrite

    def full(fd: int, data: bytes, position: int) -> int:
        if position >= 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(fd, data[:4], position)

    file = DiskFiles(tmp_path).open("a", create=True)
    monkeypatch.setattr(files, "pwrite", full)
    with pytest.raises(StorageError, match="a: cannot append: No space left on device"):
        file.append(b"0123456789")
    assert file.size == 0
    assert os.path.getsize(tmp_path / "a") == 4
    file.truncate(0)
    file.close()


class Watched:
    """The module `os`, whose calls at a position of a file are those of one thread at a time."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _call(self, name: str, descriptor: int, *arguments: Any) -> Any:
        assert system._positions[descriptor % len(system._positions)].locked(), name
        return getattr(os, name)(descriptor, *arguments)

    lseek = partialmethod(_call, "lseek")
    read = partialmethod(_call, "read")
    write = partialmethod(_call, "write")


def test_a_seek_and_what_follows_it_are_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no pread: a thread that syncs or compacts may use the file of the one that appends."""
    monkeypatch.setattr(files, "pread", system._seek_and_read)
    monkeypatch.setattr(files, "pwrite", system._seek_and_write)
    monkeypatch.setattr(system, "os", Watched())
    file = DiskFiles(tmp_path).open("a", create=True)
    file.append(b"0123")
    assert file.read(1, 2) == b"12"
    file.append(memoryview(b"45"))
    assert file.read(0, 9) == b"012345"
    file.close()


def test_a_file_truncated_by_another_program_is_an_error_not_a_short_read(tmp_path: Path) -> None:
    file = DiskFiles(tmp_path).open("a", create=True)
    file.append(b"0123456789")
    os.truncate(tmp_path / "a", 4)
    with pytest.raises(StorageError, match="a at byte 4: the file ends here"):
        file.read(0, 10)
    file.close()
    with pytest.raises(StorageError, match="a: cannot append"):
        file.append(b"x")


def test_the_second_lock_is_refused_until_the_first_is_released(files: Files) -> None:
    lock = files.lock(".lock")
    with pytest.raises(StorageError, match="another broker uses the data directory") as caught:
        files.lock(".lock")
    assert files.root in str(caught.value)
    lock.release()
    lock.release()
    again = files.lock(".lock")
    with pytest.raises(StorageError):
        files.lock(".lock")
    again.release()


def test_another_process_is_locked_out_and_its_death_unlocks(tmp_path: Path) -> None:
    hold = (
        "import sys; from kafka_offsets.storage.files.files import DiskFiles;"
        "lock = DiskFiles(sys.argv[1]).lock('.lock'); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(StorageError, match="another broker"):
            DiskFiles(tmp_path).lock(".lock")
        other.kill()
    assert (tmp_path / ".lock").exists()
    DiskFiles(tmp_path).lock(".lock").release()


def test_files_in_memory_opened_twice_share_their_bytes() -> None:
    files = MemoryFiles()
    first = files.open("a", create=True)
    first.append(b"1")
    assert files.open("a").read(0, 1) == b"1"
    assert files.open("a", create=True).size == 1


def test_paths_are_joined_and_split_at_the_root_too() -> None:
    assert join("", "a") == "a" and join("d", "a") == "d/a"
    assert parent("a") == "" and parent("d/e/a") == "d/e"
