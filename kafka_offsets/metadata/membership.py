"""Membership: the metadata of a cluster as one of its brokers has them, wherever the controller is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kafka_offsets.errors import ErrorCode
from kafka_offsets.metadata.controller import PlacedTopic
from kafka_offsets.metadata.image import ClusterImage, Delta, TopicPartition
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.replication.elections import IsrProposal

OnChange = Callable[[Delta], None]
"""Called with each change of the metadata, after the image of that broker is up to date."""

Decided = Callable[[ErrorCode], None]


class ClusterMembership(Protocol):
    """One broker's part in the metadata.

    What changes the metadata returns when `image` has the change, and raises StorageError if the controller cannot be
    reached or could not keep it.

    image      of the cluster, as this broker knows it; one object, which changes
    on_change  called with each change, from the registration on
    """

    broker_id: int
    image: ClusterImage
    on_change: OnChange

    @property
    def is_reachable(self) -> bool:
        """Whether this broker reaches the controller."""
        ...

    @property
    def may_be_fenced(self) -> bool:
        """Whether the last answered heartbeat of this broker is older than its session."""
        ...

    def when_answering(self, decide: Callable[[], None]) -> None:
        """Call back once the controller answers, or is not reached: what is requested then does not block for long."""
        ...

    def alter_isr(self, topic_partition: TopicPartition, proposal: IsrProposal, decided: Decided) -> None:
        """Propose the in-sync replicas of a partition that this broker leads.

        decided  called at once or later, with NETWORK_EXCEPTION if the controller cannot be reached
        """
        ...

    def resign(self) -> None:
        """Ask to be left out of every ISR that has another live replica, as `Controller.resign`; do not wait."""
        ...

    def create(self, topics: Iterable[PlacedTopic]) -> None:
        """Create topics that do not exist."""
        ...

    def grow(self, added: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """Add partitions to topics."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete topics."""
        ...

    def configure(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configurations of a topic."""
        ...

    def reassign(self, topic_partition: TopicPartition, replicas: Sequence[int] | None) -> ErrorCode:
        """Begin to move a partition to other replicas, or with None cancel that."""
        ...

    def elect(
        self, topic_partitions: Iterable[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Elect leaders, as `Controller.elect`."""
        ...

    def unregister(self, broker_id: int) -> ErrorCode:
        """Remove a broker that does not come back, as `Controller.unregister`."""
        ...

    def allocate_producer_ids(self) -> range:
        """Return a block of producer ids that no broker was ever given before."""
        ...

    def alter_settings(self, changes: ClusterSettings) -> None:
        """Change settings of groups, users and clients; an empty value removes one."""
        ...
