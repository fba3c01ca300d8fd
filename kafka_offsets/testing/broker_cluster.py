"""A cluster for tests: several brokers in one process, each with its own logs and address.

Followers copy from their leaders with Fetch, as in Kafka; the metadata are in this process
(`kafka_offsets.metadata.in_process`). `kafka_offsets.testing.cluster.server` runs the nodes.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import NamedTuple, TypeVar, cast

from kafka_offsets.broker.config.listeners import address_text, check_node_ports
from kafka_offsets.broker.network.server import Server as NetworkServer
from kafka_offsets.broker.partition.compacted import Compacted
from kafka_offsets.broker.partition.forced_compaction import force_compaction
from kafka_offsets.clock import Clock
from kafka_offsets.errors import ConfigError
from kafka_offsets.security.acls import AclBinding
from kafka_offsets.testing.broker import Broker
from kafka_offsets.testing.cluster.server import ClusterServer
from kafka_offsets.testing.cluster.view import joined
from kafka_offsets.testing.contents.topics import Topics

_MOST_BROKERS = 100
_DEFAULT_FACTOR = 3
"""Replicas of a topic that is created without their number, where the configuration does not say otherwise."""

T = TypeVar("T")


class Node(NamedTuple):
    """One broker of a cluster, as clients see it.

    id     from `node.id` on, 1 unless that is configured
    is_up  whether it listens
    """

    id: int
    host: str
    port: int
    is_up: bool

    @property
    def address(self) -> str:
        """The advertised `host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Cluster(Broker):
    """Several brokers: a `Broker` with several addresses, with leaders and coordinators spread over its nodes.

    brokers  the number of nodes; their ids begin with `node.id`, 1 unless it is configured
    port     of the first node, the others take the next ports; 0 or none: any free ports
    The other parameters are those of `Broker`, in memory. Leaders of a topic's partitions are assigned to the nodes
    round-robin, and a group's coordinator is the leader of its partition of `__consumer_offsets`, found by Kafka's
    hash. A topic has three replicas unless `default.replication.factor` or its creator sets another number. Each node
    has its own logs, and followers copy from their leaders: what a failure loses here is lost in Kafka too.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        brokers: int = 3,
        host: str | None = None,
        port: int | None = None,
        clock: Clock | None = None,
        users: Mapping[str, str] | None = None,
        record: bool = False,
        acls: Iterable[AclBinding] | None = None,
        topics: Topics | None = None,
    ) -> None:
        settings = {} if config is None else dict(config)
        super().__init__(
            {"default.replication.factor": _DEFAULT_FACTOR} | settings,
            host=host,
            port=port,
            clock=clock,
            users=users,
            record=record,
            acls=acls,
            topics=topics,
        )
        if not 1 <= brokers <= _MOST_BROKERS:
            raise ConfigError(f"a cluster has between 1 and {_MOST_BROKERS} brokers, not {brokers}")
        if self._data_directory is not None:
            raise ConfigError("a cluster is in memory: log.dirs is for one broker")
        if self.config.advertised_listeners is not None:
            raise ConfigError(
                "a cluster has an address for each node: advertised.listeners is for one broker"
            )
        check_node_ports(self.config.endpoints(), self._port, brokers)
        self._ids = [self.config.node_id + number for number in range(brokers)]

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, separated by commas, also in a fork. RuntimeError if it is not running."""
        if self._is_of_parent:
            return super().bootstrap_servers
        return ",".join(node.address for node in self.nodes)

    def address_of(self, listener: str) -> str:
        """Return the addresses of all nodes at a listener, by its name in the key `listeners`, separated by commas.

        ValueError for an unknown listener; RuntimeError when the cluster is not running.
        """
        listeners_of_nodes = self._in_cluster(lambda server: [node.listeners for node in server.nodes])
        if listener.upper() not in listeners_of_nodes[0]:
            raise ValueError(f"there is no listener {listener}, only {', '.join(listeners_of_nodes[0])}")
        return ",".join(address_text(*listeners[listener.upper()]) for listeners in listeners_of_nodes)

    # -- placement

    @property
    def nodes(self) -> list[Node]:
        """The nodes by their ids, each with `id`, `host`, `port`, `address` and `is_up`."""
        server = _cluster(self._running())
        return [Node(node.id, node.host, node.port, server.is_running(node.id)) for node in server.nodes]

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of the node that leads a partition, -1 for none. ValueError if there is no such partition."""
        return self._in_cluster(lambda server: server.state(topic, partition).leader)

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """Return the ids of the in-sync replicas of a partition. ValueError if there is no such partition."""
        return self._in_cluster(lambda server: sorted(server.state(topic, partition).isr))

    def coordinator(self, group: str | None = None, *, transactional_id: str | None = None) -> int:
        """Return the id of the node that coordinates a group or a transactional id, -1 for none."""
        key, is_transactional = _key(group, transactional_id)
        return self._in_cluster(
            lambda server: server.state(*server.home(key, is_transactional=is_transactional)).leader
        )

    # -- moves

    def move_leader(self, topic: str, partition: int = 0, *, to: int | None = None) -> int:
        """Move the leader of a partition to another node, in a new leader epoch; return the node's id.

        to  the node; default: the next replica that is up. A node that is not a replica becomes one
        Returns when the node has every record of the old leader and leads. Requests to the old leader receive
        NOT_LEADER_OR_FOLLOWER. ValueError for an unknown partition or node, for a stopped node, and if no other replica
        is up.
        """
        return self._until(lambda server: server.moving((topic, partition), to))

    def move_coordinator(
        self, group: str | None = None, *, transactional_id: str | None = None, to: int | None = None
    ) -> int:
        """Move the coordinator of a group or a transactional id to another node; return the node's id.

        Its partition moves with all its groups: the new coordinator loads them from its log. Waiting JoinGroups and
        requests to the old coordinator receive NOT_COORDINATOR. ValueError as `move_leader`.
        """
        key, is_transactional = _key(group, transactional_id)
        return self._until(
            lambda server: server.moving(server.home(key, is_transactional=is_transactional), to)
        )

    def stop_node(self, node: int) -> None:
        """Stop a node: the next replicas lead its partitions, its connections close, and it accepts no new ones.

        It stops in order, as on a signal: see `kill` for a crash. ValueError for an unknown, stopped or paused node.
        """
        self._until(lambda server: server.stopping(node))

    def start_node(self, node: int) -> None:
        """Start a stopped node at its old address. It catches up, and leads partitions without a leader.

        ValueError for an unknown or running node, and for one that `partition` cuts off from the controller;
        OSError if another process uses the port.
        """
        self._until(lambda server: server.starting(node))

    def restart(self, node: int) -> None:
        """Stop a node in order and start it again; for a crash, call `kill` and `start_node`.

        ValueError as `stop_node` and `start_node`; OSError if another process uses the port.
        """
        self._until(lambda server: server.restarting(node))

    def elect_preferred_leaders(self) -> int:
        """Move each leader to its partition's first replica, if that is in sync; return how many have moved."""
        return self._in_cluster(lambda server: server.elect_preferred())

    def compact(
        self, topic: str | None = None, *, include_active: bool = False
    ) -> dict[tuple[str, int], Compacted]:
        """Compact the logs of all nodes, as `Broker.compact`; return the results of the leaders' logs."""

        def begin(server: ClusterServer) -> Future[list[dict[tuple[str, int], Compacted]]]:
            """Begin the compaction on each node; the result is that of the leaders' logs."""
            cleaners = [core.log_cleaner for core in server.cores]
            begun = [force_compaction(cleaner, topic, include_active=include_active) for cleaner in cleaners]
            return joined(
                begun,
                lambda parts: [
                    server.led(core, part) for core, part in zip(server.cores, parts, strict=True)
                ],
            )

        return {partition: compacted for part in self._until(begin) for partition, compacted in part.items()}

    # -- failures

    def kill(self, node: int, *, power_failure: bool = False) -> None:
        """Kill a node, as kill -9: what it has not written or sent is lost, its connections break.

        power_failure  its machine goes down: what it has not synced is lost too. When a broker syncs is `fsync` of its
                       configuration; a stop in order syncs everything
        Other in-sync replicas lead its partitions. `start_node` starts it again with the files that it has left.
        ValueError for an unknown or stopped node.
        """
        self._until(lambda server: server.killing(node, power_failure=power_failure))

    def pause(self, node: int) -> None:
        """Pause the process of a node, as SIGSTOP: it does nothing, and its sockets stay open.

        After `broker.session.timeout.ms` of the cluster's clock the controller fences it and elects other leaders.
        ValueError for an unknown, stopped or paused node.
        """
        self._in_cluster(lambda server: server.pause(node))

    def resume(self, node: int) -> None:
        """Resume a paused node.

        It first decides what has arrived, with what it knew when it was paused: as a leader that has been deposed it
        accepts records with `acks=1`, which it truncates later. Then the controller reaches it. ValueError for a node
        that is not paused.
        """
        self._until(lambda server: server.resuming(node))

    def shrink_isr(self, topic: str, partition: int = 0, *, node: int | None = None) -> int:
        """Remove a follower from the ISR of a partition and keep it out until `grow_isr`; return its id.

        node  the follower; default: the last replica that is in sync and does not lead
        It still copies records. ValueError for an unknown partition, and for a node that is not a follower in the ISR.
        """
        return self._in_cluster(lambda server: server.shrink_isr(topic, partition, node))

    def grow_isr(self, topic: str, partition: int = 0) -> None:
        """Let the followers that `shrink_isr` has removed join the ISR again. ValueError for an unknown partition."""
        self._in_cluster(lambda server: server.grow_isr(topic, partition))

    def partition(self, *sides: int | Collection[int]) -> None:
        """Cut the connections between nodes: `partition(1, {2, 3})`. Clients reach all nodes.

        The controller is on the side with the most nodes, of equal ones on the first. The nodes of other sides are cut
        off from it: they keep what they know. After `broker.session.timeout.ms` of the cluster's clock the controller
        elects other leaders, until the nodes are connected again. ValueError for an unknown node, for a node on two
        sides, and for less than two sides.
        """
        self._in_cluster(
            lambda server: server.cut([{side} if isinstance(side, int) else set(side) for side in sides])
        )

    def heal(self) -> None:
        """Connect all nodes again."""
        self._in_cluster(lambda server: server.heal())

    def slow(self, node: int, ms: int) -> None:
        """Delay what a node exchanges with other nodes, by so many milliseconds each way; 0 ends it."""
        self._in_cluster(lambda server: server.slow(node, ms))

    def _described(self, most: int | None = None) -> list[str]:
        paused = self._in_cluster(
            lambda server: {cluster_node.node_id for cluster_node in server.servers if cluster_node.is_paused}
        )
        nodes = [
            f"node {node.id} {node.address}{_state(is_up=node.is_up, is_paused=node.id in paused)}"
            for node in self.nodes
        ]
        return [*nodes, *super()._described(most)]

    def _in_cluster(self, function: Callable[[ClusterServer], T]) -> T:
        return self._call(lambda server: function(_cluster(server)))

    def _until(self, begin: "Callable[[ClusterServer], Future[T]]") -> T:
        return self._result(self._begin(lambda server: begin(_cluster(server))))

    def _new_server(self) -> NetworkServer:
        return cast(
            "NetworkServer", ClusterServer(self.config, self._ids, self._clock, self._recorder, self._acls)
        )


def _state(*, is_up: bool, is_paused: bool) -> str:
    if not is_up:
        return ", stopped"
    return ", paused" if is_paused else ""


def _cluster(server: object) -> ClusterServer:
    return cast("ClusterServer", server)


def _key(group: str | None, transactional_id: str | None) -> tuple[str, bool]:
    if (group is None) is (transactional_id is None):
        raise TypeError("either a group or a transactional_id is expected")
    return (group, False) if group is not None else (transactional_id or "", True)
