"""Tell the story of expiry_story.py to a real broker and print what was seen, for test_expiry.py.

    python -m tests.broker.record_expiry_story 127.0.0.1:9092 > tests/data/expiry_story.json

The broker needs the settings of that module, and group.initial.rebalance.delay.ms=0 (benchmarks/peers/kafka.sh start
PORT DIR EXTRA.properties). Takes two minutes.
"""

import json
import socket
import struct
import sys
import time
from typing import Any

from kafka_offsets.protocol import messages
from tests.broker.expiry_story import Story


class RealClient:
    """A blocking connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 60)
        self.number = 0

    def send(self, *requests: tuple[Any, int]) -> None:
        for request, version in requests:
            schema = request.SCHEMA
            assert schema.number is not None
            self.number += 1
            header = messages.RequestHeader(schema.number, version, self.number, "story")
            body = messages.encode(header, 2 if version in schema.flexible else 1)
            body += messages.encode(request, version)
            self.socket.sendall(struct.pack(">i", len(body)) + body)

    def call(self, request: Any, version: int) -> Any:
        self.send((request, version))
        frame = self._read(int.from_bytes(self._read(4), "big"))
        cls = messages.find(request.SCHEMA.name.removesuffix("Request") + "Response")
        _, end = messages.decode(messages.ResponseHeader, frame, int(version in cls.SCHEMA.flexible))
        return messages.decode(cls, frame, version, end)[0]

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return bytes(data)


def main(address: str) -> None:
    client = RealClient(address)
    while client.call(
        messages.FindCoordinatorRequest("g"), 1
    ).error_code:  # the offsets topic comes into being
        time.sleep(0.2)
    time.sleep(2)
    began = time.monotonic()

    def wait(until_ms: int) -> None:
        time.sleep(max(0.0, began + until_ms / 1000 - time.monotonic()))

    json.dump(Story(lambda: RealClient(address), wait).tell(), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(sys.argv[1])
