"""Frame stream: the frames of one connection, encrypted with TLS where the listener wants that. Bytes in, bytes out.

A shell moves the bytes between a stream and a socket, whether that blocks or not. Without a socket, nor the time.
"""

import ssl

from kafka_offsets.client.security import ClientSecurity
from kafka_offsets.errors import ConnectionLostError, KafkaOffsetsError, ListenerError, ProtocolError
from kafka_offsets.protocol.connection import FrameReader
from kafka_offsets.security.tls import WEAK_IS_TAKEN

READ_BYTES = 1 << 16
"""How much a shell reads at once."""

_NEEDS_TLS = "the broker answers with TLS: security.protocol must be SSL or SASL_SSL"
_TLS_ALERT = b"\x15\x03"


class FrameStream:
    """The frames of a connection that this side has opened.

    max_bytes  the largest frame that is accepted
    peer       what the other side is, for errors
    where      the address of the other side, for errors
    is_open    whether frames pass: the handshake of TLS has ended, if there is any
    is_accepted  whether the other side serves this client: its listener has the right protocol
    error      why no frame comes after those that were received; None while the connection lasts
    is_lost    whether that is because the connection was closed, or has failed
    """

    def __init__(
        self, address: tuple[str, int], security: ClientSecurity, max_bytes: int, peer: str = "the broker"
    ) -> None:
        self.where = f"{address[0]}:{address[1]}"
        self.is_accepted = self.is_lost = False
        self.error: KafkaOffsetsError | None = None
        self._host, self._security, self._peer = address[0], security, peer
        self.is_open = security.tls is None
        self._tls: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._unsent = bytearray()
        self._frames = FrameReader(max_bytes)

    @property
    def why(self) -> str:
        """What `error` says, without the address."""
        return str(self.error or "").removeprefix(f"{self.where}: ")

    def put(self, frame: bytes) -> None:
        """Have a frame, with its size, sent after those before it."""
        self._unsent += frame

    def take_output(self) -> bytes:
        """Return the bytes to send now; the shell calls this once it is connected, and after each call of others."""
        if self._security.tls is not None:
            self._run_tls(self._security.tls)
            return self._outgoing.read()
        output = bytes(self._unsent)
        self._unsent.clear()
        return output

    def receive(self, data: bytes) -> None:
        """Take bytes of the other side; none: it has closed the connection."""
        if self._security.tls is not None:
            self._incoming.write(data) if data else self._incoming.write_eof()
            self._run_tls(self._security.tls)
            return
        if not self.is_accepted and data.startswith(_TLS_ALERT):
            self.fail(ListenerError(f"{self.where}: {_NEEDS_TLS}"))
        self._feed(data)

    def next_frame(self) -> bytes | None:
        """Return the next frame without its size, None when more bytes are needed. Raises `error`."""
        try:
            frame = self._frames.next_frame()
        except ProtocolError as error:
            frame = None
            self.fail(ProtocolError(f"{self.where}: {error}"))
        if frame is None and self.error is not None:
            raise self.error
        return frame

    def lose(self, why: str = "") -> None:
        """The connection has failed, or was closed. A listener does not answer what is not its protocol."""
        if self.error is not None:
            return
        self.is_lost = True
        closed = f"{self._peer} closed the connection"
        why = why or f"{closed} before it answered"
        if not self.is_open:
            why = f"{closed} during the TLS handshake: has its listener TLS?"
            self.error = ListenerError(f"{self.where}: {why}")
        elif self.is_accepted:
            self.error = ConnectionLostError(f"{self.where}: {why}")
        else:
            protocol = self._security.protocol
            key = ", and does it want a certificate of the client" if protocol.endswith("SSL") else ""
            self.error = ListenerError(
                f"{self.where}: {why}: is {protocol} the protocol of its listener{key}?"
            )

    def fail(self, error: KafkaOffsetsError) -> None:
        """No more frames come: this side has a reason to close the connection."""
        if self.error is None:
            self.error = error

    def _feed(self, data: bytes) -> None:
        if data:
            self._frames.feed(data)
        else:
            self.lose()

    def _run_tls(self, context: ssl.SSLContext) -> None:
        """Shake hands, encrypt what is to be sent, and decrypt what has arrived."""
        try:
            if self._tls is None:
                self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=self._host)
            if not self.is_open:
                self._tls.do_handshake()
                self.is_open = True
            while self._unsent:
                del self._unsent[: self._tls.write(self._unsent)]
            while self.error is None:
                self._feed(self._tls.read(READ_BYTES))
        except ssl.SSLWantReadError:
            pass  # the other side has its turn
        except ssl.SSLError as error:
            self._fail_encrypted(error)

    def _fail_encrypted(self, error: ssl.SSLError) -> None:
        """TLS has failed; with TLS 1.3 a broker refuses a client after the handshake of that."""
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            self.lose()
            return
        if isinstance(error, ssl.SSLCertVerificationError):
            way_out = f": {WEAK_IS_TAKEN}" if error.verify_message.endswith("too weak") else ""
            why = f"its certificate is refused: {error.verify_message}{way_out}"
        else:
            reason = error.reason or error.strerror or str(error)
            why = f"TLS failed: {reason.replace('_', ' ').lower()}"
        if self.is_accepted:
            self.lose(why)
        else:
            self.fail(ListenerError(f"{self.where}: {why}"))
