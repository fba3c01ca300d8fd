"""Everything in admin_situations.py, asked of our broker: it answers as Apache Kafka 4.3.1 did.

tests/data/admin_answers.jsonl.gz was recorded from a real broker by record_admin_answers.py.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.storage.files import MemoryFiles
from tests.broker.admin_exchange import TopicIds, build, read_response, request_frame, shown
from tests.broker.admin_situations import DIFFERENT, SCENARIOS, SETTINGS

ANSWERS = Path(__file__).resolve().parents[1] / "data" / "admin_answers.jsonl.gz"
STARTED_WITH = {"offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0"}
"""What benchmarks/peers/kafka.sh sets, as far as it is a key of ours."""

SETTLE_MS = 250
"""How long Kafka had between two exchanges."""

Exchange = dict[str, Any]


def exchanges() -> Iterator[Exchange]:
    with gzip.open(ANSWERS, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def name_of(exchange: Exchange) -> str:
    return f"{exchange['scenario']}: {exchange['api']} v{exchange['version']}: {exchange['sentence']}"


EXCHANGES = list(exchanges())


def ask(core: BrokerCore, exchange: Exchange, ids: TopicIds) -> Exchange | None:
    """Send a request on a connection of its own; None when that is closed."""
    api, version = exchange["api"], exchange["version"]
    request = build(f"{api}Request", exchange["request"], ids)
    connection = core.connect("test:1", "127.0.0.1")
    core.receive(connection, request_frame(api, version, request))
    core.end_turn()
    output = b"".join(connection.output)
    core.disconnect(connection)
    if not output:
        return None
    response, answered = read_response(api, version, output[4:])
    return shown(response, answered, ids)


def without_dynamic_defaults(answer: Any) -> Any:
    """A recorded answer as if Kafka's cluster had not set min.insync.replicas for itself when it was formatted.

    Kafka 4 does so for the feature eligible.leader.replicas.version: source 3, DYNAMIC_DEFAULT_BROKER_CONFIG.
    """
    if isinstance(answer, list):
        return [
            without_dynamic_defaults(item)
            for item in answer
            if not (isinstance(item, dict) and item.get("source") == 3)
        ]
    if isinstance(answer, dict):
        changed = {name: without_dynamic_defaults(value) for name, value in answer.items()}
        if changed.get("config_source") == 3:
            changed["config_source"] = 5
        return changed
    return answer


@pytest.fixture(scope="module")
def ours() -> dict[str, Exchange | None]:
    """Our answers to all exchanges, by their names."""
    answers = {}
    for scenario in SCENARIOS:
        config = Config.load(STARTED_WITH | SETTINGS[scenario], profile="kafka")
        clock, ids = ManualClock(), TopicIds()
        core = BrokerCore(config, MemoryFiles(), clock)
        for exchange in EXCHANGES:
            if exchange["scenario"] == scenario:
                answers[name_of(exchange)] = ask(core, exchange, ids)
                clock.advance(SETTLE_MS)
        core.close()
    return answers


@pytest.mark.parametrize("exchange", EXCHANGES, ids=name_of)
def test_the_answer_is_kafkas(exchange: Exchange, ours: dict[str, Exchange | None]) -> None:
    expected = without_dynamic_defaults(exchange["answer"])
    reason = DIFFERENT.get((exchange["api"], exchange["sentence"]))
    if reason is None:
        assert ours[name_of(exchange)] == expected
    else:
        assert ours[name_of(exchange)] != expected, f"no longer different: {reason}"


def test_the_recording_is_of_the_situations() -> None:
    recorded = [(e["scenario"], e["sentence"], e["api"], e["version"], e["request"]) for e in EXCHANGES]
    asked = [
        (scenario, situation.sentence, situation.api, version, situation.request)
        for scenario, situations in SCENARIOS.items()
        for situation in situations
        for version in situation.versions
    ]
    assert recorded == asked


def test_every_difference_is_of_a_situation() -> None:
    assert set(DIFFERENT) <= {(e["api"], e["sentence"]) for e in EXCHANGES}
