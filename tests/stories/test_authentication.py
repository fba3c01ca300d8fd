"""authentication.txt: connections to listeners with SASL get from us what Kafka answered."""

import pytest

from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ProtocolError
from tests.cases import each_case
from tests.drivers.core import CoreClient, make_core
from tests.stories import authentication
from tests.stories.authentication import Frame, Situation, Talk, stored

SITUATIONS = {situation.name: situation for situation in authentication.situations()}
KAFKAS = stored()
REFUSED = (
    "  SASL_AUTHENTICATION_FAILED Authentication failed during authentication due to invalid credentials "
    "with SASL mechanism SCRAM-SHA-256 '' 0"
)
OTHERWISE = {
    # RFC 5802 wants the channel compared, which Kafka does not do.
    "SCRAM: last, another channel",
    # Kafka fails at the length, and closes the connection without an answer.
    "SCRAM: last, an empty proof",
    "SCRAM: last, a short proof",
}
"""Where ours answers otherwise: it refuses the last message of the client."""

WAIT_MS = 700


class OwnLine:
    """A connection to our core; time passes while it waits."""

    def __init__(self, client: CoreClient, clock: ManualClock) -> None:
        self._client, self._clock = client, clock

    def send(self, data: bytes) -> None:
        if self._client.connection.closing:
            return
        try:
            self._client.core.receive(self._client.connection, data)
        except ProtocolError as error:
            self._client.core.responses.refuse(self._client.connection, error)
        self._client.turn()

    def receive(self) -> Frame | None:
        for ms in (0, *[100] * (WAIT_MS // 100)):
            self.pause(ms)
            received = self._client.received
            received += self._client.core.drain(self._client.connection)
            if len(received) >= 4:
                size = int.from_bytes(received[:4], "big")
                frame = bytes(received[4 : 4 + size])
                del received[: 4 + size]
                return frame
            if self._client.connection.closing:
                return None
        raise TimeoutError

    def pause(self, ms: int) -> None:
        self._clock.advance(ms)
        self._client.turn()


def played(situation: Situation) -> list[str]:
    """Return the lines of a situation with our core."""
    clock = ManualClock()
    keys = {
        name: value for name, value in authentication.settings(1).items() if not name.startswith("advertised")
    }
    keys |= {"controller.listener.names": "CONTROLLER", "profile": "kafka"}
    core = make_core(clock=clock, **keys)
    for request in authentication.credentials_requests():
        CoreClient(core).call(request, 0)
    talk = Talk(OwnLine(CoreClient(core, listener=situation.listener), clock))
    situation.script(talk)
    return talk.end()


@pytest.mark.slow
@each_case("name", sorted(SITUATIONS))
def test_a_connection_gets_what_kafka_answered(name: str) -> None:
    expected = KAFKAS[name]
    if name in OTHERWISE:
        expected = [*expected[:5], REFUSED, "closed"]
        assert expected != KAFKAS[name]
    assert played(SITUATIONS[name]) == expected


def test_every_situation_is_recorded() -> None:
    assert KAFKAS.keys() == SITUATIONS.keys()
    assert len(KAFKAS) >= 100 and KAFKAS.keys() >= OTHERWISE
