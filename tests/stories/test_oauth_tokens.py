"""oauth_tokens.txt: clients that authenticate with tokens of OAUTHBEARER get from us what Kafka answered."""

from pathlib import Path

import pytest

from kafka_offsets.clock import ManualClock
from tests.drivers.core import CoreClient, make_core
from tests.stories import authentication, oauth_tokens
from tests.stories.authentication import Talk
from tests.stories.oauth_tokens import Bearer, Situation
from tests.stories.test_authentication import OwnLine

KAFKAS = authentication.stored(oauth_tokens.FILE)
INVALID = """  NONE  '{"status":"invalid_token"}' 0"""
FAILED = (
    "  SASL_AUTHENTICATION_FAILED Authentication failed during authentication due to invalid credentials "
    "with SASL mechanism OAUTHBEARER '' 0"
)
OTHERWISE = {
    # Kafka fails at these, and closes the connection without an answer.
    "unsecured: an array": [INVALID, "open"],
    "unsecured: no algorithm": [INVALID, "open"],
    "form: another scheme": [FAILED, "closed"],
}
"""The end of what ours answers otherwise."""


def played(situation: Situation, keys_url: str) -> list[str]:
    """Return the lines of a situation with our core."""
    clock = ManualClock()
    clock.advance(100)  # so that tokens have no whole number of seconds left
    keys = oauth_tokens.settings(1, keys_url)
    del keys["advertised.listeners"]
    core = make_core(clock=clock, **keys, **{"controller.listener.names": "CONTROLLER", "profile": "kafka"})
    client = CoreClient(core, listener=situation.listener)
    bearer = Bearer(Talk(OwnLine(client, clock)), lambda: clock.now().wall_ms // 1000)
    situation.script(bearer)
    return bearer.end()


@pytest.mark.slow
def test_a_client_gets_what_kafka_answered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = tmp_path / "keys.json"
    oauth_tokens.write_keys(keys)
    answers = {each.name: played(each, keys.as_uri()) for each in oauth_tokens.situations()}
    assert answers.keys() == KAFKAS.keys() and len(answers) >= 100
    different = {name: lines[3:] for name, lines in answers.items() if lines != KAFKAS[name]}
    assert different == OTHERWISE
    assert "tokens need no signature" in caplog.text
