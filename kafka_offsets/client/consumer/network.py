"""Network of the consumer: non-blocking connections to brokers, one selector, no thread.

Requests are sent in order, and several may wait for their responses. A callback gets each response, or None if the
connection is lost or the response does not come in time. Callbacks run inside `ConsumerNetwork.run`.
"""

from __future__ import annotations

import selectors

from kafka_offsets.client.connection import Address
from kafka_offsets.client.consumer.channel import ConsumerChannel
from kafka_offsets.client.protocol import OnDone
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity
from kafka_offsets.errors import ProtocolError, RefusedError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages

_logger = new_logger(__name__)

CONTROL, GROUP, FETCH = "control", "group", "fetch"
"""Purposes of a connection. A broker serves the requests of a connection one by one, and a JoinGroup or a Fetch waits:
each has a connection that no other request waits for."""

_VERSIONS = {1: 12, 2: 7, 3: 12, 10: 4}
"""The versions that every broker must serve: Fetch, ListOffsets, Metadata, FindCoordinator."""


class ConsumerNetwork:
    """The connections of a consumer, by address.

    last_error  why the last connection was lost
    _attempts   how many connections had no answer
    """

    def __init__(
        self,
        client_id: str,
        request_timeout_ms: int,
        reconnect_backoff_ms: int,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self.last_error = ""
        self._security = security
        self._client_id = client_id
        self._timeout_ms = request_timeout_ms
        self._backoff_ms = reconnect_backoff_ms
        self._selector = selectors.DefaultSelector()
        self._channels: dict[tuple[Address, str], ConsumerChannel] = {}
        self._failed: dict[tuple[Address, str], int] = {}
        self._attempts: dict[tuple[Address, str], int] = {}
        self._warned: set[tuple[Address, str]] = set()

    def channel(self, address: Address, purpose: str, now_ms: int) -> ConsumerChannel | None:
        """Return a connection, which may still be connecting; None shortly after it was lost."""
        key = address, purpose
        channel = self._channels.get(key)
        if channel is not None:
            if not channel.is_closed:
                channel.log_in_if_due(now_ms, self._timeout_ms)
                return channel
            self._remove(key, now_ms)
        if now_ms < self._failed.get(key, 0):
            return None
        made = self._channels[key] = ConsumerChannel(
            address, self._selector, self._client_id, self._security, self._attempts.get(key, 0)
        )
        if made.is_closed:
            self._remove(key, now_ms)
            return None
        made.log_in_if_due(now_ms, self._timeout_ms)
        made.send(
            messages.ApiVersionsRequest(),
            0,
            now_ms + self._timeout_ms,
            lambda response: _check(address, response),
        )
        return made

    def send(
        self,
        address: Address,
        purpose: str,
        request: messages.MessageValue,
        version: int,
        now_ms: int,
        on_done: OnDone,
        timeout_ms: int | None = None,
    ) -> bool:
        """Send a request to a broker; return False if it cannot be connected to now."""
        channel = self.channel(address, purpose, now_ms)
        if channel is None:
            return False
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        channel.send(request, version, now_ms + timeout_ms, on_done)
        return True

    @property
    def deadline_ms(self) -> int | None:
        """When the first response is too late."""
        deadlines = [channel.deadline_ms for channel in self._channels.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def run(self, now_ms: int, wait_ms: int) -> None:
        """Wait for responses, at most so long, and process them.

        Raises ProtocolError, ListenerError, RefusedError for a login, and what callbacks raise.
        """
        interrupted = [channel for channel in self._channels.values() if channel.is_interrupted]
        if interrupted or any(channel.error for channel in self._channels.values()):
            wait_ms = 0
        for channel in interrupted:
            channel.ready(0)
        for selected, events in self._selector.select(wait_ms / 1000):
            selected.data.ready(events)
        for key, channel in list(self._channels.items()):
            deadline_ms = channel.deadline_ms
            if deadline_ms is not None and now_ms >= deadline_ms:
                channel.close("a response did not come in time")
            elif channel.error:
                channel.close(channel.error)
            if channel.is_closed:
                self._remove(key, now_ms)

    def _remove(self, key: tuple[Address, str], now_ms: int) -> None:
        channel = self._channels.pop(key)
        host, port = channel.address
        self.last_error = f"{host}:{port}: {channel.error}"
        self._failed[key] = now_ms + self._backoff_ms
        if channel.has_answered:
            self._warned = {warning for warning in self._warned if warning[0] != channel.address}
        else:
            self._attempts[key] = self._attempts.get(key, 0) + 1
            self._warn_once(channel)

    def _warn_once(self, channel: ConsumerChannel) -> None:
        """Log why a broker is not reached, once for a reason while it is tried again and again."""
        failure = channel.address, channel.error
        if failure not in self._warned:
            self._warned.add(failure)
            _logger.warning("the broker at %s:%d is not reached: %s", *channel.address, channel.error)

    def close(self) -> None:
        """Close all connections."""
        for channel in list(self._channels.values()):
            channel.close()
        self._channels.clear()
        self._selector.close()


def _check(address: Address, response: messages.ApiVersionsResponse | None) -> None:
    """Raise if a broker is too old for this consumer."""
    if response is None:
        return
    where = f"{address[0]}:{address[1]}"
    if response.error_code:
        raise RefusedError(f"{where}: versions of APIs", response.error_code)
    served = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    for key, version in _VERSIONS.items():
        least, most = served.get(key, (0, -1))
        if not least <= version <= most:
            raise ProtocolError(f"{where}: the broker does not serve version {version} of API {key}")
