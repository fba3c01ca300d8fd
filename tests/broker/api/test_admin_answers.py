"""Everything in admin_situations.py, asked of our broker: it answers as Apache Kafka 4.3.1 did.

tests/stories/admin_default.txt and admin_refusing.txt were recorded from a real broker: `make differential`.
"""

from typing import Any

import pytest

from tests.broker.api.admin_exchange import exchanged, name_of, stored
from tests.broker.api.admin_situations import DIFFERENT, SCENARIOS, SETTINGS, Situation
from tests.cases import each_case
from tests.differential.brokers import OwnBroker
from tests.differential.play import Event
from tests.differential.stories import STORIES, file_of

KAFKAS = {scenario: stored(scenario) for scenario in SCENARIOS}
ASKED = {
    f"{scenario}: {name_of(situation, version)}": (scenario, situation, version)
    for scenario, situations in SCENARIOS.items()
    for situation in situations
    for version in situation.versions
}


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
def ours() -> dict[str, dict[str, list[Event]]]:
    """Our exchanges, by scenario and name."""
    found = {}
    for scenario, situations in SCENARIOS.items():
        broker = OwnBroker(SETTINGS[scenario])
        found[scenario] = exchanged(broker, situations)
        broker.close()
    return found


@pytest.mark.slow
@each_case("key", ASKED)
def test_the_answer_is_kafkas(key: str, ours: dict[str, dict[str, list[Event]]]) -> None:
    scenario, situation, version = ASKED[key]
    name = name_of(situation, version)
    expected, answer = without_dynamic_defaults(KAFKAS[scenario][name][-1][-1]), ours[scenario][name][-1][-1]
    reason = DIFFERENT.get((situation.api, situation.sentence))
    if reason is None:
        assert answer == expected
    else:
        assert answer != expected, f"no longer different: {reason}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_recording_is_of_the_situations(scenario: str) -> None:
    """The file has these requests, in this order; nothing of an answer gets lost between text and values."""
    asked: list[tuple[Situation, int]] = [(s, v) for s in SCENARIOS[scenario] for v in s.versions]
    again = {
        name_of(situation, version): [
            ["admin", f"{situation.api} v{version}", situation.request],
            KAFKAS[scenario][name_of(situation, version)][-1],
        ]
        for situation, version in asked
    }
    assert len(again) == len(asked) == len(KAFKAS[scenario])
    assert file_of(again) == (STORIES / f"admin_{scenario}.txt").read_text(encoding="utf-8")


def test_every_difference_is_of_a_situation() -> None:
    asked = [situation for situations in SCENARIOS.values() for situation in situations]
    assert set(DIFFERENT) <= {(situation.api, situation.sentence) for situation in asked}
