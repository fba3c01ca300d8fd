"""Cluster store: the `ClusterStore` of a controller that was elected in ZooKeeper."""

from kafka_offsets.errors import StorageError
from kafka_offsets.metadata.image import ClusterImage, Delta
from kafka_offsets.metadata.store import AnotherControllerError
from kafka_offsets.zookeeper import cluster_changes
from kafka_offsets.zookeeper.cluster_changes import Changes, ControllerTerm, StoredMetadata
from kafka_offsets.zookeeper.cluster_session import ClusterSession
from kafka_offsets.zookeeper.operations import RequestRefusedError, UnavailableError

_LOAD_SECONDS = 30.0
_SAVE_SECONDS = 1.5
"""Less than the time that brokers wait for a response of the controller."""

_WHERE = "the metadata in ZooKeeper"


class ZooKeeperStore:
    """Keeps the image of a cluster in ZooKeeper, for the term of one controller.

    Every write names the controller epoch, so ZooKeeper refuses it once another controller was elected. When it is not
    known whether a write has had an effect, this term ends as well: the next controller loads what ZooKeeper has.
    """

    def __init__(self, session: ClusterSession, term: ControllerTerm) -> None:
        self._session, self._term = session, term
        self._stored = StoredMetadata(ClusterImage(), {})
        self._end: AnotherControllerError | None = None

    def load(self) -> ClusterImage:
        """Return the image that ZooKeeper has. Raises StorageError."""
        try:
            self._stored = self._session.run(cluster_changes.load(), _LOAD_SECONDS)
        except (UnavailableError, RequestRefusedError) as error:
            raise StorageError(str(error), _WHERE) from error
        except TimeoutError:
            raise StorageError(f"they were not read in {_LOAD_SECONDS:g} s", _WHERE) from None
        return self._stored.image.copy()

    def save(self, delta: Delta) -> None:
        """Keep a change. Raises StorageError, AnotherControllerError."""
        changes = self._begin()
        new = changes.add(delta)
        self._write(changes, new)

    def save_producer_ids(self, next_id: int) -> None:
        """Keep the first producer id that no broker was ever given. Raises StorageError, AnotherControllerError."""
        changes = self._begin()
        changes.add_producer_ids(next_id)
        new = self._stored.image.copy()
        new.next_producer_id = next_id
        self._write(changes, new)

    def _begin(self) -> Changes:
        if self._end is not None:
            raise self._end
        if not self._session.is_connected:
            raise StorageError("ZooKeeper cannot be reached, so nothing has changed", _WHERE)
        return Changes(self._stored, self._term)

    def _write(self, changes: Changes, new: ClusterImage) -> None:
        try:
            self._session.run(cluster_changes.write(changes.requests(), self._term), _SAVE_SECONDS)
        except AnotherControllerError as error:
            self._end = error
            raise
        except TimeoutError:
            self._end = AnotherControllerError(f"no answer in {_SAVE_SECONDS:g} s", _WHERE)
            raise self._end from None
        except (UnavailableError, RequestRefusedError) as error:
            raise StorageError(str(error), _WHERE) from error
        self._stored = StoredMetadata(new, changes.versions)
