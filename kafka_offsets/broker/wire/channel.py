"""Channel: a connection to another broker, whatever carries it."""

from collections.abc import Callable
from typing import Any, Protocol

from kafka_offsets.protocol import messages

OnAnswer = Callable[[Any], None]
"""Called with the response, or with None if there will be none: the connection was lost."""


class Channel(Protocol):
    """A connection to one broker. It is opened by the first request, and again by the first one after a loss."""

    def send(self, request: messages.MessageValue, version: int, on_answer: OnAnswer) -> None:
        """Send a request; `on_answer` is called later, never by this call. Responses come in the order of requests."""
        ...

    def close(self) -> None:
        """Close the connection; requests without a response get none, and no None either."""
        ...


_CLIENT_ID_PREFIX = "broker-"


def broker_client_id(node_id: int, cluster_id: str) -> str:
    """Return the client id of the requests that a broker sends to others: no client has the id of its cluster in it."""
    return f"{_CLIENT_ID_PREFIX}{node_id}@{cluster_id}"


def is_of_broker(client_id: str | None, cluster_id: str) -> bool:
    """Whether a request comes from another broker of a cluster, by its client id."""
    return (
        client_id is not None
        and client_id.startswith(_CLIENT_ID_PREFIX)
        and client_id.endswith(f"@{cluster_id}")
    )
