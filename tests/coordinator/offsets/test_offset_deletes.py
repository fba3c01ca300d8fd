"""OffsetDelete of many partitions, which stay columns: the answers are those of a request for each of them."""

import struct

import pytest

from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.plain_rows import FEWEST, PlainRows
from kafka_offsets.storage.directory.catalogue import NewTopic
from tests.drivers.core import CoreClient, commit_request, make_core

ASKED = [9, 0, 3, -1, 0, 2**31 - 1, -(2**31), 2, *range(4, 8 + FEWEST)]
REQUEST = messages.OffsetDeleteRequest


def request(*topics: tuple[str, list[int]]) -> messages.OffsetDeleteRequest:
    return REQUEST(
        "g", [REQUEST.Topic(name, [REQUEST.Partition(each) for each in asked]) for name, asked in topics]
    )


def deleted(
    *requests: messages.OffsetDeleteRequest, **config: object
) -> tuple[dict[tuple[str, int], int], list[int]]:
    """Return the error codes by topic and partition, and the partitions of `t` that have an offset afterwards."""
    core = make_core(**config)
    core.topics.create_several([NewTopic("t", 6)])
    client = CoreClient(core)
    client.call(commit_request(core, "g", {("t", each): 5 for each in range(6)}, 8), 8)
    errors = {}
    for each in requests:
        answer = client.call(each, 0)
        assert not answer.error_code
        errors |= {
            (topic.name, p.partition_index): p.error_code for topic in answer.topics for p in topic.partitions
        }
    fetch = messages.OffsetFetchRequest
    found = client.call(fetch("g", [fetch.Topic("t", list(range(6)))]), 5)
    return errors, [each.partition_index for each in found.topics[0].partitions if each.committed_offset >= 0]


@pytest.mark.parametrize("takes_unknown", ["false", "true"])
def test_many_partitions_are_answered_as_each_alone(takes_unknown: str) -> None:
    config = {"offsets_commit_unknown_topics": takes_unknown}
    together = deleted(request(("t", ASKED), ("nothing", ASKED), ("t", [1])), **config)
    assert together == deleted(
        *(request((name, [each])) for name in ("t", "nothing") for each in ASKED),
        request(("t", [1])),
        **config,
    )
    assert together[1] == []
    assert set(together[0].values()) == {0, 3}


def test_the_answer_names_unknown_partitions_first_and_each_as_often_as_the_request() -> None:
    core = make_core()
    core.topics.create_several([NewTopic("t", 6)])
    client = CoreClient(core)
    client.call(commit_request(core, "g", {("t", 0): 5}, 8), 8)
    answer = client.call(request(("t", ASKED)), 0)
    known = [each for each in ASKED if 0 <= each < 6]
    unknown = [each for each in ASKED if each not in known]
    found = [(each.partition_index, each.error_code) for each in answer.topics[0].partitions]
    assert found == [*((each, 3) for each in unknown), *((each, 0) for each in known)]


def test_many_partitions_are_decoded_as_columns() -> None:
    # One object for each of the six million partitions of a request of 24 MB blocked the broker for ten seconds.
    body = messages.encode(request(("t", ASKED)), 0)
    decoded, end = messages.decode(REQUEST, body, 0)
    partitions = decoded.topics[0].partitions
    assert end == len(body) and type(partitions) is PlainRows
    assert partitions.column("partition_index") == struct.pack(f">{len(ASKED)}i", *ASKED)
