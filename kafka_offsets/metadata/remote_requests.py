"""Remote requests: what a broker requests of a controller in another process, and how that is executed there.

Each request has a function that makes its fields and one that executes it. Where a broker decides by a topic that it
knows, the request says what that is: if the topic has changed in the meantime, nothing happens, and the client tries
again. Any fields give a response or a ValueError.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.metadata.controller import MOST_MIN_ISR, Controller, PlacedTopic, min_isr_of
from kafka_offsets.metadata.image import ClusterImage, ClusterTopic, Delta, TopicPartition
from kafka_offsets.metadata.json_form import (
    Fields,
    Json,
    decode_settings,
    decode_topic_partition,
    encode_bytes,
    encode_settings,
)
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.replication.elections import IsrProposal

_MOST_ID = 1 << 31

Execute = Callable[[Controller, int, Fields], tuple[Json, Delta]]
"""controller, id of the broker that requests it, fields -> answer, change. Raises StorageError or ValueError."""


def create(topics: Iterable[PlacedTopic]) -> Json:
    """Return the fields that create topics."""
    return {
        "topics": [
            {
                "name": new.name,
                "topic_id": encode_bytes(new.topic_id),
                "replicas": [list(replica_ids) for replica_ids in new.replicas],
                "configs": dict(new.configs),
            }
            for new in topics
        ]
    }


def _create(controller: Controller, broker_id: int, fields: Fields) -> tuple[Json, Delta]:
    new = []
    for topic_form in fields.many("topics"):
        topic = Fields(topic_form, "topic")
        new.append(
            PlacedTopic(topic.text("name"), topic.topic_id(), _replicas(controller, topic), _configs(topic))
        )
    existing_names = [placed.name for placed in new if placed.name in controller.image.topics]
    if existing_names:
        raise StorageError(f"another broker has created {', '.join(existing_names)} in the meantime")
    return {}, controller.create(new)


def grow(image: ClusterImage, added: Mapping[str, Sequence[Sequence[int]]]) -> Json:
    """Return the fields that add partitions to topics."""
    return {
        "topics": [
            {
                **_known(image.topics[name]),
                "partitions": len(image.topics[name].partitions),
                "replicas": [list(replica_ids) for replica_ids in replicas],
            }
            for name, replicas in added.items()
        ]
    }


def _grow(controller: Controller, broker_id: int, fields: Fields) -> tuple[Json, Delta]:
    added = {}
    for topic_form in fields.many("topics"):
        topic = Fields(topic_form, "topic")
        existing = _unchanged(controller, topic)
        if len(existing.partitions) != topic.number("partitions", 0):
            raise _topic_has_changed(existing.name)
        added[existing.name] = _replicas(controller, topic)
    return {}, controller.grow(added)


def delete(image: ClusterImage, names: Iterable[str]) -> Json:
    """Return the fields that delete topics."""
    return {"topics": [_known(image.topics[name]) for name in names]}


def _delete(controller: Controller, broker_id: int, fields: Fields) -> tuple[Json, Delta]:
    topics = [_unchanged(controller, Fields(topic_form, "topic")) for topic_form in fields.many("topics")]
    return {}, controller.delete(dict.fromkeys(topic.name for topic in topics))


def configure(image: ClusterImage, name: str, configs: Mapping[str, str]) -> Json:
    """Return the fields that replace the configurations of a topic."""
    return {**_known(image.topics[name]), "configs": dict(configs)}


def _configure(controller: Controller, broker_id: int, fields: Fields) -> tuple[Json, Delta]:
    return {}, controller.configure(_unchanged(controller, fields).name, _configs(fields))


def reassign(topic_partition: TopicPartition, replicas: Sequence[int] | None) -> Json:
    """Return the fields that move a partition, or cancel that."""
    return {**topic_partition._asdict(), "replicas": None if replicas is None else list(replicas)}


def _reassign(controller: Controller, broker_id: int, fields: Fields) -> tuple[Json, Delta]:
    replicas = None
    if fields.value("replicas") is not None:
        replicas = _checked(controller, fields.numbers("replicas"))
    error, delta = controller.reassign(decode_topic_partition(fields), replicas)
    return {"error": error}, delta


def elect(topic_partitions: Iterable[TopicPartition], *, unclean: bool) -> Json:
    """Return the fields that elect leaders."""
    return {"places": [topic_partition._asdict() for topic_partition in topic_partitions], "unclean": unclean}


def _elect(controller: Controller, broker_id: int, fields: Fields) -> tuple[Json, Delta]:
    topic_partitions = [decode_topic_partition(Fields(form, "place")) for form in fields.many("places")]
    errors, delta = controller.elect(topic_partitions, unclean=fields.flag("unclean"))
    return {
        "errors": [{**topic_partition._asdict(), "error": error} for topic_partition, error in errors.items()]
    }, delta


def unregister(broker_id: int) -> Json:
    """Return the fields that remove a broker."""
    return {"id": broker_id}


def _unregister(controller: Controller, broker_id: int, fields: Fields) -> tuple[Json, Delta]:
    error, delta = controller.unregister(fields.number("id", -_MOST_ID, _MOST_ID))
    return {"error": error}, delta


def _resign(controller: Controller, broker_id: int, fields: Fields) -> tuple[Json, Delta]:
    return {"error": ErrorCode.NONE}, controller.resign(broker_id)


def alter_isr(topic_partition: TopicPartition, proposal: IsrProposal) -> Json:
    """Return the fields that propose in-sync replicas."""
    return {**topic_partition._asdict(), **proposal._asdict()}


def proposal_of(broker_id: int, fields: Fields) -> tuple[TopicPartition, IsrProposal]:
    """Read the in-sync replicas that a broker proposes. Raises ValueError."""
    isr = fields.numbers("isr")
    epochs = [epoch for epoch in fields.many("broker_epochs") if isinstance(epoch, int)]
    if len(epochs) not in (0, len(isr)):
        fields.fail("broker_epochs", "as long as isr")
    proposal = IsrProposal(
        broker_id, fields.number("leader_epoch", 0), fields.number("partition_epoch", 0), isr, tuple(epochs)
    )
    return decode_topic_partition(fields), proposal


def _allocate_producer_ids(controller: Controller, broker_id: int, fields: Fields) -> tuple[Json, Delta]:
    allocated = controller.allocate_producer_ids()
    return {"first": allocated.start, "end": allocated.stop}, Delta()


def alter_settings(changes: ClusterSettings) -> Json:
    """Return the fields that change settings."""
    return {"settings": encode_settings(changes)}


def _alter_settings(controller: Controller, broker_id: int, fields: Fields) -> tuple[Json, Delta]:
    return {}, controller.alter_settings(decode_settings(fields.value("settings")))


EXECUTES: Mapping[str, Execute] = {
    "create": _create,
    "grow": _grow,
    "delete": _delete,
    "configure": _configure,
    "reassign": _reassign,
    "elect": _elect,
    "unregister": _unregister,
    "resign": _resign,
    "allocate_producer_ids": _allocate_producer_ids,
    "alter_settings": _alter_settings,
}
"""By the name of the request. The controller decides several `alter_isr` at once."""


# -- fields


def _known(topic: ClusterTopic) -> Json:
    return {"name": topic.name, "topic_id": encode_bytes(topic.topic_id)}


def _unchanged(controller: Controller, fields: Fields) -> ClusterTopic:
    """Return the topic that a broker means. StorageError if it was deleted in the meantime."""
    name = fields.text("name")
    topic = controller.image.topics.get(name)
    if topic is None or topic.topic_id != fields.topic_id():
        raise _topic_has_changed(name)
    return topic


def _topic_has_changed(name: str) -> StorageError:
    return StorageError(f"another broker has changed {name} in the meantime")


def _replicas(controller: Controller, fields: Fields) -> list[tuple[int, ...]]:
    lists = {str(index): replica_ids for index, replica_ids in enumerate(fields.many("replicas"))}
    inner = Fields(lists, "replicas")
    return [_checked(controller, inner.numbers(index)) for index in inner]


def _checked(controller: Controller, replicas: tuple[int, ...]) -> tuple[int, ...]:
    brokers = controller.image.brokers.by_id
    if (
        not replicas
        or len({*replicas}) != len(replicas)
        or not all(replica in brokers for replica in replicas)
    ):
        raise StorageError(
            f"{list(replicas)} are not replicas of a cluster with the brokers {sorted(brokers)}"
        )
    return replicas


def _configs(fields: Fields) -> dict[str, str]:
    """Return configurations of a topic; of their values the controller uses only the smallest ISR."""
    configs = fields.texts("configs")
    if "min.insync.replicas" in configs and min_isr_of(configs) is None:
        fields.fail("configs", f"valid: min.insync.replicas is no number from 1 to {MOST_MIN_ISR}")
    return configs
