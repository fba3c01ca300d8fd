"""Replica manager: makes this broker lead and follow what the metadata say, and moves high watermarks.

A delta of the metadata creates and deletes topics here, and makes partitions led or followed. A leader counts how far
its followers are; a follower copies from its leader through a `ReplicaFetcher`. The decisions are those of the room
`replication`; this carries them out. Source: ReplicaManager and Partition of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kafka_offsets.broker.api import fetch
from kafka_offsets.broker.api.topic_admin import topic_deleted
from kafka_offsets.broker.config.topic import usable_configs
from kafka_offsets.broker.context import pending
from kafka_offsets.broker.partition.partitions import LogLoadingError
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.broker.replicas.coordinators import Coordinators
from kafka_offsets.broker.replicas.fetcher import ReplicaFetcher
from kafka_offsets.broker.replicas.log_directory import LogDirectory
from kafka_offsets.broker.replicas.peer_requests import PeerRequests
from kafka_offsets.broker.turn.background_task import BackgroundTask, Pacing, Steps
from kafka_offsets.broker.wire.channel import Channel
from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.metadata.image import ClusterTopic, Delta, Placed, TopicPartition
from kafka_offsets.protocol import messages
from kafka_offsets.replication.elections import NO_BROKER_EPOCH
from kafka_offsets.replication.follower import FollowerReplica, Truncate
from kafka_offsets.replication.leader import LeaderReplica, ReplicationSettings
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState
from kafka_offsets.storage.directory.catalogue import NewTopic

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.broker.partition.partitions import Partition, Topic
    from kafka_offsets.broker.turn.workers import Workers
    from kafka_offsets.metadata.membership import ClusterMembership
    from kafka_offsets.storage.log.log import Log

_RETRY_MS = 1000
"""The delay after which a partition that could not be opened is tried again."""

_TRANSACTION_TIMEOUT_MS = 30_000
"""The time the state of a transaction and its markers wait for the in-sync replicas: Kafka's request.timeout.ms."""

_AT_ONCE_MS = _ASKED_MS = 500
"""The time in which the logs of one change are opened in one piece: most topics are led when they are created."""

_STEP_MS = 200
"""The length of a step in which others are opened."""

_STEPS = Pacing(fixed_ms=2)

logger = new_logger(__name__)


class ReplicaManager:
    """The replicas of one broker.

    channel_to  returns a new channel to a broker
    membership  the metadata as this broker knows them; set before the first delta
    _epoch      of this broker's latest registration, also after it was unregistered
    _asked_ms   time spent since `_asked_since_ms` on postponed roles that requests needed
    """

    def __init__(self, broker: Context, channel_to: Callable[[int], Channel], workers: Workers) -> None:
        self._broker = broker
        self._workers = workers
        self._is_stopped = False
        self._channel_to = channel_to
        self.membership: ClusterMembership
        self.acknowledgements = pending.acknowledgements(broker.scheduler)
        self.deletions = pending.deletions(broker.scheduler)
        self.coordinators = Coordinators(broker)
        self.peers = PeerRequests(broker, self._leader_of, channel_to)
        broker.transactions.peers = self.peers
        self._by_log: dict[Log, Partition] = {}
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._due: dict[ReplicaFetcher, None] = {}
        self._unfinished: dict[str, None] = {}
        self._postponed: dict[TopicPartition, None] = {}
        self._asked_since_ms, self._asked_ms = -1000, 0
        self._opening: BackgroundTask | None = None
        self._epoch = NO_BROKER_EPOCH
        self._log_directory = LogDirectory(
            broker, workers, lambda: self.membership, lambda: not self._unfinished, self._fetch_again
        )
        broker.groups.runtime.hosts_on_use = False
        self._schedule_check()
        self._schedule_checkpoint()

    # -- metadata

    def apply(self, delta: Delta) -> None:
        """Do what a change of the metadata requires of this broker."""
        if delta.brokers is not None and self._broker.node.id in delta.brokers.by_id:
            self._epoch = delta.brokers.by_id[self._broker.node.id].epoch
        if delta.settings is not None:
            self.install_settings()
        for topic in delta.deleted:
            existing = self._broker.topics.get(topic.name)
            if existing is not None and existing.topic_id == topic.topic_id:
                self._attempt(TopicPartition(topic.name, 0), partial(self._delete, existing))
        for topic in delta.created:
            self._attempt(TopicPartition(topic.name, 0), partial(self._create, topic))
        changed = [
            Placed(TopicPartition(topic.name, index), state)
            for topic in delta.created
            for index, state in enumerate(topic.partitions)
        ]
        self._change_roles([*changed, *delta.partitions])
        if delta.brokers is not None:
            self._broker.node.broker_ids = tuple(sorted(delta.brokers.by_id))
            live, now = self._live(), self._broker.clock.now()
            # A copy: a proposal that is decided now may change the dict.
            for partition in list(self._by_log.values()):
                if isinstance(partition.replica, LeaderReplica):
                    if partition.replica.on_live(live, now.mono_ms):
                        self._high_watermark_moved(partition, partition.replica)
                    self._propose(partition, partition.replica)
                    self.deletions.resolve(partition)
            for broker_id in [leader_id for leader_id in self._fetchers if leader_id not in live]:
                self._fetchers.pop(broker_id).stop()
            self._follow_returned(live)
            for fetcher in self._fetchers.values():
                fetcher.registered()
                self._due[fetcher] = None
        self._log_directory.changed(delta)

    def _fetch_again(self) -> None:
        self._due.update(dict.fromkeys(self._fetchers.values()))

    def _attempt(self, topic_partition: TopicPartition, work: Callable[[], None]) -> None:
        """Do something for a topic; if the disk refuses it, or a log is still being opened, try again later."""
        try:
            work()
        except StorageError as error:
            if not isinstance(error, LogLoadingError):
                self._broker.topics.report(*topic_partition, error)
            if not self._unfinished:
                self._broker.scheduler.client_timeout(_RETRY_MS, self._retry)
            self._unfinished[topic_partition.topic] = None

    def log_opened(self, topic: str, index: int) -> None:
        """Lead or follow a partition that has waited for its log."""
        state = self.state(topic, index) if topic in self._unfinished else None
        if state is not None:
            topic_partition = TopicPartition(topic, index)
            self._attempt(topic_partition, partial(self._become, topic_partition, state))

    def _retry(self, now: Now) -> None:
        """Bring the topics for which something has failed to the state that the metadata have by now."""
        names, self._unfinished = self._unfinished, {}
        topics = self.membership.image.topics
        for name in names:
            existing = self._broker.topics.get(name)
            if existing is not None and name not in topics:
                self._attempt(TopicPartition(name, 0), partial(self._delete, existing))
        self.apply(Delta(created=tuple(topics[name] for name in names if name in topics)))

    def remove_unknown_topics(self) -> None:
        """Delete the topics that were deleted while this broker was away."""
        for topic in list(self._broker.topics.all()):
            if topic.name not in self.membership.image.topics:
                self._attempt(TopicPartition(topic.name, 0), partial(self._delete, topic))

    def install_settings(self) -> None:
        """Install the settings of groups, users and clients, also removals that this broker has missed."""
        try:
            self._broker.settings.install(self.membership.image.settings)
        except StorageError as error:
            logger.error(
                "settings of the cluster are not in force here until the next change or start: %s", error
            )

    def _leader_of(self, topic: str, index: int) -> int:
        return self.membership.image.leader(topic, index)

    @property
    def may_be_fenced(self) -> bool:
        """Whether the controller may have fenced this broker, and others may lead what it leads."""
        return self.membership.may_be_fenced

    def state(self, topic: str, index: int) -> PartitionState | None:
        """Return the state of a partition; None if it does not exist."""
        return self.membership.image.state(topic, index)

    def hosts(self, topic: str, index: int) -> bool:
        """Whether this broker is a replica of a partition."""
        state = self.state(topic, index)
        return state is not None and self._broker.node.id in state.replicas

    def _live(self) -> Mapping[int, int]:
        brokers = self.membership.image.brokers.by_id.values()
        return {broker.id: broker.epoch for broker in brokers if broker.is_up}

    def _create(self, topic: ClusterTopic) -> None:
        """Create a topic here, or give it the partitions and configurations that it has by now."""
        topics, configs = self._broker.topics, self._usable_configs(topic)
        existing = topics.get(topic.name)
        if existing is not None and existing.topic_id != topic.topic_id:
            self._delete(existing)  # deleted and created again while this broker was away
            existing = None
        if existing is None:
            topics.install([NewTopic(topic.name, len(topic.partitions), configs, topic.topic_id)])
            if topic.name == OFFSETS_TOPIC:
                self._broker.groups.runtime.start(len(topic.partitions), self._broker.clock.now())
            elif topic.name == TRANSACTIONS_TOPIC:
                self._broker.transactions.topic_created()
            return
        if existing.partition_count < len(topic.partitions):
            topics.install_partitions({topic.name: len(topic.partitions)})
        if existing.configs != configs:
            topics.install_configs(topic.name, configs)

    def _usable_configs(self, topic: ClusterTopic) -> Mapping[str, str]:
        """Return the configurations of a topic that can be used: ZooKeeper has also what other programs wrote."""
        configs, reasons = usable_configs(topic.configs)
        for reason in reasons:
            logger.error("%s: the metadata have a configuration without effect: %s", topic.name, reason)
        return configs

    def _delete(self, topic: Topic) -> None:
        """Delete a topic here. Raises StorageError."""
        for partition in topic.open_partitions:
            self._drop(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            self._broker.topics.remove([topic.name])
        finally:
            if self._broker.topics.get(topic.name) is None:
                topic_deleted(self._broker, topic.name)

    def replicate(self, logs: Iterable[Log], callback: Callable[[ErrorCode], None]) -> None:
        """Call back when the in-sync replicas have what these logs have now: see `Durability.replicate`."""
        offsets = {}
        for log in logs:
            partition = self._by_log.get(log)
            if partition is None:  # its replica here is gone
                callback(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return
            offsets[partition] = log.log_end_offset

        def ended(outcomes: Mapping[Partition, ErrorCode]) -> None:
            callback(next((error for error in outcomes.values() if error), ErrorCode.NONE))

        self.acknowledgements.wait(offsets, _TRANSACTION_TIMEOUT_MS, ended)

    def _schedule_checkpoint(self) -> None:
        """Write the high watermarks now and then: a leader that was killed begins with the last one written."""
        every_ms = max(self._broker.config.replica_high_watermark_checkpoint_interval_ms, 1)

        def write(now: Now) -> None:
            self._workers.background(self._broker.directory.high_watermarks_writer(), written)

        def written(error: StorageError | None) -> None:
            if error is not None and self._broker.directory.is_news(error):
                logger.error("the high watermarks are not written: %s", error)
            if not self._is_stopped:
                self._broker.scheduler.after_interval(every_ms, write)

        self._broker.scheduler.after_interval(every_ms, write)

    # -- roles

    def _change_roles(self, changed: Iterable[Placed]) -> None:
        """Lead, follow and leave partitions; what takes too long is continued in steps.

        Opening 5,000 logs takes some seconds: in one piece, this broker would send no heartbeats for that long.
        """
        clock = self._broker.clock
        end_ms = clock.now().mono_ms + _AT_ONCE_MS
        for topic_partition, state in changed:
            if topic_partition in self._postponed or (
                not self._is_open(topic_partition) and clock.now().mono_ms >= end_ms
            ):
                self._postponed[topic_partition] = None
            else:
                self._attempt(topic_partition, partial(self._become, topic_partition, state))
        if self._postponed and (self._opening is None or self._opening.is_over()):
            self._opening = BackgroundTask(
                "the opening of the logs of partitions",
                self._broker.scheduler,
                self._opening_steps(),
                pacing=_STEPS,
                may_continue=lambda: not self._is_stopped,
            )
            self._opening.start()

    def take_role(self, topic: str, index: int) -> None:
        """Lead or follow a partition now that a request needs, if that was postponed.

        Not more than 500 ms in a second: a request may name 5,000 partitions.
        """
        topic_partition = TopicPartition(topic, index)
        if topic_partition not in self._postponed:
            return
        begin_ms = self._broker.clock.now().mono_ms
        if begin_ms >= self._asked_since_ms + 1000:
            self._asked_since_ms, self._asked_ms = begin_ms, 0
        if self._asked_ms < _ASKED_MS:
            self._take_postponed(topic_partition)
            self._asked_ms += self._broker.clock.now().mono_ms - begin_ms

    def _take_postponed(self, topic_partition: TopicPartition) -> None:
        del self._postponed[topic_partition]
        state = self.state(*topic_partition)
        if state is not None:
            self._attempt(topic_partition, partial(self._become, topic_partition, state))

    def _opening_steps(self) -> Steps:
        """Bring postponed partitions to the state that the metadata have by now."""
        clock = self._broker.clock
        while self._postponed:
            end_ms = clock.now().mono_ms + _STEP_MS
            while self._postponed and clock.now().mono_ms < end_ms:
                self._take_postponed(next(iter(self._postponed)))
            yield None

    def _is_open(self, topic_partition: TopicPartition) -> bool:
        topic = self._broker.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= topic.partition_count:
            return False
        return topic.partitions[topic_partition.partition] is not None

    def _become(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        """Lead, follow or leave a partition. Raises StorageError."""
        node_id = self._broker.node.id
        topic = self._broker.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= topic.partition_count:
            return  # the disk has refused to create it
        partition = topic.partitions[topic_partition.partition]
        if node_id not in state.replicas:
            if partition is not None:
                self._drop(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._broker.topics.remove_log(topic, topic_partition.partition)
            return
        partition = self._broker.topics.partition_of(topic, topic_partition.partition)
        assert partition is not None
        self._by_log[partition.log] = partition
        if state.leader == node_id:
            self._lead(partition, state)
        else:
            self._follow(partition, state)

    def _lead(self, partition: Partition, state: PartitionState) -> None:
        now = self._broker.clock.now()
        replica, log = partition.replica, partition.log
        if isinstance(replica, LeaderReplica):
            self._lead_on(partition, replica, state, now)
            return
        self._stop_following(partition)
        log.start_epoch(max(state.leader_epoch, log.leader_epoch))
        partition.leader_epoch = log.leader_epoch
        high_watermark = log.high_watermark
        new = LeaderReplica(
            self._broker.node.id,
            state,
            log.log_end_offset,
            high_watermark,
            self._settings(partition),
            now.mono_ms,
        )
        new.live = self._live()
        self.coordinators.load(partition, new)
        partition.replica, log.replicated_to = new, new.high_watermark
        self.coordinators.carry_on(partition)
        self._high_watermark_moved(partition, new)

    def _lead_on(self, partition: Partition, replica: LeaderReplica, state: PartitionState, now: Now) -> None:
        """Continue to lead, perhaps in a new epoch: what waits here continues to wait, and groups stay loaded."""
        if state.leader_epoch > replica.state.leader_epoch:
            partition.log.start_epoch(max(state.leader_epoch, partition.log.leader_epoch))
            partition.leader_epoch = partition.log.leader_epoch
        replica.settings = self._settings(partition)
        self._appended(partition.log, now)
        if replica.on_state(state, now.mono_ms):
            self._high_watermark_moved(partition, replica)
        self.deletions.resolve(partition)
        self._propose(partition, replica)

    def _settings(self, partition: Partition) -> ReplicationSettings:
        topic = self._broker.topics.get(partition.topic)
        assert topic is not None
        return ReplicationSettings(
            self._broker.config.replica_lag_time_max_ms, topic.config.min_insync_replicas
        )

    def _follow(self, partition: Partition, state: PartitionState) -> None:
        replica, log = partition.replica, partition.log
        if isinstance(replica, FollowerReplica):
            is_new_epoch, state = replica.on_state(state), replica.state
            if not is_new_epoch and self._is_followed(partition, state):
                return
        self._stop_following(partition)
        was_leading = isinstance(replica, LeaderReplica)
        follower = (
            replica if isinstance(replica, FollowerReplica) else FollowerReplica(self._broker.node.id, state)
        )
        partition.replica, partition.leader_epoch = follower, state.leader_epoch
        if was_leading:
            self._resign(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for decision in follower.start(log.log_end_offset, log.high_watermark, log.leader_epoch):
            assert isinstance(decision, Truncate)
            partition.truncate(decision.offset)
        if state.leader != NO_LEADER:
            fetcher = self._fetcher(state.leader)
            fetcher.add(partition)
            self._due[fetcher] = None

    def _follow_returned(self, live: Mapping[int, int]) -> None:
        """Follow leaders that are live again and have stayed leaders: their fetchers were stopped.

        A new controller may find only a part of its predecessor's change: the state, but not the registration.
        """
        for partition in list(self._by_log.values()):
            replica = partition.replica
            if isinstance(replica, FollowerReplica) and replica.state.leader in live:
                topic_partition = TopicPartition(partition.topic, partition.index)
                self._attempt(topic_partition, partial(self._follow, partition, replica.state))

    def _is_followed(self, partition: Partition, state: PartitionState) -> bool:
        """Whether a fetcher copies a partition, or it has no leader; not if the disk has refused to begin."""
        fetcher = self._fetchers.get(state.leader)
        return state.leader == NO_LEADER or (fetcher is not None and fetcher.has(partition))

    def _drop(self, partition: Partition, error: ErrorCode) -> None:
        """Neither lead nor follow a partition any longer."""
        self._stop_following(partition)
        was_leading = isinstance(partition.replica, LeaderReplica)
        partition.replica = None
        self._by_log.pop(partition.log, None)
        if was_leading:
            self._resign(partition, error)

    def _resign(self, partition: Partition, error: ErrorCode) -> None:
        """Answer everything that waits for this broker as the leader."""
        self.acknowledgements.refuse(partition, error)
        self.deletions.refuse(partition, error)
        self.coordinators.resign(partition)
        fetch.answer_waiting(
            self._broker,
            lambda topic, index: (topic, index) == (partition.topic, partition.index),
            self._broker.clock.now(),
        )

    def _stop_following(self, partition: Partition) -> None:
        for fetcher in self._fetchers.values():
            fetcher.remove(partition)

    def _fetcher(self, leader: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = ReplicaFetcher(
                self._broker, self._channel_to(leader), lambda: self._epoch
            )
        return fetcher

    # -- high watermarks and in-sync replicas

    def end_turn(self, now: Now) -> None:
        """Record what this turn has appended, and fetch what this broker follows since.

        Where no follower is in sync, high watermarks move at once. What waits for them may append more.
        """
        for fetcher in self._due:
            fetcher.send(now)
        self._due.clear()
        unsynced = self._broker.appends.unsynced
        seen: dict[Log, int] = {}
        while grown := [log for log in unsynced if seen.get(log) != log.log_end_offset]:
            for log in grown:
                seen[log] = log.log_end_offset
                self._appended(log, now)
        self._log_directory.end_turn(now)

    def _appended(self, log: Log, now: Now) -> None:
        """Record the new end of a log that this broker may lead."""
        partition = self._by_log.get(log)
        if partition is None or not isinstance(partition.replica, LeaderReplica):
            return
        if partition.replica.log_end_offset == log.log_end_offset:
            return  # it grew in an earlier turn; only its sync is new
        if partition.parked:
            self._broker.appends.partitions[partition] = None
            for parked in partition.parked:
                partition.replica.on_waiting(parked.request.replica_state.replica_id, now.mono_ms)
        if partition.replica.on_append(log.log_end_offset, now.mono_ms):
            self._high_watermark_moved(partition, partition.replica)

    def fetched(
        self,
        partition: Partition,
        follower: int,
        broker_epoch: int,
        asked: messages.FetchRequest.FetchPartition,
    ) -> None:
        """Record the fetch of a follower whose records are the leader's up to its offset."""
        replica = partition.replica
        assert isinstance(replica, LeaderReplica)
        moved = replica.on_fetch(
            follower,
            asked.fetch_offset,
            self._broker.clock.now().mono_ms,
            log_start_offset=asked.log_start_offset,
            broker_epoch=broker_epoch,
        )
        if moved:
            self._high_watermark_moved(partition, replica)
        self.deletions.resolve(partition)
        self._propose(partition, replica)

    def _high_watermark_moved(self, partition: Partition, replica: LeaderReplica) -> None:
        partition.log.replicated_to = replica.high_watermark
        self.acknowledgements.resolve(partition)
        self.coordinators.replicated(partition)
        if partition.parked:
            self._broker.appends.partitions[partition] = None

    def _propose(self, partition: Partition, replica: LeaderReplica) -> None:
        """Send the in-sync replicas that a leader proposes to the controller, if they are not sent yet."""
        if replica.propose() is not None:
            self._send_proposal(partition, replica)

    def _send_proposal(self, partition: Partition, replica: LeaderReplica) -> None:
        proposal = replica.proposal()

        def decided(error: ErrorCode) -> None:
            """Pass a refusal of the controller on to the leader's replica."""
            if error and partition.replica is replica:
                logger.info(
                    "%s: the in-sync replicas %s are refused: %s", partition, proposal.isr, error.name
                )
                replica.on_proposal_refused(error, proposal.partition_epoch)

        self.membership.alter_isr(TopicPartition(partition.topic, partition.index), proposal, decided)

    def _schedule_check(self) -> None:
        """Look for followers that lag, as often as Kafka does."""
        every_ms = max(self._broker.config.replica_lag_time_max_ms // 2, 1)

        def check(now: Now) -> None:
            """Propose in-sync replicas without the followers that have lagged for too long."""
            self._schedule_check()
            for partition in list(self._by_log.values()):
                replica = partition.replica
                if not isinstance(replica, LeaderReplica):
                    continue
                if replica.tick(now.mono_ms, is_reachable=self.membership.is_reachable) is not None:
                    self._send_proposal(partition, replica)
                if replica.on_time(now.mono_ms):
                    self._high_watermark_moved(partition, replica)

        self._broker.scheduler.after_interval(every_ms, check)

    def stop(self) -> None:
        """Close all channels."""
        self._is_stopped = True
        self._log_directory.stop()
        self.peers.stop()
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
