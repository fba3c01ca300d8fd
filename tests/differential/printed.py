"""Messages to and from plain values, the same for two brokers where these cannot but differ.

What is normalised, and nothing else: what a broker makes up for member ids becomes "#1", "#2" … in the order of its
appearance; topic ids are named by their topic; the port becomes "PORT", the cluster id "CLUSTER", the id of a fetch
session "SESSION", a request in a message "REQUEST", what is said of a disk and of the controllers the name of its
field, and the broker's id 1; lists whose order Kafka leaves to its hash maps are sorted (`_UNORDERED`); the ids of
producers that a situation has asked for are "P1", "P2" …, their batches are told by headers and values, times of now
are "NOW"; of all groups only those of the situation are listed, of all APIs only those that ours serves are compared,
and of the words about a refused batch none.
"""

import re
from typing import Any

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from kafka_offsets.protocol.records import batch_headers, encode_batch, read_marker, read_records

ID_BYTES = 16
FIRST_MS = 1_700_000_000_000
"""The time of the records of producers that are known."""

NEVER_MADE = "never-made"
UNKNOWN_ID = bytes.fromhex("0123456789abcdef0123456789abcdef")
_UUID = re.compile("[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
_ID = re.compile("[0-9a-f]{32}")
_MADE = re.compile(r"#\d+")
_NEEDS = re.compile(r"^(The request|Request Request\(.*\)) needs")
"""Where a right is missing Kafka shows its objects."""
_BROKER_IDS = ("node_id", "leader_id", "controller_id", "replica_nodes", "isr_nodes")
_PRODUCER_IDS = ("producer_id", "v3_and_below_producer_id", "producer_id_filters")
_NOW = ("transaction_start_time_ms", "last_timestamp")
_OF_A_DISK = ("log_dir", "total_bytes", "usable_bytes")
_OF_A_QUORUM = (
    "host",
    "leader_epoch",
    "high_watermark",
    "replica_directory_id",
    "log_end_offset",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
)
_NUMBERS = ("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64")
_NAMED = {"port", "path", "session_id", *_BROKER_IDS, *_PRODUCER_IDS, *_NOW, *_OF_A_DISK}
"""The fields of which `_scalar` writes something else than their value."""
_UNORDERED = {
    "AddPartitionsToTxnResponse": {
        "results_by_topic_v3_and_below": ("name",),
        "results_by_transaction": ("transactional_id",),
        "topic_results": ("name",),
        "results_by_partition": ("partition_index",),
    },
    "DescribeTransactionsResponse": {"topics": ("topic",), "partitions": ()},
    "ListTransactionsResponse": {"transaction_states": ("transactional_id",), "unknown_state_filters": ()},
    "DescribeProducersResponse": {"active_producers": ("producer_epoch", "last_sequence")},
    "WriteTxnMarkersResponse": {"topics": ("name",), "partitions": ("partition_index",)},
    "DescribeLogDirsResponse": {"topics": ("name",), "partitions": ("partition_index",)},
    "DescribeConfigsResponse": {"configs": ("name",)},
    "AlterReplicaLogDirsResponse": {"results": ("topic_name",), "partitions": ("partition_index",)},
    "DescribeUserScramCredentialsResponse": {"results": ("user",), "credential_infos": ("mechanism",)},
    "AlterUserScramCredentialsResponse": {"results": ("user",)},
    "DescribeClientQuotasResponse": {
        "entries": ("entity",),
        "entity": ("entity_type",),
        "values": ("key",),
    },
    "AlterClientQuotasResponse": {"entries": ("entity",), "entity": ("entity_type",)},
    "DescribeAclsResponse": {
        "resources": ("resource_type", "resource_name", "pattern_type"),
        "acls": ("principal", "host", "operation", "permission_type"),
    },
    "DeleteAclsResponse": {
        "matching_acls": ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation"),
    },
    "ElectLeadersResponse": {"replica_election_results": ("topic",), "partition_result": ("partition_id",)},
    "AlterConfigsResponse": {"responses": ("resource_type", "resource_name")},
    "ListConfigResourcesResponse": {"config_resources": ("resource_type", "resource_name")},
    "JoinGroupResponse": {"members": ("member_id", "metadata")},
    "DescribeGroupsResponse": {"groups": ("group_id",), "members": ("member_id", "member_metadata")},
    "ListGroupsResponse": {"groups": ("group_id",)},
    "DeleteGroupsResponse": {"results": ("group_id",)},
    "ProduceResponse": {"responses": ("name", "topic_id"), "partition_responses": ("index",)},
    "DeleteRecordsResponse": {"topics": ("name",), "partitions": ("partition_index",)},
    "ListOffsetsResponse": {"topics": ("name",), "partitions": ("partition_index",)},
    "MetadataResponse": {"topics": ("name", "topic_id"), "partitions": ("partition_index",)},
    "ConsumerGroupHeartbeatResponse": {"topic_partitions": ("topic_id",), "partitions": ()},
    "ConsumerGroupDescribeResponse": {
        "groups": ("group_id",),
        "members": ("member_id",),
        "subscribed_topic_names": (),
        "topic_partitions": ("topic_name",),
        "partitions": (),
    },
}
"""By message: the lists whose order means nothing, and the fields that they are sorted by."""


class Names:
    """What a broker made up in one situation, and what a story writes for it."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}
        self._topics: dict[str, bytes] = {}
        self._former: dict[bytes, str] = {}
        self._producers: dict[int, str] = {}
        self.session_id = 0
        self.broker_id = 1
        self.log_dir = "LOG_DIR"

    def learn_producer(self, producer_id: int) -> None:
        """Note the id of a producer."""
        if producer_id >= 0:
            self._producers.setdefault(producer_id, f"P{len(self._producers) + 1}")

    def producer(self, producer_id: int) -> int | str:
        """Return what a story writes for a producer id."""
        return self._producers.get(producer_id, producer_id)

    def real_producer(self, shown: int | str) -> int:
        """Return the id of a producer that a story shows."""
        return next((known for known, label in self._producers.items() if label == shown), -1)

    def batches(self, data: bytes) -> list[Any] | None:
        """Return what a story writes for batches of producers that are known; None when there is none of them."""
        try:
            found = list(batch_headers(data))
        except ProtocolError:
            return None
        if not any(header.producer_id in self._producers for _, header in found):
            return None
        shown = []
        for position, header in found:
            records = read_records(data, position, header)
            ended = [list(read_marker(record) or ()) for record in records] if header.is_control else None
            values = [(record.value or b"").decode("latin-1") for record in records]
            producer = self.producer(header.producer_id), header.producer_epoch, header.base_sequence
            kind = "transactional" if header.is_transactional else "plain"
            shown.append([header.base_offset, header.last_offset, *producer, kind, ended or values])
        return shown

    def real_batch(
        self, base: int, last: int, producer: Any, epoch: int, sequence: int, kind: str, values: list[str]
    ) -> bytes:
        """Return a batch that a story shows, of a time of its own."""
        records = [(None, value.encode("latin-1"), (), FIRST_MS) for value in values]
        return bytes(
            encode_batch(
                records,
                base_offset=base,
                producer_id=self.real_producer(producer) if isinstance(producer, str) else producer,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=kind == "transactional",
            )
        )

    def learn_topic(self, name: str, topic_id: bytes) -> None:
        """Note the id of a topic."""
        if self._topics.get(name, topic_id) != topic_id:
            self._former[self._topics[name]] = name
        self._topics[name] = topic_id

    def topic_ids(self) -> list[tuple[str, bytes]]:
        """Return the names of topics with their ids, former ones first."""
        return [*((name, former) for former, name in self._former.items()), *self._topics.items()]

    def topic_text(self, topic_id: bytes) -> str:
        """Return what a story writes for a topic id."""
        if topic_id in self._former:
            return f"former id of {self._former[topic_id]}"
        return next((f"id of {n}" for n, known in self._topics.items() if known == topic_id), topic_id.hex())

    def real_topic_id(self, shown: str) -> bytes:
        """Return the id of a topic that a story shows, or that of the topic of this name."""
        for name, topic_id in reversed(self.topic_ids()):
            if shown in (name, self.topic_text(topic_id)):
                return topic_id
        return bytes.fromhex(shown) if _ID.fullmatch(shown) else UNKNOWN_ID

    def real_text(self, shown: str) -> str:
        """Return a string that a story shows, with what the broker made up; NEVER_MADE if it has not."""
        real = {label: made for made, label in self.made.items()}
        return _MADE.sub(lambda found: real.get(found[0], NEVER_MADE), shown)

    def learn(self, made: str) -> None:
        """Note an id that a broker made up: the UUID in it, or all of it."""
        found = _UUID.search(made)
        self.made.setdefault(found[0] if found else made, f"#{len(self.made) + 1}")

    def sorted_by(self, value: Any) -> str:
        """Return what a value is sorted by: nothing of what a broker made up."""
        if isinstance(value, bytes) and len(value) == ID_BYTES:
            return self.topic_text(value)
        if isinstance(value, list):
            return "".join(sorted(map(str, value)))
        return _UUID.sub("", "" if value in self.made else f"{value}")

    def text(self, text: str) -> str:
        """Return a string with everything that a broker made up replaced."""
        for found in _UUID.findall(text):
            self.learn(found)
        text = _NEEDS.sub("REQUEST needs", text)
        for made, label in self.made.items():
            text = text.replace(made, label)
        return text


def build(cls: Any, fields: dict[str, Any], version: int, names: Names) -> Any:
    """Make a request; fields that the version lacks are left out, and a topic id is given by the topic's name."""
    return _built(cls, cls.SCHEMA.struct, fields, version, cls.CLASSES, names)


def _built(
    cls: Any, struct: Struct, fields: dict[str, Any], version: int, classes: dict[str, Any], names: Names
) -> Any:
    declared = {field.name: field for field in struct.fields}
    assert set(fields) <= set(declared), f"{struct.name} has no {sorted(set(fields) - set(declared))}"
    made = {}
    for name, value in fields.items():
        field = declared[name]
        if version not in field.versions:
            continue
        if value is not None and field.struct is not None:
            inner, of = classes[field.struct.name], field.struct
            items = value if field.array else [value]
            value = [_built(inner, of, item, version, classes, names) for item in items]
            value = value if field.array else value[0]
        else:
            value = _real(value, field, names)
        made[name] = value
    return cls(**made)


def _real(value: Any, field: Field, names: Names) -> Any:
    """Return what a story means with a value: the opposite of `_scalar`."""
    if isinstance(value, list) and field.array:
        return [_real(each, field, names) for each in value]
    if field.type == "uuid" and isinstance(value, str):
        return names.real_topic_id(value)
    if field.name in _BROKER_IDS and value == 1:
        return names.broker_id
    if field.type == "records" and isinstance(value, list):
        return b"".join(names.real_batch(*batch) for batch in value)
    if not isinstance(value, str):
        return value
    if field.name in _PRODUCER_IDS:
        return names.real_producer(value)
    if field.name == "session_id":
        return names.session_id
    if field.name == "path":
        return value.replace("LOG_DIR", names.log_dir)
    value = names.real_text(value)
    return value.encode("latin-1") if field.type in ("bytes", "records") else value


def printed(message: messages.MessageValue, version: int, names: Names) -> dict[str, Any]:
    """Return a message as plain values, normalised."""
    name = message.SCHEMA.name
    result = _struct(message, message.SCHEMA.struct, version, names, _UNORDERED.get(name, {}))
    if result.get("cluster_id"):
        result["cluster_id"] = "CLUSTER"
    return _without_own(result) if name == "DescribeQuorumResponse" else result


def _without_own(value: Any) -> Any:
    """Replace what is the controllers' own, their log and their address, by the name of its field."""
    if isinstance(value, list):
        return [_without_own(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: name.upper() if name in _OF_A_QUORUM and each != -1 else _without_own(each)
        for name, each in value.items()
    }


_fields: dict[tuple[int, int], list[tuple[Field, bool]]] = {}


def _fields_of(struct: Struct, version: int) -> list[tuple[Field, bool]]:
    """Return the fields of a version, and whether they are numbers that are printed as they are."""
    key = id(struct), version  # structs live as long as the process
    if key not in _fields:
        _fields[key] = [
            (field, field.type in _NUMBERS and field.name not in _NAMED)
            for field in struct.fields
            if version in field.versions
        ]
    return _fields[key]


def _struct(
    value: Any, struct: Struct, version: int, names: Names, unordered: dict[str, tuple[str, ...]]
) -> dict[str, Any]:
    shown = {}
    for field, is_plain in _fields_of(struct, version):
        item = getattr(value, field.name)
        if is_plain and field.name not in unordered:
            pass  # most values of most messages
        elif item is not None and field.array:
            if field.name in unordered:
                item = _sorted(item, unordered[field.name], names)
            item = [_scalar(one, field, version, names, unordered) for one in item]
        elif item is not None:
            item = _scalar(item, field, version, names, unordered)
        shown[field.name] = item
    return shown


def _sorted(items: list[Any], keys: tuple[str, ...], names: Names) -> list[Any]:
    """Sort without looking at what a broker made up."""

    def key(item: Any) -> Any:
        return [names.sorted_by(getattr(item, name)) for name in keys] if keys else item

    return sorted(items, key=key)


def _scalar(
    value: Any, field: Field, version: int, names: Names, unordered: dict[str, tuple[str, ...]]
) -> Any:
    if field.struct is not None:
        return _struct(value, field.struct, version, names, unordered)
    if field.type == "uuid":
        return names.topic_text(value)
    if field.name == "port":
        return "PORT" if value > 0 else value
    if field.name == "log_dir":
        names.log_dir = value or names.log_dir
    if field.name in _OF_A_DISK:
        return field.name.upper()
    if field.name == "path":
        return value.replace(names.log_dir, "LOG_DIR")
    if field.name == "session_id":
        names.session_id = value if value > 0 else names.session_id
        return "SESSION" if value > 0 else value
    if field.name in _PRODUCER_IDS:
        return names.producer(value)
    if field.name in _NOW and value > 0:
        return "NOW"
    if field.type == "records" and (batches := names.batches(bytes(value))) is not None:
        return batches
    if field.name in _BROKER_IDS:
        return 1 if value == names.broker_id else value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("latin-1")
    return names.text(value) if isinstance(value, str) else value
