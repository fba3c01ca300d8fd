"""The judge: what clients may have seen and what was acknowledged, and whether it stays.

Every record below a high watermark may have been read by a consumer, so it is taken down at once, and must be there
from then on: in any replica below its own high watermark, in a leader when it begins, and in every replica that may
lead next. Only an unclean election may lose records: the history begins anew with it, and earlier leaders do not count.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from kafka_offsets.replication.partition_state import PartitionState

Record = tuple[Any, ...]
"""The leader epoch of a record, and what else tells it from others."""


class Replica(Protocol):
    """The log of a replica."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    def read(self, offset: int, count: int) -> Sequence[Record]:
        """Return so many records, fewer only where the log ends."""
        ...


class DisagreementError(Exception):
    """What must not be."""


def require(condition: bool, text: str) -> None:
    if not condition:
        raise DisagreementError(text)


class History:
    """The records that were visible, from an offset on.

    floor   the leader epoch of the last unclean election: earlier ones do not count
    writers the node and the run of it that appended in each epoch
    acked   offset and record of acknowledged appends
    """

    def __init__(self) -> None:
        self.base: int | None = None
        self.records: list[Record] = []
        self.floor = -1
        self.writers: dict[int, tuple[int, int]] = {}
        self.acked: dict[int, Record] = {}
        self.acknowledged = 0

    def elected(self, before: PartitionState, after: PartitionState, *, unclean: bool) -> None:
        """Note a decision of the controller; an unclean election forgives what is lost."""
        require(after.partition_epoch == before.partition_epoch + 1, f"{before} became {after}")
        require(
            after.leader == before.leader or after.leader_epoch > before.leader_epoch, f"{after}: same epoch"
        )
        require(after.leader in (-1, *after.isr), f"{after}: its leader is not in the ISR")
        require(set(after.isr) <= set(after.replicas), f"{after}: not a replica")
        if unclean:
            self.begin_anew(after.leader_epoch)

    def begin_anew(self, leader_epoch: int) -> None:
        """Forget what was visible: an unclean election may lose it."""
        self.floor, self.base = leader_epoch, None
        self.records, self.acked = [], {}

    def appended(self, epoch: int, writer: tuple[int, int]) -> None:
        first = self.writers.setdefault(epoch, writer)
        require(first == writer, f"{writer} and {first} both append in leader epoch {epoch}")

    def acknowledge(self, epoch: int, offset: int, record: Record) -> None:
        """Note an acks=all acknowledgement of a leader."""
        self.acknowledged += 1
        if epoch < self.floor:
            return
        require(
            self.base is not None and offset < self.base + len(self.records),
            f"{record} at {offset} is acknowledged and not below the high watermark",
        )
        self.acked[offset] = record
        self._require_acked(offset, record)

    def visible(self, who: str, epoch: int, log: Replica, high_watermark: int) -> None:
        """Compare the records below a high watermark with what was visible before, and take them down."""
        require(high_watermark <= log.log_end_offset, f"{who}: high watermark after the log end")
        if epoch < self.floor or (self.base is not None and high_watermark <= log.log_start_offset):
            return
        if self.base is None or (not self.records and log.log_start_offset > self.base):
            self.base = log.log_start_offset  # nothing was visible since the last unclean election
        end = self.base + len(self.records)
        if high_watermark > end:
            require(
                log.log_start_offset <= end, f"{who}: starts at {log.log_start_offset}, visible are {end}"
            )
            self.records += log.read(end, high_watermark - end)
        self._compare(who, log, high_watermark)

    def leads(self, who: str, epoch: int, log: Replica) -> None:
        """A leader begins: it must have everything that was visible."""
        if epoch >= self.floor:
            self.in_sync(who, log)

    def in_sync(self, who: str, log: Replica) -> None:
        """A replica of the ISR, or an eligible one, has everything that was visible: it may lead next."""
        if self.base is not None:
            end = self.base + len(self.records)
            require(
                log.log_end_offset >= end,
                f"{who} is in sync with {log.log_end_offset} of {end} visible records",
            )
            self._compare(who, log, end)

    def complete(self, log: Replica) -> None:
        """At the end, everything that was acknowledged is there."""
        for offset, record in self.acked.items():
            self._require_acked(offset, record)
            if offset >= log.log_start_offset:
                require(log.read(offset, 1) == [record], f"{record} at {offset} was acknowledged and is lost")

    def _require_acked(self, offset: int, record: Record) -> None:
        assert self.base is not None
        if offset >= self.base:
            found = self.records[offset - self.base]
            require(found == record, f"{record} at {offset} was acknowledged, {found} is visible there")

    def _compare(self, who: str, log: Replica, end: int) -> None:
        assert self.base is not None
        first = max(self.base, log.log_start_offset)
        if end <= first:
            return
        own = log.read(first, end - first)
        seen = self.records[first - self.base : end - self.base]
        if own != seen:
            at = next(i for i, pair in enumerate(zip(own, seen, strict=True)) if pair[0] != pair[1])
            raise DisagreementError(f"{who} has {own[at]} at {first + at}, visible was {seen[at]}")
