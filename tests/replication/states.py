"""States of partitions, for tests."""

from kafka_offsets.replication.partition_state import PartitionState


def new_state(*replicas: int) -> PartitionState:
    """Return the state of a new partition: every replica is in the ISR and the first one leads."""
    return PartitionState(replicas, replicas, replicas[0], leader_epoch=0, partition_epoch=0)
