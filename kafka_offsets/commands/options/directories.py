"""Directories: the data directory, or the folder of one partition, that a command is to read."""

from pathlib import Path

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.directory.catalogue import CLUSTER_METADATA_TOPIC, partition_folders
from kafka_offsets.storage.directory.data_directory import CLUSTER_METADATA
from kafka_offsets.storage.log.opening import PARTITION_METADATA
from kafka_offsets.storage.segments.segment_names import LOG_SUFFIX


def existing_directory(path: Path) -> Path:
    """Return the absolute path of a directory. Raises StorageError if it is none, or that of several brokers."""
    path = path.resolve()
    try:
        if not path.is_dir():
            raise StorageError("not a directory" if path.exists() else "no such directory", str(path))
        is_cluster = (path / CLUSTER_METADATA).exists()
    except PermissionError as error:
        raise StorageError("this user may not read it", str(path)) from error
    if path.name.rpartition("-")[0] == CLUSTER_METADATA_TOPIC:
        raise StorageError("the log of Kafka's controllers, which is not read here", str(path))
    if is_cluster:
        raise StorageError(
            f"it belongs to several brokers: name that of one, such as {path}/broker-1", str(path)
        )
    return path


def is_partition_folder(directory: Path) -> bool:
    """Return whether a directory is the folder of one partition, by its name and content."""
    if not partition_folders([directory.name]):
        return False
    return (directory / PARTITION_METADATA).exists() or any(directory.glob(f"*{LOG_SUFFIX}"))


def segment_bytes(directory: Path) -> int:
    """Return the size of all segments in a data directory, or in the folder of one partition."""
    return sum(path.stat().st_size for path in directory.rglob(f"*{LOG_SUFFIX}") if path.is_file())
