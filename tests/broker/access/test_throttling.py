"""Throttling: what a client that exceeds a quota gets, and until when its connection is muted, by the broker's clock.

The answers and times are those of Kafka 4.3.1, which were measured by the same requests.
"""

from typing import Any

import pytest

from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.files.files import MemoryFiles
from tests.drivers.core import CoreClient, commit_request, make_core

Quotas = messages.AlterClientQuotasRequest
Topics = messages.CreateTopicsRequest
Produce = messages.ProduceRequest
Fetch = messages.FetchRequest
NONE, OVER_QUOTA = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
APP = "app"
EVERY_REQUEST = 1e-12
"""A request_percentage that each request exceeds, however fast the machine is."""


class Throttled:
    """A broker with one topic, a quota of one client, and that client."""

    def __init__(self, key: str, limit: float, **config: object) -> None:
        self.clock = ManualClock()
        self.files = MemoryFiles()
        self.core = make_core(self.files, clock=self.clock, **config)
        self.admin = CoreClient(self.core, "admin")
        create(self.admin, "t")
        set_quota(self.admin, key, limit)
        self.client = CoreClient(self.core, APP)

    def advance(self, ms: int) -> None:
        """Move the time, and run what is due."""
        self.clock.advance(ms)
        self.core.run_due()
        self.core.end_turn()

    def answered_after(self, *requests: tuple[messages.MessageValue, int]) -> list[int]:
        """Send requests in one piece; return after how many ms each is answered, to 10 ms, if it has an answer."""
        self.client.send(*requests)
        self.client.turn()
        found, waited_ms = [0] * len(self.client.take()), 0
        while self.client.expected:
            self.advance(10)
            waited_ms += 10
            found += [waited_ms] * len(self.client.take())
            assert waited_ms < 60_000
        return found


def set_quota(client: CoreClient, key: str, limit: float | None, **entity: str | None) -> None:
    parts = [
        Quotas.EntityData(kind.replace("_", "-"), name)
        for kind, name in (entity or {"client_id": APP}).items()
    ]
    answer = client.call(
        Quotas([Quotas.EntryData(parts, [Quotas.OpData(key, limit or 0.0, limit is None)])], False), 1
    )
    assert answer.entries[0].error_code == NONE


def create(
    client: CoreClient, name: str, partitions: int = 1, version: int = 7, **fields: Any
) -> tuple[int, int]:
    """Create a topic; return its error code and the throttle time."""
    answer = client.call(Topics([Topics.CreatableTopic(name, partitions, 1)], 10_000, **fields), version)
    return answer.topics[0].error_code, answer.throttle_time_ms


def produce_request(size: int, acks: int = 1) -> Produce:
    batch = bytes(encode_batch([(None, bytes(size), (), 0)]))
    return Produce(acks=acks, timeout_ms=1000, topic_data=[Produce.TopicProduceData("t", partition_data=[
        Produce.PartitionProduceData(0, batch)
    ])])  # fmt: skip


def produce(client: CoreClient, size: int) -> int:
    """Append a record; return the throttle time."""
    answer = client.call(produce_request(size), 9)
    assert answer.responses[0].partition_responses[0].error_code == NONE
    return answer.throttle_time_ms


def frame_bytes(client: CoreClient, size: int) -> int:
    """Return how many bytes of the quota a Produce with a record of this size uses: its frame, without the size."""
    other = CoreClient(client.core, client.client_id)
    return len(other.frame(produce_request(size), 9)) - 4


def fetch_request(offset: int = 0, max_bytes: int = 1 << 20, **fields: Any) -> Fetch:
    partition = Fetch.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [Fetch.FetchTopic("t", partitions=[partition])]
    return Fetch(
        min_bytes=1,
        max_bytes=max_bytes,
        topics=topics,
        session_epoch=fields.pop("session_epoch", -1),
        **fields,
    )


def fetch(client: CoreClient, **fields: Any) -> tuple[int, int]:
    """Read; return the throttle time and the bytes of records."""
    answer = client.call(fetch_request(**fields), 11)
    return answer.throttle_time_ms, records_in(answer)


def records_in(answer: Any) -> int:
    return sum(len(each.records or b"") for topic in answer.responses for each in topic.partitions)


METADATA = messages.MetadataRequest([]), 9

# -- producer_byte_rate


def test_a_producer_over_its_quota_is_answered_at_once_and_then_not_read() -> None:
    at = Throttled("producer_byte_rate", 1000.0)
    assert [produce(at.client, 4000) for _ in range(3)] == [0, 0, 3 * frame_bytes(at.client, 4000) - 10_000]
    at.client.send(METADATA)
    at.client.turn()
    assert at.client.take() == []
    at.advance(3 * frame_bytes(at.client, 4000) - 10_000 - 1)
    assert at.client.take() == []
    at.advance(1)
    assert len(at.client.take()) == 1


def test_requests_sent_together_are_decided_one_by_one() -> None:
    """Without a quota up to 100 Produce requests are decided before the first is answered."""
    at = Throttled("producer_byte_rate", 1000.0, fsync="commit")
    used = frame_bytes(at.client, 12_000)
    waits = at.answered_after(*[(produce_request(12_000), 9)] * 3)
    first = used - 10_000
    second = 2 * used - 10_000 - first % 1000
    assert waits == pytest.approx([0, first, first + second], abs=20)


def test_a_producer_without_responses_is_muted_too() -> None:
    at = Throttled("producer_byte_rate", 1000.0)
    used = frame_bytes(at.client, 12_000)
    assert at.answered_after((produce_request(12_000, acks=0), 9), METADATA) == pytest.approx(
        [used - 10_000], abs=10
    )


def test_other_clients_are_not_throttled_but_share_the_quota_of_their_user() -> None:
    at = Throttled("producer_byte_rate", 1000.0)
    other = CoreClient(at.core, "other")
    assert produce(at.client, 20_000) > 0
    assert produce(other, 20_000) == 0
    set_quota(at.admin, "producer_byte_rate", 1000.0, user="ANONYMOUS")
    assert produce(other, 20_000) > 0
    assert produce(CoreClient(at.core, "third"), 1) > 20_000 - 11_000


def test_a_quota_applies_from_its_change_on_and_after_a_start() -> None:
    at = Throttled("producer_byte_rate", 1000.0)
    at.core.close()
    core = make_core(at.files, clock=at.clock)
    client, admin = CoreClient(core, APP), CoreClient(core, "admin")
    assert produce(client, 20_000) > 0
    set_quota(admin, "producer_byte_rate", None)
    assert core.responses.throttle is None
    assert produce(CoreClient(core, APP), 20_000) == 0


def test_the_windows_are_configured() -> None:
    at = Throttled("producer_byte_rate", 1000.0, quota_window_num=2, quota_window_size_seconds=5)
    assert produce(at.client, 20_000) == frame_bytes(at.client, 20_000) - 5_000


def test_a_connection_that_closes_while_it_is_muted_leaves_nothing() -> None:
    at = Throttled("producer_byte_rate", 1000.0)
    produce(at.client, 20_000)
    deadline = at.client.connection.muted
    assert deadline is not None
    at.core.disconnect(at.client.connection)
    assert deadline.callback is None
    at.advance(60_000)
    assert at.client.connection not in at.core.responses.writable


# -- consumer_byte_rate


def consumer(limit: float, records: int = 30) -> Throttled:
    at = Throttled("consumer_byte_rate", limit)
    for _ in range(records):
        produce(at.admin, 930)
    return at


OVERHEAD = 67
"""Bytes of a Fetch response that count besides its records: size and body, without the header."""


def test_a_consumer_over_its_quota_gets_no_records_and_the_next_fetch_gets_them() -> None:
    at = consumer(1000.0)
    assert [fetch(at.client, max_bytes=3000) for _ in range(3)] == [(0, 3000)] * 3
    assert fetch(at.client, max_bytes=3000) == (2268, 0)
    at.advance(2268)
    assert fetch(at.client, max_bytes=3000) == (2000, 0)  # what it did not get does not count
    at.client.send((fetch_request(max_bytes=3000), 11))
    at.client.turn()
    assert at.client.take() == []
    at.advance(11_000)
    (answer,) = at.client.take()
    assert (answer.throttle_time_ms, records_in(answer)) == (0, 3000)


def test_a_fetch_reads_no_more_than_ten_seconds_allow() -> None:
    at = consumer(1010.0)
    assert fetch(at.client) == (0, 10_000)
    assert fetch(CoreClient(at.core, "other")) == (0, 30_000)


def test_a_fetch_that_waits_is_throttled_when_it_is_answered() -> None:
    at = consumer(1.0, records=0)
    at.client.send((fetch_request(max_wait_ms=500), 11))
    at.client.turn()
    assert at.client.take() == []
    produce(at.admin, 930)
    (answer,) = at.client.take()
    assert (answer.throttle_time_ms, records_in(answer)) == (1000 * (1000 + OVERHEAD) - 10_000, 0)


def test_large_records_count_too() -> None:
    at = consumer(5_000.0, records=0)
    produce(at.admin, 60_000)
    assert fetch(at.client) == (round((60_071 + OVERHEAD) / 5) - 10_000, 0)


def test_a_throttled_fetch_leaves_its_session_as_it_was() -> None:
    at = consumer(1000.0)
    opened = at.client.call(fetch_request(max_bytes=3000, session_epoch=0), 11)
    assert opened.session_id > 0 and records_in(opened) == 3000
    again = Fetch(min_bytes=1, max_bytes=8000, session_id=opened.session_id, session_epoch=1)
    throttled = at.client.call(again, 11)
    assert throttled.throttle_time_ms == 3000 + 8000 + 2 * OVERHEAD - 10_000
    assert (throttled.session_id, throttled.responses) == (opened.session_id, [])
    at.advance(11_000)
    again.session_epoch = 2
    assert records_in(at.client.call(again, 11)) == 8000
    opening = at.client.call(fetch_request(max_bytes=3000, session_epoch=0), 11)
    assert (opening.session_id, opening.error_code) == (0, NONE) and opening.throttle_time_ms > 0


def test_a_fetch_in_a_session_uses_only_the_bytes_of_what_is_new() -> None:
    at = consumer(1000.0, records=1)
    opened = at.client.call(fetch_request(max_bytes=3000, session_epoch=0), 11)
    used = at.core.throttling._consumers.record("ANONYMOUS", APP, 9_000, at.clock.now().mono_ms)
    assert used == 1000 + OVERHEAD + 9_000 - 10_000
    partition = Fetch.FetchPartition(0, fetch_offset=1, partition_max_bytes=1 << 20)
    nothing = Fetch(
        session_id=opened.session_id, session_epoch=1, topics=[Fetch.FetchTopic("t", partitions=[partition])]
    )
    assert at.client.call(nothing, 11).throttle_time_ms == used + 18  # nothing but the session


# -- request_percentage


def test_every_request_over_its_time_is_throttled_for_a_second() -> None:
    at = Throttled("request_percentage", EVERY_REQUEST)
    commit = messages.OffsetCommitRequest("g", topics=[
        messages.OffsetCommitRequest.Topic("t", partitions=[messages.OffsetCommitRequest.Partition(0, 5)])
    ])  # fmt: skip
    for request, version in (
        METADATA,
        (messages.ApiVersionsRequest("x", "1"), 3),
        (messages.FindCoordinatorRequest("g", 0), 2),
        (produce_request(1), 9),
        (fetch_request(), 11),
        (commit, 8),
        (commit, 2),
        (messages.HeartbeatRequest("g", 1, "m"), 4),
        (messages.OffsetFetchRequest("g", None), 7),
        (messages.DescribeQuorumRequest([]), 1),
    ):
        answer = at.client.call(request, version)
        assert getattr(answer, "throttle_time_ms", 1000) == (
            0 if version == 2 and request is commit else 1000
        )
        assert at.client.connection.muted is not None
        at.advance(999)
        assert at.client.connection.muted is not None
        at.advance(1)
        assert at.client.connection.muted is None
    assert at.client.committed("g") == {("t", 0): 5}


def test_request_time_is_that_of_the_handler_in_percent() -> None:
    """10 % of a second are 100 ms; 11 windows of a second, the last of which has begun, allow ten times as much."""
    at = Throttled("request_percentage", 10.0)
    times = iter(range(0, 10**13, 1_002_000_000))
    at.core.throttling.time_ns = lambda: next(times)
    assert at.client.call(*METADATA).throttle_time_ms == 20  # 1.002 s


def test_the_time_of_a_request_that_waits_is_that_of_its_handler_alone() -> None:
    at = Throttled("request_percentage", 10.0, fsync="commit")
    times = iter(range(0, 10**13, 1_002_000_000))
    at.core.throttling.time_ns = lambda: next(times)
    answer = at.client.call(produce_request(1), 9)
    assert answer.throttle_time_ms == 20


def test_responses_that_are_kept_are_throttled_too() -> None:
    at = Throttled("request_percentage", EVERY_REQUEST)
    set_quota(at.admin, "request_percentage", None)
    for _ in range(3):
        assert at.client.call(*METADATA).throttle_time_ms == 0
    set_quota(at.admin, "request_percentage", EVERY_REQUEST)
    assert at.client.call(*METADATA).throttle_time_ms == 1000
    set_quota(at.admin, "request_percentage", None)
    assert CoreClient(at.core, "other").call(*METADATA).throttle_time_ms == 0


def test_a_commit_whose_request_is_known_is_throttled_too() -> None:
    """A repeated commit is answered by bytes that were made before."""
    at = Throttled("producer_byte_rate", 1.0)
    for _ in range(5):
        assert at.client.commit("g", {("t", 0): 5}) == {("t", 0): NONE}
    set_quota(at.admin, "request_percentage", EVERY_REQUEST)
    answer = at.client.call(commit_request(at.core, "g", {("t", 0): 5}), 8)
    assert answer.throttle_time_ms == 1000


def test_a_produce_without_response_takes_no_time_of_the_quota() -> None:
    at = Throttled("request_percentage", EVERY_REQUEST)
    assert at.answered_after((produce_request(1, acks=0), 9), METADATA) == [0]


# -- controller_mutation_rate


def test_topics_over_the_quota_are_refused_one_by_one_until_the_bucket_is_full_enough() -> None:
    at = Throttled("controller_mutation_rate", 1.0)
    wanted = [Topics.CreatableTopic(f"x{number}", 6, 1) for number in range(4)]
    answer = at.client.call(Topics(wanted, 10_000), 7)
    assert [topic.error_code for topic in answer.topics] == [NONE, NONE, OVER_QUOTA, OVER_QUOTA]
    assert [topic.error_message for topic in answer.topics] == [None] * 4
    assert answer.throttle_time_ms == 1000
    at.advance(1000)
    deletion = messages.DeleteTopicsRequest([messages.DeleteTopicsRequest.DeleteTopicState("x0")], [], 10_000)
    answer = at.client.call(deletion, 6)
    assert [topic.error_code for topic in answer.responses] == [NONE] and answer.throttle_time_ms == 0
    answer = at.client.call(
        messages.DeleteTopicsRequest([messages.DeleteTopicsRequest.DeleteTopicState("x1")], [], 10_000), 6
    )
    assert [topic.error_code for topic in answer.responses] == [
        OVER_QUOTA
    ] and answer.throttle_time_ms == 6000
    assert at.core.topics.get("x1") is not None


def test_a_check_takes_from_the_quota_as_a_creation_does() -> None:
    at = Throttled("controller_mutation_rate", 1.0)
    assert create(at.client, "a", 20, validate_only=True) == (NONE, 0)
    assert create(at.client, "a", 1) == (OVER_QUOTA, 9000)


def test_earlier_versions_are_throttled_afterwards() -> None:
    at = Throttled("controller_mutation_rate", 1.0)
    assert create(at.client, "a", 20, version=5) == (NONE, 9000)
    at.advance(9000)
    assert create(at.client, "b", 1, version=5) == (NONE, 1000)
    at.advance(1000)
    old = messages.DeleteTopicsRequest(topic_names=["a"], timeout_ms=10_000)
    assert at.client.call(old, 4).throttle_time_ms == 20_000
    assert at.core.topics.get("a") is None


def test_partitions_over_the_quota_are_not_created() -> None:
    at = Throttled("controller_mutation_rate", 1.0)
    grow = messages.CreatePartitionsRequest
    for version, total, expected in ((3, 15, (NONE, 0)), (3, 16, (OVER_QUOTA, 3000)), (2, 20, (NONE, 5000))):
        answer = at.client.call(grow([grow.CreatePartitionsTopic("t", total, None)], 10_000, False), version)
        assert (answer.results[0].error_code, answer.throttle_time_ms) == expected
        at.advance(answer.throttle_time_ms)


def test_topics_that_metadata_creates_take_from_the_quota_and_throttle_nobody() -> None:
    at = Throttled("controller_mutation_rate", 0.1)
    for name, error in (("a", NONE), ("b", NONE), ("c", UNKNOWN_TOPIC)):
        request = messages.MetadataRequest(
            [messages.MetadataRequest.Topic(name=name)], allow_auto_topic_creation=True
        )
        answer = at.client.call(request, 9)
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (error, 0)


# -- all


def test_the_longest_of_several_pauses_counts() -> None:
    at = Throttled("producer_byte_rate", 1000.0)
    set_quota(at.admin, "request_percentage", EVERY_REQUEST)
    assert produce(at.client, 20_000) == frame_bytes(at.client, 20_000) - 10_000
    at.advance(20_000)
    assert produce(at.client, 1) == 1000


def test_a_client_that_has_the_name_of_a_broker_is_not_exempt() -> None:
    """Everyone can read the id of the cluster, which is in that name."""
    at = Throttled("producer_byte_rate", 1.0)
    set_quota(at.admin, "producer_byte_rate", 1.0, client_id=None)
    assert produce(CoreClient(at.core, f"broker-2@{at.core.broker.node.cluster_id}"), 20_000) > 0


def test_without_quotas_nothing_is_recorded() -> None:
    at = Throttled("producer_byte_rate", 1.0)
    set_quota(at.admin, "producer_byte_rate", None)
    assert at.core.responses.throttle is None
    assert not at.core.throttling.is_active and not at.core.throttling.times_requests
