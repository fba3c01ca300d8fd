"""What a request names follows from the schemas: groups, transactions and partitions, in every version of every API."""

import pytest

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.broker.wire.api import GROUP, GROUPS, PARTITIONS, TRANSACTION, Addresses, Api
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.named import GROUP_ID, TRANSACTIONAL_ID, name_in
from kafka_offsets.protocol.mirroring.refusals import refuse_each
from tests.cases import each_case

ROWS = [
    pytest.param(row, version, id=f"{row.name} v{version}")
    for row in SERVED
    for version in row.served_versions
]


@each_case(("row", "version"), ROWS)
def test_a_request_names_what_its_row_says_that_it_addresses(row: Api, version: int) -> None:
    named, kinds = row.named(version), {GROUP: GROUP_ID, GROUPS: GROUP_ID, TRANSACTION: TRANSACTIONAL_ID}
    if row.addresses in kinds:
        assert kinds[row.addresses] in named.kinds
    if row.addresses is PARTITIONS:
        assert "topic" in named.kinds and named.splits_by_partition
    if row.addresses is Addresses.BROKER and row.name not in ("FindCoordinator", "WriteTxnMarkers"):
        assert not {GROUP_ID, TRANSACTIONAL_ID} & named.kinds


def test_groups_and_transactions_are_named_at_the_top_in_structs_or_by_themselves() -> None:
    rows = {row.name: row for row in SERVED}
    fetch = messages.OffsetFetchRequest
    several = fetch(groups=[fetch.Group("a"), fetch.Group("b")])
    assert rows["OffsetFetch"].named(8).ids(several, GROUP_ID) == ["a", "b"]
    assert rows["OffsetFetch"].named(7).ids(fetch("g"), GROUP_ID) == ["g"]
    described = messages.DescribeTransactionsRequest(["x", "y"])
    assert rows["DescribeTransactions"].named(0).ids(described, TRANSACTIONAL_ID) == ["x", "y"]
    add = messages.AddPartitionsToTxnRequest
    one = add.AddPartitionsToTxnTransaction("x", topics=[add.AddPartitionsToTxnTopic("t", [2])])
    assert rows["AddPartitionsToTxn"].named(4).ids(add([one]), TRANSACTIONAL_ID) == ["x"]
    assert list(rows["AddPartitionsToTxn"].named(4).topic_partitions(add([one]), name_in)) == [("t", 2)]
    assert rows["Produce"].named(9).ids(messages.ProduceRequest(None), TRANSACTIONAL_ID) == []


@pytest.mark.parametrize("version", [1, 5, 6])
def test_topics_are_named_in_whatever_field_the_version_has(version: int) -> None:
    delete = messages.DeleteTopicsRequest
    request = delete([delete.DeleteTopicState("t")]) if version == 6 else delete(topic_names=["t"])
    (row,) = (row for row in SERVED if row.name == "DeleteTopics")
    assert list(row.named(version).topic_partitions(request, name_in)) == [("t", -1)]


def test_a_request_is_split_by_partition_and_its_answers_are_joined_in_its_order() -> None:
    delete = messages.OffsetDeleteRequest
    request = delete("g", [delete.Topic(name, [delete.Partition(i) for i in (2, 0, 1)]) for name in "tu"])
    (row,) = (row for row in SERVED if row.name == "OffsetDelete")
    named = row.named(0)
    meant, rest = named.split_by_partition(request, lambda topic, index: (topic, index) == ("t", 0), name_in)
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in meant.topics] == [("t", [0])]
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in rest.topics] == [
        ("t", [2, 1]), ("u", [2, 0, 1])
    ]  # fmt: skip
    refused = refuse_each(meant, ErrorCode.NOT_COORDINATOR, 0)
    assert refused.error_code == 0
    joined = named.join_by_partition(request, refused, refuse_each(rest, ErrorCode.NONE, 0))
    assert [(p.partition_index, p.error_code) for p in joined.topics[0].partitions] == [
        (2, 0),
        (0, 16),
        (1, 0),
    ]
    assert [p.partition_index for p in joined.topics[1].partitions] == [2, 0, 1]
