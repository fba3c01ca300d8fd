"""Transactions through the broker: the log of their states, markers, restarts in the middle, time and the disk."""

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.transactions import decisions as transactions
from kafka_offsets.coordinator.transactions import records as transaction_records
from kafka_offsets.coordinator.transactions.decisions import LAST_EPOCH, TransactionState
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import read_records
from kafka_offsets.storage.files.files import Files, MemoryFiles
from kafka_offsets.storage.log.log import Log
from tests.drivers.core import CoreClient, make_core
from tests.drivers.transactions import OLD, Producer, fetch, read

TOPIC, IN = "t", "in"
STATE_TOPIC = "__transaction_state"


def new_core(files: Files | None = None, clock: ManualClock | None = None, **config: object) -> BrokerCore:
    settings: dict[str, object] = {
        "offsets_topic_num_partitions": 2,
        "transaction_state_log_num_partitions": 2,
    }
    core = make_core(files, clock=clock, **settings | config)
    if core.topics.get(TOPIC) is None:
        topic_admin.create_topic(core.broker, TOPIC, 2, {})
        topic_admin.create_topic(core.broker, IN, 1, {})
    return core


def crash(core: BrokerCore) -> None:
    """Let go of the directory as a process does that is killed."""
    core.directory._lock.release()


def states(core: BrokerCore) -> list[TransactionState]:
    """The states in the log of transactions, in their order."""
    found = []
    for index in range(2):
        partition = core.topics.partition(STATE_TOPIC, index)
        assert partition is not None
        for batch in partition.log.batches():
            for record in read_records(batch.data):
                parsed = transaction_records.parse_value(record.value or b"")
                assert isinstance(parsed, transactions.Transaction)
                found.append(parsed.state)
    return found


def test_a_transaction_is_written_as_ongoing_prepared_and_complete() -> None:
    core = new_core()
    producer = Producer(core)
    assert producer.init() == 0
    assert producer.produce(TOPIC, b"one") == 0
    assert producer.end(True) == 0
    wanted = [
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.COMPLETE_COMMIT,
    ]
    assert states(core) == wanted
    assert read(core, TOPIC) == [b"one"]


def test_the_topic_of_transactions_is_configured_as_kafkas() -> None:
    core = new_core()
    Producer(core).init()
    topic = core.topics.get(STATE_TOPIC)
    assert topic is not None
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "segment.bytes": "104857600",
    }
    assert topic.partition_count == 2


def test_an_aborted_transaction_is_hidden_and_the_next_one_is_not() -> None:
    core = new_core()
    producer = Producer(core)
    producer.init()
    for number, outcome in enumerate((True, False, True, False)):
        producer.produce(TOPIC, b"%d" % number)
        assert read(core, TOPIC) == [b"0", b"2"][: (number + 1) // 2]
        producer.end(outcome)
    assert read(core, TOPIC) == [b"0", b"2"]


@pytest.mark.parametrize("restarts", [False, True])
def test_interleaved_aborts_are_hidden_from_a_reader_of_one_batch_at_a_time(restarts: bool) -> None:
    """The second transaction ends while the first, with older records, is open."""
    files = MemoryFiles()
    core = new_core(files)
    first, second = Producer(core, "first"), Producer(core, "second")
    for producer in (first, second):
        producer.init()
        producer.produce(TOPIC, b"aborted")
    for producer in (second, first):
        producer.end(False)
        producer.produce(TOPIC, b"committed by " + producer.name.encode())
        producer.end(True)
    if restarts:
        crash(core)
        core = new_core(files, core.clock)  # type: ignore[arg-type]
    for max_bytes in (1, 1 << 20):
        assert read(core, TOPIC, max_bytes=max_bytes) == [b"committed by second", b"committed by first"]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("outcome", [True, False])
def test_an_open_transaction_continues_after_a_restart(clean: bool, outcome: bool) -> None:
    files = MemoryFiles()
    core = new_core(files)
    producer = Producer(core)
    producer.init()
    producer.produce(TOPIC, b"one", b"two")
    producer.commit_offset("g", IN, 42)
    core.close() if clean else crash(core)
    core = new_core(files, core.clock)  # type: ignore[arg-type]
    assert fetch(core, TOPIC).last_stable_offset == 0
    assert CoreClient(core).committed("g") == {}
    producer.client = CoreClient(core)
    assert producer.state() == "Ongoing"
    assert producer.produce(TOPIC, b"three") == 0
    assert producer.end(outcome) == 0
    assert read(core, TOPIC) == ([b"one", b"two", b"three"] if outcome else [])
    assert CoreClient(core).committed("g") == ({(IN, 0): 42} if outcome else {})


@pytest.mark.parametrize("outcome", [True, False])
def test_an_end_that_was_decided_is_carried_out_by_the_next_start(outcome: bool) -> None:
    """The broker dies when the decision is in the log and no marker is."""
    files = MemoryFiles()
    core = new_core(files)
    producer = Producer(core)
    producer.init()
    producer.produce(TOPIC, b"one")
    producer.produce(TOPIC, b"two", partition=1)
    producer.commit_offset("g", IN, 42)
    coordinator = core.transactions
    coordinator._write_markers = lambda *args: None  # type: ignore[method-assign]
    assert producer.end(outcome) == 0
    assert fetch(core, TOPIC).last_stable_offset == 0
    crash(core)
    core = new_core(files, core.clock)  # type: ignore[arg-type]
    assert states(core)[-1] is (
        TransactionState.COMPLETE_COMMIT if outcome else TransactionState.COMPLETE_ABORT
    )
    assert [read(core, TOPIC, index) for index in (0, 1)] == ([[b"one"], [b"two"]] if outcome else [[], []])
    assert CoreClient(core).committed("g") == ({(IN, 0): 42} if outcome else {})
    producer.client = CoreClient(core)
    assert producer.produce(TOPIC, b"three") == 0


def test_aborted_transactions_are_known_after_a_restart() -> None:
    files = MemoryFiles()
    core = new_core(files)
    producer = Producer(core)
    producer.init()
    for number, outcome in enumerate((False, True, False)):
        producer.produce(TOPIC, b"%d" % number)
        producer.end(outcome)
    crash(core)
    core = new_core(files, core.clock)  # type: ignore[arg-type]
    assert read(core, TOPIC) == [b"1"]
    producer.client = CoreClient(core)
    assert producer.produce(TOPIC, b"3") == 0


def test_a_transaction_past_its_time_out_is_aborted_and_its_producer_fenced() -> None:
    core = new_core()
    clock: ManualClock = core.clock  # type: ignore[assignment]
    producer = Producer(core)
    producer.init(timeout_ms=20_000)
    producer.produce(TOPIC, b"one")
    clock.advance(19_000)
    core.run_due()
    core.end_turn()
    assert producer.state() == "Ongoing"
    clock.advance(11_001)
    core.run_due()
    core.end_turn()
    assert producer.state() == "CompleteAbort"
    assert producer.end(True) == ErrorCode.INVALID_TXN_STATE
    assert producer.produce(TOPIC, b"two") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert read(core, TOPIC) == []


def test_an_unused_transactional_id_expires() -> None:
    files = MemoryFiles()
    core = new_core(files, transactional_id_expiration_ms=3_600_000, connections_max_idle_ms=-1)
    clock: ManualClock = core.clock  # type: ignore[assignment]
    idle, busy = Producer(core, "idle"), Producer(core, "busy")
    idle.init()
    busy.init()
    idle.produce(TOPIC, b"one")
    idle.end(True)
    clock.advance(3_500_000)
    busy.init()
    clock.advance(200_000)
    core.run_due()
    core.end_turn()
    assert (idle.state(), busy.state()) == ("", "Empty")
    core.close()
    core = new_core(files, clock)
    assert [core.transactions.find(name) is None for name in ("idle", "busy")] == [True, False]


def at_the_last_epoch() -> Producer:
    """A producer on a new core whose id has no further epoch."""
    core = new_core()
    producer = Producer(core)
    producer.init()
    index = core.transactions.partition_of("x")
    assert not isinstance(index, ErrorCode)
    ids = core.transactions.ids[index]
    ids["x"] = ids["x"]._replace(producer_epoch=LAST_EPOCH)
    return producer


def test_a_producer_id_whose_epochs_are_used_up_is_replaced_by_another() -> None:
    producer = at_the_last_epoch()
    producer.epoch, before = LAST_EPOCH, producer.id
    assert producer.produce(TOPIC, b"one") == 0
    last = producer.end_request(True)
    assert producer.end(True) == 0
    assert producer.id != before
    assert producer.epoch == 0
    again = producer.client.call(last, 5)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, producer.id, 0)
    assert producer.produce(TOPIC, b"two") == 0
    assert producer.end(True) == 0
    assert read(producer.client.core, TOPIC) == [b"one", b"two"]


def test_a_producer_id_whose_epochs_are_used_up_is_replaced_by_init() -> None:
    producer = at_the_last_epoch()
    before = producer.id
    assert producer.init(producer_id=before, producer_epoch=5) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert producer.init(producer_id=before, producer_epoch=LAST_EPOCH) == 0
    assert (producer.id != before, producer.epoch) == (True, 0)
    assert producer.init(producer_id=before, producer_epoch=LAST_EPOCH) == 0
    assert producer.epoch == 0


def test_a_transactional_id_that_fits_no_record_is_refused() -> None:
    core = new_core()
    assert Producer(core, "x" * 32766).init() == 0
    assert Producer(core, "é" * 20_000).init() == ErrorCode.UNKNOWN_SERVER_ERROR


class HeldSync:
    """Syncs that end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[list[Log], object]] = []
        self.is_held = False

    def __call__(self, logs: list[Log], done: object) -> None:
        if self.is_held:
            self.waiting.append((logs, done))
        else:
            done({})  # type: ignore[operator]

    def end(self) -> list[Log]:
        logs, done = self.waiting.pop(0)
        done({})  # type: ignore[operator]
        return logs


def test_markers_wait_until_the_decision_is_on_the_disk_and_completion_until_they_are() -> None:
    sync = HeldSync()
    core = make_core(sync=sync, fsync="commit", transaction_state_log_num_partitions=1)
    topic_admin.create_topic(core.broker, TOPIC, 1, {})
    producer = Producer(core)
    producer.init()
    producer.produce(TOPIC, b"one")
    partition = core.topics.partition(TOPIC, 0)
    assert partition is not None
    sync.is_held = True
    client = producer.client
    client.send((producer.end_request(True), 5))
    client.turn()
    assert client.take() == []
    assert partition.log.log_end_offset == 1
    sync.end()
    client.turn()
    assert [answer.error_code for answer in client.take()] == [0]
    assert partition.log.log_end_offset == 2
    assert states_of(core)[-1] is TransactionState.PREPARE_COMMIT
    assert sync.end() == [partition.log]
    client.turn()
    assert states_of(core)[-1] is TransactionState.COMPLETE_COMMIT


def test_records_wait_until_their_transaction_is_on_the_disk_and_keep_their_order() -> None:
    """Without it a power failure could leave records that no coordinator would ever end."""
    sync = HeldSync()
    core = make_core(sync=sync, fsync="commit", transaction_state_log_num_partitions=1)
    topic_admin.create_topic(core.broker, TOPIC, 1, {})
    producer = Producer(core)
    producer.init()
    partition = core.topics.partition(TOPIC, 0)
    state = core.topics.partition(STATE_TOPIC, 0)
    assert partition is not None
    assert state is not None
    sync.is_held = True
    client = producer.client
    for number in range(3):
        client.send((producer.produce_request(TOPIC, b"%d" % number, sequence=number), 12))
        client.turn()
        assert partition.log.log_end_offset == 0
    assert sync.end() == [state.log]
    client.turn()
    assert partition.log.log_end_offset == 1
    client.send((producer.produce_request(TOPIC, b"3", sequence=3), 12))
    client.turn()
    assert partition.log.log_end_offset == 1
    while sync.waiting:
        sync.end()
        client.turn()
    answers = [answer.responses[0].partition_responses[0] for answer in client.take()]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, n) for n in range(4)]


def test_offsets_wait_until_their_transaction_is_on_the_disk() -> None:
    sync = HeldSync()
    core = make_core(sync=sync, fsync="commit", offsets_topic_num_partitions=1)
    topic_admin.create_topic(core.broker, IN, 1, {})
    producer = Producer(core)
    producer.init()
    CoreClient(core).committed("g")
    log = core.runtime.shards[0].log
    request = messages.TxnOffsetCommitRequest
    named = request.Topic(IN, [request.Partition(0, 5, committed_metadata="")])
    commit = request("x", "g", producer.id, producer.epoch, -1, "", None, [named])
    sync.is_held = True
    client = producer.client
    client.send((commit, 5))
    client.turn()
    assert log.log_end_offset == 0
    sync.end()
    client.turn()
    assert log.log_end_offset == 1
    assert client.take() == []
    sync.end()
    client.turn()
    (answer,) = client.take()
    assert answer.topics[0].partitions[0].error_code == 0


def test_a_producer_asks_again_when_the_disk_refuses_the_transaction_that_its_offsets_are_in() -> None:
    sync = HeldSync()
    core = make_core(sync=sync, fsync="commit", offsets_topic_num_partitions=1)
    topic_admin.create_topic(core.broker, TOPIC, 1, {})
    core.shards.create_topic(core.clock.now())
    producer = Producer(core)
    producer.init()
    sync.is_held = True
    client, request = producer.client, messages.TxnOffsetCommitRequest
    topics = [request.Topic(TOPIC, [request.Partition(0, 7, committed_metadata="")])]
    client.send((request(producer.name, "g", producer.id, producer.epoch, topics=topics), 5))
    client.turn()
    ((log,), done) = sync.waiting.pop()
    done({log: StorageError("full", log.directory)})  # type: ignore[operator]
    client.turn()
    (answer,) = client.take()
    assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert core.runtime.shard_at(0, core.clock.now()).log.log_end_offset == 0


def states_of(core: BrokerCore) -> list[TransactionState]:
    partition = core.topics.partition(STATE_TOPIC, 0)
    assert partition is not None
    values = [record.value for batch in partition.log.batches() for record in read_records(batch.data)]
    parsed = [transaction_records.parse_value(value or b"") for value in values]
    return [each.state for each in parsed if isinstance(each, transactions.Transaction)]


def test_a_marker_that_a_log_refuses_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    core = new_core()
    clock: ManualClock = core.clock  # type: ignore[assignment]
    producer = Producer(core)
    producer.init()
    producer.produce(TOPIC, b"one")
    producer.produce(TOPIC, b"two", partition=1)
    partition = core.topics.partition(TOPIC, 1)
    assert partition is not None

    def refuse(*args: object, **named: object) -> int:
        raise StorageError("no room", partition.log.directory)

    monkeypatch.setattr(partition.log, "append", refuse)
    assert producer.end(True) == 0
    assert producer.state() == "PrepareCommit"
    assert read(core, TOPIC) == [b"one"]
    assert producer.produce(TOPIC, b"more") == ErrorCode.CONCURRENT_TRANSACTIONS
    monkeypatch.undo()
    clock.advance(1000)
    core.run_due()
    core.end_turn()
    assert producer.state() == "CompleteCommit"
    assert read(core, TOPIC, 1) == [b"two"]
    assert producer.produce(TOPIC, b"more") == 0


def test_a_transaction_that_an_administrator_has_ended_in_a_later_epoch_gets_no_older_marker() -> None:
    """The marker of the coordinator set the producer back to its old epoch; Kafka refuses it."""
    core = new_core()
    producer = Producer(core)
    assert producer.init() == 0
    assert producer.produce(TOPIC, b"one") == 0
    request = messages.WriteTxnMarkersRequest
    topics = [request.WritableTxnMarkerTopic(TOPIC, [0])]
    marker = request.WritableTxnMarker(producer.id, producer.epoch + 5, False, topics, 5)
    producer.client.call(request([marker]), 1)
    partition = core.topics.partition(TOPIC, 0)
    assert partition is not None
    assert (partition.log.log_end_offset, partition.last_stable_offset) == (2, 2)
    assert producer.end(True) == 0
    assert partition.log.log_end_offset == 2
    assert dict(partition.producers)[producer.id].epoch == 5
    assert states(core)[-1] is TransactionState.COMPLETE_COMMIT


def test_a_log_of_transactions_that_refuses_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    core = new_core()
    producer = Producer(core)
    producer.init()
    index = core.transactions.partition_of("x")
    assert not isinstance(index, ErrorCode)
    partition = core.topics.partition(STATE_TOPIC, index)
    assert partition is not None

    def refuse(*args: object, **named: object) -> int:
        raise StorageError("no room", partition.log.directory)

    monkeypatch.setattr(partition.log, "append", refuse)
    assert producer.produce(TOPIC, b"one") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert producer.init() == ErrorCode.NOT_COORDINATOR
    assert producer.state() == "Empty"
    monkeypatch.undo()
    assert producer.produce(TOPIC, b"one") == 0
    assert producer.end(True) == 0


def test_a_reader_of_committed_records_waits_for_the_marker() -> None:
    core = new_core()
    producer = Producer(core)
    producer.init()
    request = messages.FetchRequest
    asked = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    wanted = request(
        max_wait_ms=10_000,
        min_bytes=1,
        isolation_level=1,
        session_epoch=-1,
        topics=[request.FetchTopic(topic=TOPIC, partitions=[asked])],
    )
    reader = CoreClient(core)
    reader.send((wanted, 11))
    reader.turn()
    producer.produce(TOPIC, b"one")
    producer.produce(TOPIC, b"two")
    assert reader.take() == []
    producer.end(True)
    (answer,) = reader.take()
    found = answer.responses[0].partitions[0]
    assert found.last_stable_offset == 3
    assert len(found.records) > 0


def test_the_topic_of_transactions_deleted_takes_all_ids_along() -> None:
    core = new_core()
    producer = Producer(core)
    producer.init()
    core.topics.delete(STATE_TOPIC)
    topic_admin.topic_deleted(core.broker, STATE_TOPIC)
    assert producer.end(True, OLD) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert producer.init() == 0
    assert producer.epoch == 0


def test_a_damaged_state_keeps_the_broker_from_starting() -> None:
    files = MemoryFiles()
    core = new_core(files)
    Producer(core).init()
    index = core.transactions.partition_of("x")
    partition = core.topics.partition(STATE_TOPIC, index)
    assert partition is not None
    from kafka_offsets.protocol.records import encode_batch

    key = transaction_records.encode_key("x")
    partition.log.append(encode_batch([(key, b"\0\1junk", (), 0)]))
    core.close()
    with pytest.raises(StorageError, match=f"{STATE_TOPIC}-{index}/0+.log"):
        new_core(files)
