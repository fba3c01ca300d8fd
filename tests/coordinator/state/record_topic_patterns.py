"""Asks Kafka which names match regular expressions, and why others are invalid, and keeps its answers for the tests.

`python -m tests.stories.record topic_patterns` does it. ConsumerGroupHeartbeat says whether an expression is valid,
ListTransactions which names match it: Kafka compiles and matches both in the same way.
"""

import gzip
import json
import re
import time
from typing import Any

from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.conftest import DATA

RECORD = DATA / "topic_patterns.jsonl.gz"
"""First the names, then an expression a line, with the names that match, or the description of its error."""

_REASON = re.compile(r"SubscribedTopicRegex `.*` is not a valid regular expression: (.*)\.", re.DOTALL)
GROUP, TRANSACTION = 0, 1
"""What FindCoordinator looks for."""

_WAITS = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


def read_record() -> tuple[list[str], list[dict[str, Any]]]:
    """Return the names, and the rows."""
    first, *rows = map(json.loads, gzip.decompress(RECORD.read_bytes()).splitlines())
    return first["topics"], rows


def record(port: int) -> None:
    """Ask the Kafka on this port about each expression of the record again."""
    names, rows = read_record()
    with Connection("127.0.0.1", port) as connection:
        for key_type in (GROUP, TRANSACTION):
            _call(connection, messages.FindCoordinatorRequest("x", key_type), 2)
        for name in names:
            _call(connection, messages.InitProducerIdRequest(name, 60_000), 1)
        answers = [_ask(connection, number, row["pattern"]) for number, row in enumerate(rows)]
    lines = [json.dumps(line) for line in ({"topics": names}, *answers)]
    RECORD.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))


def _ask(connection: Connection, number: int, expression: str) -> dict[str, Any]:
    try:
        expression.encode()
    except UnicodeEncodeError:  # half a character, which no client can send: Java reads it as "?"
        expression = expression.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    beat = messages.ConsumerGroupHeartbeatRequest(
        f"g{number}",
        "m",
        0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_regex=expression,
        topic_partitions=[],
    )
    answer = _call(connection, beat, 1)
    if answer.error_code:
        found = _REASON.fullmatch(answer.error_message or "")
        return {"pattern": expression, "error": found[1] if found else ErrorCode(answer.error_code).name}
    request = messages.ListTransactionsRequest(transactional_id_pattern=expression)
    listed = _call(connection, request, 2).transaction_states
    return {"pattern": expression, "matches": sorted(state.transactional_id for state in listed)}


def _call(connection: Connection, request: messages.MessageValue, version: int) -> Any:
    while True:
        answer = connection.call(request, version)
        if answer.error_code not in _WAITS:
            return answer
        time.sleep(0.1)
