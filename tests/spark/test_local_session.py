"""Sessions on this machine: the options of their JVM. No JVM starts."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from kafka_offsets.spark import local_session


def test_the_first_jvm_leaves_an_archive_of_its_classes_and_the_next_one_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    cache = tmp_path / "a cache" / "kafka-offsets"
    monkeypatch.setenv(local_session.CACHE_VARIABLE, str(cache))
    written = local_session._class_archive()
    start = f' "-XX:ArchiveClassesAtExit={cache}/spark-'
    assert written.startswith(start) and cache.is_dir()
    name = written[len(start) :].partition('"')[0]
    (cache / f"spark-{name}").touch()
    assert local_session._class_archive() == written.replace("ArchiveClassesAtExit", "SharedArchiveFile")
    java.rename(java.with_name("java-17"))
    java.symlink_to("java-17")
    assert "ArchiveClassesAtExit" in local_session._class_archive(), "the archive of another JVM"


def test_there_is_no_archive_without_a_folder_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(local_session.CACHE_VARIABLE, raising=False)
    assert local_session._class_archive() == ""
    (tmp_path / "file").touch()
    monkeypatch.setenv(local_session.CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    assert local_session._class_archive() == ""
