"""A property test with the strategies of kafka_offsets.testing, for code that reads what Kafka sends.

`lag_of` and `count_records` represent your code. The first test gives it random answers to OffsetFetch, the second
one random record batches. In your project pytest finds such functions; here the last lines call them.

Prints:

    lag_of agrees with a hundred random answers
    count_records agrees with a hundred random batches
"""

from typing import Any

from hypothesis import HealthCheck, given, settings

from kafka_offsets.protocol import messages, records
from kafka_offsets.testing import strategies

VERSION = 8

# On a busy machine a message may take its time.
calmly = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def lag_of(answer: bytes, end_offset: int) -> int:
    """The code under test: how far all partitions of all groups together stay behind `end_offset`."""
    response, _ = messages.decode(messages.OffsetFetchResponse, answer, VERSION)
    partitions = [p for group in response.groups for topic in group.topics for p in topic.partitions]
    return sum(end_offset - p.committed_offset for p in partitions if p.committed_offset >= 0)


def count_records(batch: bytes) -> int:
    """The code under test: how many records a batch holds, by its header alone."""
    return records.read_batch_header(batch).record_count


@calmly
@given(strategies.message("OffsetFetchResponse", VERSION, unknown_tags=True))
def test_lag_is_never_negative(response: Any) -> None:
    assert lag_of(messages.encode(response, VERSION), end_offset=2**63 - 1) >= 0


@calmly
@given(strategies.record_batches(max_records=3))
def test_records_are_counted(batch: strategies.RecordBatch) -> None:
    assert count_records(batch.data) == len(batch.records)


if __name__ == "__main__":
    test_lag_is_never_negative()
    print("lag_of agrees with a hundred random answers")
    test_records_are_counted()
    print("count_records agrees with a hundred random batches")
