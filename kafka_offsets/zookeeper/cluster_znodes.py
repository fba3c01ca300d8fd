"""Znodes of a cluster: its brokers, topics, partitions and settings, in the layout of Kafka 3.9.

::

    /cluster/id                                {"version": "1", "id": …}
    /controller                                ephemeral: {"version": 2, "brokerid": 1, "timestamp": …}
    /controller_epoch                          how many controllers there were, as text
    /brokers/ids/ID                            ephemeral, of a broker: its endpoints; those of clients and CONTROLLER
    /brokers/registrations                     ours: all brokers as the controller has registered them
    /brokers/topics/TOPIC                      topic id and replicas of each partition
    /brokers/topics/TOPIC/partitions/P/state   leader, epochs and ISR; the version of the znode is the partition epoch
    /config/TYPE/NAME                          settings of a topic, group, user, client or ip; NAME is URL-encoded
    /kafka-acl/TYPE/NAME                       literal ACLs of a resource, such as /kafka-acl/Topic/orders
    /kafka-acl-extended/prefixed/TYPE/NAME     prefixed ACLs
    /latest_producer_id_block                  {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"}

A state has two fields that Kafka ignores: `elr` and `last_leader` (KIP-966). Source: ZkData.scala of Kafka 3.9.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from kafka_offsets.metadata.image import Brokers, ClusterTopic, Delta
from kafka_offsets.metadata.json_form import (
    Fields,
    decode_delta,
    encode_bytes,
    encode_delta,
    from_json,
    to_json,
)
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState
from kafka_offsets.security.acls import AclBinding, AclOperation, PatternType, Permission, ResourceType
from kafka_offsets.security.credential import ScramCredential
from kafka_offsets.security.delegation_token import DelegationToken, token_of_form

CLUSTER_ID, CONTROLLER, CONTROLLER_EPOCH = "/cluster/id", "/controller", "/controller_epoch"
BROKER_IDS, REGISTRATIONS, TOPICS = "/brokers/ids", "/brokers/registrations", "/brokers/topics"
PRODUCER_IDS = "/latest_producer_id_block"
TOPIC_CONFIGS, GROUP_CONFIGS = "/config/topics", "/config/groups"
DELEGATION_TOKENS = "/delegation_token/tokens"
USERS, CLIENTS, IPS = "/config/users", "/config/clients", "/config/ips"

_ACLS = {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
_ACL_TYPES = {
    "".join(part.capitalize() for part in kind.name.split("_")): kind
    for kind in ResourceType
    if kind > ResourceType.ANY
}
"""The types of resources by Kafka's names of their znodes, such as TransactionalId."""

ACL_PARENTS = tuple(f"{root}/{kind}" for root in _ACLS.values() for kind in _ACL_TYPES)
"""The znodes whose children have the ACLs."""

PARENTS = (
    "/cluster",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/config",
    TOPIC_CONFIGS,
    GROUP_CONFIGS,
    USERS,
    CLIENTS,
    IPS,
    "/delegation_token",
    DELEGATION_TOKENS,
    "/kafka-acl",
    "/kafka-acl-extended",
    "/kafka-acl-extended/prefixed",
    *ACL_PARENTS,
)
"""What every cluster has, in the order in which it can be created."""

CONTROLLER_LISTENER = "CONTROLLER"

_PRODUCER_BLOCK = 1000
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_DEFAULT = "<default>"
_IN_NAMES = " !#$&'()*+,-.:;<=>?@[]^_{|}~"
"""What stays as it is in the names of resources, beside letters and digits."""

_ENTITY_PATHS = {"user": USERS, "client-id": CLIENTS, "ip": IPS}

T = TypeVar("T")
Tree = dict[str, bytes]
"""Data by path."""

Address = tuple[str, int]


# -- brokers


class Endpoints(NamedTuple):
    """Where a broker listens.

    listeners          the address of each listener by its name, the first one first
    protocols          of these listeners, by name
    metadata           where it serves the metadata, while it is the controller
    metadata_protocol  of that address, which is secured as the listener between brokers
    """

    listeners: Mapping[str, Address]
    protocols: Mapping[str, str]
    metadata: Address | None = None
    metadata_protocol: str = "PLAINTEXT"

    @property
    def first(self) -> Address:
        """The address of the first listener."""
        return next(iter(self.listeners.values()))


def broker_path(broker_id: int) -> str:
    """Return the znode of a live broker."""
    return f"{BROKER_IDS}/{broker_id}"


def encode_broker(endpoints: Endpoints, now_ms: int) -> bytes:
    """Return the registration of a broker."""
    listeners, protocols = dict(endpoints.listeners), dict(endpoints.protocols)
    if endpoints.metadata is not None:
        listeners[CONTROLLER_LISTENER] = endpoints.metadata
        protocols[CONTROLLER_LISTENER] = endpoints.metadata_protocol
    host, port = endpoints.first
    return to_json(
        {
            "version": 5,
            "host": host,
            "port": port,
            "endpoints": [f"{name}://{_address(address)}" for name, address in listeners.items()],
            "listener_security_protocol_map": protocols,
            "jmx_port": -1,
            "features": {},
            "timestamp": str(now_ms),
        }
    )


def decode_metadata_address(data: bytes) -> Address | None:
    """Return where a broker serves the metadata, None while it does not. Raises ValueError."""
    prefix = f"{CONTROLLER_LISTENER}://"
    for endpoint in Fields(from_json(data), "broker").many("endpoints"):
        if isinstance(endpoint, str) and endpoint.startswith(prefix):
            host, _, port = endpoint.removeprefix(prefix).rpartition(":")
            return host.removeprefix("[").removesuffix("]"), int(port)
    return None


def _address(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    """Return the data of the controller's znode."""
    return to_json(
        {"version": 2, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes) -> int:
    """Return the id of the controller. Raises ValueError."""
    return Fields(from_json(data), "controller").number("brokerid", 0)


def encode_cluster_id(cluster_id: str) -> bytes:
    """Return the data of the cluster's id."""
    return to_json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Read the id of the cluster. Raises ValueError."""
    return Fields(from_json(data), "cluster").text("id")


def encode_registrations(brokers: Brokers) -> bytes:
    """Return all registered brokers."""
    return to_json(encode_delta(Delta(brokers=brokers)))


def decode_registrations(data: bytes) -> Brokers:
    """Read all registered brokers. Raises ValueError."""
    brokers = decode_delta(from_json(data)).brokers
    if brokers is None:
        raise ValueError("brokers is missing")
    return brokers


# -- topics


def topic_path(topic: str) -> str:
    """Return the znode of a topic."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """Return the parent of a topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, index: int) -> str:
    """Return the parent of a partition's state."""
    return f"{TOPICS}/{topic}/partitions/{index}"


def state_path(topic: str, index: int) -> str:
    """Return the znode of a partition's state."""
    return f"{TOPICS}/{topic}/partitions/{index}/state"


def topic_config_path(topic: str) -> str:
    """Return the znode of a topic's configurations."""
    return f"{TOPIC_CONFIGS}/{topic}"


def encode_topic(topic: ClusterTopic) -> bytes:
    """Return id and replicas of a topic."""
    numbered = [(str(index), state) for index, state in enumerate(topic.partitions)]
    return to_json(
        {
            "version": 3,
            "topic_id": encode_bytes(topic.topic_id).translate(str.maketrans("+/", "-_", "=")),
            "partitions": {index: list(state.replicas) for index, state in numbered},
            "adding_replicas": {index: list(state.adding) for index, state in numbered if state.adding},
            "removing_replicas": {index: list(state.removing) for index, state in numbered if state.removing},
        }
    )


def encode_state(state: PartitionState, controller_epoch: int) -> bytes:
    """Return what is decided for a partition, without its replicas."""
    form: dict[str, Any] = {
        "controller_epoch": controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.elr:
        form["elr"] = list(state.elr)
    if state.last_leader != NO_LEADER:
        form["last_leader"] = state.last_leader
    return to_json(form)


class StoredTopic(NamedTuple):
    """A topic without the states of its partitions.

    replicas, adding, removing  by partition
    """

    topic_id: bytes
    replicas: list[tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]]
    removing: Mapping[int, tuple[int, ...]]


def decode_topic(data: bytes) -> StoredTopic:
    """Read a topic. Raises ValueError."""
    fields = Fields(from_json(data), "topic")
    text = fields.text("topic_id").translate(str.maketrans("-_", "+/"))
    topic_id = Fields({"topic_id": text + "=="[: -len(text) % 4]}, "topic").data("topic_id")
    replicas = _by_partition(fields, "partitions")
    if sorted(replicas) != list(range(len(replicas))) or not all(replicas.values()):
        raise ValueError("topic: partitions are not numbered from 0, each with replicas")
    return StoredTopic(
        topic_id,
        [replicas[index] for index in range(len(replicas))],
        _by_partition(fields, "adding_replicas"),
        _by_partition(fields, "removing_replicas"),
    )


def _by_partition(fields: Fields, name: str) -> dict[int, tuple[int, ...]]:
    if name not in fields:
        return {}
    inner = Fields(fields.value(name), name)
    return {int(index): inner.numbers(index) for index in inner}


def decode_state(data: bytes, version: int, topic: StoredTopic, index: int) -> PartitionState:
    """Read the state of a partition from a znode with this version. Raises ValueError."""
    fields = Fields(from_json(data), "state")
    return PartitionState(
        topic.replicas[index],
        fields.numbers("isr"),
        fields.number("leader", NO_LEADER),
        fields.number("leader_epoch", 0),
        version,
        topic.adding.get(index, ()),
        topic.removing.get(index, ()),
        fields.numbers("elr", missing=()),
        fields.number("last_leader", NO_LEADER) if "last_leader" in fields else NO_LEADER,
    )


# -- settings


def encode_configs(configs: Mapping[str, str]) -> bytes:
    """Return configurations as Kafka stores those of all kinds."""
    return to_json({"version": 1, "config": dict(configs)})


def decode_configs(data: bytes) -> dict[str, str]:
    """Read configurations. Raises ValueError."""
    return Fields(from_json(data), "configurations").texts("config")


def settings_tree(settings: ClusterSettings) -> Tree:
    """Return all settings as znodes."""
    configs: dict[str, dict[str, str]] = {}
    for group, values in settings.groups.items():
        configs[f"{GROUP_CONFIGS}/{_encoded(group)}"] = dict(values)
    for entity, quotas in settings.quotas.items():
        numbers = {
            key: str(int(limit)) if limit.is_integer() else repr(limit) for key, limit in quotas.items()
        }
        configs.setdefault(entity_path(entity), {}).update(numbers)
    for (user, mechanism), credential in settings.credentials.items():
        if credential is not None:
            text = _credential_text(credential)
            configs.setdefault(entity_path(frozenset({("user", user)})), {})[_MECHANISMS[mechanism]] = text
    tree = {path: encode_configs(values) for path, values in configs.items()}
    for path in list(tree):
        parent, _, _ = path.rpartition("/clients/")
        if parent.startswith(f"{USERS}/"):
            tree.setdefault(parent, encode_configs({}))
            tree.setdefault(f"{parent}/clients", b"")
    tokens = {
        f"{DELEGATION_TOKENS}/{token_id}": to_json({"version": 3, **token.form()})
        for token_id, token in settings.tokens.items()
        if token is not None
    }
    return tree | _acl_tree(settings) | tokens


def _acl_tree(settings: ClusterSettings) -> Tree:
    entries: dict[str, list[dict[str, str]]] = {}
    for acl in sorted(settings.acls):
        kind = next(name for name, resource_type in _ACL_TYPES.items() if resource_type is acl.resource_type)
        # Kafka has the names as they are, but those with a slash, or of dots alone, are none of a znode.
        name = acl.name.replace(".", "%2E") if acl.name in (".", "..") else quote(acl.name, safe=_IN_NAMES)
        entries.setdefault(f"{_ACLS[acl.pattern_type]}/{kind}/{name}", []).append(
            {
                "principal": acl.principal,
                "permissionType": acl.permission.name.capitalize(),
                "operation": "".join(part.capitalize() for part in acl.operation.name.split("_")),
                "host": acl.host,
            }
        )
    return {path: to_json({"version": 1, "acls": acls}) for path, acls in entries.items()}


def _acls_of(path: str, data: bytes) -> Iterator[AclBinding]:
    """Read the ACLs of one resource. Raises ValueError."""
    root, kind, name = path.rsplit("/", 2)
    pattern_type = next(pattern for pattern, folder in _ACLS.items() if folder == root)
    operations = {acl_operation.name.replace("_", ""): acl_operation for acl_operation in AclOperation}
    for form in Fields(from_json(data), "ACLs").many("acls"):
        fields = Fields(form, "ACL")
        operation = operations.get(fields.text("operation").upper())
        permission = Permission.__members__.get(fields.text("permissionType").upper())
        if operation is None or permission is None:
            raise ValueError(f"an ACL of {path} has an unknown operation or permission type")
        principal, host = fields.text("principal"), fields.text("host")
        yield AclBinding(
            _ACL_TYPES[kind], unquote(name), pattern_type, principal, host, operation, permission
        )


def entity_path(entity: frozenset[tuple[str, str | None]]) -> str:
    """Return the znode of the quotas of an entity."""
    parts = dict(entity)
    if len(parts) == 2:
        return f"{USERS}/{_encoded(parts['user'])}/clients/{_encoded(parts['client-id'])}"
    ((kind, name),) = parts.items()
    return f"{_ENTITY_PATHS[kind]}/{_encoded(name)}"


def settings_of(tree: Mapping[str, bytes]) -> ClusterSettings:
    """Read settings from their znodes. Raises ValueError."""
    groups: dict[str, Mapping[str, str]] = {}
    quotas: dict[frozenset[tuple[str, str | None]], Mapping[str, float]] = {}
    credentials: dict[tuple[str, int], ScramCredential] = {}
    acls: dict[AclBinding, bool] = {}
    tokens: dict[str, DelegationToken] = {}
    for path, data in tree.items():
        if not data:
            continue
        if path.startswith("/kafka-acl"):
            acls |= dict.fromkeys(_acls_of(path, data), True)
            continue
        if path.startswith(f"{DELEGATION_TOKENS}/"):
            tokens[path.removeprefix(f"{DELEGATION_TOKENS}/")] = _token(data)
            continue
        configs = decode_configs(data)
        if path.startswith(f"{GROUP_CONFIGS}/"):
            groups[unquote(path.removeprefix(f"{GROUP_CONFIGS}/"))] = configs
            continue
        entity = _entity(path)
        for number, mechanism in _MECHANISMS.items():
            if mechanism in configs:
                credentials[str(dict(entity)["user"]), number] = _credential(configs.pop(mechanism))
        if configs:
            quotas[entity] = {key: float(value) for key, value in configs.items()}
    return ClusterSettings(groups, quotas, credentials, acls, tokens)


def _token(data: bytes) -> DelegationToken:
    form: Any = from_json(data)
    try:
        return token_of_form(form)
    except (KeyError, TypeError) as error:
        raise ValueError(f"the delegation token has no valid {error}") from error


def _entity(path: str) -> frozenset[tuple[str, str | None]]:
    _, _, kind, name, *client = path.split("/")
    kinds = {
        path_of_type.rpartition("/")[2]: entity_type for entity_type, path_of_type in _ENTITY_PATHS.items()
    }
    parts: list[tuple[str, str | None]] = [(kinds[kind], _decoded(name))]
    if client:
        parts.append(("client-id", _decoded(client[1])))
    return frozenset(parts)


def _encoded(name: str | None) -> str:
    """Return a name as Kafka's Sanitizer does; that of the default for None."""
    if name is None:
        return _DEFAULT
    return (
        quote(name, safe="-_.").replace("~", "%7E") if name not in (".", "..") else name.replace(".", "%2E")
    )


def _decoded(name: str) -> str | None:
    return None if name == _DEFAULT else unquote(name)


def _credential_text(credential: ScramCredential) -> str:
    salt, stored_key, server_key = map(encode_bytes, credential[1:])
    return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={credential.iterations}"


def _credential(text: str) -> ScramCredential:
    parts = dict(_pairs(text))
    fields = Fields(parts, "credential")
    return ScramCredential(
        int(fields.text("iterations")), *(fields.data(name) for name in ("salt", "stored_key", "server_key"))
    )


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, _, value = part.partition("=")
        yield name, value


# -- producer ids


def encode_producer_ids(broker_id: int, next_id: int) -> bytes:
    """Return the last block of producer ids."""
    first = max(next_id - _PRODUCER_BLOCK, 0)
    return to_json(
        {"version": 1, "broker": broker_id, "block_start": str(first), "block_end": str(next_id - 1)}
    )


def decode_producer_ids(data: bytes) -> int:
    """Return the first producer id after the last block. Raises ValueError."""
    return int(Fields(from_json(data), "producer ids").text("block_end")) + 1
