"""Context: what request handlers receive, the parts of a broker and its identity in the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_offsets.broker.access.delegation_tokens import DelegationTokens
from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.access.listener_stores import ListenerStores
from kafka_offsets.broker.access.throttling import Throttling
from kafka_offsets.broker.config.group import GroupConfigs
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.settings import SharedSettings
from kafka_offsets.broker.context.interfaces import Replicas
from kafka_offsets.broker.groups.appends import Appends
from kafka_offsets.broker.groups.durability import Durability
from kafka_offsets.broker.groups.expiry import Expiry
from kafka_offsets.broker.groups.runtime import CoordinatorRuntime
from kafka_offsets.broker.groups.shard_loader import ShardLoader
from kafka_offsets.broker.groups.shards import Shards
from kafka_offsets.broker.groups.transactions import TransactionCoordinator
from kafka_offsets.broker.offset_manager.interface import OffsetManager
from kafka_offsets.broker.partition.log_opener import LogOpener
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.broker.wire.api import Apis
from kafka_offsets.broker.wire.connection import ClientConnection
from kafka_offsets.broker.wire.fetch_sessions import FetchSessions
from kafka_offsets.broker.wire.responses import Responses
from kafka_offsets.clock import Clock
from kafka_offsets.security.authorizer import Authorizer
from kafka_offsets.storage.directory.data_directory import DataDirectory


@dataclass(slots=True, eq=False)
class Node:
    """The broker as a node of its cluster.

    broker_ids  ids of all brokers of its cluster
    host, port  the address for clients of the first listener
    addresses   the address for clients of each listener, by its name
    """

    id: int
    cluster_id: str
    broker_ids: tuple[int, ...]
    host: str = "127.0.0.1"
    port: int = 0
    addresses: dict[str, tuple[str, int]] = field(default_factory=dict)

    def address_for(self, connection: ClientConnection) -> tuple[str, int]:
        """Return the address of this broker for a client: that of the listener to which it is connected (KIP-103)."""
        return self.addresses.get(connection.listener) or (self.host, self.port)


@dataclass(slots=True, eq=False)
class Groups:
    """The coordination of groups: their shards, the offsets that they store, and what they are configured to do."""

    runtime: CoordinatorRuntime
    shards: Shards
    loader: ShardLoader
    offset_manager: OffsetManager
    expiry: Expiry
    configs: GroupConfigs


@dataclass(slots=True, eq=False)
class Access:
    """The rights and quotas of clients.

    authorizer         decides what the sender of a request may do; None: every sender may do everything
    throttling         delays the responses of clients that exceed their quotas
    delegation_tokens  by which clients authenticate
    listener_stores    keystores and truststores that are changed while the broker runs
    inter_broker       security of the listener for other brokers; None: they are in this process, or there are none
    """

    authorizer: Authorizer | None
    throttling: Throttling
    delegation_tokens: DelegationTokens
    listener_stores: ListenerStores
    inter_broker: InterBrokerSecurity | None = None


@dataclass(slots=True, eq=False)
class Context:
    """The parts of one broker.

    apis                the table of APIs
    settings            changes what all brokers of a cluster have in common
    replicas            leads and follows partitions; None for a broker that is alone
    opener              opens long logs in the background; None until the broker has started
    undescribed_topics  topics that Metadata created -> when it begins to describe them, monotonic ms
    """

    node: Node
    config: Config
    clock: Clock
    scheduler: Scheduler
    apis: Apis
    responses: Responses
    directory: DataDirectory
    topics: Topics
    appends: Appends
    durability: Durability
    settings: SharedSettings
    fetch_sessions: FetchSessions
    groups: Groups
    transactions: TransactionCoordinator
    access: Access
    replicas: Replicas | None = None
    opener: LogOpener | None = None
    undescribed_topics: dict[str, int] = field(default_factory=dict)
