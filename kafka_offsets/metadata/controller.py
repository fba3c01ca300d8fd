"""Controller: registers brokers, places replicas, elects leaders, and accepts the in-sync replicas that leaders report.

It saves each change, makes it in its `ClusterImage`, and returns it for the brokers. It knows neither sockets nor files
nor time, so that clusters in one process, in several, and over ZooKeeper decide the same. Source:
ReplicationControlManager and ClusterControlManager of Kafka 4.3.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypedDict

from kafka_offsets.errors import ErrorCode
from kafka_offsets.metadata.image import (
    NO_BROKER,
    Address,
    Brokers,
    ClusterImage,
    ClusterTopic,
    Delta,
    Placed,
    RegisteredBroker,
    TopicPartition,
)
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.metadata.store import ClusterStore, MemoryStore
from kafka_offsets.replication import elections
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState

_PRODUCER_IDS = 1000
MOST_MIN_ISR = (1 << 31) - 1


class _Rules(TypedDict):
    """What the elections of a topic depend on."""

    unclean: bool
    min_isr: int


def min_isr_of(configs: Mapping[str, str]) -> int | None:
    """Return the min.insync.replicas of a topic; None if it has none, or no number from 1 to `MOST_MIN_ISR`."""
    try:
        min_isr = int(configs.get("min.insync.replicas", "0"))
    except ValueError:
        return None
    return min_isr if 1 <= min_isr <= MOST_MIN_ISR else None


class PlacedTopic(NamedTuple):
    """A topic to be created.

    replicas  of each partition, the preferred leader first
    """

    name: str
    topic_id: bytes
    replicas: Sequence[Sequence[int]]
    configs: Mapping[str, str]


class Controller:
    """Decides for a cluster. Whatever changes something raises StorageError if the store refuses it.

    image    the state of the cluster; only this changes it
    min_isr  min.insync.replicas of topics that do not set it
    store    keeps the image; default: nothing does
    broker_id  the broker that is the controller, while it is up; default: one that is up
    least_epoch  the lowest epoch of brokers that register from now on, as the image lacks those of removed brokers. A
                 number that is used again is harmless where no broker outlives the controller
    """

    def __init__(
        self,
        image: ClusterImage,
        min_isr: int = 1,
        store: ClusterStore | None = None,
        broker_id: int = NO_BROKER,
        least_epoch: int = 1,
    ) -> None:
        self.image = image
        self.min_isr = min_isr
        self._store: ClusterStore = MemoryStore() if store is None else store
        self._broker_id = broker_id
        highest = max((broker.epoch for broker in image.brokers.by_id.values()), default=0)
        self._next_epoch = max(least_epoch, highest + 1)

    # -- brokers

    def register(
        self,
        broker_id: int,
        host: str,
        port: int,
        *,
        was_clean: bool = True,
        listeners: Mapping[str, Address] | None = None,
    ) -> Delta:
        """Add a broker, or take it back after a restart; it leads the partitions that wait for it.

        listeners  the address of each listener by its name; None: it has only the first
        was_clean  whether it was stopped in order; else it may have lost records, and is not eligible as a leader while
                   another replica may have them (KIP-966)
        """
        registered = RegisteredBroker(
            broker_id, host, port, self._next_epoch, is_up=True, listeners=listeners or {}
        )
        self._next_epoch += 1
        if was_clean:
            return self._admit(registered)
        return self._admit(
            registered,
            self._changed(
                self.image.placed(),
                lambda topic_partition, state: elections.lose_records(
                    state, broker_id, self.image.live, **self._rules(topic_partition.topic)
                ),
            ),
        )

    def unfence(self, broker_id: int) -> Delta:
        """Take back a broker that was fenced and has kept running: its epoch stays. Not one that was unregistered."""
        broker = self.image.brokers.by_id.get(broker_id)
        return Delta() if broker is None or broker.is_up else self._admit(broker._replace(is_up=True))

    def _admit(self, broker: RegisteredBroker, lost: Iterable[Placed] = ()) -> Delta:
        """Take a broker back; `lost` are partitions that change because it may have lost records."""
        live = self.image.live | {broker.id}
        changed = {placed.topic_partition: placed.state for placed in lost}
        states = (
            Placed(topic_partition, changed.get(topic_partition, state))
            for topic_partition, state in self.image.placed()
        )
        waiting = [
            placed
            for placed in states
            if placed.state.leader == NO_LEADER and broker.id in placed.state.replicas
        ]
        elected = self._changed(
            waiting,
            lambda topic_partition, state: elections.elect(state, live, **self._rules(topic_partition.topic)),
        )
        changed.update((placed.topic_partition, placed.state) for placed in elected)
        return self._commit(
            brokers=self._brokers(broker), partitions=tuple(Placed(*item) for item in changed.items())
        )

    def fence(self, broker_id: int) -> Delta:
        """Record that a broker is gone: other in-sync replicas lead its partitions, and it leaves the ISR."""
        broker = self.image.brokers.by_id.get(broker_id)
        if broker is None or not broker.is_up:
            return Delta()
        return self._commit(
            brokers=self._brokers(broker._replace(is_up=False)), partitions=self._without_leader(broker_id)
        )

    def resign(self, broker_id: int) -> Delta:
        """Let other in-sync replicas lead what a broker leads, and remove it from their ISRs: its disk refuses writes.

        Where no other replica is in sync, nothing changes. The broker gets another epoch: a leader adds it to an ISR
        only after its next fetch (KIP-903).
        """
        broker, live = self.image.brokers.by_id.get(broker_id), self.image.live
        partitions = self._changed(
            [placed for placed in self.image.placed() if elections.may_resign(placed.state, broker_id, live)],
            lambda topic_partition, state: elections.fence(
                state, broker_id, live - {broker_id}, **self._rules(topic_partition.topic)
            ),
        )
        if broker is None or not partitions:
            return Delta()
        broker, self._next_epoch = broker._replace(epoch=self._next_epoch), self._next_epoch + 1
        return self._commit(brokers=self._brokers(broker), partitions=partitions)

    def unregister(self, broker_id: int) -> tuple[ErrorCode, Delta]:
        """Remove a broker that does not come back, as UnregisterBroker (KIP-631): also one that is up, as in Kafka.

        Partitions keep it as a replica until they are reassigned.
        """
        by_id = dict(self.image.brokers.by_id)
        if by_id.pop(broker_id, None) is None:
            return ErrorCode.BROKER_ID_NOT_REGISTERED, Delta()
        brokers = self._with_controller(by_id)
        return ErrorCode.NONE, self._commit(brokers=brokers, partitions=self._without_leader(broker_id))

    def _without_leader(self, broker_id: int) -> tuple[Placed, ...]:
        """Return the partitions that change when a broker is gone: others lead them, and it leaves the ISR."""
        live = self.image.live - {broker_id}
        concerned = [
            placed
            for placed in self.image.placed()
            if broker_id in placed.state.isr or placed.state.leader == broker_id
        ]
        return self._changed(
            concerned,
            lambda topic_partition, state: elections.fence(
                state, broker_id, live, **self._rules(topic_partition.topic)
            ),
        )

    def _brokers(self, changed: RegisteredBroker) -> Brokers:
        """Return all brokers, one of which has changed."""
        return self._with_controller({**self.image.brokers.by_id, changed.id: changed})

    def _with_controller(self, by_id: Mapping[int, RegisteredBroker]) -> Brokers:
        """Return brokers; the controller stays while it is up, else the live broker with the lowest id follows."""
        controller_id = self.image.brokers.controller_id
        if self._broker_id in by_id and by_id[self._broker_id].is_up:
            controller_id = self._broker_id
        if controller_id not in by_id or not by_id[controller_id].is_up:
            controller_id = min((broker.id for broker in by_id.values() if broker.is_up), default=NO_BROKER)
        return Brokers(controller_id, by_id)

    # -- topics

    def create(self, topics: Iterable[PlacedTopic]) -> Delta:
        """Create topics that do not exist yet."""
        return self._commit(
            created=tuple(
                ClusterTopic(
                    new.name,
                    new.topic_id,
                    dict(new.configs),
                    tuple(self._new_state(replicas) for replicas in new.replicas),
                )
                for new in topics
            )
        )

    def grow(self, added: Mapping[str, Sequence[Sequence[int]]]) -> Delta:
        """Add partitions to topics, with their replicas."""
        grown = []
        for name, replicas in added.items():
            topic = self.image.topics[name]
            states = (*topic.partitions, *(self._new_state(replica_ids) for replica_ids in replicas))
            grown.append(topic._replace(partitions=states))
        return self._commit(created=tuple(grown))

    def delete(self, names: Iterable[str]) -> Delta:
        """Delete topics. KeyError for one that does not exist."""
        return self._commit(deleted=tuple(self.image.topics[name] for name in names))

    def configure(self, name: str, configs: Mapping[str, str]) -> Delta:
        """Replace the configurations of a topic."""
        return self._commit(created=(self.image.topics[name]._replace(configs=dict(configs)),))

    def _new_state(self, replicas: Sequence[int]) -> PartitionState:
        """Return the state of a new partition: replicas that are up are in sync, and the first of them leads."""
        live = tuple(broker_id for broker_id in replicas if self.image.is_up(broker_id))
        leader = live[0] if live else NO_LEADER
        return PartitionState(tuple(replicas), live or (replicas[0],), leader, 0, 0)

    # -- partitions

    def alter_isr(
        self, topic_partition: TopicPartition, proposal: elections.IsrProposal
    ) -> tuple[ErrorCode, Delta]:
        """Accept the in-sync replicas that a leader proposes, or refuse them: AlterPartition (KIP-497, KIP-903)."""
        (error,), delta = self.alter_isrs([(topic_partition, proposal)])
        return error, delta

    def alter_isrs(
        self, proposals: Iterable[tuple[TopicPartition, elections.IsrProposal]]
    ) -> tuple[list[ErrorCode], Delta]:
        """Decide several proposals, each after the previous one, in one change; return the error of each."""
        live = {broker.id: broker.epoch for broker in self.image.brokers.by_id.values() if broker.is_up}
        errors: list[ErrorCode] = []
        changed: dict[TopicPartition, PartitionState] = {}
        for topic_partition, proposal in proposals:
            state = changed.get(topic_partition) or self.image.state(*topic_partition)
            if state is None:
                errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            error, new = elections.alter_isr(state, proposal, live, **self._rules(topic_partition.topic))
            errors.append(error)
            if new != state:
                changed[topic_partition] = new
        return errors, self._commit(partitions=tuple(Placed(*item) for item in changed.items()))

    def elect(
        self, topic_partitions: Iterable[TopicPartition], *, unclean: bool = False
    ) -> tuple[dict[TopicPartition, ErrorCode], Delta]:
        """Elect the preferred leader of partitions, or with `unclean` any live replica of those without a leader.

        Returns the error of each partition, as ElectLeaders answers it (KIP-460).
        """
        errors: dict[TopicPartition, ErrorCode] = {}
        changed = []
        for topic_partition in dict.fromkeys(topic_partitions):
            state = self.image.state(*topic_partition)
            if state is None:
                errors[topic_partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            is_needless = state.leader != NO_LEADER if unclean else state.leader == state.replicas[0]
            if is_needless:
                errors[topic_partition] = ErrorCode.ELECTION_NOT_NEEDED
                continue
            new = elections.elect(
                state,
                self.image.live,
                unclean=unclean,
                preferred=not unclean,
                min_isr=self._rules(topic_partition.topic)["min_isr"],
            )
            if new is None or (not unclean and new.leader != state.replicas[0]):
                errors[topic_partition] = (
                    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
                    if unclean
                    else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
                )
                continue
            errors[topic_partition] = ErrorCode.NONE
            changed.append(Placed(topic_partition, new))
        return errors, self._commit(partitions=tuple(changed))

    def lead(self, topic_partition: TopicPartition, broker_id: int) -> Delta:
        """Make a broker the leader of a partition; it must be an in-sync replica that is up."""
        state = self.image.topics[topic_partition.topic].partitions[topic_partition.partition]
        if state.leader == broker_id:
            return Delta()
        new = state._replace(
            leader=broker_id,
            leader_epoch=state.leader_epoch + 1,
            partition_epoch=state.partition_epoch + 1,
        )
        return self._commit(partitions=(Placed(topic_partition, new),))

    def reassign(
        self, topic_partition: TopicPartition, replicas: Sequence[int] | None
    ) -> tuple[ErrorCode, Delta]:
        """Begin to move a partition to other replicas, or with None cancel that (KIP-455)."""
        state = self.image.state(*topic_partition)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Delta()
        rules = self._rules(topic_partition.topic)
        new: PartitionState | ErrorCode | None
        if replicas is None:
            new = elections.cancel_reassignment(state, self.image.live, **rules)
        else:
            new = elections.reassign(state, tuple(replicas), self.image.live, min_isr=rules["min_isr"])
        if isinstance(new, ErrorCode):
            return new, Delta()
        changed = () if new is None else (Placed(topic_partition, new),)
        return ErrorCode.NONE, self._commit(partitions=changed)

    # -- settings

    def alter_settings(self, changes: ClusterSettings) -> Delta:
        """Change settings of groups, users and clients; an empty value removes one."""
        return self._commit(settings=self.image.settings.changed(changes))

    # -- producers

    def allocate_producer_ids(self) -> range:
        """Return a block of producer ids that was never returned before: AllocateProducerIds (KIP-730)."""
        first = self.image.next_producer_id
        self._store.save_producer_ids(first + _PRODUCER_IDS)
        self.image.next_producer_id = first + _PRODUCER_IDS
        return range(first, first + _PRODUCER_IDS)

    # -- inside

    def _changed(
        self,
        placed: Iterable[Placed],
        change: Callable[[TopicPartition, PartitionState], PartitionState | None],
    ) -> tuple[Placed, ...]:
        """Return the partitions for which `change` has a new state."""
        changed = ((topic_partition, change(topic_partition, state)) for topic_partition, state in placed)
        return tuple(Placed(topic_partition, new) for topic_partition, new in changed if new is not None)

    def _rules(self, topic: str) -> _Rules:
        configs = self.image.topics[topic].configs
        return _Rules(
            unclean=configs.get("unclean.leader.election.enable", "false") == "true",
            min_isr=min_isr_of(configs) or self.min_isr,
        )

    def _commit(
        self,
        brokers: Brokers | None = None,
        created: tuple[ClusterTopic, ...] = (),
        deleted: tuple[ClusterTopic, ...] = (),
        partitions: tuple[Placed, ...] = (),
        settings: ClusterSettings | None = None,
    ) -> Delta:
        delta = Delta(brokers, created, deleted, partitions, settings)
        if delta:
            self._store.save(delta)
            self.image.apply(delta)
        return delta
