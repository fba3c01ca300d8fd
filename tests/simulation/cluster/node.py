"""Node: one whole broker in virtual time."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore, ClusterPart
from kafka_offsets.broker.network.inner_channel import InnerChannel
from kafka_offsets.broker.nodes import cluster_connection
from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.broker.wire.api import Apis
from kafka_offsets.clock import Now
from kafka_offsets.metadata.image import TopicPartition
from kafka_offsets.metadata.membership import ClusterMembership
from kafka_offsets.protocol.records import batch_headers, read_records
from kafka_offsets.storage.log.log import Log
from tests.drivers.raw_files import raw
from tests.replication.simulation.history import Record
from tests.simulation.cluster.metadata import LateMembership
from tests.simulation.cluster.network import CLUSTER_ID, Connection
from tests.simulation.observed import replace as put
from tests.storage.crash.crash_files import LOST, WHOLE, CrashPoint, RecordingFiles

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

WALL_MS = 1_700_000_000_000


class DriftingClock:
    """A clock that runs at a rate; the drift is in percent."""

    def __init__(self, world: "World", drift: int) -> None:
        self._world = world
        self._percent = 100 + drift

    def now(self) -> Now:
        passed_ms = self._world.network.now_ms * self._percent // 100
        return Now(WALL_MS + passed_ms, passed_ms)

    def real_ms(self, mono_ms: int) -> int:
        """Return when this clock shows a time."""
        return -(-mono_ms * 100 // self._percent)


class Mirror:
    """The records of a log as its files have them, read again only where they have changed."""

    def __init__(self) -> None:
        self._raw = b""
        self._records: list[Record] = []
        self.log: Log

    def update(self, log: Log, raw: bytes) -> None:
        self.log = log
        if not self._records or raw[: len(self._raw)] != self._raw:
            self._raw, self._records = b"", []
        more = raw[len(self._raw) :]
        for position, header in batch_headers(more):
            for record in read_records(more, position, header):
                self._records.append((header.leader_epoch, record.key, record.value))
        self._raw = raw

    @property
    def log_start_offset(self) -> int:
        return 0

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    def read(self, offset: int, count: int) -> list[Record]:
        return self._records[offset : offset + count]


class Node:
    """A broker, or its files while it is down.

    run      counts its processes: what belongs to an earlier one arrives nowhere
    accepts  whether clients and other nodes reach it, while it is up
    """

    accepts = True

    core: BrokerCore
    apis: Apis

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.id = world, number
        self.run = 0
        self.is_up = self.is_paused = False
        self.files = RecordingFiles()
        self.clock = DriftingClock(world, world.plan.drifts[number - 1])
        self._inbox: list[Callable[[], None]] = []
        self._has_turn = False
        self._timer_ms: int | None = None

    def __str__(self) -> str:
        return f"node {self.id}{'' if self.is_up else ' down'}{' paused' if self.is_paused else ''}"

    # -- life

    def start(self) -> None:
        """Start with the files that there are, and register."""
        membership = LateMembership(self.world.metadata, self.id, self.run + 1)
        self._begin_run(membership)
        metadata, was_clean = self.world.metadata, self.core.directory.stopped_cleanly
        metadata.returning = () if was_clean else (self.id,)
        metadata.join(membership, "127.0.0.1", 9000 + self.id, was_clean=was_clean)
        metadata.returning = ()
        cluster_connection.catch_up(self.core)
        self.request_turn()

    def _begin_run(self, membership: ClusterMembership) -> None:
        """Start a process with the files that there are."""
        plan = self.world.plan
        self.run += 1
        self._inbox, self._timer_ms, self._has_turn = [], None, False
        self.mirrors: dict[TopicPartition, Mirror] = {}
        config = Config.load({
            "node.id": self.id,
            "fsync": plan.fsync,
            "fsync.interval.ms": 700,
            "min.insync.replicas": 2,
            "replica.lag.time.max.ms": plan.lag_max_ms,
            "broker.session.timeout.ms": 3000,
            "offsets.topic.num.partitions": 1,
            "offsets.topic.segment.bytes": plan.segment_bytes,
            "offsets.commit.timeout.ms": 3000,
            "offsets.forward": plan.forwards,
            "group.min.session.timeout.ms": 100,
            "group.initial.rebalance.delay.ms": 0,
            "connections.max.idle.ms": -1,
            "log.cleaner.enable": False,
        })  # fmt: skip
        self.config = replace(config, given=frozenset({*config.given, "node.id"}))
        self._connections: list[Connection] = []
        cluster = ClusterPart(CLUSTER_ID, self._channel_to)
        self.core = BrokerCore(self.config, self.files, self.clock, cluster=cluster)
        cluster_connection.connect(self.core, membership)
        self.apis = self.core.broker.apis
        self._observe()
        self.is_up = True
        membership.on_change = self._apply

    def _channel_to(self, target: int) -> InnerChannel:
        connection = Connection(self.world, self.id, target)
        self._connections.append(connection)
        send = connection.channel.send

        def sent(request: Any, version: int, on_answer: Any) -> None:
            self.world.forwarded(request)
            send(request, version, on_answer)

        put(connection.channel, send=sent)
        return connection.channel

    def _observe(self) -> None:
        """Take down each move of a high watermark before any answer may follow from it."""
        replicas = self.core.replicas
        assert replicas is not None
        moved = replicas._high_watermark_moved

        def has_moved(partition: Partition, replica: Any) -> None:
            self.world.visible(self, partition, replica.high_watermark)
            moved(partition, replica)

        put(replicas, _high_watermark_moved=has_moved)

    def _apply(self, delta: Any) -> None:
        assert self.core.replicas is not None
        self.core.replicas.apply(delta)
        self.request_turn()

    def _gone(self) -> None:
        self.is_up = self.is_paused = False
        for accepted in list(self.core.connections):
            accepted.owner.abort()
        for opened in self._connections:
            opened.hang_up()
        inbox, self._inbox = self._inbox, []
        for deliver in inbox:
            deliver()  # finds that the node has stopped

    def kill(self) -> None:
        """The process dies; its files are as it left them."""
        operations = self.files.operations
        self.files = RecordingFiles(CrashPoint(self.files.base, operations, len(operations)).process_death())
        self._gone()

    def power_failure(self, chance: random.Random) -> None:
        """The machine goes down: of what was not synced anything may be missing.

        A broker that never syncs refuses a log with holes. There the last calls are missing.
        """
        operations = self.files.operations
        point = CrashPoint(self.files.base, operations, len(operations))
        fates = point.draw(chance)
        if self.world.plan.fsync != "commit":
            count = len(point.outstanding)
            kept = chance.randrange(count + 1)
            fates = [WHOLE] * kept + [LOST] * (count - kept)
        self.files = RecordingFiles(point.tree(fates))
        self._gone()

    def stop(self) -> None:
        """A stop in order."""
        self._end_turn()
        self.is_up = False
        self.core.close()
        self._gone()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        """Continue with what has arrived and what is due."""
        self.is_paused = False
        inbox, self._inbox = self._inbox, []
        for deliver in inbox:
            deliver()
        self._timer_ms = None
        self._has_turn = False
        self.request_turn()

    # -- what a channel needs of a server

    def served(self) -> Apis:
        return self.apis

    def receive(self, deliver: Callable[[], None]) -> None:
        """Take what has arrived, or let it lie while the process is paused."""
        if self.is_paused:
            self._inbox.append(deliver)
        else:
            deliver()

    def request_turn(self) -> None:
        if not self._has_turn and self.is_up and not self.is_paused:
            self._has_turn = True
            network = self.world.network
            network.at(network.now_ms, self._turn, self.run)

    def _turn(self, run: int) -> None:
        if self.is_up and run == self.run and not self.is_paused and self._has_turn:
            self._end_turn()

    def _end_turn(self) -> None:
        self._has_turn = False
        self.core.end_turn()
        for connection in self.core.responses.take_output():
            connection.owner.flush()
        if self.core.has_work:
            self.request_turn()
        due = self.core.next_deadline_ms
        if due is None:
            return
        network = self.world.network
        due_ms = max(self.clock.real_ms(due), network.now_ms + 1)
        if self._timer_ms is None or due_ms < self._timer_ms:
            self._timer_ms = due_ms
            network.at(due_ms, self._fire, self.run, due_ms)

    def _fire(self, run: int, due_ms: int) -> None:
        if self.is_up and run == self.run and not self.is_paused and self._timer_ms == due_ms:
            self._timer_ms = None
            self.core.run_due()
            self._end_turn()

    # -- for the checks

    def partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        """Yield the open partitions."""
        for partition in self.core.topics.open_partitions():
            yield TopicPartition(partition.topic, partition.index), partition

    def mirror(self, partition: Partition) -> Mirror:
        """Return the records of a log as they are now."""
        place = TopicPartition(partition.topic, partition.index)
        found = self.mirrors.setdefault(place, Mirror())
        directory = partition.log.directory
        names = sorted(name for name in self.files._directories[directory] if name.endswith(".log"))
        found.update(partition.log, b"".join(raw(self.files, f"{directory}/{name}") for name in names))
        return found
