"""Metadata file: the image of a cluster in a directory, for a controller that is started again.

`cluster-metadata` has one line for the cluster, with what `metadata.json_form` calls an image but for the topics, and
one line for each topic. The lines are those of `checked_lines`. Each change replaces the file atomically, with a sync.

    {"version": 1, "topics": 1, "cluster_id": "…", "brokers": {…}, "next_producer_id": 0, "settings": {…}} 7c85f8de
    {"name": "orders", "topic_id": "…", "configs": {}, "partitions": [{…}]} ff6fd1f2

It holds the SCRAM credentials of users, so that only its owner may read it.
"""

import uuid
from collections.abc import Iterable

from kafka_offsets.errors import StorageError
from kafka_offsets.metadata.image import ClusterImage, ClusterTopic, Delta
from kafka_offsets.metadata.json_form import Fields, decode_image, encode_image, encode_topic
from kafka_offsets.storage.checked_lines import VERSION, decode_lines, encode_line
from kafka_offsets.storage.data_directory import CLUSTER_METADATA, LOCK, META_PROPERTIES
from kafka_offsets.storage.files import Files
from kafka_offsets.storage.kept_file import KeptFile


class MetadataFile:
    """The `ClusterStore` of one directory, which is locked until `close`.

    cluster_id  of the cluster; a new one for an empty directory
    Raises StorageError if another process uses the directory or the file is damaged.
    """

    def __init__(self, files: Files) -> None:
        """Lock the directory and read the file."""
        files.make_directory("")
        self._lock = files.lock(LOCK)
        try:
            if files.exists(META_PROPERTIES):
                raise StorageError(
                    "this directory belongs to one broker, not to a cluster: name another --data-dir",
                    META_PROPERTIES,
                )
            exists = files.exists(CLUSTER_METADATA)
            self._file = KeptFile(files, CLUSTER_METADATA, exists=exists, private=True)
            self.cluster_id = str(uuid.uuid4())
            self._image = ClusterImage()
            if self._file.content is not None:
                self.cluster_id, self._image = _decode(self._file.content)
            self._lines = _lines(self._image.topics.values())
        except BaseException:
            self._lock.release()
            raise

    def load(self) -> ClusterImage:
        """Return the image as it was last saved."""
        return self._image.copy()

    def save(self, delta: Delta) -> None:
        """Keep a change. Raises StorageError."""
        image = self._image.copy()
        image.apply(delta)
        lines = {name: line for name, line in self._lines.items() if name in image.topics}
        changed = {topic.name for topic in delta.created} | {place.topic for place, _ in delta.partitions}
        self._replace(image, lines | _lines(image.topics[name] for name in changed))

    def save_producer_ids(self, next_id: int) -> None:
        """Keep the first producer id that no broker was ever given. Raises StorageError."""
        image = self._image.copy()
        image.next_producer_id = next_id
        self._replace(image, self._lines)

    def _replace(self, image: ClusterImage, lines: dict[str, bytes]) -> None:
        head = {"version": VERSION, "topics": len(lines), "cluster_id": self.cluster_id}
        form = encode_image(ClusterImage(image.brokers, {}, image.next_producer_id, image.settings))
        del form["topics"]
        self._file.replace(b"".join([encode_line(head | form), *lines.values()]))
        self._image, self._lines = image, lines

    def close(self) -> None:
        """Unlock the directory."""
        self._lock.release()


def _lines(topics: Iterable[ClusterTopic]) -> dict[str, bytes]:
    return {topic.name: encode_line(encode_topic(topic)) for topic in topics}


def _decode(data: bytes) -> tuple[str, ClusterImage]:
    head, rows = decode_lines(data, CLUSTER_METADATA, "topics")
    try:
        return Fields(head, "the first line").text("cluster_id"), decode_image(head | {"topics": rows})
    except ValueError as error:
        raise StorageError(str(error), CLUSTER_METADATA, 0) from error
