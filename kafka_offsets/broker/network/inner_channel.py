"""Inner channel: a connection between two brokers of one process, with the frames of the wire and without a socket."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kafka_offsets.broker.wire.channel import OnAnswer
from kafka_offsets.client.protocol import Call, ClientProtocol
from kafka_offsets.client.security import PLAINTEXT
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages

if TYPE_CHECKING:
    from kafka_offsets.broker.network.server import Server
    from kafka_offsets.broker.wire.connection import ClientConnection

_MOST_BYTES = (1 << 31) - 1


class Network(Protocol):
    """Connects the brokers of a process."""

    def server(self, node_id: int) -> Server | None:
        """Return the server of a node that is up."""

    def carry(self, source: int, target: int, deliver: Callable[[], None]) -> bool:
        """Have `deliver` called later, in order; False if nothing can pass between these nodes."""


class InnerChannel:
    """A connection from one node to another.

    client_id  in the header of its requests
    _protocol  that of this connection: what belongs to a lost one is dropped where it arrives
    _closed  counts the calls of `close`: what was lost before one is not reported after it
    """

    def __init__(self, network: Network, source: int, client_id: str, target: int) -> None:
        self._network = network
        self._source, self._target = source, target
        self.client_id = client_id
        self._protocol = self._new_protocol()
        self._closed = 0
        self._connection: ClientConnection | None = None
        self._of: Server | None = None

    def send(self, request: messages.MessageValue, version: int, on_answer: OnAnswer) -> None:
        """Send a request."""
        protocol = self._protocol
        call = protocol.send(request, version, on_answer)
        arrive = partial(self._arrive, protocol, call, protocol.take_output())
        if not self._network.carry(self._source, self._target, arrive):
            self._lose()

    def _new_protocol(self) -> ClientProtocol:
        return ClientProtocol(("node", self._target), self.client_id, PLAINTEXT, _MOST_BYTES)

    def _arrive(self, protocol: ClientProtocol, call: Call, frame: bytes) -> None:
        """Decide a request at the other broker, unless its connection was closed on its way."""
        if protocol is not self._protocol:
            return
        server = self._network.server(self._target)
        if server is None:
            self._lose()
            return
        if server is not self._of or self._connection is None or self._connection.closing:
            if call is not protocol.first:
                self._lose()  # an earlier request has arrived on a connection that is gone
                return
            self._of = server
            self._connection = server.core.connect(f"node {self._source}", "/127.0.0.1", self)
            self._connection.apis = server.served()
        try:
            server.core.receive(self._connection, frame)
        except ProtocolError as error:
            server.core.responses.refuse(self._connection, error)
        server.request_turn()

    def flush(self) -> None:
        """Carry the responses back; the server calls this at the end of its turn."""
        assert self._of is not None and self._connection is not None
        connection = self._connection
        data = self._of.core.drain(connection)
        if connection.closing:
            self._of.core.disconnect(connection)
            self._connection = None
            self._lose()
            return
        arrive = partial(self._receive, self._protocol, data)
        if data and not self._network.carry(self._target, self._source, arrive):
            self._lose()

    def _receive(self, protocol: ClientProtocol, data: bytes) -> None:
        """Pass answers on to who has sent the requests."""
        protocol.receive(data)
        while protocol is self._protocol and (answered := protocol.next_response()) is not None:
            self._answer(*answered)

    def _answer(self, on_answer: OnAnswer, response: object) -> None:
        server = self._network.server(self._source)
        if server is not None:
            on_answer(response)
            server.request_turn()

    def has_left(self) -> bool:
        """Return False: a closed channel disconnects at once."""
        return False

    def abort(self) -> None:
        """Lose the connection: the other broker stops."""
        self._connection = None
        self._lose()

    def _lose(self) -> None:
        self._disconnect()
        lost, self._protocol = self._protocol.abandon(), self._new_protocol()
        closed = self._closed

        def report() -> None:
            """Answer with None, unless the channel was closed in the meantime."""
            for on_answer in lost:
                if closed == self._closed:
                    self._answer(on_answer, None)

        if lost:
            self._network.carry(self._source, self._source, report)

    def close(self) -> None:
        """Close the connection; its requests get no response."""
        self._protocol = self._new_protocol()
        self._closed += 1
        self._disconnect()

    def _disconnect(self) -> None:
        """Let the other broker drop the connection: what waits there would be sent as the answer to a later request."""
        connection, self._connection = self._connection, None
        if connection is not None and self._of is not None and not connection.closing:
            self._of.core.disconnect(connection)
