"""Quotas of an entity: what a test may give, and the request that this becomes."""

import pytest

from kafka_offsets import Broker
from kafka_offsets.client import quotas
from kafka_offsets.protocol import messages

Request = messages.AlterClientQuotasRequest


def test_quotas_that_are_not_given_are_removed() -> None:
    made = quotas.request(
        {"user": None, "client-id": "app", "ip": None}, {"consumer_byte_rate": 5, "request_percentage": None}
    )
    (entry,) = made.entries
    assert entry.entity == [Request.EntityData("client-id", "app")]
    assert {(op.key, op.value, op.remove) for op in entry.ops} == {
        ("producer_byte_rate", 0.0, True),
        ("consumer_byte_rate", 5, False),
        ("request_percentage", 0.0, True),
        ("controller_mutation_rate", 0.0, True),
    }


@pytest.mark.parametrize(
    ("names", "limits", "reason"),
    [
        ({}, {"producer_byte_rate": 1.0}, "a quota is that of a user"),
        ({"user": None}, {}, "a quota is that of a user"),
        (
            {"ip": "127.0.0.1"},
            {"producer_byte_rate": 1.0},
            "cannot have a producer_byte_rate, only connection_creation_rate",
        ),
        (
            {"user": "a"},
            {"connection_creation_rate": 1.0},
            "cannot have a connection_creation_rate, only producer",
        ),
    ],
)
def test_what_no_entity_can_have_is_refused(
    names: dict[str, str | None], limits: dict[str, float | None], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        quotas.request(names, limits)


def test_a_broker_stores_what_a_test_sets_and_says_why_it_does_not() -> None:
    def stored() -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
        found = broker._call(lambda server: dict(server.core.directory.clients.quotas))
        return {tuple(sorted(entity)): dict(values) for entity, values in found.items()}

    with Broker() as broker:
        broker.set_quota(user="<default>", client_id="app", producer_byte_rate=10, request_percentage=0.5)
        broker.set_quota(ip="127.0.0.1", connection_creation_rate=100)
        assert stored() == {
            (("client-id", "app"), ("user", None)): {"producer_byte_rate": 10.0, "request_percentage": 0.5},
            (("ip", "127.0.0.1"),): {"connection_creation_rate": 100.0},
        }
        broker.set_quota(user="<default>", client_id="app")
        broker.set_quota(ip="127.0.0.1")
        assert stored() == {}
        with pytest.raises(ValueError, match="Quota producer_byte_rate must be greater than 0"):
            broker.set_quota(client_id="app", producer_byte_rate=0)
