"""A request as faults see it: its API and client, and the groups, transactions and partitions that it names."""

from __future__ import annotations

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import names_of
from kafka_offsets.broker.network.peer import Peer
from kafka_offsets.broker.wire.api import Api
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.protocol.mirroring.named import GROUP_ID, TRANSACTIONAL_ID


class Call:
    """One request of a client, as a fault sees it.

    api, version  such as "OffsetCommit" and 8
    client_id     the client's own id; client_host: its address
    node          the broker that it came to
    request       decoded
    """

    def __init__(self, broker: Context, api: Api, context: RequestContext) -> None:
        self.api = api.name
        self.version = context.api_version
        self.client_id = context.client_id
        self.client_host = context.client_host.removeprefix("/")
        self.request = context.request
        self._broker, self._api = broker, api
        owner = context.connection.owner
        self.node = broker.node.id if isinstance(owner, Peer) else None

    def __repr__(self) -> str:
        return f"<{self.api} v{self.version} of {self.client_id!r}: {self.request}>"

    @property
    def groups(self) -> set[str]:
        """The groups that the request names."""
        if self.api == "FindCoordinator":
            return set(self._coordinator_keys(0))
        return set(filter(None, self._api.named(self.version).ids(self.request, GROUP_ID)))

    @property
    def transactional_ids(self) -> set[str]:
        """The transactional ids that the request names."""
        if self.api == "FindCoordinator":
            return set(self._coordinator_keys(1))
        return set(filter(None, self._api.named(self.version).ids(self.request, TRANSACTIONAL_ID)))

    @property
    def topic_partitions(self) -> set[tuple[str, int]]:
        """The (topic, partition) that the request names, partition -1 where it names a topic alone."""
        name_of = names_of(self._broker)
        named = set(self._api.named(self.version).topic_partitions(self.request, name_of))
        if self.api == "Fetch":
            named.update(self._broker.fetch_sessions.topic_partitions(self.request.session_id))
        return named

    @property
    def names_all_topics(self) -> bool:
        """Whether the request is for every topic, or for every offset of a group, and names none."""
        request = self.request
        if self.api == "Metadata":
            return request.topics is None or (self.version == 0 and not request.topics)
        if self.api == "OffsetFetch":
            asking = request.groups or [request]
            return any(group.topics is None for group in asking)
        return False

    def _coordinator_keys(self, key_type: int) -> list[str]:
        request = self.request
        if request.key_type != key_type:
            return []
        return list(request.coordinator_keys) or [request.key]
