"""Store: where a controller keeps its image, so that a restart finds it again."""

from typing import Protocol

from kafka_offsets.errors import StorageError
from kafka_offsets.metadata.image import ClusterImage, Delta


class AnotherControllerError(StorageError):
    """Another controller decides for this cluster by now: nothing has changed, and nothing may be decided here."""


class ClusterStore(Protocol):
    """Keeps the image of a cluster.

    Each change is saved before the image changes and before a broker gets it. StorageError: it could not be kept, so
    nothing has changed.
    """

    def load(self) -> ClusterImage:
        """Return the image as it was last saved, an empty one at first. Raises StorageError."""
        ...

    def save(self, delta: Delta) -> None:
        """Keep a change. Raises StorageError, AnotherControllerError."""
        ...

    def save_producer_ids(self, next_id: int) -> None:
        """Keep the first producer id that no broker was ever given. Raises StorageError, AnotherControllerError."""
        ...


class MemoryStore:
    """The `ClusterStore` of a controller whose image ends with the process."""

    def load(self) -> ClusterImage:
        """Return an empty image."""
        return ClusterImage()

    def save(self, delta: Delta) -> None:
        """The controller's own image has it."""

    def save_producer_ids(self, next_id: int) -> None:
        """The controller's own image has it."""
