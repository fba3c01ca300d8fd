"""A program that copies a topic exactly once: what it read, wrote and how far it is, in one transaction.

    python -m tests.interop.copier BOOTSTRAP SOURCE TARGET GROUP SEED [outside]

By confluent-kafka, as its documentation tells to: what can be retried is retried, what asks for an abort is aborted and
read again from the committed offsets, anything else ends the program. Some transactions are aborted for no reason. It
tells each end of a transaction on standard output, and when there is nothing to copy; it leaves at the end of standard
input. With `outside` it has a bug: the offsets are committed beside the transaction.
"""

import random
import sys
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.interop.members import stop_at_end_of_input, tell

PARTITIONS = 3
PATIENCE_S = 10.0
UNREACHED = (KafkaError._TIMED_OUT, KafkaError._WAIT_COORD, KafkaError._TRANSPORT)
"""What librdkafka does not call retriable while a broker starts again."""
POLL_S = 0.1
RECORDS = (1, 20)
ABORTED = 0.15
OUTSIDE = "outside"
IDLE = "idle"


def persist(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call until it is not refused with an error that can be retried."""
    while True:
        try:
            return call(*arguments, PATIENCE_S)
        except KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() not in UNREACHED:
                raise


class Copier:
    """One copying program."""

    def __init__(
        self, bootstrap: str, source: str, target: str, group: str, seed: str, bug: str = ""
    ) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            # When it forgets its brokers while all are down, it waits for a coordinator of before for ever:
            # https://github.com/confluentinc/librdkafka/issues/5511
            "metadata.recovery.strategy": "none",
        }
        self._producer = Producer(settings | {"transactional.id": target, "retry.backoff.ms": 20})
        self._consumer = Consumer(
            settings
            | {
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        self._source, self._target = source, target
        self._chance = random.Random(int(seed))
        self._has_bug = bug == OUTSIDE

    def run(self, is_stopped: Callable[[], bool]) -> None:
        """Copy until it is stopped between two transactions."""
        persist(self._producer.init_transactions)
        self._go_back()
        while not is_stopped():
            messages = self._consumer.consume(self._chance.randint(*RECORDS), POLL_S)
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
            if not messages:
                tell(IDLE, ())
            else:
                tell("committed" if self._copy(messages) else "aborted", [len(messages)])
        self._consumer.close()

    def _go_back(self) -> None:
        """Read on from the committed offsets."""
        places = persist(
            self._consumer.committed,
            [TopicPartition(self._source, partition) for partition in range(PARTITIONS)],
        )
        for place in places:
            place.offset = max(place.offset, 0)
        self._consumer.assign(places)

    def _copy(self, messages: list[Any]) -> bool:
        """Copy the messages in a transaction; return whether it was committed."""
        try:
            if self._transact(messages):
                return True
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        persist(self._producer.abort_transaction)
        self._go_back()
        return False

    def _transact(self, messages: list[Any]) -> bool:
        self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(self._target, message.value(), partition=message.partition())
        ends = {message.partition(): message.offset() + 1 for message in messages}
        offsets = [TopicPartition(self._source, partition, end) for partition, end in ends.items()]
        if self._has_bug:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        else:
            metadata = self._consumer.consumer_group_metadata()
            persist(self._producer.send_offsets_to_transaction, offsets, metadata)
        if self._chance.random() < ABORTED:
            self._producer.flush(PATIENCE_S)  # what is not sent is not aborted, but forgotten
            return False
        persist(self._producer.commit_transaction)
        return True


if __name__ == "__main__":
    stopped = stop_at_end_of_input()
    Copier(*sys.argv[1:]).run(stopped.is_set)
