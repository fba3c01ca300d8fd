"""A log without files: its records are pairs of leader epoch and value."""

from collections.abc import Iterable

from kafka_offsets.storage.segments.leader_epochs import LeaderEpochs

Record = tuple[int, str]


class PureLog:
    """Records from `log_start_offset` on, with the epochs that a real log keeps beside them."""

    def __init__(self, records: Iterable[Record] = (), log_start_offset: int = 0) -> None:
        self.log_start_offset = log_start_offset
        self.records: list[Record] = []
        self.epochs = LeaderEpochs()
        self.append(records)

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.records)

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def append(self, records: Iterable[Record]) -> None:
        for record in records:
            self.epochs.assign(record[0], self.log_end_offset)
            self.records.append(record)

    def start_epoch(self, epoch: int) -> None:
        self.epochs.assign(epoch, self.log_end_offset)

    def read(self, offset: int, count: int) -> list[Record]:
        at = offset - self.log_start_offset
        return self.records[at : at + count]

    def truncate(self, offset: int) -> None:
        assert self.log_start_offset <= offset <= self.log_end_offset
        del self.records[offset - self.log_start_offset :]
        self.epochs.truncate_end(offset)

    def start_over(self, offset: int) -> None:
        self.records, self.epochs, self.log_start_offset = [], LeaderEpochs(), offset

    def delete_before(self, offset: int) -> None:
        del self.records[: offset - self.log_start_offset]
        self.log_start_offset = offset
        self.epochs.trim_start(offset)

    def epoch_at(self, offset: int) -> int:
        return self.epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)


def log_of(*runs: tuple[int, int]) -> PureLog:
    """Return a log of runs of an epoch and a number of records."""
    return PureLog((epoch, "") for epoch, count in runs for _ in range(count))
