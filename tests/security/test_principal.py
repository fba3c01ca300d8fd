"""Principals: their text, and the one of a connection that has not authenticated."""

import pytest

from kafka_offsets.broker.wire.connection import ClientConnection
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.security.principal import ANONYMOUS, Principal, parse_principal


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("User:alice", Principal("User", "alice")),
        ("User:CN=a:b,O=c", Principal("User", "CN=a:b,O=c")),
        ("Group:", Principal("Group", "")),
        (":", Principal("", "")),
    ],
)
def test_a_principal_is_read_from_its_text_and_back(text: str, principal: Principal) -> None:
    assert parse_principal(text) == principal
    assert str(principal) == text


@pytest.mark.parametrize("text", ["", "alice"])
def test_a_text_without_type_is_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match=f"principalType:principalName but got {text}$"):
        parse_principal(text)


def test_the_principal_of_a_request_is_that_of_its_connection() -> None:
    connection = ClientConnection("127.0.0.1:1", "/127.0.0.1", 1000)
    context = RequestContext(connection, 3, 0, 0, "", connection.host)
    assert context.principal is ANONYMOUS
    connection.principal = Principal("User", "alice")
    assert str(context.principal) == "User:alice"
