"""Exceptions of the consumer, under the names of the design document "Kafka 0.9 Consumer Rewrite Design"."""

from kafka_offsets.errors import KafkaOffsetsError, ProtocolError
from kafka_offsets.protocol.topic_partition import TopicPartition


class SubscriptionNotValid(KafkaOffsetsError):
    """A subscription that does not fit the existing one: topics and partitions exclude each other."""


class SubscriptionIsEmpty(KafkaOffsetsError):
    """A call that needs a subscription, on a consumer without one."""


class InitOffsetNotKnown(KafkaOffsetsError):
    """The offset at which a partition starts is not known: none is committed, and `auto.offset.reset` is none."""


class ConsumeInitOffsetNotKnown(InitOffsetNotKnown):
    """The same, found while fetching: `poll` raises it."""


class LogTruncated(KafkaOffsetsError):
    """The leader has lost records that this consumer has read, and `auto.offset.reset` is none: `poll` raises it."""


class RecordsDamaged(ProtocolError):
    """A record batch that cannot be read: `poll` raises it, again and again until `position` is after the batch.

    place        its topic and partition
    offset       the first offset of the batch
    next_offset  the offset after it, None if its header is damaged too
    """

    def __init__(
        self, place: TopicPartition, offset: int, next_offset: int | None, reason: ProtocolError
    ) -> None:
        """Describe how to continue."""
        topic, partition = place
        after = "a later offset" if next_offset is None else next_offset
        super().__init__(
            f"{topic}-{partition}: the record batch at offset {offset} is damaged ({reason}); to continue after it, "
            f"call position([({topic!r}, {partition}, {after})])"
        )
        self.place, self.offset, self.next_offset = place, offset, next_offset


class InvalidPartitionsToCommitOffset(KafkaOffsetsError):
    """A synchronous commit for partitions that are not assigned to this member."""


class InvalidPartitionsToGetOffset(KafkaOffsetsError):
    """A committed offset of a partition that is not consumed, or of a consumer without a group."""


class OffsetUnknown(KafkaOffsetsError):
    """No offset of the partition was ever committed."""
