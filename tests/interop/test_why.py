"""`kafka-offsets why` on this broker and Apache Kafka: it finds what a client's requests tell, and nothing false."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from kafka_offsets import cli
from kafka_offsets.commands.groups import why
from tests.interop.coordinator_client import lengthen_session
from tests.interop.names import Names
from tests.interop.waiting import until
from tests.testing import why_clients

pytestmark = [pytest.mark.interop, pytest.mark.slow]

_COORDINATOR_IS_MADE = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


class Site:
    """A broker with a topic of one partition, and what clients of a group do there."""

    def __init__(self, home: str, names: Names, at_end: ExitStack) -> None:
        self.broker: Any = SimpleNamespace(bootstrap_servers=home)
        self._at_end = at_end
        self.admin = AdminClient({"bootstrap.servers": home})
        self.topic, self.group = names.topic("orders"), names.group("billing")
        self.create(self.topic)
        lengthen_session(home, self.group)

    def create(self, topic: str) -> None:
        self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(30)
        until(lambda: topic not in self.admin.list_topics(timeout=30).topics, f"{topic} is deleted")

    def produce(self, count: int, topic: str = "", **transactional: str) -> Producer:
        """Append records, in an open transaction if there is an id."""
        if transactional:
            writer = why_clients.producer(self.broker, **transactional)
        else:
            writer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for _ in range(count):
            writer.produce(topic or self.topic, b"x", partition=0)
        assert writer.flush(30) == 0
        return writer

    def consumer(self, client: str = "w1", **settings: Any) -> Consumer:
        """Return a consumer, which is closed at the end."""
        made = why_clients.consumer(self.broker, self.group, client, **settings)
        self._at_end.callback(made.close)
        return made

    def member(self, *topics: str, owns: int = 1, **settings: Any) -> Consumer:
        """Return a member that has so many partitions."""
        made = self.consumer(**settings)
        made.subscribe([*topics] or [self.topic])
        self.turn(made)
        until(lambda: (made.poll(0.05) and False) or len(made.assignment()) == owns, f"it owns {owns}")
        return made

    def turn(self, *members: Consumer) -> None:
        """Let members poll until the group is stable with all of them."""

        def is_stable() -> bool:
            for each in members:
                each.poll(0.05)
            return self.state() == ("STABLE", len(members))

        until(is_stable, f"the group is stable with {len(members)} members")

    def kafka_python(self, **subscription: Any) -> None:
        """Let a client join that is a member without a topic too; librdkafka waits for one."""
        made = KafkaConsumer(
            bootstrap_servers=self.broker.bootstrap_servers,
            group_id=self.group,
            allow_auto_create_topics=False,
        )
        self._at_end.callback(made.close, autocommit=False)
        made.subscribe(**subscription)
        until(lambda: (made.poll(50), self.state())[1] == ("STABLE", 1), "it is a member")

    def state(self) -> tuple[str, int]:
        """Return the state of the group, and how many members it has; none while its coordinator is being made."""
        try:
            found = self.admin.describe_consumer_groups([self.group])[self.group].result(30)
        except KafkaException as error:
            if error.args[0].code() in _COORDINATOR_IS_MADE:
                return "", 0
            raise
        return found.state.name, len(found.members)

    def commit(self, offset: int, topic: str = "", by: Consumer | None = None) -> None:
        place = TopicPartition(topic or self.topic, 0, offset)
        (by or self.consumer("admin")).commit(offsets=[place], asynchronous=False)


Play = Callable[[Site], object]
SITUATIONS: dict[str, tuple[Play, dict[str, str]]] = {}
"""By name: what clients do, and what is found: the name of the finding, and a part of its sentence."""


def situation(**findings: str) -> Callable[[Play], Play]:
    """Add a situation with its findings."""

    def add(play: Play) -> Play:
        SITUATIONS[play.__name__] = play, {name.replace("_", "-"): said for name, said in findings.items()}
        return play

    return add


@pytest.mark.parametrize("name", SITUATIONS)
def test_it_finds_what_requests_tell_and_nothing_false(
    name: str,
    home: str,
    names: Names,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two seconds later, since a transaction that has just begun is none that somebody waits for."""
    play, findings = SITUATIONS[name]
    with ExitStack() as at_end:
        at = Site(home, names, at_end)
        play(at)
        later_ns = time.time_ns() + 2_000_000_000
        monkeypatch.setattr(why.time, "time_ns", lambda: later_ns)
        capsys.readouterr()
        code = cli.main(["why", at.group, "-b", home, "--json"])
    printed = capsys.readouterr()
    found = {each["finding"]: each["sentence"] for each in map(json.loads, printed.out.splitlines())}
    assert found.keys() == findings.keys(), found
    for finding, said in findings.items():
        assert said in found[finding]
    assert code == bool(findings), printed.err


def test_there_are_twenty() -> None:
    assert len(SITUATIONS) >= 20
    assert sum(not findings for _, findings in SITUATIONS.values()) >= 6


# -- all is well


@situation()
def a_member_has_committed_what_it_has_read(at: Site) -> None:
    at.produce(3)
    at.commit(3, by=at.member())


@situation()
def a_member_of_the_consumer_protocol_has_committed_what_it_has_read(at: Site) -> None:
    at.produce(3)
    at.commit(3, by=at.member(group_protocol="consumer"))


@situation()
def a_member_waits_for_records(at: Site) -> None:
    at.member()


@situation()
def two_members_share_two_topics(at: Site) -> None:
    at.create(f"{at.topic}-2")
    members = [at.consumer(name, group_protocol="consumer") for name in ("w1", "w2")]
    for each in members:
        each.subscribe([at.topic, f"{at.topic}-2"])
    at.turn(*members)
    until(lambda: [(each.poll(0.05), len(each.assignment()))[1] for each in members] == [1, 1], "one each")


@situation()
def a_program_commits_without_members(at: Site) -> None:
    at.produce(3)
    at.commit(1)


@situation()
def the_records_of_a_transaction_are_still_to_be_read(at: Site) -> None:
    at.commit(0)
    at.produce(2, transactional_id=at.group).commit_transaction(30)
    settings = {"bootstrap.servers": at.broker.bootstrap_servers, "transactional.id": at.group}
    Producer(settings).init_transactions(30)  # it waits until all markers of the other one are written


# -- something is stuck, and no request tells why


@situation()
def a_member_has_read_and_left_without_a_commit(at: Site) -> None:
    at.produce(3)
    at.commit(1)
    at.member().close()


@situation()
def a_rebalance_waits_for_a_member_that_does_not_poll(at: Site) -> None:
    at.commit(0, by=at.member())
    second = at.consumer("w2")
    second.subscribe([at.topic])
    until(lambda: (second.poll(0.05) and False) or at.state()[0] == "PREPARING_REBALANCING", "it rebalances")


@situation()
def a_commit_has_moved_the_offset_back(at: Site) -> None:
    at.produce(3)
    at.commit(3)
    at.commit(1)


@situation()
def a_commit_of_a_stranger_is_refused(at: Site) -> None:
    at.member()
    with pytest.raises(KafkaException):
        at.commit(0)


@situation()
def assignors_do_not_fit(at: Site) -> None:
    at.member(partition_assignment_strategy="range")
    second = at.consumer("w2", partition_assignment_strategy="roundrobin")
    second.subscribe([at.topic])
    until(lambda: (heard := second.poll(0.05)) is not None and heard.error() is not None, "it is refused")


# -- it is found


@situation(nobody_joined="; did you mean ")
def nobody_has_joined_and_a_name_is_near(at: Site) -> None:
    at.commit(0)
    at.group += "s"


@situation(nobody_joined=" does not exist")
def a_group_is_deleted(at: Site) -> None:
    at.commit(0)
    at.admin.delete_consumer_groups([at.group])[at.group].result(30)


@situation(subscription_matches_nothing="s, which does not exist; did you mean ")
def a_topic_is_spelled_wrongly(at: Site) -> None:
    at.member(f"{at.topic}s", owns=0, group_protocol="consumer")  # kafka-python would create it


@situation(subscription_matches_nothing="which does not exist")
def a_topic_is_deleted_under_its_reader(at: Site) -> None:
    at.create(f"gone-{at.topic}")
    at.member(f"gone-{at.topic}", group_protocol="consumer")
    at.delete(f"gone-{at.topic}")


@situation(subscription_matches_nothing="its subscription is empty, or its expression matches none")
def an_expression_of_a_classic_member_matches_nothing(at: Site) -> None:
    at.kafka_python(pattern=f"no-{at.topic}.*")


@situation(subscription_matches_nothing="which no topic matches")
def an_expression_of_the_consumer_protocol_matches_nothing(at: Site) -> None:
    at.member(f"^no-{at.topic}.*", owns=0, group_protocol="consumer")


@situation(members_without_partitions="1 member of group ")
def there_are_more_members_than_partitions(at: Site) -> None:
    members = [at.consumer(name) for name in ("w1", "w2")]
    for each in members:
        each.subscribe([at.topic])
    at.turn(*members)


@situation(members_without_partitions="2 members share 1 partition; without one: ")
def there_are_more_members_of_the_consumer_protocol_than_partitions(at: Site) -> None:
    members = [at.consumer(name, group_protocol="consumer") for name in ("w1", "w2")]
    for each in members:
        each.subscribe([at.topic])
    at.turn(*members)
    until(lambda: sum([(each.poll(0.05), len(each.assignment()))[1] for each in members]) == 1, "one each")


@situation(offset_outside="before the log start 2: 1 record were deleted before they were read")
def records_are_deleted_before_they_are_read(at: Site) -> None:
    at.produce(3)
    at.commit(1)
    place = TopicPartition(at.topic, 0, 2)
    at.admin.delete_records([place])[place].result(30)


@situation(offset_outside="beyond the end 1, so it waits for 8 records that nobody has produced")
def an_offset_is_beyond_the_end(at: Site) -> None:
    at.produce(1)
    at.commit(9)


@situation(never_committed="with 3 records, owned by 'w1' at ")
def a_member_commits_nothing(at: Site) -> None:
    at.produce(3)
    at.member()


@situation(never_committed="with 3 records, owned by 'w1' at ")
def a_member_commits_in_one_of_two_topics(at: Site) -> None:
    at.create(f"{at.topic}-2")
    at.produce(3)
    at.produce(2, f"{at.topic}-2")
    at.commit(2, f"{at.topic}-2", by=at.member(at.topic, f"{at.topic}-2", owns=2))


@situation(lag_is_transaction="lags by 2 in ")
def a_transaction_is_open(at: Site) -> None:
    at.commit(0)
    at.produce(2, transactional_id=at.group)


@situation(only_markers="its lag of 1, from 2 on, is markers and aborted records of transactions")
def every_record_of_a_transaction_is_read(at: Site) -> None:
    at.produce(2, transactional_id=at.group).commit_transaction(30)
    at.commit(2)


@situation(only_markers="its lag of 3, from 0 on, is markers and aborted records of transactions")
def a_transaction_is_aborted(at: Site) -> None:
    at.commit(0)
    at.produce(2, transactional_id=at.group).abort_transaction(30)


@situation(topic_unsubscribed="lags by 3 in ")
def a_topic_is_subscribed_no_longer(at: Site) -> None:
    at.produce(3)
    at.commit(0)
    at.create(f"{at.topic}-2")
    at.member(f"{at.topic}-2")


@situation(offset_held="(UNSTABLE_OFFSET_COMMIT): the transaction of ")
def a_transaction_holds_the_only_offset(at: Site) -> None:
    at.produce(1)
    reader, writer = at.member(), why_clients.producer(at.broker, transactional_id=at.group)
    writer.send_offsets_to_transaction([TopicPartition(at.topic, 0, 1)], reader.consumer_group_metadata())


@situation(offset_held="(UNSTABLE_OFFSET_COMMIT): one of these holds it: the transaction of ")
def one_of_two_transactions_holds_the_only_offset(at: Site) -> None:
    a_transaction_holds_the_only_offset(at)
    writer, reader = why_clients.producer(at.broker, transactional_id=f"{at.group}-2"), at.consumer("w2")
    writer.send_offsets_to_transaction([TopicPartition(at.topic, 0, 1)], reader.consumer_group_metadata())
