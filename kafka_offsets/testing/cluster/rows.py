"""Answers of each node of a cluster: rows of the table of APIs that first check leaders and coordinators.

All nodes share one broker. The listener of a connection determines the node of a request; a request of the test's own
process has no node, and is served without these checks. A node refuses partitions and groups that another node leads
or coordinates, one by one as Kafka does. Where an answer names brokers, leaders or replicas, it names those of the
cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from kafka_offsets.broker.api.fetch import Refuses
from kafka_offsets.broker.api.metadata import leader_epochs
from kafka_offsets.broker.api.row import Addresses, Api, Apis, Route
from kafka_offsets.broker.api.topic_admin import is_too_late
from kafka_offsets.broker.context import Context
from kafka_offsets.broker.network.server import Peer
from kafka_offsets.broker.partition.partitions import Topic
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.result import Held, RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.named import GROUP_ID, TRANSACTIONAL_ID, index_of
from kafka_offsets.testing.cluster.placement import NOBODY, Node, Placement
from kafka_offsets.testing.faults import partial_errors
from kafka_offsets.testing.faults.interception import decide, pass_on

Handle = Callable[..., Any]

_PRODUCE = 0
_LEADER_SINCE = {0: 10, 1: 16}
"""From these versions of Produce and Fetch on an answer tells the right leader and its address (KIP-951)."""

_OF_ONE_BROKER = ("DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs")

_TRANSACTION = 1
"""The key type of a transactional id in FindCoordinator."""

_BROKER_RESOURCES = (4, 8)
"""A broker, and its loggers, as the resource types of ListConfigResources."""


class ClusterRows:
    """The rows of a cluster.

    first_id  of the node of listener 0
    """

    def __init__(self, placement: Placement, first_id: int) -> None:
        self._placement = placement
        self._first_id = first_id
        self._told: dict[str, Handle] = {
            "Metadata": self._metadata,
            "DescribeTopicPartitions": self._describe_partitions,
            "DescribeCluster": self._describe_cluster,
            "FindCoordinator": self._find_coordinator,
            "ListGroups": self._list_groups,
            "ListTransactions": self._list_transactions,
            "DescribeLogDirs": self._describe_log_dirs,
            "ListConfigResources": self._list_config_resources,
            "CreateTopics": self._create_topics,
            "CreatePartitions": self._create_partitions,
            "AlterPartitionReassignments": self._reassign,
        }

    def table(self, rows: Apis) -> Apis:
        """Return the table of a cluster, made from that of one broker."""
        return Apis(self._row(row) for row in rows)

    def _row(self, row: Api) -> Api:
        handle: Handle
        if row.name == "Fetch":
            handle = self._fetch
        elif row.name == "ElectLeaders":
            handle = self._elect_leaders
        elif row.addresses is Addresses.PARTITIONS:
            handle = self._by_leader
        elif row.addresses is not Addresses.BROKER:
            handle = self._by_coordinator
        elif row.name in _OF_ONE_BROKER:
            handle = self._as_node
        elif row.name in self._told:
            handle = partial(self._tell, self._told[row.name])
        else:
            return row
        return replace(row, route=Route.BROKER, handle=partial(handle, row))

    def node_of(self, context: RequestContext) -> int | None:
        """Return the node that received a request, None for a request of the test itself."""
        owner = context.connection.owner
        return self._first_id + owner.listener if isinstance(owner, Peer) else None

    # -- requests for leaders

    def _by_leader(self, row: Api, core: Context, request: Any, context: RequestContext, now: Now) -> Any:
        node = self.node_of(context)

        def is_elsewhere(topic: str, index: int) -> bool:
            return not self._placement.leads(core, node or 0, topic, index)

        version, name_of = context.api_version, partial_errors.names_of(core)
        named = row.named(version)
        if node is None or not any(is_elsewhere(*place) for place in named.places(request, name_of)):
            return row.handle(core, request, context, now)
        struck, rest = named.split_by_partition(request, is_elsewhere, name_of)
        if row.key == _PRODUCE and request.acks == 0:
            # This is how a broker reports an error to a producer with acks=0.
            if rest is not None:
                row.handle(core, rest, Held(context, rest, lambda _: None), now)
            core.answers.close_connection(context.connection)
            return None
        refused = row.fail(struck, ErrorCode.NOT_LEADER_OR_FOLLOWER, version)
        if rest is None:
            return self._name_leaders(row, core, version, refused)

        def join(response: Any) -> Any:
            return self._name_leaders(row, core, version, named.join_by_partition(request, refused, response))

        return _then(core, row, rest, context, now, join)

    def _fetch(
        self,
        row: Api,
        core: Context,
        request: messages.FetchRequest,
        context: RequestContext,
        now: Now,
        refuses: Refuses | None = None,
    ) -> Any:
        """Refuse partitions inside fetch: it knows which of them have changed for a session."""
        node = self.node_of(context)
        named = row.named(context.api_version).places(request, partial_errors.names_of(core))
        asked = {*named, *core.fetch_sessions.places(request.session_id)}
        if node is None or all(self._placement.leads(core, node, *place) for place in asked):
            with self._acting(core, node):
                return row.handle(core, request, context, now, refuses)

        def refuse(topic: str, index: int) -> ErrorCode:
            error = ErrorCode.NONE if refuses is None else refuses(topic, index)
            if error or self._placement.leads(core, node, topic, index):
                return error
            return ErrorCode.NOT_LEADER_OR_FOLLOWER

        def name_leaders(response: Any) -> Any:
            if not isinstance(response, messages.FetchResponse):
                return (
                    response  # already encoded, with many records of other partitions: clients use Metadata
                )
            return self._name_leaders(row, core, context.api_version, response)

        held = Held(context, request, lambda response: pass_on(core, context, name_leaders(response)))
        response = row.handle(core, request, held, now, refuse)
        if response is not None:
            held.hand_over(response)
        return None

    def _name_leaders(self, row: Api, core: Context, version: int, response: Any) -> Any:
        """Add the leaders of refused partitions to the answer, if the version has fields for them."""
        if version < _LEADER_SINCE.get(row.key, version + 1):
            return response
        named: set[int] = set()
        for topic in response.responses:
            found = core.topics.get(partial_errors.topic_name(core, topic))
            partitions = topic.partition_responses if row.key == _PRODUCE else topic.partitions
            for each in partitions:
                if found is None or each.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    continue
                index = index_of(each)
                leader = self._placement.leader(found, index)
                (epoch,) = leader_epochs(core, found, index, index + 1)
                each.current_leader = row.response.LeaderIdAndEpoch(leader, epoch)  # type: ignore[attr-defined]
                named.add(leader)
        endpoint = row.response.NodeEndpoint  # type: ignore[attr-defined]
        response.node_endpoints = [
            endpoint(node.id, node.host, node.port) for node in self._placement.up if node.id in named
        ]
        return response

    # -- requests for coordinators

    def _by_coordinator(
        self, row: Api, core: Context, request: Any, context: RequestContext, now: Now
    ) -> Any:
        node = self.node_of(context)
        if node is None:
            return decide(core, row, request, context, now)
        is_transactional = row.addresses is Addresses.TRANSACTION

        def is_elsewhere(key: str) -> bool:
            found = self._placement.coordinator(core, key, is_transactional=is_transactional)
            return found != node

        version = context.api_version
        named = row.named(version)
        if is_transactional:
            keys = list(filter(None, named.ids(request, TRANSACTIONAL_ID)))
        else:
            keys = named.ids(request, GROUP_ID)
        if not any(is_elsewhere(key) for key in keys):
            return decide(core, row, request, context, now)
        error = ErrorCode.NOT_COORDINATOR
        if not named.keys(request):
            return row.fail(request, error, version)
        struck, rest = named.split_by_key(request, is_elsewhere)
        refused = row.fail(struck, error, version)
        if rest is None:
            return refused
        return _then(core, row, rest, context, now, partial(named.join_by_key, request, refused))

    # -- answers that name brokers, leaders or replicas

    def _tell(
        self, change: Handle, row: Api, core: Context, request: Any, context: RequestContext, now: Now
    ) -> Any:
        return _then(core, row, request, context, now, partial(self._changed, change, core, request, context))

    def _changed(
        self, change: Handle, core: Context, request: Any, context: RequestContext, response: Any
    ) -> Any:
        change(core, request, context, response)
        return response

    def _metadata(self, core: Context, request: Any, context: RequestContext, response: Any) -> None:
        up = self._placement.up
        response.brokers = [response.Broker(node.id, node.host, node.port) for node in up]
        response.controller_id = self._controller
        self._place(core, response)

    def _describe_partitions(
        self, core: Context, request: Any, context: RequestContext, response: Any
    ) -> None:
        self._place(core, response)

    def _place(self, core: Context, response: Any) -> None:
        for topic in response.topics:
            found = core.topics.get(topic.name) if topic.name else None
            if found is None or topic.error_code:
                continue
            for each in topic.partitions:
                index = each.partition_index
                each.leader_id = self._placement.leader(found, index)
                each.replica_nodes = self._placement.replicas(found, index)
                each.isr_nodes = self._placement.in_sync(found, index)
                each.offline_replicas = [n for n in each.replica_nodes if not self._placement.is_up(n)]
                if each.leader_id == NOBODY:
                    each.error_code = ErrorCode.LEADER_NOT_AVAILABLE

    @property
    def _controller(self) -> int:
        return next((node.id for node in self._placement.up), NOBODY)

    def _describe_cluster(self, core: Context, request: Any, context: RequestContext, response: Any) -> None:
        if response.error_code:
            return
        fenced = request.include_fenced_brokers
        nodes = self._placement.nodes.values() if fenced else self._placement.up
        response.brokers = [
            response.DescribeClusterBroker(node.id, node.host, node.port, None, not node.is_up)
            for node in nodes
        ]
        response.controller_id = self._controller

    def _find_coordinator(self, core: Context, request: Any, context: RequestContext, response: Any) -> None:
        is_transactional = request.key_type == _TRANSACTION
        answers = [(each.key, each) for each in response.coordinators] or [(request.key, response)]
        for key, each in answers:
            if each.error_code:
                continue
            found = self._placement.coordinator(core, key, is_transactional=is_transactional)
            if found == NOBODY:
                each.error_code, each.error_message = ErrorCode.COORDINATOR_NOT_AVAILABLE, ""
            node = self._placement.nodes.get(found, Node(NOBODY, "", -1, False))
            each.node_id, each.host, each.port = node.id, node.host, node.port

    def _list_groups(self, core: Context, request: Any, context: RequestContext, response: Any) -> None:
        node = self.node_of(context)
        response.groups = [
            each
            for each in response.groups
            if node is None
            or self._placement.coordinator(core, each.group_id, is_transactional=False) == node
        ]

    def _list_transactions(self, core: Context, request: Any, context: RequestContext, response: Any) -> None:
        node = self.node_of(context)
        response.transaction_states = [
            each
            for each in response.transaction_states
            if node is None
            or self._placement.coordinator(core, each.transactional_id, is_transactional=True) == node
        ]

    def _describe_log_dirs(self, core: Context, request: Any, context: RequestContext, response: Any) -> None:
        node = self.node_of(context)
        for directory in response.results if node is not None else ():
            for topic in directory.topics:
                found = core.topics.get(topic.name)
                topic.partitions = [
                    each
                    for each in topic.partitions
                    if found is not None and node in self._placement.replicas(found, each.partition_index)
                ]
            directory.topics = [topic for topic in directory.topics if topic.partitions]

    def _list_config_resources(
        self, core: Context, request: Any, context: RequestContext, response: Any
    ) -> None:
        every = response.config_resources
        kept = [each for each in every if each.resource_type not in _BROKER_RESOURCES]
        kinds = [each.resource_type for each in every if each.resource_type in _BROKER_RESOURCES]
        response.config_resources = kept + [
            response.ConfigResource(str(node.id), kind) for kind in kinds for node in self._placement.up
        ]

    def _as_node(self, row: Api, core: Context, request: Any, context: RequestContext, now: Now) -> Any:
        """Answer as one node, for a request to a broker by its id."""
        with self._acting(core, self.node_of(context)):
            return row.handle(core, request, context, now)

    @contextmanager
    def _acting(self, core: Context, node: int | None) -> Iterator[None]:
        """Give the broker the identity of a node while it decides one request."""
        own = core.node_id
        if node is not None:
            core.node_id = node
        try:
            yield
        finally:
            core.node_id = own

    # -- requests that place replicas

    def _create_topics(self, core: Context, request: Any, context: RequestContext, response: Any) -> None:
        asked = {topic.name: topic for topic in request.topics}
        for each in response.topics:
            wanted, found = asked[each.name], core.topics.get(each.name)
            if each.error_code:
                continue
            if wanted.assignments:
                each.replication_factor = len(wanted.assignments[0].broker_ids)
            elif wanted.replication_factor > 0:
                each.replication_factor = wanted.replication_factor
            elif found is not None:
                each.replication_factor = len(self._placement.replicas(found, 0))
            if found is None or request.validate_only:
                continue
            self._placement.set_factor(found, each.replication_factor)
            for assigned in wanted.assignments:
                self._placement.assign(core, found, assigned.partition_index, assigned.broker_ids)

    def _create_partitions(self, core: Context, request: Any, context: RequestContext, response: Any) -> None:
        failed = {each.name for each in response.results if each.error_code}
        for wanted in request.topics:
            found = core.topics.get(wanted.name)
            if found is None or wanted.name in failed or request.validate_only:
                continue
            assignments = wanted.assignments or ()
            for index, each in enumerate(assignments, wanted.count - len(assignments)):
                self._placement.assign(core, found, index, each.broker_ids)

    def _reassign(self, core: Context, request: Any, context: RequestContext, response: Any) -> None:
        """Move replicas at once: no data needs to be copied."""
        for wanted, answered in zip(request.topics, response.responses, strict=True):
            found = core.topics.get(wanted.name)
            for asked, each in zip(wanted.partitions, answered.partitions, strict=True):
                if found is not None and not each.error_code and asked.replicas:
                    self._placement.assign(core, found, asked.partition_index, asked.replicas)

    def _elect_leaders(self, row: Api, core: Context, request: Any, context: RequestContext, now: Now) -> Any:
        """Elect preferred leaders, for the requested partitions or all."""
        response = row.handle(core, request, context, now)
        if response.error_code or is_too_late(
            request.timeout_ms
        ):  # the first versions have no top-level error
            return response
        answered = {each.topic: each for each in response.replica_election_results}
        for topic, index in self._asked_elections(core, request):
            if not self._placement.elect_preferred(core, topic, index):
                continue
            results = answered[topic.name].partition_result
            results[:] = [each for each in results if each.partition_id != index]
            results.append(row.response.PartitionResult(index, ErrorCode.NONE, None))  # type: ignore[attr-defined]
        return response

    def _asked_elections(self, core: Context, request: Any) -> list[tuple[Topic, int]]:
        if request.topic_partitions is None:
            return [(topic, i) for topic in core.topics.all() for i in range(topic.partition_count)]
        asked = []
        for each in request.topic_partitions:
            topic = core.topics.get(each.topic)
            if topic is not None:
                asked += [(topic, i) for i in each.partitions if 0 <= i < topic.partition_count]
        return asked


def _then(
    core: Context,
    row: Api,
    request: Any,
    context: RequestContext,
    now: Now,
    change: Callable[[Any], Any],
) -> None:
    """Decide a request, and change its answer before it is sent."""
    held = Held(context, request, lambda response: pass_on(core, context, change(response)))
    response = decide(core, row, request, held, now)
    if response is not None:
        held.hand_over(response)
