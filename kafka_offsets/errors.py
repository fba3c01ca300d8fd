"""Errors of three kinds, which are never mixed.

An error for a client is a value, an :class:`ErrorCode` in a response. A peer that breaks the protocol causes a
:class:`ProtocolError`: its connection is closed, and the broker continues. An error of this package or of the disk is a
:class:`StorageError`: it is logged for the operator, and answered to clients with an error code.
A :class:`ConfigError` is a mistake of the operator: a key, a value or a file that cannot be used.
"""

import errno
from collections.abc import Iterable, Mapping
from enum import IntEnum

_NO_SPACE = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))  # Windows has no EDQUOT


class KafkaOffsetsError(Exception):
    """The base class of every exception that this package raises on purpose."""


class ProtocolError(KafkaOffsetsError):
    """Bytes of a peer that break the protocol.

    position  byte offset in the buffer where decoding stopped, or None when there is no single place
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message if position is None else f"{message} at byte {position}")
        self.position = position


class ForeignProtocolError(ProtocolError):
    """The first bytes of a connection are those of another protocol.

    protocol  such as `a TLS handshake, but this port is plaintext`
    """

    def __init__(self, message: str, protocol: str) -> None:
        super().__init__(f"{message} ({protocol})", 0)
        self.protocol = protocol


class StorageError(KafkaOffsetsError):
    """A file error of the operating system, or a file with wrong content.

    path      the file or directory, relative to the data directory
    position  byte offset in that file, or None for the whole file
    """

    def __init__(self, message: str, path: str | None = None, position: int | None = None) -> None:
        where = "" if path is None else path if position is None else f"{path} at byte {position}"
        super().__init__(f"{where}: {message}" if where else message)
        self.path = path
        self.position = position

    @property
    def is_of_disk(self) -> bool:
        """Whether the operating system has refused an operation that this process is allowed to carry out."""
        return isinstance(self.__cause__, OSError) and not isinstance(self.__cause__, PermissionError)

    @property
    def is_full_disk(self) -> bool:
        """Whether the disk, or the user's part of it, has no space left."""
        return isinstance(self.__cause__, OSError) and self.__cause__.errno in _NO_SPACE


class UnreadableError(StorageError):
    """A file or directory that the user of this process may not read."""


class OldFormatError(StorageError):
    """Messages of a format that brokers before Kafka 0.11 wrote: no damage, but not read here."""


class OpeningAbandonedError(KafkaOffsetsError):
    """The opening of a log was abandoned, because the log is not needed any more."""


class BindError(OSError):
    """The address of a listener cannot be bound."""

    def __init__(self, error: OSError, host: str, port: int) -> None:
        super().__init__(*error.args)
        self.host, self.port = host, port


class ConfigError(KafkaOffsetsError):
    """A configuration key, value or file that cannot be used."""


class ConnectionLostError(KafkaOffsetsError):
    """A broker cannot be reached, or has closed the connection before it answered."""


class UnansweredError(ConnectionLostError):
    """A broker has not answered in time."""


class SilentBrokerError(ConnectionLostError):
    """A broker has not answered an earlier request in time, and is not waited for again."""


class ListenerError(ConnectionLostError):
    """A listener that does not accept this client, or that this client does not accept.

    TLS does not begin, because of a certificate for example, or the listener has another security protocol.
    """


class UnknownHostError(ConnectionLostError):
    """The name of a broker has no address."""


class RefusedError(KafkaOffsetsError):
    """An error response of a broker.

    error_code  Kafka's error code; UNKNOWN_SERVER_ERROR for an unknown number
    """

    def __init__(self, what: str, error_code: int) -> None:
        self.error_code = error_code_of(error_code)
        super().__init__(f"{what}: {self.error_code.name} ({error_code})")


class CommitRefusedError(KafkaOffsetsError):
    """A commit that the broker refused for some partitions; if it was conditional, for all of them.

    errors  of the refused partitions, by (topic, partition)
    found   the committed offset of each partition with a condition, -1 for none
    """

    def __init__(
        self, group: str, errors: Mapping[tuple[str, int], int], found: Mapping[tuple[str, int], int]
    ) -> None:
        self.errors = {topic_partition: error_code_of(code) for topic_partition, code in errors.items()}
        self.found = dict(found)
        parts = []
        for topic_partition, error in self.errors.items():
            current = ""
            if topic_partition in found:
                now = "nothing" if found[topic_partition] < 0 else f"offset {found[topic_partition]}"
                current = f", {now} is committed"
            parts.append(
                f"{topic_partition[0]}-{topic_partition[1]} {error.name} ({errors[topic_partition]}){current}"
            )
        super().__init__(f"commit of group {group}: {'; '.join(parts)}")


class ErrorCode(IntEnum):
    """Kafka's error codes by Kafka's names.

    Source: org.apache.kafka.common.protocol.Errors of Kafka 4.3.
    """

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133

    # Codes of this package, far outside Kafka's range: only clients that use its extensions get them.
    COMMITTED_OFFSET_MISMATCH = 10_000


def error_code_of(number: int) -> ErrorCode:
    """Return the error code of a number in a response, UNKNOWN_SERVER_ERROR for an unknown number."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def error_code(given: int | str) -> ErrorCode:
    """Return an error code by its name or number. ValueError if Kafka has no such code."""
    try:
        return ErrorCode[given] if isinstance(given, str) else ErrorCode(given)
    except (KeyError, ValueError):
        advice = nearest_name(given.upper(), ErrorCode.__members__) if isinstance(given, str) else ""
        raise ValueError(f"{given} is no error code of Kafka{advice}") from None


def nearest_name(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean X?" for the name most similar to `name`, or "" if there is none."""
    import difflib  # late: only needed after a mistake

    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def unknown(kind: str, name: str, names: Iterable[str], more: str = "") -> str:
    """Return that a topic, group or transactional id does not exist, with the most similar name of those that do.

    more  what else is so, said before that name
    """
    shown = name if kind == "topic" else repr(name)
    return f"{kind} {shown} does not exist{more}{nearest_name(name, names)}"


def unknown_partition(topic: str, index: int, counts: Mapping[str, int]) -> str:
    """Return that a partition does not exist, or its topic; `counts` has the numbers of partitions by topic."""
    if topic not in counts:
        return unknown("topic", topic, counts)
    return f"topic {topic} has no partition {index}: it has {counts[topic]}"
