"""JSON form: an image and its changes as JSON, for files, for ZooKeeper and between processes.

    image   {"brokers": BROKERS, "topics": [TOPIC], "next_producer_id": 0, "settings": SETTINGS}
    delta   {"brokers": BROKERS, "created": [TOPIC], "deleted": [TOPIC], "partitions": [STATE], "settings": SETTINGS},
            without what has not changed
    BROKERS   {"controller": 1, "brokers": [{"id": 1, "host": "127.0.0.1", "port": 9092, "epoch": 7, "is_up": true,
              "listeners": {"PLAINTEXT": ["127.0.0.1", 9092]}}]}; "listeners" may be missing
    TOPIC     {"name": "orders", "topic_id": "<base64>", "configs": {"retention.ms": "1"}, "partitions": [STATE]}
    STATE     {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leader_epoch": 0, "partition_epoch": 0}, and where they
              are not empty "adding", "removing", "elr", "last_leader"; in a delta also "topic" and "partition"
    SETTINGS  {"groups": {"g": {"consumer.session.timeout.ms": "1"}}, "quotas": [{"entity": {"user": null},
              "quotas": {"producer_byte_rate": 1.0}}], "credentials": [{"user": "u", "mechanism": 1, "iterations": 4096,
              "salt": "<base64>", "stored_key": "<base64>", "server_key": "<base64>"}]}; of a removed one null

Any bytes give a value or a ValueError that names the field. Unknown fields are ignored. Numbers are written as Python
writes them, `NaN` and `Infinity` included.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeGuard, TypeVar

from kafka_offsets.metadata.image import (
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
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState
from kafka_offsets.security.acls import AclBinding, acl_of_texts
from kafka_offsets.security.credential import ScramCredential
from kafka_offsets.security.delegation_token import DelegationToken, token_of_form

Json = dict[str, Any]

V = TypeVar("V")

_INT64 = 1 << 63
_PORTS = 1 << 16
_TOPIC_ID_BYTES = 16
_MECHANISMS = (1, 2)
_ENTITIES = ({"user"}, {"client-id"}, {"user", "client-id"}, {"ip"})


def encode_image(image: ClusterImage) -> Json:
    """Return the form of an image."""
    return {
        "brokers": _encode_brokers(image.brokers),
        "topics": [encode_topic(topic) for topic in image.topics.values()],
        "next_producer_id": image.next_producer_id,
        "settings": encode_settings(image.settings),
    }


def decode_image(form: object) -> ClusterImage:
    """Read an image. Raises ValueError."""
    fields = Fields(form, "image")
    topics = [decode_topic(topic_form) for topic_form in fields.many("topics")]
    image = ClusterImage(
        _decode_brokers(fields.value("brokers")),
        {topic.name: topic for topic in topics},
        fields.number("next_producer_id", 0),
        decode_settings(fields.value("settings")),
    )
    if len(image.topics) != len(topics):
        raise ValueError("image: a topic occurs twice")
    return image


def encode_delta(delta: Delta) -> Json:
    """Return the form of a change."""
    form: Json = {}
    if delta.brokers is not None:
        form["brokers"] = _encode_brokers(delta.brokers)
    if delta.created:
        form["created"] = [encode_topic(topic) for topic in delta.created]
    if delta.deleted:
        form["deleted"] = [encode_topic(topic) for topic in delta.deleted]
    if delta.partitions:
        form["partitions"] = [
            {"topic": topic_partition.topic, "partition": topic_partition.partition, **encode_state(state)}
            for topic_partition, state in delta.partitions
        ]
    if delta.settings is not None:
        form["settings"] = encode_settings(delta.settings)
    return form


def decode_delta(form: object) -> Delta:
    """Read a change. Raises ValueError."""
    fields = Fields(form, "delta")
    return Delta(
        brokers=_decode_brokers(fields.value("brokers")) if "brokers" in fields else None,
        created=tuple(decode_topic(topic_form) for topic_form in fields.many("created", missing=())),
        deleted=tuple(decode_topic(topic_form) for topic_form in fields.many("deleted", missing=())),
        partitions=tuple(
            Placed(decode_topic_partition(Fields(partition_form, "partition")), decode_state(partition_form))
            for partition_form in fields.many("partitions", missing=())
        ),
        settings=decode_settings(fields.value("settings")) if "settings" in fields else None,
    )


def encode_topic(topic: ClusterTopic) -> Json:
    """Return the form of a topic."""
    return {
        "name": topic.name,
        "topic_id": encode_bytes(topic.topic_id),
        "configs": dict(topic.configs),
        "partitions": [encode_state(state) for state in topic.partitions],
    }


def decode_topic(form: object) -> ClusterTopic:
    """Read a topic. Raises ValueError."""
    fields = Fields(form, "topic")
    states = tuple(decode_state(state_form) for state_form in fields.many("partitions"))
    return ClusterTopic(fields.text("name"), fields.topic_id(), fields.texts("configs"), states)


def encode_state(state: PartitionState) -> Json:
    """Return the form of a partition's state."""
    form: Json = {
        "replicas": list(state.replicas),
        "isr": list(state.isr),
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
    }
    for name in ("adding", "removing", "elr"):
        if getattr(state, name):
            form[name] = list(getattr(state, name))
    if state.last_leader != NO_LEADER:
        form["last_leader"] = state.last_leader
    return form


def decode_state(form: object) -> PartitionState:
    """Read a partition's state. Raises ValueError."""
    fields = Fields(form, "partition")
    state = PartitionState(
        fields.numbers("replicas"),
        fields.numbers("isr"),
        fields.number("leader", NO_LEADER),
        fields.number("leader_epoch", 0),
        fields.number("partition_epoch", 0),
        fields.numbers("adding", missing=()),
        fields.numbers("removing", missing=()),
        fields.numbers("elr", missing=()),
        fields.number("last_leader", NO_LEADER) if "last_leader" in fields else NO_LEADER,
    )
    if not state.replicas:
        fields.fail("replicas", "a list of brokers")
    return state


def decode_topic_partition(fields: "Fields") -> TopicPartition:
    """Read the fields `topic` and `partition`. Raises ValueError."""
    return TopicPartition(fields.text("topic"), fields.number("partition", 0))


def _encode_brokers(brokers: Brokers) -> Json:
    return {
        "controller": brokers.controller_id,
        "brokers": [
            broker._asdict() | {"listeners": dict(broker.listeners)} for broker in brokers.by_id.values()
        ],
    }


def _decode_brokers(form: object) -> Brokers:
    fields = Fields(form, "brokers")
    brokers = [_decode_broker(broker_form) for broker_form in fields.many("brokers")]
    by_id = {broker.id: broker for broker in brokers}
    if len(by_id) != len(brokers):
        raise ValueError("brokers: a broker occurs twice")
    return Brokers(fields.number("controller", -1), by_id)


def _decode_broker(form: object) -> RegisteredBroker:
    fields = Fields(form, "broker")
    return RegisteredBroker(
        fields.number("id", 0),
        fields.text("host"),
        fields.number("port", 0, _PORTS),
        fields.number("epoch", 0),
        fields.flag("is_up"),
        decode_listeners(fields),
    )


def decode_listeners(fields: "Fields") -> Mapping[str, Address]:
    """Read the field `listeners` of a broker, which may be missing. Raises ValueError."""
    if fields.get("listeners") is None:
        return {}
    inner = Fields(fields.value("listeners"), "listeners")
    return {name: inner.address(name) for name in inner}


def encode_settings(settings: ClusterSettings) -> Json:
    """Return the form of settings, or of a change of them."""
    return {
        "groups": {group: dict(configs) for group, configs in settings.groups.items()},
        "quotas": [
            {"entity": dict(sorted(entity)), "quotas": dict(values)}
            for entity, values in settings.quotas.items()
        ],
        "credentials": [
            {"user": user, "mechanism": mechanism} | _encode_credential(credential)
            for (user, mechanism), credential in settings.credentials.items()
        ],
        "acls": [{"acl": acl.texts(), "exists": exists} for acl, exists in settings.acls.items()],
        "tokens": [
            {"id": token_id, "token": None if token is None else token.form()}
            for token_id, token in settings.tokens.items()
        ],
    }


def _encode_credential(credential: ScramCredential | None) -> Json:
    if credential is None:
        return {"iterations": None}
    iterations, *secrets = credential
    return {"iterations": iterations} | dict(
        zip(ScramCredential._fields[1:], map(encode_bytes, secrets), strict=True)
    )


def decode_settings(form: object) -> ClusterSettings:
    """Read settings, or a change of them. Raises ValueError, which has no secret."""
    fields = Fields(form, "settings")
    groups = Fields(fields.value("groups"), "groups")
    return ClusterSettings(
        {group: groups.texts(group) for group in groups},
        _by_unique_key((_decode_quota(quota_form) for quota_form in fields.many("quotas")), "an entity"),
        _by_unique_key(
            (_decode_credential(credential_form) for credential_form in fields.many("credentials")),
            "a credential",
        ),
        _by_unique_key((_decode_acl(acl_form) for acl_form in fields.many("acls")), "an ACL")
        if "acls" in fields
        else {},
        _by_unique_key(
            (_decode_token(token_form) for token_form in fields.many("tokens", missing=())),
            "a delegation token",
        ),
    )


def _decode_quota(form: object) -> tuple[frozenset[tuple[str, str | None]], Mapping[str, float]]:
    fields = Fields(form, "quota")
    entity, quotas = Fields(fields.value("entity"), "entity"), Fields(fields.value("quotas"), "quotas")
    if {*entity} not in _ENTITIES:
        fields.fail("entity", "a user, a client id, both, or an IP")
    return (
        frozenset((kind, entity.text_or_none(kind)) for kind in entity),
        {key: quotas.real(key) for key in quotas},
    )


def _decode_acl(form: object) -> tuple[AclBinding, bool]:
    fields = Fields(form, "ACL")
    try:
        return acl_of_texts(fields.texts("acl")), fields.flag("exists")
    except KeyError as error:
        raise ValueError(f"the ACL has an unknown field or value: {error}") from error


def _decode_token(form: object) -> tuple[str, DelegationToken | None]:
    fields = Fields(form, "delegation token")
    token_id, token = fields.text("id"), fields.get("token")
    if token is None:
        return token_id, None
    if not isinstance(token, dict):
        fields.fail("token", "an object")
    try:
        return token_id, token_of_form(token)
    except (KeyError, TypeError) as error:
        raise ValueError(f"the delegation token has no valid {error}") from error


def _decode_credential(form: object) -> tuple[tuple[str, int], ScramCredential | None]:
    fields = Fields(form, "credential")
    key = fields.text("user"), fields.number("mechanism", 0)
    if key[1] not in _MECHANISMS:
        fields.fail("mechanism", "a number of a SCRAM mechanism")
    if fields.value("iterations") is None:
        return key, None
    return key, ScramCredential(
        fields.number("iterations", 1),
        fields.data("salt"),
        fields.data("stored_key"),
        fields.data("server_key"),
    )


def _by_unique_key(items: Iterable[tuple[Any, V]], what: str) -> dict[Any, V]:
    values_by_key: dict[Any, V] = {}
    for key, value in items:
        if key in values_by_key:
            raise ValueError(f"settings: {what} occurs twice")
        values_by_key[key] = value
    return values_by_key


def encode_bytes(data: bytes) -> str:
    """Return bytes as base64."""
    return b64encode(data).decode("ascii")


def to_json(form: Json) -> bytes:
    """Return an object as bytes, without a newline."""
    return json.dumps(form, separators=(",", ":")).encode("ascii")


def from_json(data: bytes) -> object:
    """Read what any peer or file has. Raises ValueError."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


class Fields:
    """The fields of an object. Each method raises ValueError with the name of the field."""

    def __init__(self, form: object, what: str) -> None:
        if not isinstance(form, dict):
            raise ValueError(f"{what} is not an object")  # noqa: TRY004 - wrong data, not a wrong call
        self._form: Json = form
        self._what = what

    def __contains__(self, name: str) -> bool:
        return name in self._form

    def __iter__(self) -> Iterator[str]:
        return iter(self._form)

    def get(self, name: str) -> object:
        """Return a field, None if it does not exist."""
        return self._form.get(name)

    def fail(self, name: str, wanted: str) -> NoReturn:
        """Raise the error of a field."""
        raise ValueError(f"{self._what}: {name} is not {wanted}")

    def value(self, name: str) -> object:
        """Return a field that exists."""
        if name not in self._form:
            raise ValueError(f"{self._what}: {name} is missing")
        return self._form[name]

    def number(self, name: str, lowest: int, end: int = _INT64) -> int:
        """Return a whole number."""
        number = self.value(name)
        if not _is_number(number) or not lowest <= number < end:
            self.fail(name, f"a number from {lowest} on")
        return number

    def real(self, name: str) -> float:
        """Return a number; a quota may also be NaN or infinite."""
        number = self.value(name)
        if isinstance(number, bool) or not isinstance(number, int | float):
            self.fail(name, "a number")
        try:
            return float(number)
        except OverflowError:
            self.fail(name, "a number")

    def flag(self, name: str) -> bool:
        """Return true or false."""
        flag = self.value(name)
        if not isinstance(flag, bool):
            self.fail(name, "true or false")
        return flag

    def text(self, name: str) -> str:
        """Return a string."""
        text = self.value(name)
        if not isinstance(text, str):
            self.fail(name, "a string")
        return text

    def text_or_none(self, name: str) -> str | None:
        """Return a string or None."""
        return None if self.value(name) is None else self.text(name)

    def data(self, name: str) -> bytes:
        """Return the bytes of a string in base64."""
        try:
            return b64decode(self.text(name), validate=True)
        except ValueError:
            self.fail(name, "base64")

    def topic_id(self) -> bytes:
        """Return the field `topic_id`."""
        topic_id = self.data("topic_id")
        if len(topic_id) != _TOPIC_ID_BYTES:
            self.fail("topic_id", "a topic id")
        return topic_id

    def many(self, name: str, missing: Iterable[object] | None = None) -> list[Any]:
        """Return a list; `missing` if there is no such field."""
        if missing is not None and name not in self._form:
            return list(missing)
        elements = self.value(name)
        if not isinstance(elements, list):
            self.fail(name, "a list")
        return elements

    def numbers(self, name: str, missing: Iterable[int] | None = None) -> tuple[int, ...]:
        """Return a list of broker ids."""
        numbers = self.many(name, missing)
        if not all(_is_number(number) and 0 <= number < _INT64 for number in numbers):
            self.fail(name, "a list of brokers")
        return tuple(numbers)

    def address(self, name: str) -> Address:
        """Return a host and a port."""
        host, port = (*self.many(name), None, None)[:2]
        if not isinstance(host, str) or not _is_number(port) or not 0 <= port < _PORTS:
            self.fail(name, "a host and a port")
        return host, port

    def texts(self, name: str) -> dict[str, str]:
        """Return an object whose values are strings."""
        inner = Fields(self.value(name), name)
        return {key: inner.text(key) for key in inner}


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
