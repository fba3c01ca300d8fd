"""One bit flipped, in every byte of every file: found with file and position, or harmless; never a wrong offset.

python -m tests.storage.crash.flipped_bits                 every byte of 100 KiB; goes on where it stopped, in .crash/
python -m tests.storage.crash.flipped_bits --sample 1000   so many bytes of a directory of 8 MiB
python -m tests.storage.crash.flipped_bits --large 100000  bytes of two directories of 100 MiB. Of a flip in a segment
                                                           only what it can affect is judged (flipped_segments.py);
                                                           of every 5,000th byte, and of other files, all.

Each directory is opened twice. `strict` refuses it, naming the file, or serves exactly what was there. `keep-valid`
opens it unless a small file is hit, serves for each key the last offset or one that was in force before, and what is
missing is in its report. A directory whose broker was killed may also end at an earlier batch, with a torn tail told.
"""

import argparse
import logging
import random
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.records import read_records
from kafka_offsets.storage.files.files import MemoryFiles
from tests.slices import DoneSlices
from tests.storage.batches import write
from tests.storage.crash.flipped_segments import FULL_EACH, Pieces, is_epoch_of_follower
from tests.storage.stores import Durable, Key, Store, committed, committing_core, make_store

STORE_BYTES = 90_000
SAMPLED_BYTES = 8 << 20
LARGE_BYTES = 100 << 20
SEGMENT_BYTES = 1 << 15
SLICE = 1000
SEED = 2
SMALL_FILES = ("topics", "meta.properties", "partition.metadata", "-checkpoint")


class Found(NamedTuple):
    """What a broker serves, and what it says of the logs.

    reported  segment files with a torn tail or damage
    """

    table: dict[Key, int]
    produced: dict[int, bytes | None]
    reported: set[str]


def serve(files: MemoryFiles, recovery: str) -> Found | StorageError:
    """Open a directory and read all there is; return why it is refused when it is."""
    try:
        core = committing_core(files, recovery=recovery, offsets_topic_segment_bytes=SEGMENT_BYTES)
    except StorageError as error:
        return error
    try:
        produced = _produced(core)
        reported = {
            told.path
            for log in core.directory.logs.values()
            for told in (*log.damages, *([log.recovery] if log.recovery else []))
        }
        return Found(committed(core), produced, reported)
    except StorageError as error:
        return error
    finally:
        core.directory.close(sync=False)


def _produced(core: BrokerCore) -> dict[int, bytes | None]:
    opened = core.topics.partition("t", 0)
    assert opened is not None
    return {
        record.offset: record.value for batch in opened.log.batches() for record in read_records(batch.data)
    }


class Campaign:
    """A store and every byte of it, numbered through all files.

    clean  whether its broker was stopped
    """

    def __init__(self, size: int, *, clean: bool, seed: int = SEED) -> None:
        self.clean = clean
        self.store: Store = make_store(random.Random(seed), size, clean=clean, segment_bytes=SEGMENT_BYTES)
        self.table = dict(self.store.tables[max(self.store.tables)])
        self._places = [(path, len(data)) for path, data in sorted(self.store.contents.items())]
        self.size = sum(size for _, size in self._places)
        self._pieces: Pieces | None = None

    def place(self, number: int) -> tuple[str, int]:
        """Return file and position of a byte."""
        for path, size in self._places:
            if number < size:
                return path, number
            number -= size
        raise IndexError(number)

    def check(self, number: int) -> bool:
        """Flip a bit of one byte, which one is the byte's own; return whether `strict` refused the directory."""
        path, data = self._flipped(number)
        refused = self._strict(path, data)
        self._keep_valid(path, data)
        return refused

    def check_affected(self, number: int) -> bool:
        """As `check`, as far as the flip can affect anything; of every `FULL_EACH`-th byte in full."""
        self._pieces = self._pieces or Pieces(self.store.contents, clean=self.clean)
        refused = None if number % FULL_EACH == 0 else self._pieces.judge(*self._flipped(number))
        return self.check(number) if refused is None else refused

    def _flipped(self, number: int) -> tuple[str, bytes]:
        path, position = self.place(number)
        data = bytearray(self.store.contents[path])
        data[position] ^= 1 << (number * 5 + number // 8) % 8
        return path, bytes(data)

    def _files(self, path: str, data: bytes) -> MemoryFiles:
        files = Durable()
        for other, content in (self.store.contents | {path: data}).items():
            write(files, other, content)
        return files

    def _strict(self, path: str, data: bytes) -> bool:
        found = serve(self._files(path, data), "strict")
        if isinstance(found, StorageError):
            assert found.path == path or is_epoch_of_follower(found), f"blamed {found.path}: {found}"
            assert found.position is not None or not path.endswith(".log"), str(found)
            return True
        if found.table != self.table or found.produced != self._moved(found.produced):
            assert not self.clean, "other than what was there"
            assert found.reported == {path}, found.reported
            assert found.table in (dict(table) for table in self.store.tables.values()), "no batch boundary"
            assert found.produced.items() <= self._moved(found.produced).items()
        return False

    def _moved(self, found: Mapping[int, bytes | None]) -> dict[int, bytes | None]:
        """The records of the user topic; of the last batch of a killed broker the offset is nowhere else."""
        produced = dict(self.store.produced)
        if not self.clean and found and max(found) > max(produced):
            produced[max(found)] = produced.pop(max(produced))
        return produced

    def _keep_valid(self, path: str, data: bytes) -> None:
        files = self._files(path, data)
        found = serve(files, "keep-valid")
        if isinstance(found, StorageError):
            assert path.endswith(SMALL_FILES), str(found)
            assert found.path == path, f"blamed {found.path}: {found}"
            return
        for key, offset in found.table.items():
            newest = sorted(self.store.ever[key])[-2:]  # one batch may be gone
            assert offset in newest, f"{key}: {offset} found, {newest} were committed last"
        assert found.produced.items() <= self._moved(found.produced).items()
        if found.table != self.table or len(found.produced) < len(self.store.produced):
            assert found.reported == {path}, found.reported
            again = serve(files, "strict")
            assert isinstance(again, Found), f"the next start refuses what is left: {again}"
            assert again == found._replace(reported=set()), "the next start finds something else"


def run(campaign: Campaign, numbers: list[int], *, affected: bool = False) -> int:
    """Check bytes by number, in full or what they affect; return how many were refused by `strict`."""
    refused = 0
    for number in numbers:
        try:
            refused += campaign.check_affected(number) if affected else campaign.check(number)
        except BaseException:
            path, position = campaign.place(number)
            where = f"byte {number}: {path} at {position}"
            print(f"{where}, clean={campaign.clean}, {campaign.size} bytes", file=sys.stderr)
            raise
    return refused


def main() -> int:
    """Run what has not been run with these sources."""
    logging.disable(logging.CRITICAL)  # it is told a hundred thousand times that a log was cut
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sample", type=int, default=0, help="so many bytes of a larger directory")
    parser.add_argument("--large", type=int, default=0, help="so many bytes of a directory of 100 MiB")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--part", default="0/1", help="K/N: the K-th of N processes, from 0")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    sample = options.large or options.sample
    done = DoneSlices(f"flipped-bits-large-{sample}" if options.large else f"flipped-bits-{sample}")
    store_bytes = LARGE_BYTES if options.large else SAMPLED_BYTES if options.sample else STORE_BYTES
    finished = {(entry["clean"], entry["start"]) for entry in done.read()}
    stop_at = time.monotonic() + options.seconds
    for clean in (True, False):
        campaign = Campaign(store_bytes, clean=clean)
        numbers: Sequence[int] = range(campaign.size)
        if sample:  # half of a large sample in each of the two directories
            sample_size = -(-sample // 2) if options.large else sample
            numbers = sorted(random.Random(SEED).sample(numbers, sample_size))
        step = 50 if options.sample else SLICE
        for index, start in enumerate(range(0, len(numbers), step)):
            if time.monotonic() > stop_at:
                return 0
            if (clean, start) in finished or index % parts != part:
                continue
            chosen = numbers[start : start + step]
            refused = run(campaign, [*chosen], affected=bool(options.large))
            done.add(clean=clean, start=start, flips=len(chosen), refused=refused)
            last = start + len(chosen)
            name = "stopped" if clean else "killed"
            print(f"{name}: {last} of {len(numbers)} flips, {refused} of these refused", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
