"""Memory and time of the table of committed offsets.

    python benchmarks/offset_table.py [entries, default 1,000,000]

Memory: a table is filled with offsets of groups that read one or ten topics, each of 100, 8 or 1 partitions, all
ids, epochs and stamps set. "traced" is what tracemalloc counts, "resident" what the process grew by, each in a
process of its own; names of groups (21 characters) and topics are included. "own" is what is traced without the names
of the groups, which the groups themselves hold, too, in a broker. "shuffled" commits the partitions of
a topic in random order; "metadata" gives each entry its own text of 16 characters, "expiry" its own retention.
The last line is a plain dict of tuples. Limits, traced: 32 bytes with 100 partitions a topic, 64 with 8;
own: 64 with one.
Time: CPU, the best of seven runs; goals 0.7 us for put and get.

CPython 3.11.7, two cores of an x86-64 machine, 1,000,000 entries, bytes an entry:

    partitions a topic  topics a group  kind         own  traced  resident  shard
                   100               1  plain       29.7    30.4      28.9   30.4
                   100              10  plain       29.7    29.8      28.3   29.9
                   100               1  shuffled    29.7    30.4      28.9
                   100               1  expiry      40.3    41.0      40.9
                   100               1  metadata   142.7   143.4     157.6
                     8               1  plain       50.0    58.7      63.7   59.7
                     8              10  plain       49.9    50.8      54.6
                     8               1  shuffled    50.0    58.7      63.7
                     1               1  plain       62.3   132.4     141.3  141.0
                     1              10  plain       62.6    69.5      70.0   69.5
                     5              10  plain                              64.4
                    12               1  plain                              48.0
                   100               1  dict       488.2   488.9     556.1

With one partition: 30 bytes for the row, 1.5 for free places and headers of blocks, 31 for the dict of the groups (at
a million keys; 24 when it is full, 46 when it has just grown), 70 for the name of the group, which is what "own" lacks.
"shard" is what is traced of a shard that has replayed the commits of groups without members, of 200,000 entries: the
groups themselves take nothing. The least for a group with one offset, with its name in a Python string of its own and
a dict to find it, is 70 + 24 + 28 = 122 bytes. From three partitions on 64 bytes an entry are possible, from eight on
they are reached.

Time, us of CPU, on the same machine:

    group of        put existing     get
    one topic               0.47    0.51
    two topics              0.63    0.50
    gaps                    0.74    0.58
    one partition           0.70    0.48
"""

import random
import subprocess
import sys
import time
import timeit
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.state.shard_state import GroupSettings

LAYOUTS = (
    ("100", "1", "plain"),
    ("100", "10", "plain"),
    ("100", "1", "shuffled"),
    ("100", "1", "expiry"),
    ("100", "1", "metadata"),
    ("8", "1", "plain"),
    ("8", "10", "plain"),
    ("8", "1", "shuffled"),
    ("1", "1", "plain"),
    ("1", "10", "plain"),
    ("5", "10", "plain"),
    ("12", "1", "plain"),
    ("100", "1", "dict"),
)
"""Partitions a topic, topics a group, kind."""


def commits(
    count: int, partitions: int, topics: int, kind: str
) -> Iterator[tuple[str, str, int, OffsetAndMetadata]]:
    """Yield `count` commits; no object is held by anyone but the table."""
    rng = random.Random(1)
    order = list(range(partitions))
    for number in range(0, count, partitions):
        group, topic = divmod(number // partitions, topics)
        if kind == "shuffled":
            rng.shuffle(order)
        for partition in order:
            at = number + partition
            metadata = f"member-{at:09d}" if kind == "metadata" else ""
            expiry = 1_800_000_000_000 + at if kind == "expiry" else -1
            entry = OffsetAndMetadata(
                5_000_000_000 + at, 700, metadata, 1_700_000_000_000 + at, expiry, bytes([topic] * 16), at
            )
            yield f"consumer-group-{group:06d}", f"topic-{topic}", partition, entry


def fill(
    count: int, partitions: int, topics: int, kind: str
) -> OffsetTable | Shard | dict[tuple[str, str, int], OffsetAndMetadata]:
    """Build the table, or for kind "dict" the dict, or for kind "shard" the shard of groups without members."""
    if kind == "dict":
        return {commit[:3]: commit[3] for commit in commits(count, partitions, topics, kind)}
    if kind == "shard":
        shard = Shard(0, GroupSettings(), lambda prefix: prefix, None)  # type: ignore[arg-type]
        for group, topic, partition, entry in commits(count, partitions, topics, kind):
            shard.replay_written(stored.offset_record(group, topic, partition, entry), entry.log_offset)
        return shard
    table = OffsetTable()
    for commit in commits(count, partitions, topics, kind):
        table.put(*commit)
    assert 0 <= len(table) - count < partitions
    return table


def resident_bytes() -> int:
    """What the process occupies of the machine's memory, by Linux."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def measure(what: str, count: int, partitions: int, topics: int, kind: str) -> float:
    """Return bytes an entry, `what` being own, traced, resident or shard."""
    if what == "shard":
        what, kind = "traced", "shard"
    if what != "resident":
        tracemalloc.start()
        held = fill(count, partitions, topics, kind)
        traced = tracemalloc.get_traced_memory()[0]
        if what == "own":
            names = held.groups() if isinstance(held, OffsetTable) else {key[0] for key in held}
            traced -= sum(map(sys.getsizeof, names))
        return traced / count
    before = resident_bytes()
    held = fill(count, partitions, topics, kind)
    return (resident_bytes() - before) / count + 0 * (held is None)


def print_memory(count: int) -> None:
    """Print a line for each layout, measured in fresh processes."""
    print("partitions a topic  topics a group  kind         own  traced  resident  shard   (bytes an entry)")
    for layout in LAYOUTS:
        figures = []
        for what in ("own", "traced", "resident", *["shard"] * (layout[2] == "plain")):
            command = [sys.executable, __file__, str(count), what, *layout]
            figures.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(
            f"{layout[0]:>18}  {layout[1]:>14}  {layout[2]:8}  {figures[0]:6.1f}  {figures[1]:6.1f}  {figures[2]:8.1f}"
            + "".join(f"  {figure:5.1f}" for figure in figures[3:]),
            flush=True,
        )


def microseconds(table: OffsetTable, statement: str, group: str, topic: str) -> float:
    """Return the time of one call, for partitions in the middle of a topic."""
    entry = OffsetAndMetadata(43, 7, "", 1_700_000_000_001, -1, bytes([1] * 16), 12)
    names = {"table": table, "group": group, "topic": topic, "entry": entry}
    timings = timeit.repeat(statement, globals=names, number=100_000, repeat=7, timer=time.process_time)
    return min(timings) * 10


def print_time() -> None:
    """Print the time of the hot calls for a group of one topic, of several, a topic with gaps, and one partition."""
    table = OffsetTable()
    for partition in range(100):
        entry = OffsetAndMetadata(42, 7, "", 1_700_000_000_000, -1, bytes([1] * 16), partition)
        table.put("one", "dense", partition, entry)
        table.put("two", "dense", partition, entry)
        table.put("two", "gaps", partition * 9, entry)
    table.put("single", "single", 45, entry)
    print("\ngroup of        put existing     get   (us of CPU)")
    for label, group, topic in (
        ("one topic", "one", "dense"),
        ("two topics", "two", "dense"),
        ("gaps", "two", "gaps"),
        ("one partition", "single", "single"),
    ):
        times = (
            microseconds(table, "table.put(group, topic, 45, entry)", group, topic),
            microseconds(table, "table.get(group, topic, 45)", group, topic),
        )
        print(f"{label:14}  {times[0]:12.2f}  {times[1]:6.2f}")
    print(f"a new group, topic and entry, and away again: {churn():.2f}")


def churn() -> float:
    """Return the time to add and remove a group of one entry, in microseconds."""
    table = OffsetTable()
    entry = OffsetAndMetadata(42)
    names = {"table": table, "entry": entry}
    return (
        min(
            timeit.repeat(
                "table.put('g', 't', 0, entry); table.remove('g', 't', 0)",
                globals=names,
                number=20_000,
                repeat=7,
                timer=time.process_time,
            )
        )
        * 50
    )


def main(arguments: list[str]) -> None:
    """Print everything, or the one figure asked for."""
    count = int(arguments[0]) if arguments else 1_000_000
    if len(arguments) > 1:
        what, partitions, topics, kind = arguments[1:]
        print(measure(what, count, int(partitions), int(topics), kind))
        return
    print_memory(count)
    print_time()


if __name__ == "__main__":
    main(sys.argv[1:])
