"""The file of a cluster's metadata: what was saved is there after a restart, and damage is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.broker.network.nodes.metadata_file import MetadataFile
from kafka_offsets.errors import StorageError
from kafka_offsets.metadata.controller import Controller, PlacedTopic
from kafka_offsets.metadata.image import Place
from kafka_offsets.metadata.settings import Credential, Settings
from kafka_offsets.storage.data_directory import CLUSTER_METADATA, META_PROPERTIES, DataDirectory
from kafka_offsets.storage.files import MemoryFiles


def changed(files: MemoryFiles) -> Controller:
    """A controller that has changed everything that a cluster has, and what its file says."""
    store = MetadataFile(files)
    controller = Controller(store.load(), store=store)
    for broker_id in (1, 2, 3):
        controller.register(broker_id, "host", 9000 + broker_id)
    topics = [PlacedTopic(name, name.encode() * 16, [[1, 2], [2, 3]], {"a": "1"}) for name in "xyz"]
    controller.create(topics)
    controller.delete(["y"])
    controller.configure("x", {"b": "2"})
    controller.grow({"z": [[3, 1]]})
    controller.fence(1)
    controller.lead(Place("x", 1), 3)
    controller.allocate_producer_ids()
    credential = Credential(4096, b"salt", b"stored", b"server")
    controller.alter_settings(Settings(groups={"g": {"c": "3"}}, credentials={("alice", 1): credential}))
    store.close()
    return controller


def test_a_restart_finds_what_was_saved() -> None:
    files = MemoryFiles()
    image = changed(files).image
    again = MetadataFile(files)
    assert again.load() == image
    assert again.load().next_producer_id == 1000
    again.close()


def test_the_cluster_keeps_its_id() -> None:
    files = MemoryFiles()
    first = MetadataFile(files)
    Controller(first.load(), store=first).register(1, "host", 9001)
    first.close()
    again = MetadataFile(files)
    assert again.cluster_id == first.cluster_id
    again.close()


def test_a_change_that_the_disk_refuses_is_not_there_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    store = MetadataFile(files)
    controller = Controller(store.load(), store=store)
    controller.register(1, "host", 9001)
    before = controller.image.copy()

    def refuse(*_: object, **__: object) -> None:
        raise StorageError("no space left on device", CLUSTER_METADATA)

    with monkeypatch.context() as patch:
        patch.setattr(files, "replace_atomically", refuse)
        with pytest.raises(StorageError, match="no space"):
            controller.create([PlacedTopic("x", b"x" * 16, [[1]], {})])
        with pytest.raises(StorageError, match="no space"):
            controller.allocate_producer_ids()
    assert controller.image == before
    store.close()
    again = MetadataFile(files)
    assert again.load() == before
    again.close()


def test_one_process_uses_it_at_a_time() -> None:
    files = MemoryFiles()
    first = MetadataFile(files)
    with pytest.raises(StorageError):
        MetadataFile(files)
    first.close()
    MetadataFile(files).close()


def test_the_directory_of_one_broker_is_not_one_of_a_cluster() -> None:
    files = MemoryFiles()
    files.replace_atomically(META_PROPERTIES, b"version=1\n")
    with pytest.raises(StorageError, match="belongs to one broker, not to a cluster: name another"):
        MetadataFile(files)
    files.remove(META_PROPERTIES)
    MetadataFile(files).close()  # the refusal has unlocked it


def test_one_broker_does_not_use_the_directory_of_a_cluster() -> None:
    files = MemoryFiles()
    changed(files)
    with pytest.raises(StorageError, match="belongs to a cluster, not to one broker: name another"):
        DataDirectory(files)


@given(st.data())
def test_damage_is_refused_and_named(data: st.DataObject) -> None:
    files = MemoryFiles()
    changed(files)
    content = bytearray(files.read_all(CLUSTER_METADATA))
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    files.replace_atomically(CLUSTER_METADATA, bytes(content))
    with pytest.raises(StorageError, match=CLUSTER_METADATA):
        MetadataFile(files)


@given(st.integers(0, 400))
def test_a_truncated_file_is_refused(size: int) -> None:
    files = MemoryFiles()
    changed(files)
    content = files.read_all(CLUSTER_METADATA)
    files.replace_atomically(CLUSTER_METADATA, content[: len(content) * size // 401])
    with pytest.raises(StorageError, match=CLUSTER_METADATA):
        MetadataFile(files)
