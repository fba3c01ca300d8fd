"""Coordinator of the consumer's group: found, connected to, and found again when it has moved or failed."""

from __future__ import annotations

from kafka_offsets.client.connection import Address
from kafka_offsets.client.consumer.channel import ConsumerChannel
from kafka_offsets.client.consumer.metadata import Metadata
from kafka_offsets.client.consumer.network import GROUP, ConsumerNetwork
from kafka_offsets.client.consumer.settings import ConsumerSettings
from kafka_offsets.client.protocol import OnDone
from kafka_offsets.client.retries import OF_COORDINATOR
from kafka_offsets.errors import RefusedError
from kafka_offsets.protocol import messages

_VERSION = 4
_GROUP = 0


class CoordinatorLink:
    """The link to the coordinator of one group.

    failures  counts how often the coordinator was lost
    """

    def __init__(self, network: ConsumerNetwork, metadata: Metadata, settings: ConsumerSettings) -> None:
        assert settings.group_id is not None
        self.failures = 0
        self._network = network
        self._metadata = metadata
        self._group = settings.group_id
        self._backoff_ms = settings.retry_backoff_ms
        self._address: Address | None = None
        self._channel: ConsumerChannel | None = None
        self._is_in_flight = False
        self._retry_ms = 0

    @property
    def is_ready(self) -> bool:
        """Whether requests can be sent."""
        return self._channel is not None and not self._channel.is_closed

    def deadline_ms(self, now_ms: int) -> int | None:
        """When `step` has something to do."""
        if self.is_ready or self._is_in_flight:
            return None
        return max(self._retry_ms, now_ms)

    def step(self, now_ms: int) -> None:
        """Notice a lost connection; look for the coordinator, and connect to it."""
        if self._channel is not None and self._channel.is_closed:
            self.forget(now_ms)
        if self.is_ready or self._is_in_flight or now_ms < self._retry_ms:
            return
        if self._address is not None:
            self._channel = self._network.channel(self._address, GROUP, now_ms)
            if self._channel is None:  # the connection was just lost: ask another broker for the coordinator
                self._address = None
                self._retry_ms = now_ms + self._backoff_ms
            return
        request = messages.FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=[self._group])
        self._is_in_flight = self._metadata.send_to_any(
            request, _VERSION, now_ms, lambda response: self._found(response, now_ms)
        )
        if not self._is_in_flight:
            self._retry_ms = now_ms + self._backoff_ms

    def _found(self, response: messages.FindCoordinatorResponse | None, now_ms: int) -> None:
        self._is_in_flight = False
        if response is None:
            self._retry_ms = now_ms + self._backoff_ms
            return
        (coordinator,) = response.coordinators
        if coordinator.error_code in OF_COORDINATOR:
            self._retry_ms = now_ms + self._backoff_ms
        elif coordinator.error_code:
            raise RefusedError(f"coordinator of group {self._group}", coordinator.error_code)
        else:
            self._address = coordinator.host, coordinator.port
            self._retry_ms = 0

    def send(
        self,
        request: messages.MessageValue,
        version: int,
        now_ms: int,
        on_done: OnDone,
        timeout_ms: int | None = None,
    ) -> bool:
        """Send a request to the coordinator; return False if it is not known or not connected."""
        if not self.is_ready or self._address is None:
            return False
        return self._network.send(self._address, GROUP, request, version, now_ms, on_done, timeout_ms)

    def forget(self, now_ms: int) -> None:
        """Look for the coordinator again: it has moved or failed."""
        if self._channel is not None:
            self.failures += 1
        self._channel = self._address = None
        self._retry_ms = now_ms
