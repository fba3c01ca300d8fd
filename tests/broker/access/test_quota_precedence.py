"""Precedence of quotas: which one applies to a client, and who shares it. The table was measured at Kafka 4.3.1."""

import pytest

from kafka_offsets.broker.access.precedence import Sharer, find_limit, limits_of
from kafka_offsets.storage.directory.client_settings import Entity

ALICE, APP = "alice", "app"


def entity(**parts: str | None) -> Entity:
    return frozenset((kind.replace("_", "-"), name) for kind, name in parts.items())


MOST_SPECIFIC_FIRST = [
    (entity(user=ALICE, client_id=APP), Sharer(ALICE, APP)),
    (entity(user=ALICE, client_id=None), Sharer(ALICE, APP)),
    (entity(user=ALICE), Sharer(ALICE, "")),
    (entity(user=None, client_id=APP), Sharer(ALICE, APP)),
    (entity(user=None, client_id=None), Sharer(ALICE, APP)),
    (entity(user=None), Sharer(ALICE, "")),
    (entity(client_id=APP), Sharer("", APP)),
    (entity(client_id=None), Sharer("", APP)),
]
"""Entities with a quota, the first of which applies to the client `app` of the user alice; and who shares it."""


@pytest.mark.parametrize("first", range(8))
def test_the_most_specific_quota_applies(first: int) -> None:
    limits = {
        each: 1000.0 * number for number, (each, _) in enumerate(MOST_SPECIFIC_FIRST, 1) if number > first
    }
    found = find_limit(limits, ALICE, APP)
    assert found is not None
    assert found == (MOST_SPECIFIC_FIRST[first][1], 1000.0 * (first + 1))


def test_quotas_of_others_do_not_apply() -> None:
    others = [entity(user="bob"), entity(user="bob", client_id=APP), entity(user=ALICE, client_id="other")]
    others += [entity(client_id="other"), entity(ip=None)]
    assert find_limit(dict.fromkeys(others, 1.0), ALICE, APP) is None
    assert find_limit({}, ALICE, APP) is None


def test_a_client_without_a_client_id_has_the_quotas_of_users_alone() -> None:
    """Kafka: a default of client ids does not throttle it."""
    limits = {each: 1.0 for each, _ in MOST_SPECIFIC_FIRST}
    of_clients = {each: 1.0 for each in limits if "client-id" in dict(each)}
    assert find_limit(of_clients, ALICE, "") is None
    assert find_limit(limits, ALICE, "") == (Sharer(ALICE, ""), 1.0)


def test_a_key_has_its_own_limits() -> None:
    quotas = {
        entity(user=ALICE): {"producer_byte_rate": 1.0},
        entity(client_id=APP): {"consumer_byte_rate": 2.0},
    }
    assert limits_of(quotas, "consumer_byte_rate") == {entity(client_id=APP): 2.0}
    assert limits_of(quotas, "request_percentage") == {}
