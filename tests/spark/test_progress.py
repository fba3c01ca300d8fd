"""A query's progress as a consumer group: what the listener commits, when it does not, and what is read back."""

import gc
import json
import logging
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.coordinator import Committed, Coordinator
from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.spark.progress import (
    CONFLICT,
    CONTINUOUS,
    OffsetCommitListener,
    ProgressError,
    commit_checkpoint,
    group_starting_offsets,
)
from kafka_offsets.testing import Broker
from tests.drivers.secured import PASSWORD, USER, Secured
from tests.interop import kafka_peer
from tests.interop.kafka_peer import KafkaPeer
from tests.interop.waiting import DEADLINE_S, until
from tests.spark.kafka_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP = "job-1"
QUERY, OTHER_QUERY = uuid.UUID(int=1), uuid.UUID(int=2)
RUN, NEXT_RUN = uuid.UUID(int=3), uuid.UUID(int=4)
TIMEOUT_S, REFRESH_S = 5.0, 3600.0

Place = tuple[str, int]


class FakeQuery:
    """A query as far as `commit` looks at it."""

    id, name = str(QUERY), "billing"

    def __init__(
        self, progress: StreamingQueryProgress | None, *, is_active: bool = True, plan: str = ""
    ) -> None:
        self.lastProgress, self.isActive, self._plan = progress, is_active, plan

    def explain(self) -> None:
        print(self._plan)


def kafka(offsets: object, subscription: str = "Subscribe[orders]") -> dict[str, object]:
    """A Kafka source that ends a batch before these offsets."""
    return source(f"KafkaV2[{subscription}]", offsets)


def source(description: str, end: object) -> dict[str, object]:
    return {
        "description": description,
        "startOffset": None,
        "endOffset": end if end is None or isinstance(end, str) else json.dumps(end),
        "latestOffset": None,
        "numInputRows": 1,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
    }


EVENT = {
    "id": str(QUERY),
    "runId": str(RUN),
    "name": "billing",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "batchId": 0,
    "batchDuration": 1,
    "numInputRows": 1,
    "inputRowsPerSecond": 1.0,
    "processedRowsPerSecond": 1.0,
    "stateOperators": [],
    "sources": [],
    "sink": {"description": "noop", "numOutputRows": 0},
}
"""What Spark tells of a batch, but for its sources."""


def progress(
    batch: int,
    *sources: dict[str, object],
    name: str | None = "billing",
    query: uuid.UUID = QUERY,
    run: uuid.UUID = RUN,
) -> QueryProgressEvent:
    """What Spark tells of a batch that is done."""
    changed = {"id": str(query), "runId": str(run), "name": name, "batchId": batch, "sources": list(sources)}
    return QueryProgressEvent.fromJson({"progress": EVENT | changed})


def batch(number: int, offset: int, **options: Any) -> QueryProgressEvent:
    """A batch that ends before an offset of orders-0."""
    return progress(number, kafka({"orders": {"0": offset}}), **options)


def started(query: uuid.UUID = QUERY) -> QueryStartedEvent:
    named = {"name": "billing", "timestamp": "2026-01-01T00:00:00.000Z", "jobTags": []}
    return QueryStartedEvent.fromJson({"id": str(query), "runId": str(RUN), **named})


def idle() -> QueryIdleEvent:
    return QueryIdleEvent(QUERY, RUN, "2026-01-01T00:00:00.000Z")


def terminated(query: uuid.UUID = QUERY, run: uuid.UUID = RUN) -> QueryTerminatedEvent:
    return QueryTerminatedEvent(query, run, None, None)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("orders", 2)
        broker.create_topic("payments", 2)
        yield broker


@pytest.fixture
def clock() -> list[float]:
    """The listener's seconds."""
    return [0.0]


@pytest.fixture
def listen(broker: Broker, clock: list[float]) -> Iterator[Callable[..., OffsetCommitListener]]:
    made: list[OffsetCommitListener] = []

    def listen(**options: Any) -> OffsetCommitListener:
        options = {"timeout_s": TIMEOUT_S, "refresh_s": REFRESH_S, "clock": lambda: clock[0]} | options
        made.append(OffsetCommitListener(broker.bootstrap_servers, GROUP, **options))
        return made[-1]

    yield listen
    for each in made:
        each.close()


def offsets(broker: Broker) -> dict[Place, int]:
    return {place: entry.offset for place, entry in broker.committed(GROUP).items()}


def join(address: tuple[str, int], group: str) -> Callable[[], None]:
    """Have a member join a group by the consumer protocol; return what makes it leave."""
    made = messages.ConsumerGroupHeartbeatRequest

    def beat(member: str, epoch: int) -> messages.ConsumerGroupHeartbeatResponse:
        request = made(group, member, epoch, None, None, 60_000, ["orders"], None, topic_partitions=[])
        answer = connection.call(request, 0)
        assert not answer.error_code, answer
        return answer

    connection = Connection(*address)
    member = beat("", 0).member_id

    def leave() -> None:
        with connection:
            beat(member, -1)

    return leave


def test_the_end_of_a_batch_is_committed_with_its_number(broker, listen):
    listener = listen()
    listener.onQueryProgress(batch(7, 42))
    entry = broker.committed(GROUP)["orders", 0]
    assert (entry.offset, entry.metadata) == (42, "batch=7 query=billing")
    listener.onQueryProgress(batch(8, 43))
    assert (listener.commits, listener.errors, listener.last_error) == (2, {}, None)
    assert offsets(broker) == {("orders", 0): 43}


def test_only_what_has_moved_is_committed(broker, listen, clock):
    listener = listen()
    broker.create_topic("wide", 50)
    wide = {str(n): 1 for n in range(50)}
    listener.onQueryProgress(progress(0, kafka({"wide": wide})))
    with broker.faults.error("OffsetCommit", ErrorCode.NOT_COORDINATOR, n=1):
        listener.onQueryProgress(progress(1, kafka({"wide": wide | {"7": 3}})))
    metadata = {index: entry.metadata for (_, index), entry in broker.committed(GROUP).items()}
    assert {index for index, text in metadata.items() if text.startswith("batch=1")} == {7}
    assert broker.committed(GROUP)["wide", 7].offset == 3
    listener.onQueryProgress(progress(2, kafka({"wide": wide | {"7": 3}})))
    assert (listener.commits, listener.errors) == (2, {})
    clock[0] += REFRESH_S
    listener.onQueryProgress(progress(3, kafka({"wide": wide | {"7": 4}})))
    assert {entry.metadata.split()[0] for entry in broker.committed(GROUP).values()} == {"batch=3"}


def test_a_query_without_a_name_has_its_batch_alone_as_metadata(broker, listen):
    listen().onQueryProgress(batch(7, 42, name=None))
    assert broker.committed(GROUP)["orders", 0].metadata == "batch=7"


def test_offsets_go_by_topic_and_partition_whatever_the_sources_are(broker, listen):
    listener = listen()
    listener.onQueryProgress(
        progress(
            0,
            source("RateStreamV2[rowsPerSecond=1]", 5),
            kafka({"payments": {"0": 1, "1": 2}}, "SubscribePattern[pay.*]"),
            source("FileStreamSource[file:/in]", {"logOffset": 3}),
            source("consumer_offsets", {"orders": {"0": 99}}),
            kafka(None, "Subscribe[nothing-yet]"),
            kafka('{"orders": {"1": 4}}', "Assign[orders-1]"),
        )
    )
    assert offsets(broker) == {("payments", 0): 1, ("payments", 1): 2, ("orders", 1): 4}
    assert (listener.commits, listener.errors) == (1, {})


def test_a_query_that_reads_no_kafka_commits_nothing(broker, listen):
    listener = listen()
    listener.onQueryProgress(progress(0, source("RateStreamV2[rowsPerSecond=1]", 5)))
    listener.onQueryIdle(idle())
    listener.onQueryTerminated(terminated())
    assert (listener.commits, listener.errors, broker.committed(GROUP)) == (0, {}, {})


def test_of_a_partition_that_two_sources_read_the_least_offset_counts(broker, listen):
    listen().onQueryProgress(
        progress(0, kafka({"orders": {"0": 9, "1": 3}}), kafka({"orders": {"0": 5, "1": 8}}))
    )
    assert offsets(broker) == {("orders", 0): 5, ("orders", 1): 3}


def test_a_batch_that_is_reported_late_moves_no_offset_back(broker, listen):
    listener = listen()
    listener.onQueryProgress(batch(2, 20))
    listener.onQueryProgress(batch(1, 10))
    assert offsets(broker) == {("orders", 0): 20}
    assert listener.commits == 1


def test_only_the_queries_and_topics_that_are_wanted_are_committed(broker, listen):
    listener = listen(queries=["billing"], topics=["orders"])
    listener.onQueryProgress(batch(0, 7, name="another"))
    listener.onQueryProgress(batch(0, 8, name=None))
    assert offsets(broker) == {}
    listener.onQueryProgress(progress(0, kafka({"orders": {"0": 1}, "payments": {"0": 2}})))
    assert offsets(broker) == {("orders", 0): 1}


@pytest.mark.parametrize("name", ["queries", "topics", "checkpoints"])
def test_one_text_is_no_list(listen, name):
    with pytest.raises(TypeError, match=f"{name} is one text, 'billing'"):
        listen(**{name: "billing"})


def test_two_queries_do_not_move_one_partition_to_and_fro(broker, listen):
    listener = listen()
    listener.onQueryProgress(batch(5, 50))
    listener.onQueryProgress(
        progress(0, kafka({"orders": {"0": 1}, "payments": {"0": 2}}), query=OTHER_QUERY, name="other")
    )
    assert offsets(broker) == {("orders", 0): 50, ("payments", 0): 2}
    assert listener.errors == {CONFLICT: 1}
    assert "query other: another query commits orders-0 to group job-1" in listener.last_error
    listener.onQueryTerminated(terminated())
    listener.onQueryProgress(batch(1, 3, query=OTHER_QUERY))
    assert offsets(broker) == {("orders", 0): 3, ("payments", 0): 2}


def test_a_group_with_members_is_left_alone_and_committed_when_they_have_left(broker, listen):
    leave = join(parse_address(broker.bootstrap_servers), GROUP)
    listener = listen()
    listener.onQueryProgress(batch(3, 42))
    assert (offsets(broker), listener.commits, listener.errors) == ({}, 0, {"UNKNOWN_MEMBER_ID": 1})
    assert listener.last_error == (
        "batch 3 of query billing is not committed: commit of group job-1: orders-0 UNKNOWN_MEMBER_ID (25); "
        "group job-1 has active members"
    )
    leave()
    listener.onQueryIdle(idle())
    assert (offsets(broker), listener.commits) == ({("orders", 0): 42}, 1)


def test_a_partition_that_is_refused_does_not_keep_the_others_back(broker, listen):
    listener = listen()
    listener.onQueryProgress(progress(0, kafka({"orders": {"0": 1}, "deleted": {"0": 2}})))
    assert offsets(broker) == {("orders", 0): 1}
    assert listener.errors == {"UNKNOWN_TOPIC_OR_PARTITION": 1}


def test_a_broker_that_cannot_be_reached_is_asked_again_after_a_while(broker, listen, clock):
    listener = listen()
    with broker.faults.down():
        listener.onQueryProgress(batch(0, 1))
    (error,) = listener.errors  # the connection is refused, or it ends before the first answer
    assert listener.errors == {error: 1} and error in ("ConnectionLostError", "ListenerError")
    listener.onQueryProgress(batch(1, 2))
    assert offsets(broker) == {}
    clock[0] += TIMEOUT_S
    listener.onQueryIdle(idle())
    assert (offsets(broker), listener.commits) == ({("orders", 0): 2}, 1)
    assert listener.errors == {error: 1}


def test_the_end_of_a_query_commits_what_could_not_be(broker, listen):
    listener = listen()
    with broker.faults.down():
        listener.onQueryProgress(batch(0, 1))
    listener.onQueryTerminated(terminated())
    assert offsets(broker) == {("orders", 0): 1}


def test_a_connection_that_was_closed_loses_no_commit(broker, listen):
    listener = listen()
    listener.onQueryProgress(batch(0, 1))
    broker.faults.close_connections()
    listener.onQueryProgress(batch(1, 2))
    assert (offsets(broker), listener.errors) == ({("orders", 0): 2}, {})


def test_a_coordinator_that_has_moved_loses_no_commit(broker, listen):
    listener = listen()
    listener.onQueryProgress(batch(0, 1))
    with broker.faults.error("OffsetCommit", ErrorCode.NOT_COORDINATOR, n=1) as fault:
        listener.onQueryProgress(batch(1, 2))
    assert fault.hits == 1
    assert (offsets(broker), listener.errors) == ({("orders", 0): 2}, {})


def test_the_offsets_of_an_idle_query_are_committed_again_before_they_expire(broker, listen, clock):
    listener = listen()
    listener.onQueryProgress(batch(0, 1))
    clock[0] += REFRESH_S - 1
    listener.onQueryIdle(idle())
    assert listener.commits == 1
    clock[0] += 1
    listener.onQueryIdle(idle())
    listener.onQueryIdle(idle())
    assert listener.commits == 2


@pytest.mark.parametrize(
    "end", ["17", '{"orders": {"0": "1"}}', '{"orders": {"-1": 1}}', '{"orders": [1]}', "{"]
)
def test_an_offset_that_no_kafka_source_has_is_counted(broker, listen, end):
    listener = listen()
    listener.onQueryProgress(progress(4, kafka(end)))
    assert (offsets(broker), listener.errors) == ({}, {"ProgressError": 1})
    assert (
        "batch 4 of query billing is not committed: source KafkaV2[Subscribe[orders]]" in listener.last_error
    )
    assert end in listener.last_error


def test_the_first_failure_of_a_row_is_a_warning(broker, listen, caplog):
    listener = listen()
    caplog.set_level(logging.DEBUG, "kafka_offsets.spark.progress")
    with broker.faults.error("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED, n=2):
        for number in range(2):
            listener.onQueryProgress(batch(number, number))
    listener.onQueryProgress(batch(2, 2))
    with broker.faults.error("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED, n=1):
        listener.onQueryProgress(batch(3, 3))
    assert listener.errors == {"GROUP_AUTHORIZATION_FAILED": 3}
    levels = [record.levelname for record in caplog.records if record.name == "kafka_offsets.spark.progress"]
    assert levels == ["WARNING", "DEBUG", "WARNING"]


def test_a_query_is_committed_at_once_when_asked(broker, listen):
    listener = listen()
    assert listener.commit(FakeQuery(None)) is True
    assert listener.commit(FakeQuery(batch(3, 4).progress, is_active=False)) is True
    assert offsets(broker) == {("orders", 0): 4}
    listener.onQueryProgress(batch(0, 1, query=OTHER_QUERY))
    assert listener.errors == {}, "a query that has ended holds no partition"
    assert listener.commit(FakeQuery(batch(4, 5).progress)) is False, "its partition is another query's"
    listener.onQueryTerminated(terminated(OTHER_QUERY))
    with broker.faults.down():
        assert listener.commit(FakeQuery(batch(4, 5).progress)) is False


def test_the_progress_that_pyspark_3_5_has_of_a_query_is_committed_too(broker, listen):
    """There it is a dict, and `commit` raised AttributeError."""
    found = json.loads(json.dumps(EVENT | {"sources": [kafka({}) | {"endOffset": {"orders": {"0": 4}}}]}))
    assert listen().commit(FakeQuery(found))
    assert offsets(broker) == {("orders", 0): 4}


def test_no_event_that_comes_after_the_end_of_its_query_moves_the_group_back(broker, listen):
    """The query was forgotten when it was committed at its end, and its late events were those of a new one."""
    listener = listen()
    assert listener.commit(FakeQuery(batch(3, 30).progress, is_active=False))
    for number in (1, 2, 3):
        listener.onQueryProgress(batch(number, 10 * number))
        assert offsets(broker) == {("orders", 0): 30}
    # The next run of its checkpoint, of which Spark reports nothing before the end of the first either.
    assert listener.commit(FakeQuery(batch(5, 50, run=NEXT_RUN).progress, is_active=False))
    listener.onQueryProgress(batch(4, 40, run=NEXT_RUN))
    listener.onQueryTerminated(terminated())
    listener.onQueryProgress(batch(4, 40, run=NEXT_RUN))
    listener.onQueryProgress(batch(5, 50, run=NEXT_RUN))
    listener.onQueryTerminated(terminated(run=NEXT_RUN))
    assert listener.commit(FakeQuery(batch(5, 50, run=NEXT_RUN).progress, is_active=False))
    assert (offsets(broker), listener.commits, listener.errors) == ({("orders", 0): 50}, 2, {})


def test_a_late_event_takes_no_partition_from_the_query_after(broker, listen):
    """With a checkpoint of its own for each run, the commits of the later ones were refused."""
    listener = listen()
    assert listener.commit(FakeQuery(batch(1, 10).progress, is_active=False))
    listener.onQueryProgress(batch(1, 10))
    later = FakeQuery(batch(0, 20, query=OTHER_QUERY, run=NEXT_RUN).progress, is_active=False)
    assert listener.commit(later), listener.last_error
    listener.onQueryProgress(batch(0, 10))
    listener.onQueryTerminated(terminated())
    assert (offsets(broker), listener.errors) == ({("orders", 0): 20}, {})


def test_partitions_that_were_another_querys_are_committed_when_its_end_is_reported(broker, listen):
    listener = listen()
    listener.onQueryProgress(batch(1, 10))
    ends = progress(
        0, kafka({"orders": {"0": 20}, "payments": {"0": 2}}), query=OTHER_QUERY, run=NEXT_RUN, name="other"
    )
    assert not listener.commit(FakeQuery(ends.progress, is_active=False))
    assert offsets(broker) == {("orders", 0): 10, ("payments", 0): 2}
    listener.onQueryTerminated(terminated())
    listener.onQueryProgress(ends)
    assert offsets(broker) == {("orders", 0): 20, ("payments", 0): 2}


def test_a_checkpoint_that_was_set_back_counts_from_its_next_run(broker, listen):
    listener = listen()
    assert listener.commit(FakeQuery(batch(3, 30).progress, is_active=False))
    listener.onQueryTerminated(terminated())
    listener.onQueryProgress(batch(1, 10, run=NEXT_RUN))
    assert offsets(broker) == {("orders", 0): 10}


def test_a_commit_that_failed_at_the_end_of_a_query_is_repeated_by_its_late_events(broker, listen):
    listener = listen()
    with broker.faults.down():
        assert not listener.commit(FakeQuery(batch(2, 20).progress, is_active=False))
    listener.onQueryProgress(batch(1, 10))
    listener.onQueryTerminated(terminated())
    assert offsets(broker) == {("orders", 0): 20}


def test_only_so_many_ended_queries_are_remembered(broker, listen, monkeypatch):
    monkeypatch.setattr("kafka_offsets.spark.progress._MAX_ENDED", 2)
    listener = listen()
    for number in range(5):
        query = uuid.UUID(int=100 + number)
        assert listener.commit(FakeQuery(batch(0, number, query=query).progress, is_active=False))
    assert list(listener._ended) == [uuid.UUID(int=103), uuid.UUID(int=104)]


def test_a_continuous_query_is_not_said_to_be_committed(broker, listen):
    """Spark reports no progress of one, and the commit returned True."""
    listener = listen(queries=["billing"])
    query = FakeQuery(None, plan="== Physical Plan ==\nWriteToContinuousDataSource MemoryStreamingWrite@1")
    assert listener.commit(query) is False
    assert (broker.committed(GROUP), listener.errors) == ({}, {CONTINUOUS: 1})
    assert listener.last_error == (
        "query billing: Spark reports no progress of a continuous query: nothing is committed"
    )
    query.name = "another"
    assert listener.commit(query) is True, "it is not one of the listener's queries"


def test_what_arrives_after_the_close_is_committed_and_leaves_no_connection_open(broker):
    """Spark calls listeners from its own threads: its connection stayed open if an event came after `close`."""
    listener = OffsetCommitListener(broker.bootstrap_servers, GROUP)
    listener.onQueryProgress(batch(0, 1))
    listener.close()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        listener.onQueryProgress(batch(1, 2))
        assert offsets(broker) == {("orders", 0): 2}
        listener.onQueryProgress(batch(2, 3))
        assert offsets(broker) == {("orders", 0): 3}
        del listener
        gc.collect()
    assert [str(each.message) for each in warned if each.category is ResourceWarning] == []


def test_the_next_address_is_tried_when_one_does_not_answer(broker):
    listener = OffsetCommitListener(f"127.0.0.1:1, {broker.bootstrap_servers}", GROUP)
    listener.onQueryProgress(batch(0, 1))
    listener.close()
    assert offsets(broker) == {("orders", 0): 1}


def test_progress_is_committed_and_read_over_tls_by_a_user(tmp_path):
    secured = Secured(tmp_path)
    with Broker(secured.config("SASL_SSL"), users={USER: PASSWORD}) as broker:
        bootstrap = broker.bootstrap_servers
        broker.create_topic("orders", 2)
        broker.produce("orders", ["a", "b", "c"], partition=0)
        properties = secured.java(bootstrap, "SASL_SSL", "SCRAM-SHA-256")
        del properties["bootstrap.servers"]
        listener = OffsetCommitListener(bootstrap, GROUP, properties=properties)
        listener.onQueryProgress(batch(1, 2))
        listener.close()
        assert (listener.commits, listener.last_error) == (1, None)
        start = group_starting_offsets(bootstrap, GROUP, "orders", properties=properties)
        assert json.loads(start) == {"orders": {"0": 2, "1": -2}}
        folder = checkpoint(tmp_path / "c", {0: ['{"orders":{"0":3}}']}, 0)
        assert commit_checkpoint(bootstrap, GROUP, folder, properties=properties) == {("orders", 0): 3}
        assert offsets(broker) == {("orders", 0): 3}


def checkpoint(folder: Path, lines: Mapping[int, list[str]], finished: int, query: uuid.UUID = QUERY) -> Path:
    """A checkpoint with the offsets of some batches, those up to `finished` done."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
        (folder / name / ".0.crc").write_bytes(b"crc")
    (folder / "metadata").write_text(json.dumps({"id": str(query)}))
    for number, sources in lines.items():
        version = "v2" if any(line.startswith(("0:", "1:")) for line in sources) else "v1"
        text = "\n".join([version, json.dumps({"batchWatermarkMs": 0, "conf": {}}), *sources])
        (folder / "offsets" / str(number)).write_text(text)
        if number <= finished:
            (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def test_a_query_that_starts_again_commits_what_its_checkpoint_says(broker, listen, tmp_path):
    lines = {n: ["-", "5", '{"logOffset":3}', json.dumps({"orders": {"0": 10 * n}})] for n in (8, 9, 10)}
    done = checkpoint(tmp_path / "done", lines, 9)
    others = checkpoint(tmp_path / "other", {0: ['{"payments":{"0":1}}']}, 0, OTHER_QUERY)
    listener = listen(checkpoints=[others, tmp_path / "not-there", done])
    listener.onQueryStarted(started())
    entry = broker.committed(GROUP)["orders", 0]
    assert (entry.offset, entry.metadata) == (90, "batch=9 query=billing")
    assert offsets(broker) == {("orders", 0): 90}
    assert listener.errors == {}


def test_offsets_with_the_names_of_their_sources_are_read_too(broker, tmp_path):
    lines = {0: ['0:{"orders":{"0":3}}', "1:-", 'named:{"payments":{"1":4}}']}
    committed = commit_checkpoint(broker.bootstrap_servers, GROUP, checkpoint(tmp_path / "c", lines, 0))
    assert committed == offsets(broker) == {("orders", 0): 3, ("payments", 1): 4}


def test_a_checkpoint_is_read_by_its_url(broker, tmp_path):
    folder = checkpoint(tmp_path / "c", {0: ['{"orders":{"0":3}}']}, 0)
    assert commit_checkpoint(broker.bootstrap_servers, GROUP, f"file:{folder}") == {("orders", 0): 3}
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").put(str(folder), "/progress/c", recursive=True)
    assert commit_checkpoint(broker.bootstrap_servers, GROUP, "memory://progress/c") == {("orders", 0): 3}


def test_nothing_is_committed_for_a_checkpoint_without_a_finished_batch(broker, listen, tmp_path):
    folder = checkpoint(tmp_path / "c", {0: ['{"orders":{"0":3}}']}, -1)
    listener = listen(checkpoints=[folder])
    listener.onQueryStarted(started())
    assert (listener.commits, listener.errors) == (0, {})
    for location in (folder, tmp_path / "not-there"):
        with pytest.raises(ProgressError, match="no batch is done"):
            commit_checkpoint(broker.bootstrap_servers, GROUP, location)
    (folder / "commits" / "0").write_text("v1")
    with pytest.raises(ProgressError, match="batch 0 has read none of the topics"):
        commit_checkpoint(broker.bootstrap_servers, GROUP, folder, topics=["payments"])


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [("offsets/0", "v3\n{}\n-", "format 'v3'"), ("metadata", "{}", "no id of a query")],
)
def test_a_checkpoint_that_spark_has_not_written_is_counted(listen, tmp_path, file, text, what):
    folder = checkpoint(tmp_path / "c", {0: ['{"orders":{"0":3}}']}, 0)
    (folder / file).write_text(text)
    listener = listen(checkpoints=[folder])
    listener.onQueryStarted(started())
    assert (listener.commits, listener.errors) == (0, {"StorageError": 1})
    assert what in listener.last_error
    assert str(folder / file) in listener.last_error


@pytest.mark.parametrize(("reset", "there"), [("earliest", -2), ("latest", -1)])
def test_a_query_starts_where_a_group_is(broker, reset, there):
    broker.produce("orders", ["a", "b"], partition=0)
    broker.commit(GROUP, {("orders", 0): 1, ("payments", 1): 0, ("payments", 0): 9})
    text = group_starting_offsets(broker.bootstrap_servers, GROUP, "orders,payments", reset)
    assert json.loads(text) == {"orders": {"0": 1, "1": there}, "payments": {"0": there, "1": 0}}


def test_an_offset_that_the_log_does_not_hold_is_reported(broker, caplog):
    broker.commit(GROUP, {("orders", 1): 9})
    group_starting_offsets(broker.bootstrap_servers, GROUP, ["orders"])
    assert (
        "group job-1 is at 9 of orders-1, which its log does not hold: a query begins at the earliest"
        in caplog.text
    )


def test_a_group_without_an_offset_is_an_error_when_asked_for(broker):
    broker.commit(GROUP, {("orders", 0): 0})
    with pytest.raises(ProgressError, match=r"group job-1 has no offset to begin at in orders-1$"):
        group_starting_offsets(broker.bootstrap_servers, GROUP, ["orders"], "none")
    with pytest.raises(RefusedError, match="topic missing: UNKNOWN_TOPIC_OR_PARTITION"):
        group_starting_offsets(broker.bootstrap_servers, GROUP, ["missing"])
    with pytest.raises(ValueError, match="reset is 'first'"):
        group_starting_offsets(broker.bootstrap_servers, GROUP, ["orders"], "first")
    with pytest.raises(ValueError, match="no topics"):
        group_starting_offsets(broker.bootstrap_servers, GROUP, [])


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[KafkaPeer]:
    kafka_peer.need_tools()
    peer = KafkaPeer(tmp_path / "kafka")
    yield peer
    peer.end()


@pytest.mark.interop
@pytest.mark.apache_kafka
def test_apache_kafka_takes_and_refuses_the_same_commits(peer: KafkaPeer) -> None:
    host, port = peer.start({"offsets.topic.num.partitions": "1"})
    bootstrap = f"{host}:{port}"
    Topics(bootstrap).create("orders", 2)
    Topics(bootstrap).produce("orders", range(10), partitions=2)
    listener = OffsetCommitListener(bootstrap, GROUP)
    listener.onQueryProgress(batch(7, 3))
    assert (listener.commits, listener.errors) == (1, {})
    assert committed(bootstrap, GROUP) == {("orders", 0): Committed(3, "batch=7 query=billing")}
    assert json.loads(group_starting_offsets(bootstrap, GROUP, "orders")) == {"orders": {"0": 3, "1": -2}}
    leave = join((host, port), GROUP)
    listener.onQueryProgress(batch(8, 4))
    assert listener.errors == {"UNKNOWN_MEMBER_ID": 1}
    leave()
    listener.onQueryIdle(idle())
    listener.close()
    assert committed(bootstrap, GROUP)["orders", 0].offset == 4


def committed(bootstrap: str, group: str) -> dict[Place, Committed]:
    with Coordinator(parse_address(bootstrap), group) as coordinator:
        return coordinator.committed()


class Job:
    """A query of Spark from topics to nowhere, with a checkpoint."""

    def __init__(self, spark: "SparkSession", bootstrap: str, folder: Path) -> None:
        self._spark, self._bootstrap, self.folder = spark, bootstrap, folder
        self.read: list[int] = []

    def source(self, topic: str, starting: str = "earliest") -> "DataFrame":
        reader = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        return reader.option("subscribe", topic).option("startingOffsets", starting).load()

    def run(
        self, frame: "DataFrame", name: str, note: Callable[["DataFrame", int], None] | None = None
    ) -> Any:
        """Run it over what there is, to its end."""
        writer = frame.writeStream.queryName(name).foreachBatch(note or self._note)
        query = (
            writer.option("checkpointLocation", str(self.folder / name)).trigger(availableNow=True).start()
        )
        try:
            assert query.awaitTermination(DEADLINE_S)
        finally:
            query.stop()
        return query

    def _note(self, frame: "DataFrame", _: int) -> None:
        self.read += sorted(int(bytes(row.key)) for row in frame.select("key").collect())


class SlowListener(StreamingQueryListener):
    """One that holds the bus up at the first progress, as a slow one does; it notes the runs that have ended."""

    def __init__(self) -> None:
        self.open, self.ended = threading.Event(), set[str]()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        assert self.open.wait(DEADLINE_S)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self.ended.add(str(event.runId))


@pytest.mark.interop
@pytest.mark.spark
class TestInSpark:
    """With queries of Spark's own Kafka source."""

    @pytest.fixture
    def job(self, spark: "SparkSession", bootstrap: str, tmp_path: Path) -> Job:
        return Job(spark, bootstrap, tmp_path)

    def test_a_query_of_two_topics_is_a_group_that_another_query_continues_from(
        self, spark, job, bootstrap, topic
    ):
        topics, names = Topics(bootstrap), (f"{topic}-b", f"{topic}-a")
        for name in names:
            topics.create(name, 2)
            topics.produce(name, range(5), partitions=2)
        listener = OffsetCommitListener(bootstrap, topic, queries=["union"])
        spark.streams.addListener(listener)
        try:
            job.run(job.source(names[0]).union(job.source(names[1])), "union")
            ends = {(name, index): 3 - index for name in names for index in (0, 1)}
            found = until(lambda: committed(bootstrap, topic), "Spark tells of the batch")
        finally:
            spark.streams.removeListener(listener)
            listener.close()
        assert {place: entry.offset for place, entry in found.items()} == ends
        assert {entry.metadata for entry in found.values()} == {"batch=0 query=union"}
        assert (listener.commits, listener.errors) == (1, {})
        topics.produce(names[0], range(5, 9), partitions=2)
        job.read.clear()
        job.run(job.source(names[0], group_starting_offsets(bootstrap, topic, names[0])), "next")
        assert job.read == [5, 6, 7, 8]

    def test_a_slow_listener_moves_no_group_back_and_keeps_no_partition(self, spark, job, bootstrap, topic):
        topics = Topics(bootstrap)
        topics.create(topic, 1)
        names = [f"run-{run}" for run in range(3)]
        # The bus may still have events of the queries of tests before.
        listener = OffsetCommitListener(bootstrap, topic, queries=names)
        gate, last = SlowListener(), SlowListener()
        last.open.set()
        listeners = (gate, listener, last)  # each event goes to them in this order
        for each in listeners:
            spark.streams.addListener(each)
        ends, runs = [], set[str]()
        try:
            for run, name in enumerate(names):
                topics.produce(topic, range(3 * run, 3 * run + 3), partitions=1)
                start = group_starting_offsets(bootstrap, topic, topic)
                query = job.run(job.source(topic, start), name)
                runs.add(str(query.runId))
                assert listener.commit(query), listener.last_error
                ends.append(committed(bootstrap, topic)[topic, 0].offset)
            gate.open.set()
            until(lambda: runs <= last.ended, "Spark reports the end of all runs")
        finally:
            gate.open.set()
            for each in listeners:
                spark.streams.removeListener(each)
            listener.close()
        assert ends == [3, 6, 9]
        assert committed(bootstrap, topic)[topic, 0].offset == 9
        assert (listener.commits, listener.errors) == (3, {})

    def test_a_continuous_query_has_no_progress_to_commit(self, spark, job, bootstrap, topic):
        topics = Topics(bootstrap)
        topics.create(topic, 1)
        topics.produce(topic, range(3), partitions=1)
        listener = OffsetCommitListener(bootstrap, topic)
        writer = job.source(topic).select("key").writeStream.format("memory").queryName("continuous")
        query = writer.trigger(continuous="100 milliseconds").start()
        try:
            until(lambda: spark.table("continuous").count() == 3, "the records are read")
            assert listener.commit(query) is False
        finally:
            query.stop()
        assert listener.commit(query) is False
        assert listener.errors == {CONTINUOUS: 2}

    def test_a_batch_that_fails_is_not_committed_and_one_without_an_answer_is_at_the_restart(
        self, spark, job, bootstrap, topic
    ):
        topics = Topics(bootstrap)
        topics.create(topic, 1)
        topics.produce(topic, range(3), partitions=1)
        # Without a listener: the process might have ended before it was told.
        job.run(job.source(topic), "restarted")
        topics.produce(topic, range(3, 5), partitions=1)

        def fail(frame: "DataFrame", number: int) -> None:
            raise RuntimeError(f"batch {number}")

        folder = job.folder / "restarted"
        listener = OffsetCommitListener(bootstrap, topic, queries=["restarted"], checkpoints=[folder])
        spark.streams.addListener(listener)
        try:
            with pytest.raises(Exception, match="batch 1"):
                job.run(job.source(topic), "restarted", fail)
            assert committed(bootstrap, topic) == {(topic, 0): Committed(3, "batch=0 query=restarted")}
            query = job.run(job.source(topic), "restarted")
            assert listener.commit(query)
        finally:
            spark.streams.removeListener(listener)
            listener.close()
        assert committed(bootstrap, topic) == {(topic, 0): Committed(5, "batch=1 query=restarted")}
        assert listener.errors == {}
