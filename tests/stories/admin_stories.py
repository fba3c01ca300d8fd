"""What administrators ask about topics, configurations and the cluster, one after the other: admin_….txt.

The exchanges of one file build on each other, each on a connection of its own. Fields have our names. A topic id is
written "id of NAME" for the id that NAME has then, or had when it was last seen; other ids are 32 hexadecimal digits.
`DIFFERENT` names the exchanges in which this broker answers otherwise, with the reason.
"""

from typing import Any

from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from tests.differential.brokers import Broker
from tests.differential.play import Event
from tests.differential.stories import STORIES, Stories, StoryError
from tests.drivers.core import read_response, request_frame

SETTINGS = {
    "default": {},
    "refusing": {
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "false",
        "num.partitions": "3",
        "default.replication.factor": "2",
        "message.max.bytes": "2000000",
    },
}
"""The scenarios, and what their broker is configured to beyond benchmarks/peers/kafka.sh."""

DIFFERENT = {
    "ApiVersions: a named client is answered": "none of Kafka's features is served, so none is told",
    "CreateTopics: the offsets topic is created": "it is compacted unless the client says otherwise",
    "CreateTopics: defaults that the cluster cannot keep": "a configured replication factor is capped",
    "CreatePartitions: 10,001 more partitions": "Kafka fails with UNKNOWN_SERVER_ERROR, without a word",
    "CreatePartitions: as many partitions as can be asked for": "as above",
    "CreatePartitions: the offsets topic grows": "Kafka lets it grow and loses the groups that map elsewhere",
    "DescribeConfigs: what is set for all brokers": "Kafka sets min.insync.replicas when it is formatted",
    "DescribeConfigs: metrics subscriptions": "no client metrics, so no defaults of a subscription",
    "IncrementalAlterConfigs: keys of the broker that do not exist": "Kafka takes unknown keys of a broker",
}
"""By title, why this broker answers otherwise than Kafka."""

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


def stored(scenario: str) -> Stories:
    """Return the exchanges of a scenario with Kafka."""
    return Stories({f"admin_{scenario}.txt": (STORIES / f"admin_{scenario}.txt").read_text(encoding="utf-8")})


def exchanged(broker: Broker, stories: Stories) -> dict[str, list[Event]]:
    """Ask everything of one scenario, each on a connection of its own; return the exchanges by name."""
    ids, exchanges = TopicIds(), {}
    for name, events in stories.items():
        if len(events) != 2:
            raise StoryError(f"{name}: there is one request in it, with its answer")
        asked = events[0]
        api, _, version_text = asked[1].partition(" v")
        version = int(version_text)
        broker.pause(SETTLE_MS)
        line = broker.connect()
        line.send(request_frame(build(f"{api}Request", asked[2], ids), version))
        frame = line.receive()
        written = version if version in messages.find(f"{api}Response").SCHEMA.versions else 0
        answer = shown(read_response(api, written, frame), written, ids) if frame else "closed"
        exchanges[name] = [asked, ["admin", answer]]
    return exchanges


def title_of(name: str) -> str:
    """Return the title of an exchange, without its version."""
    return name.rpartition(" (v")[0]
