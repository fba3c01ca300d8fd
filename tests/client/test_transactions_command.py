"""`kafka-offsets transactions` on a running broker: what is listed and described, and a hanging one that is ended."""

import json
from collections.abc import Iterator

import pytest

from kafka_offsets import Broker, cli
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.testing.faults.call import Call

BEGIN_MS = 1_700_000_000_000


class Producer:
    """A transactional producer, by its requests."""

    def __init__(self, broker: Broker, transactional_id: str) -> None:
        self.connection = Connection(*parse_address(broker.bootstrap_servers))
        self.transactional_id = transactional_id
        made = self.connection.call(messages.InitProducerIdRequest(transactional_id, 60_000), 1)
        assert not made.error_code
        self.id, self.epoch = made.producer_id, made.producer_epoch

    def join(self, topic: str) -> None:
        """Add partition 0 to the transaction."""
        made = messages.AddPartitionsToTxnRequest
        request = made(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[made.AddPartitionsToTxnTopic(topic, [0])],
        )
        answer = self.connection.call(request, 1)
        assert not answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def write(self, topic: str) -> None:
        """Write a record of the transaction to partition 0."""
        batch = encode_batch(
            [(None, b"x", (), BEGIN_MS)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        made = messages.ProduceRequest
        data = [made.PartitionProduceData(0, bytes(batch))]
        request = made(self.transactional_id, -1, 1000, [made.TopicProduceData(topic, partition_data=data)])
        assert not self.connection.call(request, 7).responses[0].partition_responses[0].error_code


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        for topic in ("orders", "lost"):
            running.create_topic(topic, 1)
        yield running


class Told:
    """The command line, and what it says."""

    def __init__(self, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
        self._broker, self._capsys = broker, capsys
        self.error = ""

    def __call__(self, *words: str, code: int = 0) -> list[list[str]]:
        """Run `transactions` and return the words of each line that it prints."""
        found = cli.main(["transactions", *words, "-b", self._broker.bootstrap_servers])
        said = self._capsys.readouterr()
        self.error = said.err
        assert found == code, said.err
        return [line.split() for line in said.out.splitlines()]


@pytest.fixture
def tell(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(broker, capsys)


def test_an_open_transaction_is_listed_and_described(broker: Broker, tell: Told) -> None:
    assert tell("list") == [] and tell.error == "kafka-offsets: there are no such transactions\n"
    producer = Producer(broker, "billing")
    producer.join("orders")
    producer.write("orders")
    assert tell("list") == [
        ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"],
        ["billing", "1", str(producer.id), "Ongoing"],
    ]
    assert tell("list", "--state", "Empty") == tell("list", "--duration-filter", "1h") == []
    assert len(tell("list", "--transactional-id-pattern", "bill.*")) == 2
    heading, row = tell("describe", "--transactional-id", "billing")
    assert heading[-3:] == ["STARTED", "OPEN-FOR", "PARTITIONS"]
    assert row[:7] == ["1", "billing", str(producer.id), "0", "Ongoing", "1", "min"]
    assert row[-1] == "orders:0"
    assert tell("describe-producers", "--topic", "orders", "--partition", "0")[1] == [
        str(producer.id),
        "0",
        "-",
        "0",
        "2023-11-14T22:13:20.000Z",
        "0",
    ]
    assert tell("find-hanging", "--topic", "orders") == []
    assert tell.error == "kafka-offsets: no transaction hangs\n", "its coordinator knows it"
    producer.connection.close()


def forgotten(call: Call) -> messages.ListTransactionsResponse:
    """A coordinator that has lost its transactional ids, whose log was truncated for example."""
    return messages.ListTransactionsResponse()


def test_a_hanging_transaction_is_found_and_aborted(
    broker: Broker, tell: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    """No coordinator knows of it: no marker ends it, and the last stable offset stays where it begins."""
    producer = Producer(broker, "billing")
    producer.join("lost")
    producer.write("lost")
    producer.connection.close()
    words = "find-hanging", "--max-transaction-timeout", "15m"
    abort = "abort", "--topic", "lost", "--partition", "0"
    with broker.faults.control("ListTransactions", forgotten):
        heading, row = tell(*words)
        assert heading[:3] == ["TOPIC", "PARTITION", "PRODUCER-ID"]
        assert row[:6] == ["lost", "0", str(producer.id), "0", "-", "0"]
        assert tell(*words, "--topic", "orders") == []
        assert tell(*words, "--broker-id", "7") == []
        assert tell("find-hanging", "--max-transaction-timeout", "99999d") == [], "its last record is younger"
        assert cli.main(["transactions", *words, "--json", "-b", broker.bootstrap_servers]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["topic"], found["start_offset"], found["last_timestamp"]) == ("lost", 0, BEGIN_MS)
        tell(*abort, "--start-offset", "5", code=1)
        assert tell.error == "kafka-offsets: no open transaction begins at offset 5 of lost-0\n"
        tell(*abort, "--start-offset", "0")
        assert tell(*words) == []
    assert tell("describe-producers", "--topic", "lost", "--partition", "0")[1][-1] == "-"


def test_what_is_wrong_is_said(broker: Broker, tell: Told) -> None:
    Producer(broker, "billing").connection.close()
    tell("describe", "--transactional-id", "biling", code=1)
    assert tell.error == "kafka-offsets: transactional id 'biling' does not exist; did you mean billing?\n"
    for words in (("find-hanging",), ("describe-producers", "--partition", "0")):
        tell(*words, "--topic", "ordres", code=1)
        assert tell.error.endswith("topic ordres does not exist; did you mean orders?\n")
    tell("describe-producers", "--topic", "orders", "--partition", "3", code=1)
    assert "topic orders has no partition 3: it has 1" in tell.error
    tell("abort", "--topic", "orders", "--partition", "0", code=cli.CANNOT)
    assert "abort needs --start-offset" in tell.error
    tell("abort", "--topic", "orders", "--partition", "0", "--producer-id", "1", code=cli.CANNOT)
    assert "go together" in tell.error
    tell("find-hanging", "--partition", "0", code=cli.CANNOT)
    assert "--partition needs --topic" in tell.error
