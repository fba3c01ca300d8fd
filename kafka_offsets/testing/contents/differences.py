"""Assertions: what differs from the state that a test expects, in lines; none if nothing does.

Each function reads the state of a broker in its thread.
"""

from collections.abc import Callable, Mapping, Sequence

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.errors import unknown
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.testing.contents.expected_records import ExpectedRecord, chosen, differences
from kafka_offsets.testing.contents.groups import lag, log_ends, wrong_total
from kafka_offsets.testing.contents.seeding import read_all, stored_records


def of_offsets(
    core: BrokerCore, group: str, expected: Mapping[TopicPartition, int | None], *, only: bool
) -> list[str]:
    """Return the partitions in which a group has not committed the expected offset, or `only` another one."""
    committed = {partition: entry.offset for partition, entry in core.shards.committed(group).items()}
    partitions = sorted({*expected, *committed} if only else expected)
    different = [
        f"{topic}-{index}: {_difference('committed', committed.get((topic, index)), expected.get((topic, index)))}"
        for topic, index in partitions
        if committed.get((topic, index)) != expected.get((topic, index))
    ]
    return _headed(f"the committed offsets of group {group!r} are not as expected", different)


def of_lag(core: BrokerCore, group: str, expected: Mapping[TopicPartition, int]) -> list[str]:
    """Return the partitions in which the lag of a group is another one."""
    lags = lag(core, group, {topic: None for topic, _ in expected})
    different = [
        f"{topic}-{index}: {_difference('lag', lags.get((topic, index)), expected_lag)}"
        for (topic, index), expected_lag in sorted(expected.items())
        if lags.get((topic, index)) != expected_lag
    ]
    return _headed(f"the lag of group {group!r} is not as expected", different)


def of_total_lag(core: BrokerCore, group: str, expected: int) -> list[str]:
    """Return the lag of each partition if their sum is not as expected, or if one is below 0."""
    lags = lag(core, group)
    if not lags:
        return [f"group {group!r} has committed nothing, expected a lag of {expected} in all"]
    lines, what = wrong_total(group, lags, expected)
    return _headed(what, lines)


def of_records(
    topic: str,
    expected: Sequence[ExpectedRecord],
    wanted: ExpectedRecord,
    after: Mapping[TopicPartition, int] | None,
) -> Callable[[BrokerCore], list[str]]:
    """Return the function that says how the records of a topic differ from the expected ones.

    wanted  only records like this one count
    after   only records from these offsets on
    It reads them again only when a log has changed.
    """
    what = f"topic {topic} has not the expected records" if expected else f"topic {topic} has records"
    last_result: tuple[object, list[str]] = None, []

    def poll(core: BrokerCore) -> list[str]:
        """Return the differences."""
        nonlocal last_result
        ends = _ends(core, topic)
        if last_result[0] != ends:
            records = [
                record
                for partition_log in stored_records(core, topic, wanted.partition) or ()
                for record in read_all(*partition_log)
                if record.offset >= (after or {}).get((topic, record.partition), 0)
            ]
            headline = what
            if core.topics.get(topic) is None:
                headline = unknown("topic", topic, core.topics.names())
            last_result = ends, _headed(headline, differences(expected, chosen(records, wanted)))
        return last_result[1]

    return poll


def _headed(what: str, different: list[str]) -> list[str]:
    """Return the lines of a failed assertion: what is wrong, and where."""
    return [f"{what}:", *different] if different else []


def _ends(core: BrokerCore, topic: str) -> dict[TopicPartition, tuple[int, int]]:
    """Return log start and last stable offset of each partition: what its readers of committed records depend on."""
    ends = {}
    for topic_partition, (start, _) in log_ends(core, topic).items():
        partition = core.topics.partition(*topic_partition)
        assert partition is not None
        ends[topic_partition] = start, partition.last_stable_offset
    return ends


def _nothing(what: str) -> str:
    return "not committed" if what == "committed" else "no such partition"


def _difference(what: str, found: int | None, expected: int | None) -> str:
    has = _nothing(what) if found is None else f"{what} {found}"
    expected_text = _nothing(what) if expected is None else f"{expected}"
    if found is None or expected is None:
        return f"{has}, expected {expected_text}"
    return (
        f"{has}, expected {expected_text} ({abs(found - expected)} {'more' if found > expected else 'fewer'})"
    )
