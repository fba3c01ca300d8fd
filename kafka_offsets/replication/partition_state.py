"""The state of one partition as the controller has decided it, the same on every broker that knows its epoch.

Source: PartitionRegistration of Kafka 4.3.1.
"""

from typing import NamedTuple

NO_LEADER = -1


class PartitionState(NamedTuple):
    """Replicas, ISR and leader of one partition. Every change is a new state with the next partition epoch.

    replicas         the first one is the preferred leader; while a reassignment runs, old and new replicas
    isr              in-sync replicas, in no particular order
    leader           a node id, or -1: none
    leader_epoch     rises with each election, and when a reassignment removes a replica
    partition_epoch  rises with each change of anything here
    adding           replicas that a reassignment adds; they are also in `replicas`
    removing         replicas that a reassignment removes; they are also in `replicas` until it completes
    elr              eligible leader replicas: not in the ISR, but they have every record below the high watermark
    last_leader      of a partition without a leader: the previous one. It may lead again if ISR and `elr` are empty
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_leader: int = NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def original_replicas(self) -> tuple[int, ...]:
        """The replicas without those that a reassignment adds."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    def is_newer_than(self, other: "PartitionState") -> bool:
        """Whether this state follows another one of the same partition."""
        return self.partition_epoch > other.partition_epoch

    def with_leader(self, leader: int) -> "PartitionState":
        """Return a copy with a new leader, or with the same one in a new epoch; the partition epoch stays."""
        return self._replace(leader=leader, leader_epoch=self.leader_epoch + 1)

    def with_next_epoch(self) -> "PartitionState":
        """Return a copy with the next partition epoch."""
        return self._replace(partition_epoch=self.partition_epoch + 1)

    def effective_min_isr(self, min_insync_replicas: int) -> int:
        """Return `min.insync.replicas`, but never more than there are replicas."""
        return min(min_insync_replicas, len(self.replicas))
