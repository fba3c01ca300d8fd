"""APIs of a broker of a cluster: they first check who leads or coordinates what a request names.

A broker refuses the partitions and groups that another one leads or coordinates, one by one as Kafka does. Where an
answer names brokers, leaders or replicas, it names those of the metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from kafka_offsets.broker.api.fetch import FOLLOWERS_SERVE_SINCE, Refuses
from kafka_offsets.broker.api.replicas import unregistered
from kafka_offsets.broker.api.topic_admin import is_too_late
from kafka_offsets.broker.api.transactions import forbidden_topics
from kafka_offsets.broker.cluster.envelopes import ENVELOPE
from kafka_offsets.broker.cluster.forwarding import Forwarding
from kafka_offsets.broker.cluster.view import ClusterView
from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import (
    decide_and_change,
    decide_for,
    fail_request,
    names_of,
    pass_on,
    refuse_unanswered,
    topic_name,
)
from kafka_offsets.broker.partition.partitions import Topic
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.broker.wire.api import LATER, Addresses, Api, Apis, Handle, Later, Response
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.metadata.image import NO_BROKER, TopicPartition
from kafka_offsets.metadata.membership import ClusterMembership
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.named import GROUP_ID, TRANSACTIONAL_ID, index_of, name_in
from kafka_offsets.replication.partition_state import NO_LEADER

M = TypeVar("M", bound=messages.MessageValue)

_PRODUCE = 0
_DESCRIBE_PRODUCERS = 61
_LEADER_SINCE = {0: 10, 1: 16}
"""From these versions of Produce and Fetch on a response tells the right leader and its address (KIP-951)."""

_LISTENER_NOT_FOUND_SINCE = 6
"""From this version of Metadata on clients know the error of a leader without the listener of the client."""

_AT_ANOTHER_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

_TRANSACTION = 1
"""The key type of a transactional id in FindCoordinator."""

_UNCLEAN = 1
"""The type of an unclean election in ElectLeaders."""

_ELECTION_MESSAGES = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}

_BROKER_RESOURCES = (4, 8)
"""A broker, and its loggers, as the resource types of ListConfigResources."""


def _names_new_topics(broker: Context, request: messages.MetadataRequest) -> bool:
    return (
        request.allow_auto_topic_creation
        and broker.config.auto_create_topics_enable
        and any(
            topic.name is not None and broker.topics.get(topic.name) is None for topic in request.topics or ()
        )
    )


def _needs_new_coordinators(broker: Context, request: messages.FindCoordinatorRequest) -> bool:
    return (
        broker.topics.get(TRANSACTIONS_TOPIC if request.key_type == _TRANSACTION else OFFSETS_TOPIC) is None
    )


Change = Callable[[Context, Any, RequestContext, Any], None]
"""(broker, request, context, response): changes the response."""

Creates = Callable[[Context, Any], bool]
"""Whether a request creates a topic."""

_CREATES: dict[str, Creates] = {"Metadata": _names_new_topics, "FindCoordinator": _needs_new_coordinators}


def _decide_now(api: Api, broker: Context, request: messages.MessageValue, context: RequestContext) -> None:
    """Decide a request that has waited, and answer it."""
    try:
        response = api.handle(broker, request, context, broker.clock.now())
    except Exception as error:  # noqa: BLE001 - fail_request logs it
        fail_request(broker, api, context, error)
        return
    if response is not LATER:
        pass_on(broker, context, response)


class ClusterApis:
    """The APIs of one broker of a cluster."""

    def __init__(self, membership: ClusterMembership) -> None:
        self._membership = membership
        self._view = ClusterView(membership.image)
        self._forwarding = Forwarding(membership)
        self._described: dict[str, Change] = {
            "Metadata": self._metadata,
            "DescribeTopicPartitions": self._describe_partitions,
            "DescribeCluster": self._describe_cluster,
            "FindCoordinator": self._find_coordinator,
            "ListGroups": self._list_groups,
            "ListTransactions": self._list_transactions,
            "ListConfigResources": self._list_config_resources,
            "CreateTopics": self._create_topics,
            "AlterPartitionReassignments": self._reassign,
            "ListPartitionReassignments": self._list_reassignments,
            "DescribeQuorum": self._describe_quorum,
        }

    def table(self, apis: Apis) -> Apis:
        """Return the table of a cluster, made from that of one broker."""
        return Apis([*map(self._api, apis), ENVELOPE])

    def _api(self, api: Api) -> Api:
        made = self._routed(api)
        if api.decided_by_controller:
            return made.handled_by(partial(self._if_reachable, made))
        if api.name in _CREATES:
            return made.handled_by(partial(self._if_known, made, _CREATES[api.name]))
        return made

    def _if_reachable(
        self, api: Api, broker: Context, request: messages.MessageValue, context: RequestContext, now: Now
    ) -> Later:
        """Handle the request when the controller is reachable, else respond REQUEST_TIMED_OUT."""

        def decide_now() -> None:
            if self._membership.is_reachable:
                _decide_now(api, broker, request, context)
            else:  # Kafka answers this too, but after the timeout of the request
                pass_on(broker, context, api.fail(request, ErrorCode.REQUEST_TIMED_OUT, context.api_version))

        self._membership.when_answering(decide_now)
        return LATER

    def _if_known(
        self,
        api: Api,
        creates: Creates,
        broker: Context,
        request: messages.MessageValue,
        context: RequestContext,
        now: Now,
    ) -> Response | Later:
        """Decide a request at once if it creates no topic, else once the controller answers or is not reached."""
        if not creates(broker, request):
            return api.handle(broker, request, context, now)
        self._membership.when_answering(partial(_decide_now, api, broker, request, context))
        return LATER

    def _routed(self, api: Api) -> Api:
        handle: Handle
        if api.name == "Fetch":
            handle = self._fetch
        elif api.name == "ElectLeaders":
            handle = self._elect_leaders
        elif api.name == "UnregisterBroker":
            handle = self._unregister_broker
        elif api.addresses is Addresses.PARTITIONS:
            handle = self._by_leader
        elif api.addresses is not Addresses.BROKER:
            handle = self._by_coordinator
        elif api.name in self._described:
            handle = partial(self._describe, self._described[api.name])
        else:
            return api
        return api.handled_by(partial(handle, api))

    # -- requests for leaders

    def _by_leader(
        self, api: Api, broker: Context, request: messages.MessageValue, context: RequestContext, now: Now
    ) -> Response | Later:
        def is_led_by_another(topic: str, index: int) -> bool:
            if api.key == _DESCRIBE_PRODUCERS:  # followers answer it as well
                return not self._view.hosts(broker, topic, index)
            return not self._view.serves(broker, topic, index)

        version, name_of = context.api_version, names_of(broker)
        named = api.named(version)
        if not any(
            is_led_by_another(*topic_partition)
            for topic_partition in named.topic_partitions(request, name_of)
        ):
            return api.handle(broker, request, context, now)
        refused_part, served_part = named.split_by_partition(request, is_led_by_another, name_of)
        if isinstance(request, messages.ProduceRequest) and request.acks == 0:
            return refuse_unanswered(broker, api, served_part, context, now)
        refused = api.fail(refused_part, ErrorCode.NOT_LEADER_OR_FOLLOWER, version)
        if api.has_leader_epochs:
            self._compare_epochs(broker, refused_part, refused)
        if served_part is None:
            return self._name_leaders(api, broker, context, refused)

        def join(response: messages.MessageValue) -> messages.MessageValue:
            joined: messages.MessageValue = named.join_by_partition(request, refused, response)
            return self._name_leaders(api, broker, context, joined)

        return decide_and_change(broker, api, served_part, context, now, join)

    def _compare_epochs(self, broker: Context, request: Any, refused: Any) -> None:
        """Answer that a leader epoch is not the current one: a replica compares it before it checks who leads."""
        epochs = {
            (name_in(topic), index_of(partition)): partition.current_leader_epoch
            for topic in request.topics
            for partition in topic.partitions
        }
        for topic in refused.topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(name_in(topic), index_of(partition))
                state, epoch = self._membership.image.state(*topic_partition), epochs[topic_partition]
                if (
                    state is not None
                    and broker.node.id in state.replicas
                    and 0 <= epoch != state.leader_epoch
                ):
                    is_old = epoch < state.leader_epoch
                    partition.error_code = (
                        ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
                    )

    def _fetch(
        self,
        api: Api,
        broker: Context,
        request: messages.FetchRequest,
        context: RequestContext,
        now: Now,
        refuses: Refuses | None = None,
    ) -> Response | Later:
        """Refuse partitions inside fetch: it knows which of them have changed for a session."""
        named = api.named(context.api_version).topic_partitions(request, names_of(broker))
        topic_partitions = {*named, *broker.fetch_sessions.topic_partitions(request.session_id)}
        if all(self._view.serves(broker, *topic_partition) for topic_partition in topic_partitions):
            return api.handle(broker, request, context, now, refuses)
        followers_serve = context.api_version >= FOLLOWERS_SERVE_SINCE

        def refuse(topic: str, index: int) -> ErrorCode:
            """Refuse a partition that this broker neither leads nor may serve as a follower."""
            error = ErrorCode.NONE if refuses is None else refuses(topic, index)
            if error or self._view.serves(broker, topic, index):
                return error
            if followers_serve and self._view.follows(broker, topic, index):
                return ErrorCode.NONE  # a Fetch of a follower is refused when the log is read
            return ErrorCode.NOT_LEADER_OR_FOLLOWER

        def name_leaders(response: Response) -> Response:
            """Add the leaders of refused partitions to the response."""
            if not isinstance(response, messages.FetchResponse):
                return (
                    response  # already encoded, with many records of other partitions: clients use Metadata
                )
            return self._name_leaders(api, broker, context, response)

        receiving = context.received_by(
            request, lambda response: pass_on(broker, context, name_leaders(response))
        )
        decide_for(broker, api, request, receiving, now, refuse)
        return LATER

    def _name_leaders(self, api: Api, broker: Context, context: RequestContext, response: M) -> M:
        """Add the leaders of refused partitions to the response, if the version has fields for them."""
        version = context.api_version
        if version < _LEADER_SINCE.get(api.key, version + 1):
            return response
        named: set[int] = set()
        changed: Any = response
        for topic in changed.responses:
            known_topic = broker.topics.get(topic_name(broker, topic))
            partitions = topic.partition_responses if api.key == _PRODUCE else topic.partitions
            for partition in partitions:
                if known_topic is None or partition.error_code not in _AT_ANOTHER_LEADER:
                    continue
                index = index_of(partition)
                state = self._view.state(known_topic, index)
                partition.current_leader = changed.LeaderIdAndEpoch(state.leader, state.leader_epoch)
                named.add(state.leader)
        changed.node_endpoints = [
            changed.NodeEndpoint(node.id, host, port)
            for node, host, port in self._view.reached_at(context.connection.listener)
            if node.id in named
        ]
        return response

    # -- requests for coordinators

    def _by_coordinator(
        self, api: Api, broker: Context, request: messages.MessageValue, context: RequestContext, now: Now
    ) -> Response | Later:
        is_transactional = api.addresses is Addresses.TRANSACTION

        def is_coordinated_by_another(key: str) -> bool:
            coordinator_id = self._view.coordinator(broker, key, is_transactional=is_transactional)
            return coordinator_id != broker.node.id

        version = context.api_version
        named = api.named(version)
        if is_transactional:
            keys = list(filter(None, named.ids(request, TRANSACTIONAL_ID)))
        else:
            keys = named.ids(request, GROUP_ID)
        if not any(is_coordinated_by_another(key) for key in keys):
            return api.handle(broker, request, context, now)
        if isinstance(request, messages.AddPartitionsToTxnRequest) and forbidden_topics(
            request.v3_and_below_topics, context
        ):
            return api.handle(
                broker, request, context, now
            )  # refused before a response names the coordinator
        if broker.config.offsets_forward and api.forwarded and not context.is_forwarded:
            coordinator_of = partial(self._view.coordinator, broker, is_transactional=False)
            self._forwarding.decide(broker, api, request, context, coordinator_of)
            return LATER
        error = ErrorCode.NOT_COORDINATOR
        if not named.keys(request):
            return api.fail(request, error, version)
        refused_part, served_part = named.split_by_key(request, is_coordinated_by_another)
        refused = api.fail(refused_part, error, version)
        if served_part is None:
            return refused
        return decide_and_change(
            broker, api, served_part, context, now, partial(named.join_by_key, request, refused)
        )

    # -- answers that name brokers, leaders or replicas

    def _describe(
        self,
        change: Change,
        api: Api,
        broker: Context,
        request: messages.MessageValue,
        context: RequestContext,
        now: Now,
    ) -> Response | Later:
        return decide_and_change(
            broker, api, request, context, now, partial(self._changed, change, broker, request, context)
        )

    def _changed(
        self, change: Change, broker: Context, request: object, context: RequestContext, response: M
    ) -> M:
        change(broker, request, context, response)
        return response

    def _metadata(
        self,
        broker: Context,
        request: messages.MetadataRequest,
        context: RequestContext,
        response: messages.MetadataResponse,
    ) -> None:
        listener = context.connection.listener
        response.brokers = [
            response.Broker(node.id, host, port) for node, host, port in self._view.reached_at(listener)
        ]
        response.controller_id = self._view.controller_id
        self._name_replicas(broker, response)
        missing = self._view.without(listener)
        is_named = context.api_version >= _LISTENER_NOT_FOUND_SINCE
        error = ErrorCode.LISTENER_NOT_FOUND if is_named else ErrorCode.LEADER_NOT_AVAILABLE
        for topic in response.topics if missing else ():
            for partition in topic.partitions:
                if partition.leader_id in missing:
                    partition.error_code, partition.leader_id = error, NO_LEADER

    def _describe_partitions(
        self,
        broker: Context,
        request: messages.DescribeTopicPartitionsRequest,
        context: RequestContext,
        response: messages.DescribeTopicPartitionsResponse,
    ) -> None:
        """Unlike Metadata, this names eligible leader replicas, and a partition without a leader has no error."""
        self._name_replicas(broker, response)
        for topic in response.topics:
            known_topic = broker.topics.get(topic.name) if topic.name else None
            if known_topic is None or topic.error_code:
                continue
            for partition in topic.partitions:
                state = self._view.state(known_topic, partition.partition_index)
                partition.error_code = ErrorCode.NONE
                partition.eligible_leader_replicas = list(state.elr)
                partition.last_known_elr = [] if state.last_leader == NO_LEADER else [state.last_leader]

    def _name_replicas(
        self, broker: Context, response: messages.MetadataResponse | messages.DescribeTopicPartitionsResponse
    ) -> None:
        for topic in response.topics:
            known_topic = broker.topics.get(topic.name) if topic.name else None
            if known_topic is None or topic.error_code:
                continue
            for partition in topic.partitions:
                index = partition.partition_index
                state = self._view.state(known_topic, index)
                partition.leader_id, partition.leader_epoch = state.leader, state.leader_epoch
                partition.replica_nodes, partition.isr_nodes = list(state.replicas), list(state.isr)
                partition.offline_replicas = [n for n in partition.replica_nodes if not self._view.is_up(n)]
                if partition.leader_id == NO_LEADER:
                    partition.error_code = ErrorCode.LEADER_NOT_AVAILABLE

    def _describe_cluster(
        self,
        broker: Context,
        request: messages.DescribeClusterRequest,
        context: RequestContext,
        response: messages.DescribeClusterResponse,
    ) -> None:
        if response.error_code:
            return
        fenced = request.include_fenced_brokers
        nodes = self._view.reached_at(context.connection.listener, with_fenced=fenced)
        response.brokers = [
            response.DescribeClusterBroker(node.id, host, port, None, not node.is_up)
            for node, host, port in nodes
        ]
        response.controller_id = self._view.controller_id

    def _find_coordinator(
        self,
        broker: Context,
        request: messages.FindCoordinatorRequest,
        context: RequestContext,
        response: messages.FindCoordinatorResponse,
    ) -> None:
        is_transactional = request.key_type == _TRANSACTION
        coordinator: messages.FindCoordinatorResponse | messages.FindCoordinatorResponse.Coordinator
        for coordinator in (*response.coordinators,) or (response,):
            key = (
                request.key if isinstance(coordinator, messages.FindCoordinatorResponse) else coordinator.key
            )
            if coordinator.error_code:
                continue
            node = self._view.broker(self._view.coordinator(broker, key, is_transactional=is_transactional))
            address = None if node is None else node.address_at(context.connection.listener)
            if node is None or address is None:
                coordinator.error_code, coordinator.error_message = ErrorCode.COORDINATOR_NOT_AVAILABLE, ""
                coordinator.node_id, coordinator.host, coordinator.port = NO_BROKER, "", -1
            else:
                coordinator.node_id, coordinator.host, coordinator.port = node.id, *address

    def _list_groups(
        self,
        broker: Context,
        request: messages.ListGroupsRequest,
        context: RequestContext,
        response: messages.ListGroupsResponse,
    ) -> None:
        response.groups = [
            group
            for group in response.groups
            if self._view.coordinator(broker, group.group_id, is_transactional=False) == broker.node.id
        ]

    def _list_transactions(
        self,
        broker: Context,
        request: messages.ListTransactionsRequest,
        context: RequestContext,
        response: messages.ListTransactionsResponse,
    ) -> None:
        response.transaction_states = [
            transaction
            for transaction in response.transaction_states
            if self._view.coordinator(broker, transaction.transactional_id, is_transactional=True)
            == broker.node.id
        ]

    def _list_config_resources(
        self,
        broker: Context,
        request: messages.ListConfigResourcesRequest,
        context: RequestContext,
        response: messages.ListConfigResourcesResponse,
    ) -> None:
        every = response.config_resources
        kept = [resource for resource in every if resource.resource_type not in _BROKER_RESOURCES]
        kinds = [resource.resource_type for resource in every if resource.resource_type in _BROKER_RESOURCES]
        response.config_resources = kept + [
            response.ConfigResource(str(node.id), kind) for kind in kinds for node in self._view.up
        ]

    def _describe_quorum(
        self,
        broker: Context,
        request: messages.DescribeQuorumRequest,
        context: RequestContext,
        response: messages.DescribeQuorumResponse,
    ) -> None:
        """Name all brokers as voters, and the controller as their leader. One that is down has fetched nothing."""
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    continue
                (voter,) = partition.current_voters
                partition.leader_id = self._view.controller_id
                partition.current_voters = [
                    response.ReplicaState(
                        node.id,
                        voter.replica_directory_id,
                        *(
                            (voter.log_end_offset, voter.last_fetch_timestamp, voter.last_caught_up_timestamp)
                            if node.is_up
                            else (-1, -1, -1)
                        ),
                    )
                    for node in self._view.brokers
                ]
        if response.nodes:  # since version 2
            name = response.nodes[0].listeners[0].name
            response.nodes = [
                response.Node(node.id, [response.Listener(name, node.host, node.port)])
                for node in self._view.brokers
            ]

    # -- requests that place replicas

    def _create_topics(
        self,
        broker: Context,
        request: messages.CreateTopicsRequest,
        context: RequestContext,
        response: messages.CreateTopicsResponse,
    ) -> None:
        requested_topics = {topic.name: topic for topic in request.topics}
        for created in response.topics:
            requested, known_topic = requested_topics[created.name], broker.topics.get(created.name)
            if created.error_code or created.topic_config_error_code:
                continue
            if known_topic is not None and not request.validate_only:
                created.replication_factor = len(self._view.state(known_topic, 0).replicas)
            elif requested.assignments:
                created.replication_factor = len(requested.assignments[0].broker_ids)
            elif requested.replication_factor > 0:
                created.replication_factor = requested.replication_factor
            else:
                created.replication_factor = min(
                    broker.config.default_replication_factor, len(self._view.brokers)
                )

    def _reassign(
        self,
        broker: Context,
        request: messages.AlterPartitionReassignmentsRequest,
        context: RequestContext,
        response: messages.AlterPartitionReassignmentsResponse,
    ) -> None:
        """Begin to move replicas, or cancel that."""
        for topic, answered in zip(request.topics, response.responses, strict=True):
            for partition, result in zip(topic.partitions, answered.partitions, strict=True):
                is_cancelled = partition.replicas is None and broker.topics.get(topic.name) is not None
                if is_cancelled or not result.error_code:
                    topic_partition = TopicPartition(topic.name, partition.partition_index)
                    result.error_code = self._membership.reassign(topic_partition, partition.replicas)

    def _list_reassignments(
        self,
        broker: Context,
        request: messages.ListPartitionReassignmentsRequest,
        context: RequestContext,
        response: messages.ListPartitionReassignmentsResponse,
    ) -> None:
        requested = None
        if request.topics is not None:
            requested = {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
        topics: dict[str, messages.ListPartitionReassignmentsResponse.OngoingTopicReassignment] = {}
        for topic_partition, state in self._membership.image.placed():
            if not state.is_reassigning or (
                requested is not None and tuple(topic_partition) not in requested
            ):
                continue
            topic = topics.setdefault(
                topic_partition.topic, response.OngoingTopicReassignment(topic_partition.topic, [])
            )
            topic.partitions.append(
                response.OngoingPartitionReassignment(
                    topic_partition.partition, list(state.replicas), list(state.adding), list(state.removing)
                )
            )
        response.topics = list(topics.values())

    def _elect_leaders(
        self,
        api: Api,
        broker: Context,
        request: messages.ElectLeadersRequest,
        context: RequestContext,
        now: Now,
    ) -> Response | Later:
        """Elect leaders, for the requested partitions or all."""
        response = api.handle(broker, request, context, now)
        assert isinstance(response, messages.ElectLeadersResponse)
        if response.error_code or is_too_late(
            request.timeout_ms
        ):  # the first versions have no top-level error
            return response
        topic_partitions = [
            TopicPartition(topic.name, index) for topic, index in self._asked_elections(broker, request)
        ]
        errors = self._membership.elect(topic_partitions, unclean=request.election_type == _UNCLEAN)
        answered = {topic_result.topic: topic_result for topic_result in response.replica_election_results}
        is_for_all = request.topic_partitions is None
        for topic_partition, error in errors.items():
            if is_for_all and error is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            results = answered[topic_partition.topic].partition_result
            results[:] = [
                partition_result
                for partition_result in results
                if partition_result.partition_id != topic_partition.partition
            ]
            result = response.PartitionResult(topic_partition.partition, error, _ELECTION_MESSAGES.get(error))
            results.append(result)
        return response

    def _unregister_broker(
        self,
        api: Api,
        broker: Context,
        request: messages.UnregisterBrokerRequest,
        context: RequestContext,
        now: Now,
    ) -> Response:
        return unregistered(request.broker_id, self._membership.unregister(request.broker_id))

    def _asked_elections(
        self, broker: Context, request: messages.ElectLeadersRequest
    ) -> list[tuple[Topic, int]]:
        if request.topic_partitions is None:
            return [(topic, i) for topic in broker.topics.all() for i in range(topic.partition_count)]
        partitions = []
        for named in request.topic_partitions:
            topic = broker.topics.get(named.topic)
            if topic is not None:
                partitions += [(topic, i) for i in named.partitions if 0 <= i < topic.partition_count]
        return partitions
