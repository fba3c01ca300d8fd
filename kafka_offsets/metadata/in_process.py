"""Metadata of brokers in one process: one controller, which every broker reaches by a call, at once and in order.

A broker that is cut off receives no deltas, and its proposals get NETWORK_EXCEPTION until it is reached again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.metadata.controller import Controller, PlacedTopic
from kafka_offsets.metadata.image import Address, ClusterImage, Delta, TopicPartition
from kafka_offsets.metadata.membership import Decided, OnChange
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.replication.elections import IsrProposal


class InProcessMembership:
    """The `ClusterMembership` of one broker, a member from `InProcessMetadata.join` on."""

    def __init__(self, metadata: "InProcessMetadata", broker_id: int) -> None:
        self._metadata = metadata
        self.broker_id = broker_id
        self.image = ClusterImage()
        self.on_change: OnChange = lambda delta: None

    def receive(self, delta: Delta) -> None:
        """Bring the image up to date, and report the change."""
        if delta:
            self.image.apply(delta)
            self.on_change(delta)

    def alter_isr(self, topic_partition: TopicPartition, proposal: IsrProposal, decided: Decided) -> None:
        """Propose the in-sync replicas of a partition that this broker leads: NETWORK_EXCEPTION while it is cut off."""
        if not self.is_reachable:
            decided(ErrorCode.NETWORK_EXCEPTION)
            return
        if any(self._metadata.is_held_out(topic_partition, replica) for replica in proposal.isr):
            decided(ErrorCode.INELIGIBLE_REPLICA)
            return
        error, delta = self._metadata.controller.alter_isr(topic_partition, proposal)
        self._metadata.publish(delta)
        decided(error)

    def resign(self) -> None:
        """Leave every ISR that has another live replica, unless this broker is cut off."""
        if self.is_reachable:
            self._metadata.publish(self._metadata.controller.resign(self.broker_id))

    @property
    def is_reachable(self) -> bool:
        """Whether this broker reaches the controller."""
        return self._metadata.is_reachable(self.broker_id)

    @property
    def may_be_fenced(self) -> bool:
        """Whether it is fenced: it sends no heartbeats, and while it is reached it learns each change at once."""
        return not self.is_reachable and not self._metadata.image.is_up(self.broker_id)

    def when_answering(self, decide: Callable[[], None]) -> None:
        """Call back at once."""
        decide()

    @property
    def _controller(self) -> Controller:
        """The controller. StorageError while this broker is cut off from it: nothing has changed."""
        if not self.is_reachable:
            raise StorageError(f"broker {self.broker_id} does not reach the controller", "the metadata")
        return self._metadata.controller

    def create(self, topics: Iterable[PlacedTopic]) -> None:
        """Create topics that do not exist."""
        self._metadata.publish(self._controller.create(topics))

    def reassign(self, topic_partition: TopicPartition, replicas: Sequence[int] | None) -> ErrorCode:
        """Begin to move a partition to other replicas, or with None cancel that."""
        error, delta = self._controller.reassign(topic_partition, replicas)
        self._metadata.publish(delta)
        return error

    def elect(
        self, topic_partitions: Iterable[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Elect leaders, as `Controller.elect`."""
        errors, delta = self._controller.elect(topic_partitions, unclean=unclean)
        self._metadata.publish(delta)
        return errors

    def unregister(self, broker_id: int) -> ErrorCode:
        """Remove a broker that does not come back, as `Controller.unregister`."""
        error, delta = self._controller.unregister(broker_id)
        self._metadata.publish(delta)
        return error

    def allocate_producer_ids(self) -> range:
        """Return a block of producer ids that no broker was ever given before."""
        return self._controller.allocate_producer_ids()

    def grow(self, added: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """Add partitions to topics."""
        self._metadata.publish(self._controller.grow(added))

    def delete(self, names: Iterable[str]) -> None:
        """Delete topics."""
        self._metadata.publish(self._controller.delete(names))

    def configure(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configurations of a topic."""
        self._metadata.publish(self._controller.configure(name, configs))

    def alter_settings(self, changes: ClusterSettings) -> None:
        """Change settings of groups, users and clients; an empty value removes one."""
        self._metadata.publish(self._controller.alter_settings(changes))


class InProcessMetadata:
    """The metadata of a cluster in one process.

    broker_ids  of all brokers, also of those that have not joined yet
    controller  decides
    """

    def __init__(
        self, broker_ids: Sequence[int], min_isr: int = 1, image: ClusterImage | None = None
    ) -> None:
        self.broker_ids = tuple(broker_ids)
        self.controller = Controller(ClusterImage() if image is None else image, min_isr)
        self._members: dict[int, InProcessMembership] = {}
        self._cut_off: set[int] = set()
        self._held_out: dict[TopicPartition, set[int]] = {}

    @property
    def image(self) -> ClusterImage:
        """The state of the cluster, as the controller knows it."""
        return self.controller.image

    def join(
        self,
        member: InProcessMembership,
        host: str,
        port: int,
        *,
        was_clean: bool = True,
        listeners: Mapping[str, Address] | None = None,
    ) -> None:
        """Register a broker, as `Controller.register`; its image is up to date when this returns."""
        self.publish(
            self.controller.register(member.broker_id, host, port, was_clean=was_clean, listeners=listeners)
        )
        self._members[member.broker_id] = member
        self._cut_off.discard(member.broker_id)
        member.receive(self.image.since(member.image))

    def restart(self, image: ClusterImage) -> None:
        """Begin again with another image; no broker is a member until it joins."""
        self._members.clear()
        self._cut_off.clear()
        self._held_out.clear()
        self.controller = Controller(image, self.controller.min_isr)

    def leave(self, broker_id: int) -> None:
        """Record that a broker is gone."""
        self._members.pop(broker_id, None)
        self.publish(self.controller.fence(broker_id))

    def cut_off(self, broker_id: int) -> None:
        """Let no delta reach a broker, and no request of it reach the controller."""
        self._cut_off.add(broker_id)

    def fence(self, broker_id: int) -> None:
        """Record that the controller misses the heartbeats of a broker that is cut off."""
        self.publish(self.controller.fence(broker_id))

    def reach(self, broker_id: int) -> None:
        """Reach a broker again, which receives everything that it has missed."""
        member = self._members.get(broker_id)
        if member is not None:
            self.publish(self.controller.unfence(broker_id))
            self._cut_off.discard(broker_id)
            member.receive(self.image.since(member.image))

    def hold_out(self, topic_partition: TopicPartition, broker_id: int) -> None:
        """Remove a follower from an ISR, and refuse proposals with it until `admit_again`."""
        state = self.controller.image.topics[topic_partition.topic].partitions[topic_partition.partition]
        isr = tuple(replica for replica in state.isr if replica != broker_id)
        proposal = IsrProposal(state.leader, state.leader_epoch, state.partition_epoch, isr)
        self._held_out.setdefault(topic_partition, set()).add(broker_id)
        _, delta = self.controller.alter_isr(topic_partition, proposal)
        self.publish(delta)

    def admit_again(self, topic_partition: TopicPartition) -> None:
        """Let every replica join the ISR."""
        self._held_out.pop(topic_partition, None)

    def is_held_out(self, topic_partition: TopicPartition, broker_id: int) -> bool:
        """Whether proposals with a replica are refused."""
        return broker_id in self._held_out.get(topic_partition, ())

    def is_reachable(self, broker_id: int) -> bool:
        """Whether a broker reaches the controller."""
        return broker_id in self._members and broker_id not in self._cut_off

    def publish(self, delta: Delta) -> None:
        """Pass a change on to every broker that can be reached, also to one that was unregistered and runs."""
        for broker_id, member in list(self._members.items()):
            if broker_id not in self._cut_off:
                member.receive(delta)
