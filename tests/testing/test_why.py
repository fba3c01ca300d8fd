"""`Broker.why`: each finding with a real client, and nothing where all is well."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka import KafkaConsumer

from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.diagnosis.facts import Position
from kafka_offsets.protocol import messages
from kafka_offsets.testing import (
    Broker,
    ManualClock,
    allow,
    committed,
    group_empty,
    group_stable,
    member_joined,
)
from kafka_offsets.testing.server.recording import RecordedRequest
from tests.diagnosis.histories import gather
from tests.testing.fault_requests import connect, fetch
from tests.testing.why_clients import CONFIG, consumer, found_at, is_stable, joined, producer, said, until

pytestmark = pytest.mark.slow


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(CONFIG, record=True) as running:
        running.create_topic("orders", 1)
        yield running


# -- who joins


def test_nobody_joined_and_a_name_that_is_nearly_right(broker: Broker) -> None:
    broker.commit("billing", {("orders", 0): 0})
    assert broker.why("biling")[0].sentence == "group 'biling' does not exist; did you mean billing?"
    assert not broker.why("billing")


def test_a_topic_that_does_not_exist_and_its_near_name(broker: Broker) -> None:
    reader = KafkaConsumer(
        "order", bootstrap_servers=broker.bootstrap_servers, group_id="billing", client_id="w1"
    )
    reader.poll(300)
    sentence = said(broker, "topic-missing")
    assert sentence.startswith("topic order does not exist, and 'w1' at 127.0.0.1 asked for it")
    assert sentence.endswith("; did you mean orders?")
    until(lambda: reader.poll(50) or broker.group("billing"))
    assert "subscribes to order, which does not exist" in said(broker, "subscription-matches-nothing")
    reader.close(autocommit=False)


def test_an_expression_that_matches_nothing(broker: Broker) -> None:
    reader = consumer(broker, group_protocol="consumer", client="w1")
    reader.subscribe(["^invoice.*"])
    until(lambda: reader.poll(0.05) or broker.group("billing"))
    sentence = said(broker, "subscription-matches-nothing")
    assert sentence.startswith("member 'w1' at 127.0.0.1 of group 'billing' subscribes to the expression ")
    assert sentence.endswith("', which no topic matches")
    reader.close()


def test_assignors_that_do_not_fit(broker: Broker) -> None:
    first = joined(broker, partition_assignment_strategy="range")
    second = consumer(broker, client="w2", partition_assignment_strategy="roundrobin")
    second.subscribe(["orders"])
    until(lambda: second.poll(0.05) or "INCONSISTENT_GROUP_PROTOCOL" in str(broker.requests))
    sentence = said(broker, "protocols-differ")
    assert sentence.startswith("'w2' at 127.0.0.1 cannot join group 'billing', refused")
    assert sentence.endswith("it offers roundrobin; 'w1' at 127.0.0.1 offers range")
    first.close()
    second.close()


def test_an_instance_id_that_another_client_took(broker: Broker) -> None:
    first = joined(broker, group_instance_id="one", session_timeout_ms=6000)
    second = joined(broker, client="w2", group_instance_id="one", session_timeout_ms=6000)
    heard: list[object] = []

    def fenced() -> bool:
        try:
            first.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        except KafkaException as error:
            heard.append(error)
        return bool(heard)

    until(fenced)
    assert "instance 'one' of group 'billing' was taken by 'w2' at 127.0.0.1" in said(
        broker, "instance-taken"
    )
    assert "FENCED_INSTANCE_ID" in said(broker, "instance-taken")
    second.close()


def test_a_session_timeout_out_of_range(broker: Broker) -> None:
    reader = consumer(broker, session_timeout_ms=50, heartbeat_interval_ms=10)
    reader.subscribe(["orders"])
    until(lambda: reader.poll(0.05) or "INVALID_SESSION_TIMEOUT" in str(broker.requests))
    assert "its session timeout of 50 ms is outside" in said(broker, "session-timeout-refused")
    reader.close()


def test_more_members_than_a_group_may_have() -> None:
    with Broker(CONFIG | {"group.max.size": 1}, record=True) as broker:
        broker.create_topic("orders", 1)
        first, second = joined(broker), consumer(broker, client="w2")
        second.subscribe(["orders"])
        until(lambda: second.poll(0.05) or "GROUP_MAX_SIZE_REACHED" in str(broker.requests))
        assert "'w2' at 127.0.0.1 cannot join group 'billing'" in said(broker, "group-full")
        first.close()
        second.close()


def test_more_members_than_partitions(broker: Broker) -> None:
    first = joined(broker)
    second = consumer(broker, client="w2")
    second.subscribe(["orders"])
    until(lambda: (first.poll(0.05), second.poll(0.05)) and is_stable(broker, 2), 30)
    sentence = said(broker, "members-without-partitions")
    assert sentence.startswith("1 member of group 'billing' has no partition: 2 members share 1 partition")
    first.close()
    second.close()


def test_a_rebalance_waits_for_a_silent_member_which_is_then_removed_and_its_commit_refused() -> None:
    clock = ManualClock()
    with Broker(CONFIG, clock=clock, record=True) as broker:
        broker.create_topic("orders", 1)
        first = consumer(broker, session_timeout_ms=10_000, max_poll_interval_ms=50_000)
        first.subscribe(["orders"])
        broker.wait_for(group_stable("billing"))
        assert not broker.why("billing")
        silent = broker.faults.drop("Heartbeat", client_id="w1")
        second = consumer(broker, client="w2")
        second.subscribe(["orders"])
        broker.wait_for(member_joined("billing", client_id="w2"))
        clock.advance(seconds=8)
        sentence = said(broker, "rebalance-waits")
        assert "it waits for 'w1' at 127.0.0.1 to join again, silent for 8 s, removed in 2 s" in sentence
        clock.advance(seconds=3)
        assert "since its session ended: no heartbeat for 10 s" in said(broker, "member-removed")
        silent.remove()
        first.close()
        second.close()


# -- partitions and offsets


def test_read_and_never_committed(broker: Broker) -> None:
    broker.produce("orders", ["a", "b"])
    reader = joined(broker)
    until(
        lambda: (
            (reader.poll(0.05) and False)
            or any(each.name == "never-committed" for each in found_at(broker, 9000))
        )
    )
    assert not broker.why("billing"), "it is too early to say so"
    with pytest.raises(TimeoutError, match=r"now: group 'billing' has committed nothing$"):
        broker.wait_for(committed("billing"), 0)
    sentence = next(each.sentence for each in found_at(broker, 9000) if each.name == "never-committed")
    assert "'w1' at 127.0.0.1 of group 'billing' has read orders-0 up to 2 and committed nothing" in sentence
    reader.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    assert not found_at(broker, 9000)
    reader.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_has_read_and_left_without_a_commit(broker: Broker, protocol: str) -> None:
    """The consumer of a short test: it is closed before the test looks."""
    broker.produce("orders", ["a", "b"])
    others = joined(broker, "others", group_protocol=protocol)  # by the same client id
    reader = joined(broker, group_protocol=protocol)
    # The other reader is at 2 already, and has begun there since the partition was assigned to this one.
    until(lambda: (reader.poll(0.05) and False) or Position(0, 2) in _read_positions(broker))
    reader.close()
    broker.wait_for(group_empty("billing"))  # it waits for no response when it leaves
    sentence = "'w1' at 127.0.0.1 has read orders-0 up to 2 as a member of group 'billing' and left"
    assert said(broker, "never-committed") == f"{sentence}: it has committed nothing there"
    with pytest.raises(AssertionError, match=f"why: {sentence}"):
        broker.assert_lag("billing", 0)
    assert not [each for each in broker.why() if each.name == "never-committed"], "nobody asks for the group"
    broker.commit("billing", {("orders", 0): 2})
    assert not [each for each in broker.why("billing") if each.name == "never-committed"]
    others.close()


def _read_positions(broker: Broker) -> list[Position]:
    facts = broker._call(lambda server: gather(server.core, "billing"))
    return [each for member in facts.groups[0].members for each in (member.positions or {}).values()]


def test_a_typo_is_said_also_of_a_client_that_reads(broker: Broker) -> None:
    """All clients of librdkafka have one client id unless they are given another."""
    reader = joined(broker, "payments")
    other = consumer(broker)
    other.subscribe(["order"])
    until(lambda: (other.poll(0.05) and False) or bool(broker.why()))
    assert "topic order does not exist" in said(broker, "topic-missing", None)
    assert "did you mean orders?" in said(broker, "topic-missing", None)
    other.close()
    reader.close()


def test_a_consumer_that_began_at_the_end(broker: Broker) -> None:
    broker.produce("orders", ["a", "b"])
    reader = joined(broker, auto_offset_reset="latest")
    until(
        lambda: reader.poll(0.05) or any(each.name == "began-at-the-end" for each in found_at(broker, 9000))
    )
    (finding,) = found_at(broker, 9000)
    assert "began to read orders-0 at 2, the end: it does not read the 2 records before" in finding.sentence
    reader.close()


def test_a_member_that_does_not_fetch(broker: Broker) -> None:
    broker.produce("orders", ["a"])
    paused = consumer(broker)
    paused.subscribe(["orders"], on_assign=lambda made, places: (made.assign(places), made.pause(places)))
    until(lambda: (paused.poll(0.05) and False) or is_stable(broker, 1))
    assert not broker.why("billing")
    (finding,) = found_at(broker, 9000)
    assert finding.name == "not-fetched"
    assert "has orders-0 since" in finding.sentence
    assert "does not fetch: it has paused, or does not poll" in finding.sentence
    paused.close()


def test_stuck_and_slow_are_told_apart(broker: Broker) -> None:
    broker.produce("orders", ["a", "b", "c"])
    reader = joined(broker)
    until(lambda: reader.poll(0.05))
    reader.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    assert not broker.why("billing")
    (finding,) = found_at(broker, 60_000)
    assert finding.name == "stuck-or-slow"
    assert "group 'billing' in orders-0: 2 records left; it is stuck: the last commit, 1, was 1 min ago" in (
        finding.sentence
    )
    reader.close()


def test_a_commit_that_moved_an_offset_back(broker: Broker) -> None:
    broker.produce("orders", ["a", "b", "c"])
    admin = consumer(broker)
    admin.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    admin.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    sentence = said(broker, "offset-moved-back")
    assert sentence.startswith("'w1' moved the offset of group 'billing' in orders-0 back from 3 to 1 at ")
    assert sentence.endswith("2 records are read again")
    admin.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    assert not broker.why("billing")
    admin.close()


def test_offsets_outside_their_log(broker: Broker) -> None:
    broker.produce("orders", ["a"] * 5)
    reader = consumer(broker)
    reader.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    broker._call(lambda server: server.core.topics.partition("orders", 0).delete_records_before(3))
    assert said(broker, "offset-outside") == (
        "group 'billing' has committed 1 in orders-0, before the log start 3: "
        "2 records were deleted before they were read"
    )
    reader.commit(offsets=[TopicPartition("orders", 0, 9)], asynchronous=False)
    assert "has committed 9 in orders-0, beyond the end 5" in said(broker, "offset-outside")
    reader.close()


def test_an_offset_that_is_not_a_members_to_commit(broker: Broker) -> None:
    reader = joined(broker)
    stranger = consumer(broker, client="stranger")
    with pytest.raises(KafkaException):
        stranger.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    assert "a commit of 'stranger' at 127.0.0.1 for group 'billing' was refused" in said(
        broker, "commit-refused"
    )
    assert "the group has 1 member, and only they commit" in said(broker, "commit-refused")
    reader.close()
    stranger.close()


# -- transactions


def test_a_lag_that_is_an_open_transaction_and_then_only_markers(broker: Broker) -> None:
    writer = producer(broker)
    writer.produce("orders", b"x")
    writer.flush()
    reader = consumer(broker)
    reader.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    names = {each.name: each.sentence for each in found_at(broker, 2000)}
    assert names.keys() == {"lag-is-transaction"}
    assert "group 'billing' lags by 1 in orders-0" in names["lag-is-transaction"]
    assert "the transaction of 'tx-1' (producer" in names["lag-is-transaction"]
    writer.commit_transaction()
    assert not broker.why("billing")
    reader.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    assert "its lag of 1, from 1 on, is markers and aborted records" in said(broker, "only-markers")
    reader.close()


def test_an_offset_that_an_open_transaction_holds(broker: Broker) -> None:
    reader = joined(broker)
    writer = producer(broker)
    writer.send_offsets_to_transaction([TopicPartition("orders", 0, 0)], reader.consumer_group_metadata())
    (finding,) = [each for each in found_at(broker, 2000) if each.name == "offset-held"]
    assert "the committed offset of group 'billing' in orders-0 cannot be read" in finding.sentence
    writer.abort_transaction()
    assert not broker.why("billing")
    reader.close()


def test_a_transaction_that_timed_out_and_its_fenced_producer() -> None:
    clock = ManualClock()
    with Broker(CONFIG, clock=clock, record=True) as broker:
        broker.create_topic("orders", 1)
        writer = producer(broker, transaction_timeout_ms=5000)
        writer.produce("orders", b"x")
        writer.flush()
        clock.advance(seconds=30)
        sentence = said(broker, "transaction-timed-out", None)
        assert "was open for longer than its timeout, 5 s; its producer is fenced" in sentence
        writer.produce("orders", b"y")
        with pytest.raises(KafkaException):
            writer.commit_transaction(5)
        assert "INVALID_PRODUCER_EPOCH" in str(broker.why()) or "PRODUCER_FENCED" in str(broker.why())


# -- clients


def test_a_client_without_rights() -> None:
    with Broker(CONFIG, users={"alice": "secret"}, acls=[allow("alice", "Read", topic="orders")]) as broker:
        broker.create_topic("orders", 1)
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        login |= {"sasl_username": "alice", "sasl_password": "secret"}
        reader = consumer(broker, **login)
        reader.subscribe(["orders"])
        until(lambda: reader.poll(0.05) or any(each.name == "denied" for each in broker.why("billing")))
        sentence = said(broker, "denied")
        assert sentence.startswith("'w1' at 127.0.0.1, as User:alice, is denied")
        assert "of group 'billing'" in sentence
        assert "GROUP_AUTHORIZATION_FAILED" in sentence
        broker.add_acls(allow("alice", "Read", group="billing"))
        reader.close()
        reader = joined(broker, **login)
        assert not broker.why("billing"), "it is served now"
        broker.remove_acls(allow("alice", "Read", topic="orders"))
        with pytest.raises(KafkaException):
            reader.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        with pytest.raises(KafkaException):
            reader.get_watermark_offsets(TopicPartition("orders", 0), 2)
        assert "is denied ListOffsets of topic 'orders'" in str(broker.why("billing") or broker.why())
        broker.add_acls(allow("alice", "Read", topic="orders"))
        reader.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        assert reader.get_watermark_offsets(TopicPartition("orders", 0), 2) == (0, 0)
        until(lambda: (reader.poll(0.05) and False) or not broker.why())
        reader.close()


def test_a_wrong_password_and_a_mechanism_that_is_not_enabled() -> None:
    with Broker(CONFIG, users={"alice": "secret"}) as broker:
        given = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "alice", "sasl_password": "wrong"}
        wrong = consumer(broker, sasl_mechanism="PLAIN", **given)
        until(lambda: (wrong.poll(0.05) and False) or broker.why())
        assert "'w1' at 127.0.0.1 failed to authenticate" in said(broker, "not-authenticated")
        wrong.close()
        with Broker(
            CONFIG | {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, users={"alice": "secret"}
        ) as other:
            plain = consumer(other, sasl_mechanism="PLAIN", **given)
            until(lambda: (plain.poll(0.05) and False) or other.why())
            assert "asks for the SASL mechanism PLAIN" in said(other, "not-authenticated")
            assert "this listener has SCRAM-SHA-256" in said(other, "not-authenticated")
            plain.close()


def test_tls_to_a_plaintext_port(broker: Broker) -> None:
    reader = consumer(broker, security_protocol="SSL", enable_ssl_certificate_verification=False)
    until(lambda: (reader.poll(0.05) and False) or broker.why())
    assert "a client at 127.0.0.1 sends a TLS handshake, but this port is plaintext" in said(
        broker, "foreign-protocol"
    )
    reader.close()


def test_a_version_that_is_not_served(broker: Broker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as peer:
        peer.sendall(bytes([0, 0, 0, 13, 0, 12, 0, 99, 0, 0, 0, 1, 0, 3]) + b"old")
        assert peer.recv(1) == b""
    assert "sends Heartbeat v99" in said(broker, "version-not-served")


def test_a_fault_that_is_still_active_and_only_while_it_is(broker: Broker) -> None:
    fault = broker.faults.error("OffsetCommit", "UNKNOWN_SERVER_ERROR")
    reader = consumer(broker)
    with pytest.raises(KafkaException):
        reader.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    sentence = said(broker, "fault-active")
    assert sentence.startswith("a fault of the test is active: error")
    assert "it has struck 1 request" in sentence
    fault.remove()
    assert "fault-active" not in {each.name for each in broker.why()}
    reader.close()


def test_a_topic_that_was_not_created(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "client.id": "w1"})
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic("refunds", 1, 3)], validate_only=True)["refunds"].result(10)
    assert not broker.why(), "it has asked whether it would be created"
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic("refunds", 1, 3)])["refunds"].result(10)
    sentence = said(broker, "creation-refused", None)
    assert sentence.startswith("topic refunds was not created for 'w1' at 127.0.0.1, at ")
    assert "INVALID_REPLICATION_FACTOR (Unable to replicate the partition 3 time(s)" in sentence
    admin.create_topics([NewTopic("refunds", 1, 1)], validate_only=True)["refunds"].result(10)
    assert said(broker, "creation-refused", None) == sentence, "it is not there yet"
    admin.create_topics([NewTopic("refunds", 1, 1)])["refunds"].result(10)
    assert not broker.why()


def test_partitions_that_came_after_the_assignment(broker: Broker) -> None:
    reader = joined(broker)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(10)
    assert not broker.why("billing"), "it is too early to say so"
    (finding,) = found_at(broker, 9000)
    assert finding.name == "partitions-unassigned"
    assert finding.sentence.endswith(", and no member has orders-1, orders-2")
    reader.close()
    second = joined(broker)
    assert not found_at(broker, 9000)
    second.close()


# -- where all is well


def test_a_group_that_reads_and_commits_gives_no_finding(broker: Broker) -> None:
    broker.produce("orders", ["a", "b", "c"])
    reader = joined(broker, enable_auto_commit=True, auto_commit_interval_ms=100)
    until(lambda: (reader.poll(0.05) and False) or broker.lag("billing") == {("orders", 0): 0})
    broker.wait_for(committed("billing", {("orders", 0): 3}))
    assert not broker.why("billing")
    assert not broker.why()
    assert not found_at(broker, 60_000), "an idle group is none that is stuck"
    reader.close()
    assert not broker.why()


def test_a_disk_that_refuses_does_not_hide_what_is_awaited() -> None:
    """The error of the disk was raised in place of TimeoutError and AssertionError."""
    with Broker(CONFIG, record=True) as broker:
        broker.create_topic("t", 1)
        broker.produce("t", ["a", "b", "c"])
        broker.commit("billing", {("t", 0): 2})
        with broker.faults.disk_error("read", path="t-0/"):
            with connect(broker) as client:
                fetch(client, 0)
            with pytest.raises(TimeoutError, match="disk_error"):
                broker.wait_for(group_stable("billing"), timeout=0.01)
            with pytest.raises(AssertionError, match="1 fewer"):
                broker.assert_committed("billing", {("t", 0): 3})
            assert any("billing" in line for line in broker.report())


def test_recorded_requests_are_decoded_beside_the_broker(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits of 10,000 requests kept its clients waiting for more than a second."""
    made, threads = messages.OffsetCommitRequest, set()
    decoded, decoded_ones = RecordedRequest.request, set()

    def noted(self: RecordedRequest) -> Any:
        threads.add(threading.get_ident())
        decoded_ones.add(self.number)
        return decoded.func(self)

    monkeypatch.setattr(RecordedRequest, "request", property(noted))
    with Connection(*parse_address(broker.bootstrap_servers)) as connection:
        for group, offset in (("other", 5), ("billing", 5), ("billing", 3)):
            topic = made.Topic("orders", partitions=[made.Partition(0, offset)])
            connection.call(made(group, topics=[topic]), 8)
    broker.produce("orders", ["a"] * 9)
    assert said(broker, "offset-moved-back")
    assert len(decoded_ones) == 2, "those of the other group are not decoded"
    broker.report()
    assert threads == {threading.get_ident()}


def test_the_report_of_a_stopped_broker_says_what_it_does_not_know(broker: Broker) -> None:
    broker.commit("billing", {("orders", 0): 0})
    broker.stop()
    assert broker.report() == ["no requests", "state: not known: this broker is not running"]
