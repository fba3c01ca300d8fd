"""What a client was refused is over when it is served; what is not tried again is over after a while."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.api.commit_shapes import CommitShapes
from kafka_offsets.clock import ManualClock
from kafka_offsets.diagnosis.rules import diagnose
from kafka_offsets.errors import ErrorCode
from kafka_offsets.incidents import FENCED, REFUSED, Incidents
from tests.diagnosis.histories import gather
from tests.diagnosis.samples import NOW, SAMPLES
from tests.drivers.core import CoreClient, make_core
from tests.drivers.transactions import Producer


def names(client: CoreClient) -> list[str]:
    return [each.name for each in diagnose(gather(client.core), client.core.clock.now().wall_ms)]


@pytest.fixture
def client() -> CoreClient:
    core = make_core(clock=ManualClock(), auto_create_topics_enable=False)
    topic_admin.create_topic(core.broker, "t", 1, {})
    return CoreClient(core, "a")


def begin(client: CoreClient, timeout_ms: int = 10_000) -> Producer:
    """Begin a transaction."""
    producer = Producer(client.core, "tx")
    producer.client = client
    while producer.init(timeout_ms) == ErrorCode.CONCURRENT_TRANSACTIONS:
        client.turn()  # the transaction before is being aborted
    assert not producer.produce("t", b"x")
    return producer


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
    producer = begin(client)
    begin(CoreClient(client.core, "b"))
    assert ErrorCode(producer.end(committed=True)).name in FENCED
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
    assert not begin(client).end(committed=False)
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


def test_only_incidents_after_a_number_are_facts(client: CoreClient) -> None:
    stranger = {"generation_id_or_member_epoch": 3, "member_id": "gone"}
    client.commit("g", {("t", 0): 1}, **stranger)
    (first,) = gather(client.core).incidents
    assert list(gather(client.core, after=first.serial).incidents) == []
    client.commit("g", {("t", 0): 1}, **stranger)
    assert [each.count for each in gather(client.core, after=first.serial - 1).incidents] == [2]
    assert not diagnose(replace(gather(client.core), incidents=()), NOW)
