"""Metadata file: the image of a cluster in a directory, for a controller that is started again.

`cluster-metadata` is a journal of `checked_lines`. It begins with a snapshot: one line for the cluster, with what
`metadata.json_form` calls an image but for the topics, and one for each topic. Each change is one more line, with a
sync: a delta, or the next producer id. The first change after a start, and one that makes the file longer than
twice its snapshot and `_LEAST_BYTES`, replaces the file by a new snapshot before it is appended.

    {"version": 2, "topics": 1, "cluster_id": "…", "brokers": {…}, "next_producer_id": 0, "settings": {…}} 7c85f8de
    {"name": "orders", "topic_id": "…", "configs": {}, "partitions": [{…}]} ff6fd1f2
    {"partitions": [{"topic": "orders", "partition": 0, …}]} 5c0e3a11
    {"next_producer_id": 1000} 0a4f2c9b

A change that a crash has torn is dropped: no broker has received it. Version 1 is a snapshot without changes. The file
holds the SCRAM credentials of users, so that only its owner may read it.
"""

import uuid
from contextlib import suppress

from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.metadata.image import ClusterImage, Delta
from kafka_offsets.metadata.json_form import (
    Fields,
    decode_delta,
    decode_image,
    encode_delta,
    encode_image,
)
from kafka_offsets.storage.directory.data_directory import CLUSTER_METADATA, LOCK, META_PROPERTIES
from kafka_offsets.storage.files.checked_lines import Row, decode_journal, encode_line
from kafka_offsets.storage.files.files import SMALL_FILE_BYTES, File, Files, check_small

_VERSION = 2
_LEAST_BYTES = 1 << 16
_PRODUCER_ID = "next_producer_id"

logger = new_logger(__name__)


class MetadataFile:
    """The `ClusterStore` of one directory, which is locked until `close`.

    cluster_id  of the cluster; a new one for an empty directory
    Raises StorageError if another process uses the directory or the file is damaged.
    """

    def __init__(self, files: Files) -> None:
        """Lock the directory and read the file."""
        files.make_directory("")
        self._files = files
        self._lock = files.lock(LOCK)
        self._journal: File | None = None
        self._snapshot_at = 0
        try:
            if files.exists(META_PROPERTIES):
                raise StorageError(
                    "this directory belongs to one broker, not to a cluster: name another --data-dir",
                    META_PROPERTIES,
                )
            self.cluster_id = str(uuid.uuid4())
            self._image = ClusterImage()
            if files.exists(CLUSTER_METADATA):
                self.cluster_id, self._image = _decode(files.read_all(CLUSTER_METADATA))
        except BaseException:
            self._lock.release()
            raise

    def load(self) -> ClusterImage:
        """Return the image as it was last saved.

        It is the one that snapshots are made of: the controller changes it as it has saved, and in no other way.
        """
        return self._image

    def save(self, delta: Delta) -> None:
        """Keep a change. Raises StorageError."""
        self._append(encode_delta(delta))

    def save_producer_ids(self, next_id: int) -> None:
        """Keep the first producer id that no broker was ever given. Raises StorageError."""
        self._append({_PRODUCER_ID: next_id})

    def _append(self, change: Row) -> None:
        line = encode_line(change)
        journal = self._journal
        if journal is None or journal.size + len(line) > self._snapshot_at:
            journal = self._begin_journal()
        check_small(CLUSTER_METADATA, journal.size + len(line))  # the next start refuses a longer file
        try:
            journal.append(line)
            journal.sync()
        except StorageError:
            # The line may be on the disk, and must not be in force after a restart: it is removed at once or, when the
            # disk refuses that too, before the next change.
            with suppress(StorageError):
                self._begin_journal()
            raise

    def _begin_journal(self) -> File:
        """Replace the file by a snapshot; return it."""
        self._end_journal()
        form = encode_image(self._image)
        topics = form.pop("topics")
        head = {"version": _VERSION, "topics": len(topics), "cluster_id": self.cluster_id} | form
        content = b"".join(map(encode_line, [head, *topics]))
        check_small(CLUSTER_METADATA, len(content))
        self._files.replace_atomically(CLUSTER_METADATA, content, private=True)
        self._journal = self._files.open(CLUSTER_METADATA)
        self._snapshot_at = min(max(2 * len(content), _LEAST_BYTES), SMALL_FILE_BYTES)
        return self._journal

    def _end_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self._journal = None

    def close(self) -> None:
        """Unlock the directory."""
        self._end_journal()
        self._lock.release()


def _decode(data: bytes) -> tuple[str, ClusterImage]:
    journal = decode_journal(data, CLUSTER_METADATA, "topics", (1, _VERSION))
    try:
        cluster_id = Fields(journal.head, "the first line").text("cluster_id")
        image = decode_image(journal.head | {"topics": journal.rows})
        for change in journal.changes:
            if _PRODUCER_ID in change:
                image.next_producer_id = Fields(change, "change").number(_PRODUCER_ID, 0)
            else:
                image.apply(decode_delta(change))
    except (ValueError, LookupError) as error:
        raise StorageError(f"a field is missing or wrong: {error}", CLUSTER_METADATA, 0) from error
    if journal.end < len(data):
        logger.warning(
            "%s: the last %d bytes, from position %d, are a change that was not written completely, as a crash leaves"
            " it; it is dropped",
            CLUSTER_METADATA,
            len(data) - journal.end,
            journal.end,
        )
    return cluster_id, image
