"""Incidents that a broker keeps: what they cost a request that succeeds, and how large clients can make them."""

from collections.abc import Iterator

import pytest

from kafka_offsets.broker.config.security_keys import STANDARD_AUTHORIZER
from kafka_offsets.broker.wire import responses
from kafka_offsets.broker.wire.refused import NOTED
from kafka_offsets.client.acls import VERSION, creation
from kafka_offsets.incidents import LONGEST, MOST, REFUSED, TIMED_OUT, Incidents
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.testing import allow
from tests.drivers.core import CoreClient, make_core

MEMBER = "m" * 22


def successes(client: CoreClient) -> Iterator[tuple[messages.MessageValue, int]]:
    """Yield requests of clients that are decoded, and that succeed, one after the other."""
    produce, records = messages.ProduceRequest, bytes(encode_batch([(None, b"x", (), 1)]))
    data = [produce.PartitionProduceData(index, records) for index in range(2)]
    yield produce(None, 1, 1000, [produce.TopicProduceData("orders", partition_data=data)]), 9
    yield messages.MetadataRequest(None), 12
    yield messages.FindCoordinatorRequest("billing"), 3
    yield messages.FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b"]), 4
    beat = messages.ConsumerGroupHeartbeatRequest
    first = beat("modern", MEMBER, 0, None, None, 300_000, ["orders"], topic_partitions=[])
    yield first, 1
    yield beat("modern", MEMBER, 2), 1
    yield messages.InitProducerIdRequest(None, 0), 4
    yield messages.InitProducerIdRequest("t", 1000), 4
    commit = messages.OffsetCommitRequest
    topics = [commit.Topic("orders", partitions=[commit.Partition(0, 1), commit.Partition(1, 1)])]
    yield commit("billing", topics=topics), 8


def test_the_sender_of_a_request_that_succeeds_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Heartbeat took 129 function calls instead of 113, and InitProducerId 88 instead of 72."""
    noted: list[str] = []
    monkeypatch.setattr(responses, "record", lambda *given: noted.append(given[1]))
    client = CoreClient(make_core())
    create = messages.CreateTopicsRequest
    client.call(create([create.CreatableTopic("orders", 2, 1)], 1000), 7)
    asked = set()
    for request, version in successes(client):
        client.call(request, version)
        asked.add(request.SCHEMA.number)
    assert noted == [] and len(asked & NOTED) == 6
    client.call(messages.HeartbeatRequest("billing", 1, "nobody"), 3)
    commit = messages.OffsetCommitRequest
    topics = [commit.Topic("orders", partitions=[commit.Partition(0, 1), commit.Partition(9, 1)])]
    client.call(commit("billing", topics=topics), 8)
    assert noted == ["Heartbeat", "OffsetCommit"]


def test_what_is_kept_of_refused_clients_has_a_bound() -> None:
    """A join could leave megabytes of names of assignors, 500 times."""
    client = CoreClient(make_core(group_initial_rebalance_delay_ms=0))
    join = messages.JoinGroupRequest
    for number in range(3):
        offered = [join.Protocol(f"{index}{'x' * 30_000}", b"") for index in range(20)]
        client.call(join("g" * 30_000 + str(number), 10_000, 1000, "", None, "", offered), 3)
        coordinator = messages.FindCoordinatorRequest(key_type=7, coordinator_keys=["k" * 30_000] * 20)
        client.call(coordinator, 4)
    kept = list(client.core.responses.incidents)
    assert 2 <= len(kept) <= MOST
    assert max(len(each.text(name)) for each in kept for name in each.fields) == LONGEST + 1
    assert kept[0].text("group").startswith("ggg") and kept[0].text("group").endswith("…")


def test_only_the_refused_ones_of_many_coordinators_are_kept() -> None:
    """All groups of the request were named as denied."""
    config = {"allow_everyone_if_no_acl_found": True, "authorizer_class_name": STANDARD_AUTHORIZER}
    client = CoreClient(make_core(**config))
    for each in ("READ", "DESCRIBE"):
        client.call(creation([allow("alice", each, group="secret")]), VERSION)
    request = messages.FindCoordinatorRequest(coordinator_keys=["billing", "secret", "reports"])
    assert [bool(each.error_code) for each in client.call(request, 4).coordinators] == [False, True, False]
    client.call(messages.FindCoordinatorRequest("secret"), 3)
    kept = list(client.core.responses.incidents)
    assert kept and {(each.text("group"), each.text("topic")) for each in kept} == {("secret", "")}


def test_the_table_of_refusals_is_as_bounded_as_the_incidents() -> None:
    kept = Incidents()
    for number in range(3 * MOST):
        kept.add(REFUSED, 0, api="Fetch", client=f"c{number}", error="TOPIC_AUTHORIZATION_FAILED")
        kept.add(TIMED_OUT, 0, transactional_id=f"t{number}")
    assert len(kept) == MOST
    assert len(kept.refusals) == MOST // 2
