"""A group member as a process of its own, in one of the Python clients, so that it can be killed like one.

    python -m tests.interop.members CLIENT BOOTSTRAP GROUP TOPIC sync|async|auto [KEY=VALUE …]

The keys are the client's own; of the clients one may speak the consumer protocol (KIP-848).
Standard output tells what happens: `assigned 0 2` after each rebalance, `read 17 18 …` (the values) for each
poll, before the offsets after those values can be committed. The end of standard input asks it to leave.
"""

import asyncio
import signal
import sys
import threading
from collections.abc import Iterable
from typing import Any

SESSION_TIMEOUT_MS = 1500
HEARTBEAT_INTERVAL_MS = 200
AUTO_COMMIT_INTERVAL_MS = 100
FETCH_WAIT_MS = 50
METADATA_REFRESH_MS = 1000
POLL_S = 0.1
# kafka-python 3.0.12 loses the end of a rebalance when poll() times out between the answers to JoinGroup and
# SyncGroup: it then neither owns partitions nor sends heartbeats (seen with Apache Kafka, once in twenty starts with
# polls of 0.1 s). Its polls are long here, which makes that rare, and are ended by SIGINT.
LONG_POLL_S = 20


def tell(word: str, items: Iterable[Any]) -> None:
    """Print one line at once."""
    print(word, *items, flush=True)


def tell_assigned(partitions: Iterable[Any]) -> None:
    """`partitions` are any client's TopicPartition objects."""
    tell("assigned", sorted(entry.partition for entry in partitions))


def stop_at_end_of_input(interrupt: bool = False) -> threading.Event:
    """An event that is set when the parent closes our standard input (or dies); Control-C too, if it must be heard."""
    stop = threading.Event()
    if interrupt:  # which a shell has what it starts in the background ignore
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def wait() -> None:
        sys.stdin.read()
        stop.set()
        if interrupt:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()
    return stop


def given(settings: Iterable[str]) -> dict[str, Any]:
    """Settings of the command line as keyword arguments; a short session unless they say otherwise."""
    pairs = (setting.split("=", 1) for setting in settings)
    return {"session_timeout_ms": SESSION_TIMEOUT_MS} | {
        key: int(value) if value.isdigit() else value for key, value in pairs
    }


def kafka_python(bootstrap: str, group: str, topic: str, commit: str, *more: str) -> None:
    """kafka-python: KafkaConsumer."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import CommitFailedError, KafkaConnectionError, RebalanceInProgressError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            pass

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            tell_assigned(assigned)

    stop = stop_at_end_of_input(interrupt=True)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=commit == "auto",
        auto_commit_interval_ms=AUTO_COMMIT_INTERVAL_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        fetch_max_wait_ms=FETCH_WAIT_MS,
        **given(more),
    )
    consumer.subscribe([topic], listener=Listener())
    try:
        while not stop.is_set():
            try:
                polled = consumer.poll(timeout_ms=LONG_POLL_S * 1000)
            except KafkaConnectionError as error:  # of a broker that died while it was asked for metadata
                tell("failed", [error])
                continue
            records = [record for partition in polled.values() for record in partition]
            if not records:
                continue
            tell("read", (record.value.decode() for record in records))
            try:
                if commit == "sync":
                    consumer.commit()
                elif commit == "async":
                    consumer.commit_async()
            except (CommitFailedError, RebalanceInProgressError):
                pass  # a rebalance came first: the next poll leads to the new assignment
    except KeyboardInterrupt:
        pass
    consumer.close()


def confluent_kafka(bootstrap: str, group: str, topic: str, commit: str, *more: str) -> None:
    """confluent-kafka: Consumer, on librdkafka."""
    from confluent_kafka import Consumer, KafkaError, KafkaException

    overtaken_by_rebalance = {
        KafkaError._STATE,
        KafkaError._NO_OFFSET,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.UNKNOWN_MEMBER_ID,
    }
    stop = stop_at_end_of_input()
    given = dict(setting.split("=", 1) for setting in more)
    if given.get("group.protocol") != "consumer":  # there the broker says how long
        given = {
            "session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
        } | given
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": commit == "auto",
            "enable.auto.offset.store": False,
            "auto.commit.interval.ms": AUTO_COMMIT_INTERVAL_MS,
            "topic.metadata.refresh.interval.ms": METADATA_REFRESH_MS,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            **given,
        }
    )
    # At its callbacks the assignment is as before; the consumer protocol tells what comes and goes, the classic all.
    consumer.subscribe(
        [topic],
        on_assign=lambda _, coming: tell_assigned({*consumer.assignment(), *coming}),
        on_revoke=lambda _, going: tell_assigned({*consumer.assignment()} - {*going}),
    )
    while not stop.is_set():
        messages = consumer.consume(500, POLL_S)
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
        if not messages:
            continue
        tell("read", ((message.value() or b"").decode() for message in messages))
        try:
            for message in messages:
                consumer.store_offsets(message)
            if commit == "sync":
                consumer.commit(asynchronous=False)
            elif commit == "async":
                consumer.commit(asynchronous=True)
        except KafkaException as error:
            if error.args[0].code() not in overtaken_by_rebalance:
                raise
    consumer.close()


def aiokafka(bootstrap: str, group: str, topic: str, commit: str, *more: str) -> None:
    """aiokafka: AIOKafkaConsumer."""
    asyncio.run(_aiokafka(bootstrap, group, topic, commit, *more))


async def _aiokafka(bootstrap: str, group: str, topic: str, commit: str, *more: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.abc import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            pass

        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            tell_assigned(assigned)

    stop = stop_at_end_of_input()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=commit == "auto",
        auto_commit_interval_ms=AUTO_COMMIT_INTERVAL_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        fetch_max_wait_ms=FETCH_WAIT_MS,
        **given(more),
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    pending: set[asyncio.Task[None]] = set()
    while not stop.is_set():
        polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        records = [record for partition in polled.values() for record in partition]
        if not records:
            continue
        tell("read", (record.value.decode() for record in records))
        if commit == "sync":
            await _commit(consumer)
        elif commit == "async":
            pending.add(asyncio.create_task(_commit(consumer)))
    await asyncio.gather(*pending)
    await consumer.stop()


async def _commit(consumer: Any) -> None:
    """Commit; a rebalance that came first is not an error, the next poll leads to the new assignment."""
    from aiokafka.errors import CommitFailedError, IllegalStateError

    try:
        await consumer.commit()
    except (CommitFailedError, IllegalStateError):
        pass


def ours(bootstrap: str, group: str, topic: str, commit: str, *more: str) -> None:
    """kafka_offsets: client.Consumer."""
    from kafka_offsets import CommitRefusedError
    from kafka_offsets.client import Consumer

    class Member(Consumer):
        owned: frozenset[tuple[str, int]] = frozenset()

        def on_partition_assigned(self, partitions: list[tuple[str, int]]) -> None:
            super().on_partition_assigned(partitions)
            self.owned |= frozenset(partitions)
            tell("assigned", sorted(partition for _, partition in self.owned))

        def on_partition_deassigned(self, partitions: list[tuple[str, int]]) -> None:
            super().on_partition_deassigned(partitions)
            self.owned -= frozenset(partitions)
            tell("assigned", sorted(partition for _, partition in self.owned))

    stop = stop_at_end_of_input()
    properties: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": commit == "auto",
        "auto.commit.interval.ms": AUTO_COMMIT_INTERVAL_MS,
        "fetch.max.wait.ms": FETCH_WAIT_MS,
        "metadata.max.age.ms": METADATA_REFRESH_MS,
        **dict(setting.split("=", 1) for setting in more),
    }
    if properties.get("group.protocol") != "consumer":  # there the broker says how long
        properties = {
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            **properties,
        }
    with Member(properties) as consumer:
        consumer.subscribe(topic)
        while not stop.is_set():
            records = consumer.poll(int(POLL_S * 1000))
            if records:
                tell("read", ((record.value or b"").decode() for record in records))
            # What was refused during a rebalance is committed again, also if there is nothing more to read.
            if commit == "async" or (records and commit == "sync"):
                try:
                    consumer.commit(commit == "sync")
                except (
                    CommitRefusedError
                ):  # a rebalance came first: the next poll leads to the new assignment
                    pass


CLIENTS = {
    "kafka-offsets": ours,
    "kafka-python": kafka_python,
    "confluent-kafka": confluent_kafka,
    "aiokafka": aiokafka,
}

if __name__ == "__main__":
    CLIENTS[sys.argv[1]](*sys.argv[2:])
