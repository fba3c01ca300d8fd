"""A cluster for tests: several brokers, as clients see them, with leaders and coordinators that move between nodes.

One broker serves all addresses. `kafka_offsets.testing.cluster.rows` defines the answers of each node,
`kafka_offsets.testing.cluster.placement` the leaders.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, cast

from kafka_offsets.broker.api.row import Apis
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.connection import Connection
from kafka_offsets.broker.core import BrokerCore
from kafka_offsets.broker.network.server import Peer
from kafka_offsets.broker.network.server import Server as NetworkServer
from kafka_offsets.broker.partition.partitions import Topic
from kafka_offsets.clock import Clock
from kafka_offsets.errors import ConfigError
from kafka_offsets.storage.files import Files, MemoryFiles
from kafka_offsets.testing.broker import Broker, Server
from kafka_offsets.testing.cluster.placement import Node, Placement, all_partitions
from kafka_offsets.testing.cluster.rows import ClusterRows
from kafka_offsets.testing.recording import Recorder

_MOST_BROKERS = 100
_DEFAULT_FACTOR = 3
"""Replicas of a topic that is created without their number, where the configuration does not say otherwise."""


class Cluster(Broker):
    """Several brokers in one: a `Broker` with several addresses, and leaders and coordinators spread over them.

    brokers  the number of nodes; their ids begin with `node.id`, 1 unless it is configured
    port     of the first node, the others take the next ports; 0 or none: any free ports
    The other parameters are those of `Broker`, in memory. Leaders of a topic's partitions are assigned to the nodes
    round-robin, and a group's coordinator is the leader of its partition of `__consumer_offsets`, found by Kafka's
    hash. A topic has three replicas unless `default.replication.factor` or its creator sets another number. All nodes
    share one state, so a move loses nothing; clients see the same effects of a move as in Kafka.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        brokers: int = 3,
        host: str | None = None,
        port: int | None = None,
        clock: Clock | None = None,
        record: bool = False,
    ) -> None:
        super().__init__(config, host=host, port=port, clock=clock, record=record)
        if not 1 <= brokers <= _MOST_BROKERS:
            raise ConfigError(f"a cluster has between 1 and {_MOST_BROKERS} brokers, not {brokers}")
        if self._data_directory is not None:
            raise ConfigError("a cluster is in memory: log.dirs is for one broker")
        if self.config.advertised_listeners is not None:
            raise ConfigError(
                "a cluster has an address for each node: advertised.listeners is for one broker"
            )
        given = "default.replication.factor" in self.config.given
        self._factor = self.config.default_replication_factor if given else _DEFAULT_FACTOR
        self._ids = [self.config.node_id + number for number in range(brokers)]

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, separated by commas. RuntimeError if the cluster is not running."""
        return ",".join(node.address for node in self.nodes)

    # -- placement

    @property
    def nodes(self) -> list[Node]:
        """The nodes by their ids, each with `id`, `host`, `port`, `address` and `is_up`."""
        return list(cast("ClusterServer", self._running()).placement.nodes.values())

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of the node that leads a partition, -1 for none. ValueError if there is no such partition."""
        return self._place(lambda core, placement: placement.leader(*_find(core, topic, partition)))

    def coordinator(self, group: str | None = None, *, transactional_id: str | None = None) -> int:
        """Return the id of the node that coordinates a group or a transactional id, -1 for none."""
        key, is_transactional = _key(group, transactional_id)
        return self._place(
            lambda core, placement: placement.coordinator(
                core.context, key, is_transactional=is_transactional
            )
        )

    # -- moves

    def move_leader(self, topic: str, partition: int = 0, *, to: int | None = None) -> int:
        """Move the leader of a partition to another node, in a new leader epoch; return the node's id.

        to  the node; default: the next replica that is up. A node that is not a replica becomes one
        Requests to the old leader receive NOT_LEADER_OR_FOLLOWER. ValueError for an unknown partition or node, for
        a stopped node, and if no other replica is up.
        """
        return self._place(
            lambda core, placement: placement.move(core.context, *_find(core, topic, partition), node_id=to)
        )

    def move_coordinator(
        self, group: str | None = None, *, transactional_id: str | None = None, to: int | None = None
    ) -> int:
        """Move the coordinator of a group or a transactional id to another node; return the node's id.

        Its partition moves with all its groups: the new coordinator loads them from the log. Waiting JoinGroups and
        requests to the old coordinator receive NOT_COORDINATOR. ValueError as `move_leader`.
        """
        key, is_transactional = _key(group, transactional_id)

        def move(core: BrokerCore, placement: Placement) -> int:
            topic, index = placement.home(core.context, key, is_transactional=is_transactional)
            return placement.move(core.context, topic, index, to)

        return self._place(move)

    def stop_node(self, node: int) -> None:
        """Stop a node: its connections close, it accepts no new ones, and the next replicas lead its partitions.

        ValueError for an unknown or stopped node.
        """
        self._await(lambda server: server.stop_node(node))

    def start_node(self, node: int) -> None:
        """Start a stopped node at its old address. It is a replica again, and leads partitions without a leader.

        ValueError for an unknown or running node; OSError if another process uses the port.
        """
        self._await(lambda server: server.start_node(node))

    def elect_preferred_leaders(self) -> int:
        """Move each leader to its partition's first replica, if that is up; return how many have moved."""

        def elect(core: BrokerCore, placement: Placement) -> int:
            return sum(
                placement.elect_preferred(core.context, *place) for place in all_partitions(core.context)
            )

        return self._place(elect)

    def describe(self) -> str:
        """Return nodes, groups, members, assignments, offsets and lag as text."""
        nodes = [f"node {node.id} {node.address}{'' if node.is_up else ', stopped'}" for node in self.nodes]
        return "\n".join([*nodes, super().describe()])

    def _place(self, function: Callable[[BrokerCore, Placement], int]) -> int:
        return self._call(lambda server: function(server.core, cast("ClusterServer", server).placement))

    def _await(self, begin: "Callable[[ClusterServer], Coroutine[Any, Any, None]]") -> None:
        def submit(server: NetworkServer) -> "Future[None]":
            return asyncio.run_coroutine_threadsafe(
                begin(cast("ClusterServer", server)), asyncio.get_running_loop()
            )

        self._begin(submit).result()

    def _new_server(self) -> NetworkServer:
        placement = Placement(self._ids, self._factor)
        return ClusterServer(self.config, MemoryFiles(), self._clock, self._recorder, placement)


class ClusterServer(Server):
    """A server with a listener for each node."""

    def __init__(
        self,
        config: Config,
        files: Files,
        clock: Clock | None,
        recorder: Recorder | None,
        placement: Placement,
    ) -> None:
        self.placement = placement
        self._ids = tuple(placement.nodes)
        self._rows = ClusterRows(placement, self._ids[0])
        super().__init__(config, files, clock, recorder)

    def new_core(self, files: Files | None) -> BrokerCore:
        """Make the broker that all nodes share."""
        core = super().new_core(files)
        core.context.broker_ids = self._ids
        core.context.apis = self.served()
        return core

    def served(self) -> Apis:
        """Return the table of APIs, with separate answers for each node."""
        return self._rows.table(super().served())

    def node_of(self, listener: int) -> int:
        """Return the node whose listener this is."""
        return self._ids[listener]

    async def start(self, host: str, port: int) -> None:
        """Start the listeners of all nodes. Raises OSError."""
        self._bring_up(self._ids[0])
        await super().start(host, port)
        self.placement.set_address(self._ids[0], host, self.core.context.port)
        for number, node_id in enumerate(self._ids[1:], 1):
            self._bring_up(node_id)
            own_port = await self.listen(number, host, port + number if port else 0)
            self.placement.set_address(node_id, host, own_port)

    def admit(self, peer: Peer, peername: tuple[str, int]) -> Connection | None:
        """Accept a connection to a node that is up."""
        if not self.placement.is_up(self._ids[peer.listener]):
            self._peers.add(peer)
            return None
        return super().admit(peer, peername)

    def _bring_up(self, node_id: int) -> None:
        self.placement.start(self.core.context, node_id)

    async def stop_node(self, node_id: int) -> None:
        """Stop a node, as `Cluster.stop_node`."""
        if not self._known(node_id).is_up:
            raise ValueError(f"node {node_id} is stopped already")
        self.placement.stop(self.core.context, node_id)
        await self.stop_listening([self._ids.index(node_id)])
        self.end_turn_now()

    async def start_node(self, node_id: int) -> None:
        """Start a node, as `Cluster.start_node`."""
        node = self._known(node_id)
        if node.is_up:
            raise ValueError(f"node {node_id} runs already")
        await self.listen(self._ids.index(node_id), node.host, node.port)
        self._bring_up(node_id)
        self.end_turn_now()

    def _known(self, node_id: int) -> Node:
        node = self.placement.nodes.get(node_id)
        if node is None:
            raise ValueError(f"there is no node {node_id}, only {', '.join(map(str, self._ids))}")
        return node


def _find(core: BrokerCore, topic: str, partition: int) -> tuple[Topic, int]:
    found = core.topics.get(topic)
    if found is None or not 0 <= partition < found.partition_count:
        raise ValueError(f"there is no {topic}-{partition}")
    return found, partition


def _key(group: str | None, transactional_id: str | None) -> tuple[str, bool]:
    if (group is None) is (transactional_id is None):
        raise TypeError("either a group or a transactional_id is expected")
    return (group, False) if group is not None else (transactional_id or "", True)
