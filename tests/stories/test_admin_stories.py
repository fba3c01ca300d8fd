"""Everything in admin_….txt, asked of this broker: it answers as Apache Kafka 4.3.1 did."""

from typing import Any

import pytest

from tests.cases import each_case
from tests.differential.brokers import OwnBroker
from tests.differential.play import Event
from tests.differential.stories import STORIES, file_of
from tests.stories.admin_stories import DIFFERENT, SETTINGS, exchanged, stored, title_of

KAFKAS = {scenario: stored(scenario) for scenario in SETTINGS}
ASKED = {f"{scenario}: {name}": (scenario, name) for scenario, stories in KAFKAS.items() for name in stories}


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
    exchanges = {}
    for scenario, settings in SETTINGS.items():
        broker = OwnBroker(settings)
        exchanges[scenario] = exchanged(broker, KAFKAS[scenario])
        broker.close()
    return exchanges


@pytest.mark.slow
@each_case("key", ASKED)
def test_the_answer_is_kafkas(key: str, ours: dict[str, dict[str, list[Event]]]) -> None:
    scenario, name = ASKED[key]
    expected, answer = without_dynamic_defaults(KAFKAS[scenario][name][-1][-1]), ours[scenario][name][-1][-1]
    reason = DIFFERENT.get(title_of(name))
    if reason is None:
        assert answer == expected
    else:
        assert answer != expected, f"no longer different: {reason}"


@pytest.mark.parametrize("scenario", SETTINGS)
def test_nothing_gets_lost_between_text_and_values(scenario: str) -> None:
    assert file_of(dict(KAFKAS[scenario])) == (STORIES / f"admin_{scenario}.txt").read_text(encoding="utf-8")


def test_every_difference_is_of_an_exchange() -> None:
    assert set(DIFFERENT) <= {title_of(name) for _, name in ASKED.values()}
