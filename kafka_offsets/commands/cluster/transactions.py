"""`kafka-offsets transactions`: what is printed of transactions, and how a hanging one is ended.

Source: TransactionsCommand of Kafka 4.3.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from kafka_offsets.client.admin_requests import topics
from kafka_offsets.client.admin_requests import transactions as requests
from kafka_offsets.client.admin_requests.transactions import OpenTransaction, ProducerFacts
from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.clock import duration_text, utc_text
from kafka_offsets.commands.options.connections import (
    REFUSED,
    NoTopicError,
    Refusals,
    unknown_place,
    unknown_topic,
)
from kafka_offsets.commands.output.tables import print_rows
from kafka_offsets.errors import ConfigError, ErrorCode, KafkaOffsetsError, RefusedError, unknown
from kafka_offsets.protocol.topic_partition import TopicPartition, by_topic
from kafka_offsets.terminal import note

_LISTED = {
    "transactional_id": "TRANSACTIONAL-ID",
    "coordinator": "COORDINATOR",
    "producer_id": "PRODUCER-ID",
    "state": "STATE",
}
_DESCRIBED = {
    "coordinator": "COORDINATOR",
    "transactional_id": "TRANSACTIONAL-ID",
    "producer_id": "PRODUCER-ID",
    "producer_epoch": "PRODUCER-EPOCH",
    "state": "STATE",
    "timeout_ms": "TIMEOUT",
    "start_ms": "STARTED",
    "open_ms": "OPEN-FOR",
    "partitions": "PARTITIONS",
}
_PRODUCERS = {
    "producer_id": "PRODUCER-ID",
    "producer_epoch": "PRODUCER-EPOCH",
    "coordinator_epoch": "COORDINATOR-EPOCH",
    "last_sequence": "LAST-SEQUENCE",
    "last_timestamp": "LAST-RECORD",
    "start_offset": "OPEN-SINCE-OFFSET",
}
_HANGING = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "producer_id": "PRODUCER-ID",
    "producer_epoch": "PRODUCER-EPOCH",
    "coordinator_epoch": "COORDINATOR-EPOCH",
    "start_offset": "START-OFFSET",
    "last_timestamp": "LAST-RECORD",
    "open_ms": "FOR",
}
_TIMES, _DURATIONS = ("start_ms", "last_timestamp"), ("timeout_ms", "open_ms")

Options = argparse.Namespace
Row = dict[str, Any]


def _print(columns: dict[str, str], rows: list[Row], options: Options) -> None:
    """Print rows; in a table with times in UTC, and durations in words."""
    if options.json:
        print_rows(columns, rows, as_json=True)
        return
    readable = (
        {
            key: utc_text(each)
            if key in _TIMES and each is not None
            else duration_text(each)
            if key in _DURATIONS and each is not None
            else each
            for key, each in row.items()
        }
        for row in rows
    )
    print_rows(columns, readable, as_json=False)


def _now_ms() -> int:
    return round(time.time() * 1000)


def list_transactions(options: Options) -> int:
    """Print the transactional ids of all coordinators."""
    refused: dict[int, KafkaOffsetsError] = {}
    with options.connections.cluster() as cluster:
        transactions = requests.transactions(
            cluster,
            refused,
            states=options.states,
            longer_than_ms=options.duration_filter,
            pattern=options.transactional_id_pattern,
        )
    refusals = Refusals()
    for node, error in sorted(refused.items()):
        refusals.add(f"broker {node} does not tell which transactions it coordinates: {error}")
    if not transactions and not refused:
        note("there are no such transactions")
    _print(_LISTED, [transaction._asdict() for transaction in transactions], options)
    return refusals.code


def describe(options: Options) -> int:
    """Print a transaction."""
    refusals = Refusals()
    with options.connections.cluster() as cluster:
        try:
            transaction = requests.describe(cluster, options.transactional_id)
        except RefusedError as error:
            if error.error_code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            transactional_ids = [other.transactional_id for other in requests.transactions(cluster)]
            refusals.add(unknown("transactional id", options.transactional_id, transactional_ids))
            return refusals.code
    open_ms = None if transaction.start_ms is None else max(_now_ms() - transaction.start_ms, 0)
    _print(
        _DESCRIBED,
        [transaction._asdict() | {"open_ms": open_ms, "partitions": by_topic(transaction.partitions)}],
        options,
    )
    return refusals.code


def describe_producers(options: Options) -> int:
    """Print the producers of a partition."""
    with options.connections.cluster() as cluster:
        producers = _producers(cluster, (options.topic, options.partition))
    if not producers:
        note(f"{options.topic}-{options.partition} has no idempotent producers")
    _print(_PRODUCERS, [producer._asdict() for producer in producers], options)
    return 0


def _producers(cluster: ClusterClient, partition: TopicPartition) -> list[ProducerFacts]:
    """Return the producers of a partition. NoTopicError if it does not exist."""
    if partition[0] not in cluster.topic_names() or partition not in cluster.leaders([partition[0]]):
        raise NoTopicError(unknown_place(cluster, partition))
    refused: dict[TopicPartition, KafkaOffsetsError] = {}
    producers = requests.producers(cluster, [partition], refused)
    for error in refused.values():
        raise error
    return producers[partition]


def find_hanging(options: Options) -> int:
    """Print the transactions that no coordinator will end."""
    if options.partition is not None and options.topic is None:
        raise ConfigError("--partition needs --topic")
    if options.broker_id is None and options.topic is None:
        note("all partitions are asked: --broker-id and --topic choose some")
    now_ms, refusals = _now_ms(), Refusals()
    refused: dict[TopicPartition, KafkaOffsetsError] = {}
    with options.connections.cluster() as cluster:
        described, unknown = topics.describe(cluster, None if options.topic is None else [options.topic])
        if unknown:
            raise NoTopicError(unknown_topic(cluster, options.topic))
        topic_partitions = [
            (topic.topic, partition.partition)
            for topic in described
            for partition in topic.partitions
            if options.broker_id in (None, partition.leader)
            and options.partition in (None, partition.partition)
        ]
        opened = [
            OpenTransaction(topic_partition, producer)
            for topic_partition, producers in requests.producers(cluster, topic_partitions, refused).items()
            for producer in producers
            if producer.start_offset is not None
            and now_ms - (producer.last_timestamp or 0) > options.max_transaction_timeout
        ]
        hanging = requests.hanging(cluster, opened)
    refusals.add_producers(refused)
    if not hanging and not refusals.code:
        note("no transaction hangs")
    rows = [
        {"topic": topic_partition[0], "partition": topic_partition[1], **producer._asdict()}
        | {"open_ms": None if producer.last_timestamp is None else now_ms - producer.last_timestamp}
        for topic_partition, producer in sorted(hanging)
    ]
    _print(_HANGING, rows, options)
    return refusals.code


def abort(options: Options) -> int:
    """Write the marker that aborts a transaction in a partition."""
    partition = options.topic, options.partition
    producer_fields = options.producer_id, options.producer_epoch, options.coordinator_epoch
    if (options.start_offset is None) == all(field is None for field in producer_fields):
        raise ConfigError(
            "abort needs --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch"
        )
    if options.start_offset is None and None in producer_fields:
        raise ConfigError("--producer-id, --producer-epoch and --coordinator-epoch go together")
    with options.connections.cluster() as cluster:
        if options.start_offset is None:
            producer = ProducerFacts(*producer_fields, None, None, None)
        else:
            begun = [
                candidate
                for candidate in _producers(cluster, partition)
                if candidate.start_offset == options.start_offset
            ]
            if not begun:
                note(
                    f"no open transaction begins at offset {options.start_offset} of {partition[0]}-{partition[1]}"
                )
                return REFUSED
            producer = begun[0]
        requests.abort(cluster, partition, producer)
    return 0
