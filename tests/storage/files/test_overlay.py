"""Files as they would be: a dry run renames, cuts and writes, and the files below stay as they are."""

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.files.overlay import OverlayFiles
from tests.storage.batches import write

BELOW = {"d/a": b"aaaa", "d/b": b"bb"}


@pytest.fixture
def below() -> MemoryFiles:
    files = MemoryFiles()
    for path, data in BELOW.items():
        write(files, path, data)
    return files


@pytest.fixture
def overlay(below: MemoryFiles) -> OverlayFiles:
    return OverlayFiles(below)


def contents(files: OverlayFiles | MemoryFiles) -> dict[str, bytes]:
    return {f"d/{name}": files.read_all(f"d/{name}") for name in files.list_directory("d")}


def test_a_file_below_replaces_one_that_was_written_above(overlay: OverlayFiles, below: MemoryFiles) -> None:
    write(overlay, "d/new", b"above")
    overlay.rename("d/a", "d/new")
    assert contents(overlay) == {"d/b": b"bb", "d/new": b"aaaa"}
    assert contents(below) == BELOW


def test_a_file_written_above_replaces_one_below(overlay: OverlayFiles, below: MemoryFiles) -> None:
    write(overlay, "d/new", b"above")
    overlay.rename("d/b", "d/a")
    overlay.rename("d/new", "d/a")
    assert contents(overlay) == {"d/a": b"above"}
    assert contents(below) == BELOW


def test_a_file_that_was_cut_is_as_short_with_its_new_name(overlay: OverlayFiles, below: MemoryFiles) -> None:
    overlay.open("d/a").truncate(3)
    overlay.open("d/b").truncate(1)
    overlay.rename("d/a", "d/b")
    assert contents(overlay) == {"d/b": b"aaa"}
    assert contents(below) == BELOW


def test_a_directory_takes_what_it_holds_with_it(overlay: OverlayFiles, below: MemoryFiles) -> None:
    overlay.rename("d", "e")
    assert not overlay.exists("d/a") and overlay.list_directory("e") == ["a", "b"]
    assert overlay.read_all("e/a") == b"aaaa"
    assert contents(below) == BELOW


@pytest.mark.parametrize(("source", "target"), [("d/c", "d/a"), ("d/gone", "d/a"), ("d/a", "e/a")])
def test_what_is_not_there_is_not_renamed(overlay: OverlayFiles, source: str, target: str) -> None:
    overlay.rename("d/b", "d/gone")
    overlay.remove("d/gone")
    with pytest.raises(StorageError, match="no such"):
        overlay.rename(source, target)
    assert contents(overlay) == {"d/a": b"aaaa"}


def test_nothing_is_appended_below(overlay: OverlayFiles) -> None:
    with pytest.raises(StorageError, match="d/a: opened for a dry run"):
        overlay.open("d/a").append(b"x")
