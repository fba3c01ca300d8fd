"""Exceptions of the consumer, under the names of the design document "Kafka 0.9 Consumer Rewrite Design"."""

from kafka_offsets.errors import KafkaOffsetsError


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


class InvalidPartitionsToCommitOffset(KafkaOffsetsError):
    """A synchronous commit for partitions that are not assigned to this member."""


class InvalidPartitionsToGetOffset(KafkaOffsetsError):
    """A committed offset of a partition that is not consumed, or of a consumer without a group."""


class OffsetUnknown(KafkaOffsetsError):
    """No offset of the partition was ever committed."""
