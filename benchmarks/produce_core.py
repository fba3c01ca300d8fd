"""What a Produce costs in the broker from bytes to bytes: real frames, a log on disk, no sockets.

    python benchmarks/produce_core.py                                    this tree
    PYTHONPATH=ANOTHER_TREE python benchmarks/produce_core.py            another one, in turns with this

Eight connections send five requests of one record of 100 bytes each in one piece; then the turn ends and their answers
are taken. CPU of the process, the least and the median of the rounds.

CPython 3.11.7, one core of an x86-64 machine, 2026-11-22, three runs of each in turns: 25.4, 25.4 and 25.7 us before
answers were let go eight at a time, batches that are all there is read once, and allowances made for compressed ones
alone; 23.4, 22.9 and 23.1 us since.
"""

import argparse
import gc
import os
import statistics
import struct
import tempfile
import time
from pathlib import Path

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core import BrokerCore
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.files import DiskFiles

CONNECTIONS, WINDOW, PARTITIONS = 8, 5, 4
VERSION = 9


def frame(partition: int) -> bytes:
    """A Produce of one record."""
    made = messages.ProduceRequest
    records = bytes(encode_batch([(None, os.urandom(100), (), time.time_ns() // 1_000_000)]))
    topic = made.TopicProduceData("t", partition_data=[made.PartitionProduceData(partition, records)])
    body = messages.encode(messages.RequestHeader(0, VERSION, 1, "benchmark"), 2)
    body += messages.encode(made(None, 1, 30_000, [topic]), VERSION)
    return struct.pack(">i", len(body)) + body


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--turns", type=int, default=300, help="of a round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        core = BrokerCore(Config.load(), DiskFiles(Path(folder)))
        core.create_topic("t", PARTITIONS, {})
        connections = [core.connect(f"peer-{number}", "/127.0.0.1") for number in range(CONNECTIONS)]
        pieces = [frame(number % PARTITIONS) * WINDOW for number in range(CONNECTIONS)]

        def turns(count: int) -> None:
            for _ in range(count):
                for connection, piece in zip(connections, pieces, strict=True):
                    core.receive(connection, piece)
                core.end_turn()
                answers = sum(len(core.drain(connection)) for connection in core.answers.take_output())
                assert answers, "nothing was answered"

        turns(50)
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)  # as `serve` does
        costs = []
        for _ in range(options.rounds):
            before = time.process_time()
            turns(options.turns)
            spent = time.process_time() - before
            costs.append(spent / options.turns / CONNECTIONS / WINDOW * 1e6)
        core.close()
    print(f"{min(costs):.1f} us a Produce at least, {statistics.median(costs):.1f} in the median")


if __name__ == "__main__":
    main()
