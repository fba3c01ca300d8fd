"""tls.txt: clients with and without TLS and certificates get from us what Kafka answered."""

from pathlib import Path

import pytest

from kafka_offsets import Broker
from tests.stories import authentication, tls

KAFKAS = authentication.stored(tls.FILE)


def outcome(lines: list[str]) -> list[str]:
    """Return lines without the alert of a refusal: OpenSSL has others than Java, and a reset may overtake them."""
    return [line.partition(": ")[0] if line.startswith("refused") else line for line in lines]


@pytest.mark.slow
def test_a_client_gets_what_kafka_answered(tmp_path: Path) -> None:
    files = tls.Certificates(tmp_path)
    keys = tls.settings(dict.fromkeys(tls.LISTENERS, 0), "", files)
    with Broker(keys) as broker:
        ports = {name: int(broker.address_of(name).rpartition(":")[2]) for name in tls.LISTENERS}
        answers = {each.name: tls.play(each, ports[each.listener], files) for each in tls.situations()}
    assert answers.keys() == KAFKAS.keys()
    different = {name for name, lines in answers.items() if outcome(lines) != outcome(KAFKAS[name])}
    assert different == set()
    assert {"answered", "refused", "the client refuses"} == {
        line.partition(": ")[0] for lines in KAFKAS.values() for line in lines
    }
