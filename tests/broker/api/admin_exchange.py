"""Requests of administrators and their answers as plain values: fields by name, topic ids by their topic's name."""

from typing import Any

from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from tests.broker.api.admin_situations import Situation
from tests.differential.brokers import Broker
from tests.differential.play import Event
from tests.differential.stories import STORIES, Stories
from tests.drivers.core import read_response, request_frame

SETTLE_MS = 250
"""Time for what a controller has decided to reach the broker that is asked next."""

_RESULTS = ("topics", "responses", "results", "brokers", "api_keys")
_SORTED_BY = ("name", "resource_type", "resource_name", "topic_id", "broker_id")


class TopicIds:
    """The ids that topics have had, so that a table can name them by topic."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._latest: dict[str, bytes] = {}

    def learn(self, response: Any) -> None:
        """Note the ids that an answer tells."""
        for topic in getattr(response, "topics", ()):
            topic_id, name = getattr(topic, "topic_id", b""), getattr(topic, "name", None)
            if name and any(topic_id) and topic_id not in self._names:
                self._names[topic_id] = name
                self._latest[name] = topic_id

    def parse(self, text: str) -> bytes:
        """Return the id that a situation names."""
        if text.startswith("id of "):
            return self._latest[text.removeprefix("id of ")]
        return bytes.fromhex(text)

    def text(self, topic_id: bytes) -> str:
        """Return how a table writes an id."""
        name = self._names.get(topic_id)
        return topic_id.hex() if name is None else f"id of {name}"


def build(message: str, fields: dict[str, Any], ids: TopicIds) -> Any:
    """Make a message of a situation's fields."""
    cls = messages.find(message)
    return _built(cls, cls.SCHEMA.struct, fields, cls, ids)


def _built(cls: Any, struct: Struct, fields: dict[str, Any], message: Any, ids: TopicIds) -> Any:
    declared = {field.name: field for field in struct.fields}
    return cls(**{name: _field(declared[name], value, message, ids) for name, value in fields.items()})


def _field(field: Field, value: Any, message: Any, ids: TopicIds) -> Any:
    if value is None:
        return None
    if field.type == "uuid":
        return ids.parse(value)
    if field.struct is None:
        return value
    inner = message.CLASSES[field.struct.name]
    if field.array:
        return [_built(inner, field.struct, item, message, ids) for item in value]
    return _built(inner, field.struct, value, message, ids)


def shown(response: Any, version: int, ids: TopicIds) -> dict[str, Any]:
    """Print an answer for a table: sorted where order means nothing, masked where two brokers must differ."""
    ids.learn(response)
    printed = _printed(response, response.SCHEMA.struct, version, ids)
    for name in _RESULTS:
        if printed.get(name):
            printed[name].sort(key=lambda item: [str(item[key]) for key in _SORTED_BY if key in item])
    if "cluster_id" in printed:
        printed["cluster_id"] = "CLUSTER"
    if printed.get("finalized_features_epoch", -1) != -1:
        printed["finalized_features_epoch"] = "EPOCH"
    for broker in printed.get("brokers", ()):
        broker["port"] = 0
    for result in printed.get("results", ()):
        for config in result.get("configs", ()):
            if config.get("documentation"):
                config["documentation"] = "TEXT"
        result.get("configs", []).sort(key=lambda config: config["name"])
    if len(printed.get("api_keys", ())) > 1:
        printed["api_keys"] = "MANY"
    return printed


def _printed(value: Any, struct: Struct, version: int, ids: TopicIds) -> dict[str, Any]:
    return {
        field.name: _item(getattr(value, field.name), field, version, ids)
        for field in struct.fields
        if version in field.versions
    }


def _item(value: Any, field: Field, version: int, ids: TopicIds) -> Any:
    if value is None:
        return None
    if field.array:
        return [_scalar(item, field, version, ids) for item in value]
    return _scalar(value, field, version, ids)


def _scalar(value: Any, field: Field, version: int, ids: TopicIds) -> Any:
    if field.struct is not None:
        return _printed(value, field.struct, version, ids)
    return ids.text(value) if field.type == "uuid" else value


def name_of(situation: Situation, version: int) -> str:
    """Return the name of an exchange in tests/stories."""
    return f"{situation.api}: {situation.sentence} (v{version})"


def stored(scenario: str) -> Stories:
    """Return what Kafka answered in a scenario."""
    return Stories({f"admin_{scenario}.txt": (STORIES / f"admin_{scenario}.txt").read_text(encoding="utf-8")})


def exchanged(broker: Broker, situations: list[Situation]) -> dict[str, list[Event]]:
    """Ask everything of one scenario, each on a connection of its own; return the exchanges by name."""
    ids, found = TopicIds(), {}
    for situation in situations:
        for version in situation.versions:
            broker.pause(SETTLE_MS)
            line = broker.connect()
            line.send(request_frame(build(f"{situation.api}Request", situation.request, ids), version))
            frame = line.receive()
            written = version if version in messages.find(f"{situation.api}Response").SCHEMA.versions else 0
            answer = shown(read_response(situation.api, written, frame), written, ids) if frame else "closed"
            asked = ["admin", f"{situation.api} v{version}", situation.request]
            found[name_of(situation, version)] = [asked, ["admin", answer]]
    return found
