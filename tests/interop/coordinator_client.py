"""Hand-made requests to one broker that coordinates everything, Apache Kafka or ours, until it is ready to answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.protocol import messages
from tests.interop.waiting import until

NOT_READY = {14, 15, 16, 51}  # loading, no coordinator yet, not this one, a transaction that is being ended
GROUP, TRANSACTION = 0, 1
_GROUP_CONFIG = 32  # the type of a group among resources with configs
LISTS = (
    "topics",
    "partitions",
    "results",
    "coordinators",
    "groups",
    "responses",
    "partition_responses",
    "transaction_states",
)
"""The fields of answers in whose elements there may be error codes."""

Place = tuple[str, int]
Committed = dict[str, dict[Place, tuple[int, str]]]
"""By group: offset and metadata of each partition."""


def lengthen_session(address: str, group: str) -> None:
    """Let members of the consumer protocol be silent for a minute: a busy machine may stop them for seconds."""
    made = messages.IncrementalAlterConfigsRequest
    session = made.AlterableConfig("consumer.session.timeout.ms", 0, "60000")
    with Connection(*parse_address(address)) as connection:
        answer = connection.call(made([made.AlterConfigsResource(_GROUP_CONFIG, group, [session])]), 1)
    assert answer.responses[0].error_code == 0, answer


class Client:
    """One connection to a broker, which is the coordinator of everything."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self._connection = Connection(*address)

    def close(self) -> None:
        self._connection.close()

    def call(self, request: messages.MessageValue, version: int) -> Any:
        """Return the answer, when it says that all is well."""
        answer = self.ask(request, version)
        assert set(errors_in(answer)) == {0}, answer
        return answer

    def ask(self, request: messages.MessageValue, version: int) -> Any:
        """Return the answer, whatever it says, from a broker that is ready."""

        def answered() -> Any:
            answer = self._connection.call(request, version)
            return None if set(errors_in(answer)) & NOT_READY else answer

        return until(answered, f"{type(request).__name__} is answered")

    def find_coordinator(self, name: str, kind: int) -> None:
        """Have a coordinator found, and the topic made that it needs."""
        self.call(messages.FindCoordinatorRequest(key_type=kind, coordinator_keys=[name]), 4)

    def groups(self) -> dict[str, tuple[str, str]]:
        """Return protocol type and group type of every group."""
        listed = self.call(messages.ListGroupsRequest(states_filter=[], types_filter=[]), 5).groups
        return {group.group_id: (group.protocol_type, group.group_type) for group in listed}

    def committed(self, groups: set[str]) -> Committed:
        """Return what is committed by each of some groups."""
        found: Committed = {}
        for group in groups:
            with Coordinator(self.address, group) as coordinator:
                found[group] = {
                    place: (entry.offset, entry.metadata) for place, entry in coordinator.committed().items()
                }
        return found


def errors_in(answer: Any) -> Iterator[int]:
    """Give the error codes of an answer, wherever they stand."""
    if hasattr(answer, "error_code"):
        yield answer.error_code
    for name in LISTS:
        for part in getattr(answer, name, None) or ():
            yield from errors_in(part)


@contextmanager
def client_of(address: tuple[str, int]) -> Iterator[Client]:
    client = Client(address)
    try:
        yield client
    finally:
        client.close()
