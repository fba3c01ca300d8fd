"""The rows of the table, and the dimensions in which each of them may grow."""

from collections.abc import Mapping
from typing import NamedTuple

Options = Mapping[str, int | str]
"""Flags of peers/loadgen."""

SERVERS = {
    "disk": "ours, log on disk",
    "memory": "ours, in memory",
    "kafka": "Kafka",
    "kfake": "kfake, in memory",
    "kfake-log": "kfake, with its log",
}
"""The columns."""

TOPIC, TOPIC_PARTITIONS = "t", 100
FETCHED, FETCHED_PARTITIONS = "fetched", 4
BATCH_RECORDS, RECORD_BYTES, BATCHES_A_FETCH = 100, 1000, 10
FETCHES = 32
"""Fetches of 1 MB from one end of a partition of `FETCHED` to the other; its 128 MB stay in the page cache."""


class Line(NamedTuple):
    """A row: its name on the command line, its title, and the flags of loadgen that differ from 8 connections x 16."""

    name: str
    title: str
    mode: str
    options: Options
    in_mb: bool = False

    @property
    def unit(self) -> str:
        """The unit of its rate."""
        return "MB/s" if self.in_mb else "a second"


_BATCHES: Options = {"parts": 4, "batch": BATCH_RECORDS, "size": RECORD_BYTES}
_CONSUMER: Options = {
    "parts": FETCHED_PARTITIONS,
    "topic": FETCHED,
    "window": 1,
    "step": BATCHES_A_FETCH * BATCH_RECORDS,
    "steps": FETCHES,
}

_MEMBERS: Options = {"members": "true", "groups": 200}

LINES = (
    Line("commit-1", "OffsetCommit, 1 partition", "commit", {"parts": 1}),
    Line("commit-3", "OffsetCommit, 3 partitions", "commit", {"parts": 3}),
    Line("commit-10", "OffsetCommit, 10 partitions", "commit", {"parts": 10}),
    Line("commit-30", "OffsetCommit, 30 partitions", "commit", {"parts": 30}),
    Line("commit-100", "OffsetCommit, 100 partitions", "commit", {"parts": 100}),
    Line("metadata-10", "OffsetCommit, 10 partitions, metadata", "commit", {"parts": 10, "metadata": 20}),
    Line("metadata-100", "OffsetCommit, 100 partitions, metadata", "commit", {"parts": 100, "metadata": 20}),
    Line("topics-5", "OffsetCommit, 30 partitions in 5 topics", "commit", {"parts": 30, "topics": 5}),
    Line(
        "many-groups", "OffsetCommit, 10 partitions, 50,000 groups", "commit", {"parts": 10, "groups": 50_000}
    ),
    Line("members", "OffsetCommit, 10 partitions, group members", "commit", {"parts": 10, **_MEMBERS}),
    Line("lock-step", "OffsetCommit, 1 connection x 1", "commit", {"parts": 1, "conns": 1, "window": 1}),
    Line("fetch-1", "OffsetFetch, 1 partition", "fetch", {"parts": 1}),
    Line("fetch-all", "OffsetFetch, all 100 of a group", "fetchall", {"parts": 100}),
    Line("list-offsets", "ListOffsets, 1 partition", "listoffsets", {"parts": 4}),
    Line("find", "FindCoordinator", "find", {}),
    Line("api-versions", "ApiVersions", "apiversions", {}),
    Line("produce-small", "Produce, 1 record of 100 B", "produce", {"parts": 4, "batch": 1, "size": 100}),
    Line("produce-batch", "Produce, 100 records of 1 kB", "produce", _BATCHES, in_mb=True),
    Line("consume-1", "Fetch of 1 MB, 1 connection x 1", "consume", {**_CONSUMER, "conns": 1}, in_mb=True),
    Line("consume-8", "Fetch of 1 MB, 8 connections x 1", "consume", {**_CONSUMER, "conns": 8}, in_mb=True),
)


class Growth(NamedTuple):
    """A dimension: what is multiplied, the flags of loadgen at each of its levels, and the lines measured there.

    per_partition  lines whose request has as many partitions as the level says; their cost is given for one partition
    """

    name: str
    title: str
    levels: Mapping[int, Options]
    lines: tuple[str, ...]
    per_partition: tuple[str, ...] = ()

    def title_of(self, line: Line) -> str:
        """Return the title of a line without what the levels change."""
        if line.name in self.per_partition:
            return f"{line.title.partition(',')[0]}, for each partition"
        return line.title.partition(",")[0] if line.mode == "consume" else line.title


IN_FLIGHT = 1000
_ONE_PARTITION = ("commit-1", "fetch-1", "list-offsets", "find", "api-versions", "produce-small")

GROWTHS = (
    Growth(
        "groups",
        "groups with a committed offset",
        {count: {"groups": count} for count in (100, 10_000, 1_000_000)},
        _ONE_PARTITION,
    ),
    Growth(
        "connections",
        f"connections, {IN_FLIGHT} requests in flight in all (Fetch: one a connection)",
        {count: {"conns": count, "window": IN_FLIGHT // count} for count in (8, 100, 1000)},
        (*_ONE_PARTITION, "consume-8"),
    ),
    Growth(
        "partitions",
        "partitions: of the request, or of the topic",
        {
            count: {
                "parts": count,
                "topic": f"{TOPIC}-{count}",
                "prefix": f"group-{count}-",
                "groups": max(100, count),
            }
            for count in (1, 10, 100, 1000)
        },
        ("commit-100", "fetch-all", "list-offsets", "produce-small"),
        ("commit-100", "fetch-all"),
    ),
)
