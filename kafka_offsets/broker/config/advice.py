"""Advice: what to write instead of a key or a variable that a broker does not have, by its name.

Keys of clients and of topics, keys of Kafka before 3.0, and variables of Docker images. Sources: ConsumerConfig,
ProducerConfig and TopicConfig of Kafka, the configuration of librdkafka, the scripts of the images, and rpk's flags.
"""

import re
from collections.abc import Sequence

_INSTEAD = {
    "acks": "min.insync.replicas",
    "advertised.host": "advertised.listeners",
    "auto.create.topics": "auto.create.topics.enable",
    "bootstrap.servers": "listeners, and advertised.listeners for the addresses that clients receive",
    "brokerid": "node.id",
    "enable.idempotence": "no key: every broker serves idempotent producers",
    "host": "listeners",
    "max.request.size": "message.max.bytes",
    "metadata.broker.list": "listeners, and advertised.listeners for the addresses that clients receive",
    "quota.consumer.default": "no key: set the quota consumer_byte_rate of the default client (kafka-configs.sh)",
    "quota.producer.default": "no key: set the quota producer_byte_rate of the default client (kafka-configs.sh)",
    "sasl.mechanism": "sasl.enabled.mechanisms",
    "sasl.mechanisms": "sasl.enabled.mechanisms",
    "sasl.password": "sasl.users",
    "sasl.username": "sasl.users",
    "security.protocol": "listener.security.protocol.map, or the protocol as the name of a listener",
    "session.timeout.ms": "group.min.session.timeout.ms and group.max.session.timeout.ms",
    "ssl.ca.location": "ssl.truststore.location with ssl.truststore.type=PEM",
    "ssl.certificate.location": "ssl.keystore.location with ssl.keystore.type=PEM",
    "ssl.key.location": "ssl.keystore.location with ssl.keystore.type=PEM",
    "transaction.timeout.ms": "transaction.max.timeout.ms",
}
"""The broker's key for one of clients, or of an old Kafka."""

_OF_CLIENTS = frozenset(
    [
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "batch.size",
        "buffer.memory",
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "debug",
        "default.api.timeout.ms",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "exclude.internal.topics",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "interceptor.classes",
        "isolation.level",
        "key.deserializer",
        "key.serializer",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "message.send.max.retries",
        "message.timeout.ms",
        "metadata.max.age.ms",
        "partition.assignment.strategy",
        "partitioner",
        "partitioner.class",
        "queue.buffering.max.messages",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.ms",
        "schema.registry.url",
        "send.buffer.bytes",
        "socket.timeout.ms",
        "statistics.interval.ms",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    ]
)

_OF_BOTH = re.compile(
    r"auto\.include\.jmx\.reporter|compression\.|config\.providers|connections\.max\.idle\.ms|metrics?\."
    r"|request\.timeout\.ms|security\.providers|socket\.connection\.|ssl\.(?!allow\.|client\.auth|principal\.)"
    r"|sasl\.(?!enabled\.|kerberos\.principal\.|mechanism\.|server\.|users)"
)
"""Beginnings of keys that Kafka's brokers and its clients have."""

OF_TOPICS = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
}
"""Keys of topics, with those that a broker has for topics that do not set them."""

_VARIABLES = {
    "BROKER_ID_COMMAND": "KAFKA_NODE_ID",
    "HOSTNAME_COMMAND": "KAFKA_ADVERTISED_LISTENERS",
    "KAFKA_ADVERTISED_PROTOCOL_NAME": "KAFKA_LISTENERS and KAFKA_ADVERTISED_LISTENERS",
    "KAFKA_HOST": "KAFKA_LISTENERS",
    "KAFKA_PROTOCOL_NAME": "KAFKA_LISTENERS and KAFKA_ADVERTISED_LISTENERS",
    "PORT_COMMAND": "KAFKA_ADVERTISED_LISTENERS",
    "KAFKA_TLS_TRUSTSTORE_FILE": "KAFKA_CFG_SSL_TRUSTSTORE_LOCATION",
}
_BEGINNINGS = {
    "KAFKA_REST_": "there is no REST proxy here",
    "KAFKA_SCHEMA_REGISTRY_": "there is no schema registry here",
    "KAFKA_ZOOKEEPER_TLS_": "ZooKeeper is reached without TLS",
}


def is_of_clients(name: str) -> bool:
    """Return whether Kafka's clients have a key; brokers may have it as well."""
    return name in _OF_CLIENTS or _OF_BOTH.match(name) is not None


def advice_on(name: str) -> str:
    """Return what a broker has instead of a key that it does not have; empty if that is not known."""
    if name in _INSTEAD:
        return f"write {_INSTEAD[name]}" if not _INSTEAD[name].startswith("no ") else _INSTEAD[name]
    if name in _OF_CLIENTS:
        return "it is a key of clients, and a broker has none for it"
    if name in OF_TOPICS:
        return f"it is a key of topics; a broker has {OF_TOPICS[name]} for topics that do not set it"
    return ""


def advice_on_variable(variable: str) -> str:
    """Return what to write instead of a variable; empty if that is not known."""
    if variable in _VARIABLES:
        return f"write {_VARIABLES[variable]}"
    return next((text for begin, text in _BEGINNINGS.items() if variable.startswith(begin)), "")


def variables_for_redpanda(words: Sequence[str]) -> str:
    """Return the variables for the addresses in the flags of `redpanda start`: NAME://HOST:PORT, HOST:PORT or HOST."""
    flags = dict(re.findall(r"--(kafka-addr|advertise-kafka-addr)[= ](\S+)", " ".join(words)))
    values, names = {}, []
    for flag, variable in (
        ("kafka-addr", "KAFKA_LISTENERS"),
        ("advertise-kafka-addr", "KAFKA_ADVERTISED_LISTENERS"),
    ):
        if flag not in flags:
            continue
        addresses = []
        for text in flags[flag].split(","):
            name, _, address = text.rpartition("://")
            names.append((name or "PLAINTEXT").upper())
            addresses.append(
                f"{names[-1]}://{address if re.search(r':[0-9]+$', address) else f'{address}:9092'}"
            )
        values[variable] = ",".join(addresses)
    protocols = ",".join(f"{name}:PLAINTEXT" for name in dict.fromkeys(names))
    if protocols != "PLAINTEXT:PLAINTEXT":
        values["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] = protocols
    return " ".join(f"{variable}={value}" for variable, value in values.items())
