"""A torn tail at every byte: cut, or filled with zeros, ones, old data; recovered, written after, and recovered again.

python -m tests.storage.crash.torn_tails             every byte of the last 64 KiB; goes on where it stopped, in .crash/
python -m tests.storage.crash.torn_tails --every 64  one byte in 64
"""

import argparse
import logging
import random
import sys
import time
from collections.abc import Iterable

from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.segments.segment import Recovery
from tests.drivers.core import CoreClient
from tests.slices import DoneSlices
from tests.storage.batches import write
from tests.storage.stores import (
    GROUPS,
    OFFSETS_FOLDER,
    commit,
    committed,
    committing_core,
    everything,
    make_store,
)

TAIL_BYTES = 1 << 16
SLICE = 512
SEED = 1
SEGMENT = f"{OFFSETS_FOLDER}/00000000000000000000.log"
FILLINGS = ("cut", "zeros", "ones", "old data")


def filling(kind: str, size: int, old: bytes) -> bytes:
    """What a file system may leave behind the last byte that was written."""
    return {"cut": b"", "zeros": bytes(size), "ones": b"\xff" * size, "old data": old[:size]}[kind]


class Torn:
    """A store whose broker was gone at once, to be torn.

    tail  positions that may be cut at
    """

    def __init__(self, seed: int, tail_bytes: int) -> None:
        self.store = make_store(random.Random(seed), tail_bytes + 16384, clean=False)
        self.data = self.store.contents[SEGMENT]
        self.tail = range(max(len(self.data) - tail_bytes, 0), len(self.data))
        # Whole batches with earlier offsets, as a reused block of the disk may hold them.
        before = self.data[: max(end for end in self.store.tables if end <= self.tail.start // 2)]
        self._old = before * (tail_bytes // len(before) + 2)

    def check(self, cut: int, kind: str) -> None:
        """Tear the log at `cut`; AssertionError unless the broker finds all that was whole, now and after a crash."""
        torn = self.data[:cut] + filling(kind, len(self.data) - cut, self._old)
        boundaries = [end for end in self.store.tables if torn[:end] == self.data[:end]]
        whole = max(boundaries)
        files = self.store.files(**{SEGMENT: torn})
        recovery = self._live(files, dict(self.store.tables[whole]))
        if len(torn) == whole:
            assert recovery is None
        else:
            assert recovery is not None
            assert recovery[:3] == (SEGMENT, whole, len(torn) - whole)
            assert files.read_all(SEGMENT)[:whole] == self.data[:whole]

    def _live(self, files: MemoryFiles, expected: dict[tuple[str, int], int]) -> Recovery | None:
        core = committing_core(files)
        first = core.directory.logs["__consumer_offsets", 0].recovery
        assert committed(core) == expected
        for life, group in enumerate((GROUPS[0], "new")):
            offsets = dict.fromkeys((0, 7, 63), 10**9 + life)
            commit(CoreClient(core), group, offsets)
            if group in GROUPS:
                expected |= {(group, partition): offset for partition, offset in offsets.items()}
            files = _after_death(files)
            core = committing_core(files)
            assert core.directory.logs["__consumer_offsets", 0].recovery is None
            assert committed(core) == expected
        assert {offset.offset for offset in core.shards.committed("new").values()} == {10**9 + 1}
        return first


def _after_death(files: MemoryFiles) -> MemoryFiles:
    found = MemoryFiles()
    for path, data in everything(files).items():
        write(found, path, data)
    return found


def check_all(torn: Torn, cuts: Iterable[int], kinds: Iterable[str] = FILLINGS) -> int:
    """Check every cut with every filling; return how many that were."""
    kinds = tuple(kinds)
    count = 0
    for cut in cuts:
        for kind in kinds:
            try:
                torn.check(cut, kind)
            except BaseException:
                print(f"cut at byte {cut} of {len(torn.data)}, filled: {kind}; seed {SEED}", file=sys.stderr)
                raise
            count += 1
    return count


def main() -> int:
    """Run what has not been run with these sources."""
    logging.disable(logging.CRITICAL)  # it is told a hundred thousand times that a log was cut
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="one byte in so many")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--part", default="0/1", help="K/N: the K-th of N processes, from 0")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    done = DoneSlices(f"torn-tails-{options.every}")
    finished = {entry["start"] for entry in done.read()}
    torn = Torn(SEED, TAIL_BYTES)
    stop_at = time.monotonic() + options.seconds
    for number, start in enumerate(range(torn.tail.start, torn.tail.stop, SLICE)):
        if time.monotonic() > stop_at:
            return 0
        if start in finished or number % parts != part:
            continue
        cuts = range(start, min(start + SLICE, torn.tail.stop), options.every)
        count = check_all(torn, cuts)
        done.add(start=start, states=count)
        print(f"bytes {start} to {cuts[-1]}: {count} torn tails, nothing lost", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
