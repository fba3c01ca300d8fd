"""DescribeClientQuotas and AlterClientQuotas: the quotas of users, clients and addresses (KIP-546).

broker/quotas enforces them. Errors and messages are Kafka's.
Sources: ClientQuotaControlManager, ClientQuotasImage of Kafka 4.3, whose answers tests/differential compares.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.java_order import OrderedByHash, hash_order
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import string_hash
from kafka_offsets.storage.directory.client_settings import Entity

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

    Component = messages.DescribeClientQuotasRequest.ComponentData
    Entry = messages.AlterClientQuotasRequest.EntryData

MOST_ENTITIES = 1000
"""The most entities with quotas: all of them are in one file, which each change writes again."""

LONGEST_NAME_BYTES = 512
"""The longest name of a user or client, in UTF-8."""


class Match(IntEnum):
    """How a component of a filter matches entities, by the numbers of DescribeClientQuotas (KIP-546)."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


USER, CLIENT_ID, IP = "user", "client-id", "ip"
_MATCHES = frozenset(Match)
_ENTITIES = (USER, CLIENT_ID, IP)
_MOST = {
    "an INT": float(2**31 - 1),
    "a LONG": float(2**63 - 1),
}
"""The largest quota of an integer type, by Kafka's name of the type; 2⁶³ is accepted, in Java as here."""

_CLIENT_KEYS = {
    "producer_byte_rate": "a LONG",
    "consumer_byte_rate": "a LONG",
    "request_percentage": "",
    "controller_mutation_rate": "",
}
_IP_KEYS = {"connection_creation_rate": "an INT"}
"""The quotas of an entity, and their types; "" for any number."""

_NOT_FRACTIONAL = 1e-6

logger = new_logger(__name__)


class _RefusedError(Exception):
    """An invalid filter or entity: Kafka's code and message."""

    def __init__(self, message: str, error: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


# -- DescribeClientQuotas -----------------------------------------------------------------------------------------


def describe_client_quotas(
    broker: Context, request: messages.DescribeClientQuotasRequest, context: RequestContext, now: Now
) -> messages.DescribeClientQuotasResponse:
    """Describe the entities that match every component of a filter, and with `strict` have no other component."""
    response = messages.DescribeClientQuotasResponse
    try:
        exact, specified = _filter_of(request.components)
    except _RefusedError as refused:
        return response(error_code=refused.error, error_message=refused.message, entries=None)
    component_count = len(exact) + len(specified)
    entries = []
    for entity, values in broker.directory.clients.quotas.items():
        parts = dict(entity)
        if request.strict and len(parts) != component_count:
            continue
        if exact.items() <= parts.items() and specified <= parts.keys():
            named = [response.EntityData(*part) for part in sorted(entity)]
            entries.append(
                response.EntryData(named, [response.ValueData(*value) for value in values.items()])
            )
    return response(error_message="", entries=entries)


def _filter_of(components: list[Component]) -> tuple[dict[str, str | None], set[str]]:
    """Return by type the requested name, None for the default, and the types that match any name.

    Raises _RefusedError.
    """
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for component in components:
        _check_component(component, exact.keys() | specified)
        if component.match_type == Match.SPECIFIED:
            specified.add(component.entity_type)
        else:
            exact[component.entity_type] = component.match
    kinds = exact.keys() | specified
    if IP in kinds and len(kinds) > 1:
        raise _RefusedError(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    return exact, specified


def _check_component(component: Component, seen: set[str]) -> None:
    kind, how, text = component.entity_type, component.match_type, component.match
    if not kind:
        raise _RefusedError("Invalid empty entity type.")
    if kind in seen:
        raise _RefusedError(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in _ENTITIES:
        raise _RefusedError(f"Unsupported entity type {kind}", ErrorCode.UNSUPPORTED_VERSION)
    if how not in _MATCHES:
        raise _RefusedError(f"Unknown match type {how}")
    if how == Match.EXACT and text is None:
        raise _RefusedError("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if how != Match.EXACT and text is not None:
        raise _RefusedError(
            f"Request specified MATCH_TYPE_{Match(how).name}, but also specified a match string."
        )


def fail_describe_client_quotas(
    request: messages.DescribeClientQuotasRequest, error: ErrorCode, api_version: int
) -> messages.DescribeClientQuotasResponse:
    """Answer `error`."""
    return messages.DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None)


# -- AlterClientQuotas --------------------------------------------------------------------------------------------


def alter_client_quotas(
    broker: Context, request: messages.AlterClientQuotasRequest, context: RequestContext, now: Now
) -> messages.AlterClientQuotasResponse:
    """Change the quotas of each entity, all of its changes or none, with one write for all entities.

    If an entity is named twice, its first changes are made, and the response refuses it, as in Kafka.
    """
    after = dict(broker.directory.clients.quotas)
    errors: dict[Entity, _RefusedError | None] = {}
    for entry in request.entries:
        parts = _in_java_order({part.entity_type: part.entity_name for part in entry.entity})
        entity: Entity = frozenset(parts.items())
        try:
            if entity in errors or len({op.key for op in entry.ops}) < len(entry.ops):
                raise _RefusedError(f"Ignoring duplicate entity {_java_text(parts)}")
            _alter(after, entity, _keys_of(parts), entry)
            errors[entity] = None
        except _RefusedError as refused:
            errors[entity] = refused
    try:
        if not request.validate_only:
            broker.settings.set_quotas(after)
    except StorageError as error:
        logger.error("the quotas were not changed: %s", error)
        unkept = _RefusedError(str(error), ErrorCode.KAFKA_STORAGE_ERROR)
        errors = {entity: refused or unkept for entity, refused in errors.items()}
    return _altered(errors)


def _altered(errors: Mapping[Entity, _RefusedError | None]) -> messages.AlterClientQuotasResponse:
    response = messages.AlterClientQuotasResponse
    entries = []
    for entity, refused in errors.items():
        named = [response.EntityData(*part) for part in sorted(entity)]
        if refused is None:
            entries.append(response.EntryData(ErrorCode.NONE, None, named))
        else:
            entries.append(response.EntryData(refused.error, refused.message, named))
    return response(entries=entries)


def _alter(
    quotas: dict[Entity, Mapping[str, float]], entity: Entity, keys: Mapping[str, str], entry: Entry
) -> None:
    """Make all changes of one entity, or none when it raises _RefusedError.

    keys  the quotas that the entity may have, and their types
    """
    before = quotas.get(entity, {})
    for op in entry.ops:
        if not op.remove:
            _check_value(keys, op.key, op.value)
    values = _ordered(before, {op.key: None if op.remove else op.value for op in entry.ops})
    if not values:
        quotas.pop(entity, None)
        return
    if entity not in quotas:
        _check_room(quotas, entity)
    quotas[entity] = values


def _ordered(before: Mapping[str, float], changes: Mapping[str, float | None]) -> dict[str, float]:
    """Return the changed values in the order of Kafka's hash map, which decides in which order they are described.

    Source: ClientQuotaDelta.apply.
    """
    after = {**before, **{key: changes[key] for key in hash_order(changes, string_hash)}}
    values = {key: value for key, value in after.items() if value is not None}
    keys = OrderedByHash(string_hash, len(before))
    for key in values:
        keys.append(key)
    return {key: values[key] for key in keys}


def _check_room(quotas: Mapping[Entity, Mapping[str, float]], entity: Entity) -> None:
    for kind, name in sorted(entity):
        size = len((name or "").encode())
        if size > LONGEST_NAME_BYTES:
            raise _RefusedError(f"The {kind} has {size} bytes, more than {LONGEST_NAME_BYTES}")
    if len(quotas) >= MOST_ENTITIES:
        raise _RefusedError(f"there are quotas of {MOST_ENTITIES} entities, the most allowed")


def _keys_of(parts: Mapping[str, str | None]) -> dict[str, str]:
    """Return the quotas that an entity may have, and their types. Raises _RefusedError for an invalid entity."""
    for kind, name in parts.items():
        if kind not in _ENTITIES:
            raise _RefusedError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _RefusedError(f"Empty {kind} not supported")
    if not parts:
        raise _RefusedError("Invalid empty client quota entity")
    if IP not in parts:
        return _CLIENT_KEYS
    if len(parts) > 1:
        raise _RefusedError(  # without a space, as in Kafka
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    if not _is_address(parts[IP]):
        raise _RefusedError(f"{parts[IP]} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _is_address(name: str | None) -> bool:
    """Whether a name is the default or an address. The only host name is localhost: a look-up takes time."""
    if name is None or name == "localhost":
        return True
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return False


def _check_value(keys: Mapping[str, str], key: str, value: float) -> None:
    kind = keys.get(key)
    if kind is None:
        raise _RefusedError(f"Invalid configuration key {key}")
    if value <= 0:
        raise _RefusedError(f"Quota {key} must be greater than 0")
    if not kind:
        return
    if value > _MOST[kind]:
        raise _RefusedError(f"Proposed value for {key} is too large for {kind}.")
    if value % 1 > _NOT_FRACTIONAL:
        raise _RefusedError(f"{key} cannot be a fractional value.")


def _in_java_order(parts: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return an entity in the order of Kafka's hash map, in which it is checked and written."""
    order = OrderedByHash(string_hash, len(parts))
    for kind in parts:
        order.append(kind)
    return {kind: parts[kind] for kind in order}


def _java_text(parts: Mapping[str, str | None]) -> str:
    """Return an entity as Java writes it."""
    named = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in parts.items())
    return f"ClientQuotaEntity(entries={{{named}}})"
