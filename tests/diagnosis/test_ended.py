"""What a client was refused is over when it is served; what is not tried again is over after a while."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.api.commit_shapes import CommitShapes
from kafka_offsets.clock import ManualClock
from kafka_offsets.diagnosis.rules import diagnose
from kafka_offsets.errors import ErrorCode
from kafka_offsets.incidents import MOST, REFUSED, TIMED_OUT, Incidents
from kafka_offsets.protocol import messages
from tests.diagnosis.histories import gather
from tests.diagnosis.samples import NOW, SAMPLES
from tests.drivers.core import CoreClient, make_core

_INIT, _ADD, _END = 2, 3, 3


def names(client: CoreClient) -> list[str]:
    return [each.name for each in diagnose(gather(client.core), client.core.clock.now().wall_ms)]


@pytest.fixture
def client() -> CoreClient:
    core = make_core(clock=ManualClock(), auto_create_topics_enable=False)
    topic_admin.create_topic(core.broker, "t", 1, {})
    return CoreClient(core, "a")


def begin(client: CoreClient, timeout_ms: int = 10_000) -> tuple[int, int]:
    """Begin a transaction; return id and epoch of its producer."""
    asked = messages.InitProducerIdRequest("tx", timeout_ms)
    made = client.call(asked, _INIT)
    if made.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:  # that of the producer before is being aborted
        client.turn()
        made = client.call(asked, _INIT)
    assert made.error_code == 0
    topic = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic("t", [0])
    found = client.call(
        messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=made.producer_id,
            v3_and_below_producer_epoch=made.producer_epoch,
            v3_and_below_topics=[topic],
        ),
        _ADD,
    )
    assert not found.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return made.producer_id, made.producer_epoch


def test_a_commit_that_succeeds_ends_what_was_refused_to_its_client(client: CoreClient) -> None:
    stranger = {"generation_id_or_member_epoch": 3, "member_id": "gone"}
    assert set(client.commit("g", {("t", 0): 1}, **stranger).values()) == {ErrorCode.ILLEGAL_GENERATION}
    assert names(client) == ["commit-refused"]
    other = CoreClient(client.core, "b")
    assert not any(other.commit("g", {("t", 0): 1}).values())
    assert names(client) == ["commit-refused"], "another client is another matter"
    assert not any(client.commit("other", {("t", 0): 1}).values())
    assert names(client) == ["commit-refused"], "and so is another group"
    assert not any(client.commit("g", {("t", 0): 1}).values())
    assert names(client) == []
    assert not client.core.responses.incidents.refusals


def test_commits_of_a_known_shape_stay_ones_while_a_client_is_refused(
    client: CoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were decoded for all clients, as long as one was refused; that one is served by its shape too."""
    decided: list[bool] = []
    decide = CommitShapes.decide

    def counted(*given: Any) -> bool:
        decided.append(decide(*given))
        return decided[-1]

    monkeypatch.setattr(CommitShapes, "decide", counted)
    for offset in range(3):
        assert not any(client.commit("g", {("t", 0): offset}).values())
    assert decided == [False, True, True]
    client.commit("g", {("t", 0): 1}, generation_id_or_member_epoch=3, member_id="gone")
    assert names(client) == ["commit-refused"]
    decided.clear()
    assert not any(CoreClient(client.core, "b").commit("g", {("t", 0): 3}).values())
    assert names(client) == ["commit-refused"]
    assert not any(client.commit("g", {("t", 0): 4}).values())
    assert (decided, names(client)) == ([True, True], [])


def test_a_producer_that_begins_anew_is_fenced_no_longer(client: CoreClient) -> None:
    producer_id, epoch = begin(client)
    begin(CoreClient(client.core, "b"))
    ended = client.call(messages.EndTxnRequest("tx", producer_id, epoch, True), _END)
    assert ErrorCode(ended.error_code).name in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
    assert "producer-fenced" in names(client)
    begin(CoreClient(client.core, "c"))
    assert "producer-fenced" in names(client), "the one that is fenced has not begun anew"
    begin(client)
    assert "producer-fenced" not in names(client)


def test_a_transaction_that_timed_out_is_over_when_its_producer_begins_anew(client: CoreClient) -> None:
    begin(client, 1000)
    client.core.clock.advance(30_000)
    client.turn()
    assert "transaction-timed-out" in names(client)
    producer_id, epoch = begin(client)
    assert client.call(messages.EndTxnRequest("tx", producer_id, epoch, False), _END).error_code == 0
    assert "transaction-timed-out" not in names(client), "also if the new one aborts its own"


@pytest.mark.parametrize(
    ("name", "while_ms"),
    [("throttled", 12_000), ("foreign-protocol", 61_000), ("version-not-served", 61_000)],
)
def test_what_a_client_would_meet_again_is_over_after_a_while(name: str, while_ms: int) -> None:
    assert [each.name for each in diagnose(SAMPLES[name], NOW + 5000)] == [name]
    assert not diagnose(SAMPLES[name], NOW + while_ms)


def test_an_instance_id_that_another_one_has_is_not_given_back_by_its_success() -> None:
    kept = Incidents()
    asked = {"api": "OffsetCommit", "client": "a", "host": "h", "group": "g", "instance": "one"}
    kept.add(REFUSED, NOW, **asked, member="old", error="FENCED_INSTANCE_ID")
    kept.end_refusals({**asked, "member": "new"})
    assert len(kept) == 1
    kept.end_refusals({**asked, "member": "old"})
    assert len(kept) == 0 and not kept.refusals


def test_the_table_of_refusals_is_as_bounded_as_the_incidents() -> None:
    kept = Incidents()
    for number in range(3 * MOST):
        kept.add(REFUSED, NOW, api="Fetch", client=f"c{number}", error="TOPIC_AUTHORIZATION_FAILED")
        kept.add(TIMED_OUT, NOW, transactional_id=f"t{number}")
    assert len(kept) == MOST
    assert len(kept.refusals) == MOST // 2


def test_only_incidents_after_a_number_are_facts(client: CoreClient) -> None:
    stranger = {"generation_id_or_member_epoch": 3, "member_id": "gone"}
    client.commit("g", {("t", 0): 1}, **stranger)
    (first,) = gather(client.core).incidents
    assert list(gather(client.core, after=first.serial).incidents) == []
    client.commit("g", {("t", 0): 1}, **stranger)
    assert [each.count for each in gather(client.core, after=first.serial - 1).incidents] == [2]
    assert not diagnose(replace(gather(client.core), incidents=()), NOW)
