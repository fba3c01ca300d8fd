"""delegation_tokens.txt: those who request and use delegation tokens get from us what Kafka answered."""

import pytest

from kafka_offsets.clock import ManualClock
from tests.cases import each_case
from tests.drivers.core import CoreClient, make_core
from tests.stories import authentication, delegation_tokens
from tests.stories.authentication import Line
from tests.stories.delegation_tokens import Situation, Story
from tests.stories.test_authentication import OwnLine

SITUATIONS = {situation.name: situation for situation in delegation_tokens.situations()}
KAFKAS = authentication.stored(delegation_tokens.FILE)


def played(situation: Situation) -> list[str]:
    """Return the lines of a situation with our core."""
    clock = ManualClock()
    keys = delegation_tokens.settings(1, is_enabled=situation.is_enabled)
    del keys["advertised.listeners"]
    core = make_core(clock=clock, **keys, **{"controller.listener.names": "CONTROLLER", "profile": "kafka"})
    core.settings.set_acls(delegation_tokens.RIGHTS)

    def connect(listener: int) -> Line:
        return OwnLine(CoreClient(core, listener=listener), clock)

    story = Story(connect, lambda: clock.now().wall_ms, lambda: None)
    situation.script(story)
    return story.end()


@pytest.mark.slow
@each_case("name", sorted(SITUATIONS))
def test_a_client_gets_what_kafka_answered(name: str) -> None:
    assert played(SITUATIONS[name]) == KAFKAS[name]


def test_every_situation_is_recorded() -> None:
    assert KAFKAS.keys() == SITUATIONS.keys()
    assert len(KAFKAS) >= 100
