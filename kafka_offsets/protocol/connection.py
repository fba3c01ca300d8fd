"""Frames and headers: feed bytes, take requests. No socket.

A frame is an int32 size and as many bytes; a request's begin with its header::

    api_key int16 | api_version int16 | correlation_id int32 | client_id nullable string | tagged fields (header v2)

A response's begin with the correlation id and, under header v1, tagged fields. Source: KIP-482 and the protocol guide.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable
from io import BytesIO

from kafka_offsets.errors import ForeignProtocolError, ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.codec import Encoder

_SIZE = struct.Struct(">i")
_KEY_AND_VERSION = struct.Struct(">hh")
_REST_OF_HEADER = struct.Struct(">ih")
_SIZE_AND_CORRELATION = struct.Struct(">ii")
_SIZE_AND_KEY = struct.Struct(">ih")
_KEY = struct.Struct(">h")
_RESPONSE_HEADER, _TAGGED_RESPONSE_HEADER = bytes(8), bytes(9)
"""Room for the size of the frame and the correlation id; under header v1 no tagged field follows."""

SMALLEST_FRAME = 10
"""Bytes of the shortest request header, without its size."""

_LARGE_FRAME_BYTES = 16 << 20
"""A frame from this size on is put together as its bytes come: to join 90 MB at the end takes 50 ms."""

_LARGE_FRAME_SHARE = 8
"""Memory for the whole of such a frame is taken once so great a part of it has come."""

_TLS_HANDSHAKE = b"\x16\x03"
_HTTP_METHODS = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI")


def _other_protocol(head: bytes) -> str:
    """Return what the first bytes of a connection are, if they are those of another protocol."""
    if head.startswith(_TLS_HANDSHAKE):
        return "a TLS handshake, but this port is plaintext"
    return "an HTTP request" if head[:4] in _HTTP_METHODS else ""


class FrameReader:
    """Cuts a stream of bytes into frames; bytes of an incomplete frame are kept as they came, unless it is large.

    max_bytes       the largest size a peer may announce; a larger or negative one is a ProtocolError before
                    anything is allocated for it; it may be raised between two frames
    buffered_bytes  the number of buffered bytes, including complete frames that were not taken
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._buffer = b""
        self._position = 0
        self._later: deque[bytes] = deque()
        self.buffered_bytes = 0
        self._large: BytesIO | None = None  # the next frame; while there is one, `_buffer` is empty
        self._large_missing = 0

    def feed(self, data: bytes) -> None:
        """Take bytes from the peer."""
        if not data:
            return
        self.buffered_bytes += len(data)
        if self._buffer:
            self._later.append(data)
        elif self._large is not None:
            self._feed_large(data)
        else:
            self._buffer = data

    def clear(self) -> None:
        """Discard the buffered bytes."""
        self._buffer, self._position = b"", 0
        self._later.clear()
        self.buffered_bytes = 0
        self._large = None

    def next_frame(self, api_key: int | None = None) -> bytes | None:
        """Return the next complete frame without its size, or None when more bytes are needed.

        api_key  take the frame only if it is a request of this API; another one stays
        Raises ProtocolError for a size that no frame may have.
        """
        buffer, start = self._buffer, self._position + 4
        limit = len(buffer)
        size, key = _SIZE_AND_KEY.unpack_from(buffer, start - 4) if start + 2 <= limit else (-1, api_key)
        if size < 2 or start + size > limit or size > self.max_bytes:
            return self._next_of_several(api_key) if buffer or self._large is not None else None
        if key != api_key and api_key is not None:
            return None
        end = start + size
        self.buffered_bytes -= 4 + size
        if end < limit:
            self._position = end
        elif self._later:
            self._go_on()
        else:
            self._buffer, self._position = b"", 0
        return buffer[start:end]

    def _next_of_several(self, api_key: int | None) -> bytes | None:
        """Do what `next_frame` does, for any number of pieces and any size."""
        if self._large is not None:
            return self._take_large(api_key)
        head = self._buffer[self._position : self._position + _SIZE_AND_KEY.size]
        if len(head) < _SIZE_AND_KEY.size:
            head = self._head()
            if len(head) < _SIZE.size:
                return None
        (size,) = _SIZE.unpack_from(head)
        if not 0 <= size <= self.max_bytes:
            problem = f"a frame of {size} bytes, where at most {self.max_bytes} are accepted"
            if protocol := _other_protocol(head):
                raise ForeignProtocolError(problem, protocol)
            raise ProtocolError(problem, 0)
        if size + 4 > (buffered := self.buffered_bytes):
            if _LARGE_FRAME_BYTES <= size <= buffered * _LARGE_FRAME_SHARE:
                self._begin_large(size)
            return None
        if size >= 2 and api_key is not None and _KEY.unpack_from(head, 4)[0] != api_key:
            return None
        return self._take(size)

    def _begin_large(self, size: int) -> None:
        """Start to assemble the next, incomplete frame from the bytes that arrive."""
        pieces, buffered = [self._buffer[self._position :], *self._later], self.buffered_bytes
        self.clear()
        self._large, self._large_missing, self.buffered_bytes = BytesIO(bytes(size)), size, buffered
        skipped = _SIZE.size  # the size itself, which may be in several pieces
        for piece in pieces:
            self._feed_large(piece[skipped:])
            skipped -= min(skipped, len(piece))

    def _feed_large(self, data: bytes) -> None:
        """Put bytes in their place in the large frame; what follows it waits."""
        assert self._large is not None
        missing = self._large_missing
        if missing >= len(data):
            self._large_missing -= self._large.write(data)
            return
        self._large_missing -= self._large.write(memoryview(data)[:missing])
        self._later.append(data[missing:])

    def _take_large(self, api_key: int | None) -> bytes | None:
        """Return the large frame if it is complete, and a request of the API if one is given."""
        assert self._large is not None
        if self._large_missing:
            return None
        frame = self._large.getvalue()  # not a copy
        if api_key is not None and _KEY.unpack_from(frame)[0] != api_key:
            return None
        self._large = None
        self.buffered_bytes -= _SIZE.size + len(frame)
        self._go_on()
        return frame

    def _head(self) -> bytes:
        """Return the size of the frame and its API key from several pieces, or fewer bytes if there are no more."""
        head = self._buffer[self._position :]
        for piece in self._later:
            head += piece[: _SIZE_AND_KEY.size - len(head)]
            if len(head) == _SIZE_AND_KEY.size:
                break
        return head

    def _take(self, size: int) -> bytes:
        """Return the next `size` bytes after the size itself; all of them must be buffered.

        Several pieces are joined here, and each byte is copied once.
        """
        self.buffered_bytes -= _SIZE.size + size
        pieces: list[bytes | memoryview] = []
        position, missing = self._position + _SIZE.size, size
        while missing >= (available := len(self._buffer) - position):
            if available > 0:
                pieces.append(memoryview(self._buffer)[position:] if position else self._buffer)
                missing -= available
            position = max(-available, 0)
            self._go_on()
            if not self._buffer:
                break
        self._position = position
        if missing:
            self._position += missing
            pieces.append(memoryview(self._buffer)[position : self._position])
        return b"".join(pieces)

    def _go_on(self) -> None:
        """Drop the piece in `_buffer`; it is empty only if there is no other piece."""
        self._position = 0
        if self._later:
            self._buffer = self._later.popleft()
        else:
            self._buffer = b""


def read_api_key_and_version(frame: bytes) -> tuple[int, int]:
    """Return the first two fields of a request's header; ProtocolError when the frame is too short for one."""
    if len(frame) < SMALLEST_FRAME:
        raise ProtocolError(f"a frame of {len(frame)} bytes is too short for a request header", 0)
    api_key, api_version = _KEY_AND_VERSION.unpack_from(frame)
    return api_key, api_version


def read_request_header(frame: bytes, tagged: bool) -> tuple[int, str, int]:
    """Read the rest of a request's header: (correlation id, client id, where the request itself begins).

    tagged  whether the header has tagged fields (header v2)
    A missing client id is "". Raises ProtocolError.
    """
    correlation_id, length = _REST_OF_HEADER.unpack_from(frame, 4)
    body = SMALLEST_FRAME
    client_id = ""
    if length > 0:
        body += length
        if body > len(frame):
            raise ProtocolError("the client id extends past the end of the frame", 8)
        client_id = frame[SMALLEST_FRAME:body].decode("utf-8", "replace")
    if tagged:
        if frame[body : body + 1] == b"\x00":
            body += 1
        else:
            body = messages.decode(messages.RequestHeader, frame, 2)[1]
    return correlation_id, client_id, body


class Aside:
    """Bytes of an answer that are sent from their own buffer, without a copy.

    A message contains it in place of bytes. An encoder writes their length, and then `out += aside`, which leaves
    `out` unchanged and notes the position.
    """

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def __len__(self) -> int:
        return len(self.data)

    def __radd__(self, out: bytearray) -> bytearray:
        self.position = len(out)
        return out


class Parts:
    """A response frame in pieces, its length that of all of them together."""

    __slots__ = ("pieces", "size")

    def __init__(self, pieces: list[bytes | bytearray]) -> None:
        self.pieces = pieces
        self.size = sum(map(len, pieces))

    def __len__(self) -> int:
        return self.size


def encode_in_parts(
    encode: Encoder,
    response: messages.MessageValue,
    correlation_id: int,
    tagged: bool,
    asides: Iterable[Aside],
) -> Parts:
    """Return what `encode_response` does, but with `asides`, in their order there, as pieces of their own."""
    out = bytearray(_TAGGED_RESPONSE_HEADER if tagged else _RESPONSE_HEADER)
    encode(response, out)
    pieces: list[bytes | bytearray] = []
    start = 0
    for aside in asides:
        pieces += out[start : aside.position], aside.data
        start = aside.position
    pieces.append(out[start:])
    parts = Parts(pieces)
    _SIZE_AND_CORRELATION.pack_into(pieces[0], 0, len(parts) - 4, correlation_id)
    return parts


def encode_response(
    encode: Encoder, response: messages.MessageValue, correlation_id: int, tagged: bool
) -> bytearray:
    """Return a whole response frame, its size in front.

    encode  the encoder of the response's version
    tagged  whether the header has tagged fields (header v1)
    """
    out = bytearray(_TAGGED_RESPONSE_HEADER if tagged else _RESPONSE_HEADER)
    encode(response, out)
    _SIZE_AND_CORRELATION.pack_into(out, 0, len(out) - 4, correlation_id)
    return out
