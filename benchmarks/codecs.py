"""Time of decoding and encoding messages, beside kafka-python 3 and kio in the same run on the same values.

    python benchmarks/codecs.py                 everything
    python benchmarks/codecs.py --only Fetch    messages whose name begins so

Each library gets the same bytes and, for encoding, the value that it decoded from them; where one writes other bytes
than we do, the benchmark ends. All are called as their users call them, bytes to value and value to bytes, and are
measured in turn, A B C A B C ...; the tables show medians of CPU time (what else runs on the machine shall not count)
and how many times as fast as the better of the two we are (goals: decode 1.5, encode 3; `!` marks a miss). "before
flexible" is a version without compact lengths and tags.

kio decodes in a native module (since 0.6): a partition of OffsetCommit takes it 0.12 us, and making one empty object in
Python takes 0.09. "Python" is therefore the ratio to kafka-python alone, which like us decodes in Python that is
compiled on first use.

"First use" is what the first message of a kind costs in a fresh process: reading its schema, making its classes,
compiling the decoder or the encoder of its newest version, and the first call (goal 2 ms of CPU time), the slowest
first; the best of several processes. Imports too are timed in fresh processes, by the clock, their median (goal for
the package: 60 ms). Needs kafka-python and kio.

CPython 3.11.7, two cores of a shared x86-64 machine, kafka-python 3.0.12, kio 0.6.5:

    us a call                                    decode kafka-p.    kio  ratio  Python   encode   ratio
    OffsetCommitRequest v10, 1                     1.45    3.94    1.21   0.83    2.71     1.04    5.30
    OffsetCommitRequest v10, 10                    4.16    8.74    2.37   0.57    2.10     2.71    6.68
    OffsetCommitRequest v10, 100                  31.10   55.19   13.24   0.43    1.77    17.96    8.07
    OffsetCommitResponse v10, 1                    1.02    3.09    1.07   1.05    3.04     0.66    6.35
    OffsetCommitResponse v10, 10                   2.19    4.64    1.66   0.76    2.11     1.45    7.56
    OffsetCommitResponse v10, 100                 14.40   21.48    7.67   0.53    1.49     8.59    9.02
    OffsetFetchRequest v10, 1                      1.46    3.76    1.23   0.84    2.57     0.98    5.23
    OffsetFetchRequest v10, 10                     1.49    4.46    1.29   0.87    2.99     1.08    5.26
    OffsetFetchRequest v10, 100                    2.49   11.29    1.91   0.77    4.53     2.25    5.38
    OffsetFetchResponse v10, 1                     1.75    4.29    1.40   0.80    2.45     1.12    5.96
    OffsetFetchResponse v10, 10                    4.57    9.91    2.75   0.60    2.17     3.19    6.32
    OffsetFetchResponse v10, 100                  33.70   65.53   15.87   0.47    1.94    22.83    6.89
    OffsetCommitRequest v7, 10, before flexible    3.94    7.52    1.69   0.43    1.91     2.61    4.26
    OffsetFetchResponse v5, 10, before flexible    4.00    7.62    1.83   0.46    1.91     2.88    3.90
    JoinGroupRequest v9, 2 protocols               1.74    3.71    0.69   0.39    2.13     1.13    5.70
    JoinGroupResponse v9, 10 members               4.90    9.75    1.72   0.35    1.99     2.81    6.14
    FetchRequest v18, 10                           3.35    5.93    2.75   0.82    1.77     2.55   11.89
    FetchResponse v18, 10 batches                 11.48   12.96    4.36   0.38    1.13     5.86    8.95
    ProduceRequest v13, 10 batches                 4.97    9.50    2.26   0.45    1.91     3.25    4.97
    ProduceResponse v13, 10                        5.62    7.99    2.72   0.48    1.42     3.07    9.50
    MetadataRequest v13, 100 topics               27.41  149.62    8.12   0.30    5.46    14.23    9.27
    MetadataResponse v13, 100 topics             276.52  837.53  150.54   0.54    3.03   200.01    4.83

    First use, many processes competing, before and after the text was halved: StreamsGroupDescribeResponse 6.4 ms and
    2.0, StreamsGroupHeartbeatRequest 5.7 and 1.9, ConsumerGroupDescribeResponse 3.2 and 1.4, MetadataResponse 2.3 and
    1.9, FetchResponse 1.9 and 1.4. Importing the package 25 ms, its messages 68.
"""

import argparse
import importlib.util
import re
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

from kafka_offsets import schema_files
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch

ROUNDS, ROUND_S = 15, 0.004
GOALS = {"decode": 1.5, "encode": 3.0}
FIRST_USE_RUNS, FIRST_USE_GOAL_MS = 5, 2.0
IMPORT_RUNS, IMPORT_GOAL_MS = 10, 60.0
NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


class Case(NamedTuple):
    """A value that is decoded and encoded."""

    title: str
    message: Any
    version: int


class Codec(NamedTuple):
    """One library's way to decode and encode one version of a message."""

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes | bytearray]


# The values.


def commit_request(count: int) -> Any:
    m = messages.OffsetCommitRequest
    partitions = [m.Partition(index, 123_456 + index, 7, -1, "metadata") for index in range(count)]
    return m("group-000001", 42, "consumer-1-4b9c8f0e", None, -1, [m.Topic("topic-01", TOPIC_ID, partitions)])


def commit_response(count: int) -> Any:
    m = messages.OffsetCommitResponse
    topic = m.Topic("topic-01", TOPIC_ID, [m.Partition(index, 0) for index in range(count)])
    return m(0, [topic])


def fetch_offsets_request(count: int) -> Any:
    m = messages.OffsetFetchRequest
    topics = [m.Topics("topic-01", TOPIC_ID, list(range(count)))]
    return m(groups=[m.Group("group-000001", None, -1, topics)])


def fetch_offsets_response(count: int) -> Any:
    m = messages.OffsetFetchResponse
    partitions = [m.Partitions(index, 123_456 + index, 7, "metadata", 0) for index in range(count)]
    return m(groups=[m.Group("group-000001", [m.Topics("topic-01", TOPIC_ID, partitions)], 0)])


def old_fetch_offsets_response(count: int) -> Any:
    m = messages.OffsetFetchResponse
    partitions = [m.Partition(index, 123_456 + index, 7, "metadata", 0) for index in range(count)]
    return m(topics=[m.Topic("topic-01", partitions)])


def join_request() -> Any:
    m = messages.JoinGroupRequest
    protocols = [m.Protocol(name, bytes(60)) for name in ("cooperative-sticky", "range")]
    return m("group-000001", 45_000, 300_000, "consumer-1-4b9c8f0e", None, "consumer", protocols, "rejoining")


def join_response(members: int) -> Any:
    m = messages.JoinGroupResponse
    names = [f"consumer-{index}-4b9c8f0e" for index in range(members)]
    joined = [m.Member(name, None, bytes(60)) for name in names]
    return m(0, 0, 42, "consumer", "cooperative-sticky", names[0], False, names[0], joined)


def batch() -> bytes:
    return bytes(encode_batch([(b"key-%03d" % index, bytes(100), (), NOW) for index in range(10)]))


def fetch_request(count: int) -> Any:
    m = messages.FetchRequest
    partitions = [m.FetchPartition(index, 7, 123_456, -1, -1, 1 << 20) for index in range(count)]
    return m(
        max_wait_ms=500,
        min_bytes=1,
        session_id=9,
        session_epoch=3,
        topics=[m.FetchTopic("topic-01", TOPIC_ID, partitions)],
    )


def fetch_response(count: int) -> Any:
    m, records = messages.FetchResponse, batch()
    partitions = [
        m.PartitionData(index, 0, 123_456, 123_456, 0, preferred_read_replica=-1, records=records)
        for index in range(count)
    ]
    return m(0, 0, 9, [m.FetchableTopicResponse("topic-01", TOPIC_ID, partitions)])


def produce_request(count: int) -> Any:
    m, records = messages.ProduceRequest, batch()
    data = [m.PartitionProduceData(index, records) for index in range(count)]
    return m(None, -1, 30_000, [m.TopicProduceData("topic-01", TOPIC_ID, data)])


def produce_response(count: int) -> Any:
    m = messages.ProduceResponse
    partitions = [m.PartitionProduceResponse(index, 0, 123_456, -1, 0) for index in range(count)]
    return m([m.TopicProduceResponse("topic-01", TOPIC_ID, partitions)])


def metadata_request(topics: int) -> Any:
    m = messages.MetadataRequest
    return m([m.Topic(bytes(16), f"topic-{index:03}") for index in range(topics)])


def metadata_response(topics: int) -> Any:
    m = messages.MetadataResponse
    found = [
        m.Topic(
            0,
            f"topic-{index:03}",
            TOPIC_ID,
            False,
            [m.Partition(0, partition, 1, 7, [1, 2, 3], [1, 2, 3], []) for partition in range(3)],
        )
        for index in range(topics)
    ]
    brokers = [m.Broker(node, f"broker-{node}.example.org", 9092, None) for node in (1, 2, 3)]
    return m(0, brokers, "4L6g3nShT-eMCtK--X86sw", 1, found)


def cases() -> list[Case]:
    """All values, by message; those of many partitions are about one topic."""
    found = []
    for count in (1, 10, 100):
        some = f"{count} partition{'s'[: count > 1]}"
        found += [
            Case(some, commit_request(count), 10),
            Case(some, commit_response(count), 10),
            Case(some, fetch_offsets_request(count), 10),
            Case(some, fetch_offsets_response(count), 10),
        ]
    found.sort(key=lambda case: type(case.message).__name__)
    old = "10, before flexible"
    found += [
        Case(old, commit_request(10), 7),
        Case(old, old_fetch_offsets_response(10), 5),
        Case("2 protocols", join_request(), 9),
        Case("10 members", join_response(10), 9),
        Case("10 partitions", fetch_request(10), 18),
        Case("10 batches", fetch_response(10), 18),
        Case("10 batches", produce_request(10), 13),
        Case("10 partitions", produce_response(10), 13),
        Case("100 topics", metadata_request(100), 13),
        Case("100 topics", metadata_response(100), 13),
    ]
    return found


# The libraries.


def ours(name: str, version: int) -> Codec:
    cls = messages.find(name)
    encode, decode = messages.encode, messages.decode
    return Codec(lambda data: decode(cls, data, version)[0], lambda value: encode(value, version))


def kafka_python(name: str, version: int) -> Codec:
    places = ("consumer", "producer", "metadata")
    modules = [importlib.import_module(f"kafka.protocol.{place}") for place in places]
    cls = next(getattr(module, name) for module in modules if hasattr(module, name))
    return Codec(lambda data: cls.decode(data, version=version), lambda value: value.encode())


def kio(name: str, version: int) -> Codec:
    from kio.serial import entity_reader, entity_writer

    title, kind = re.fullmatch(r"(\w+)(Request|Response)", name).groups()  # type: ignore[union-attr]
    module = f"kio.schema.{messages.snake_case(title)}.v{version}.{kind.lower()}"
    cls = getattr(importlib.import_module(module), name)
    read, write = entity_reader(cls), entity_writer(cls)

    def encode(value: Any) -> bytes:
        with BytesIO() as out:
            write(out, value)
            return out.getvalue()

    return Codec(lambda data: read(data, 0)[0], encode)


LIBRARIES = {"ours": ours, "kafka-python": kafka_python, "kio": kio}


# The measurements.


def medians(works: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The median CPU time of a call of each, in us; measured in turn."""
    timers = {name: timeit.Timer(work, timer=time.process_time) for name, work in works.items()}
    calls = {name: max(1, int(ROUND_S / max(timer.timeit(20) / 20, 1e-7))) for name, timer in timers.items()}
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, timer in timers.items():
            times[name].append(timer.timeit(calls[name]) / calls[name] * 1e6)
    return {name: statistics.median(each) for name, each in times.items()}


def measure(case: Case) -> tuple[int, dict[str, dict[str, float]]]:
    """The size of a case in bytes, and for both directions the time of each library."""
    name = type(case.message).__name__
    data = messages.encode(case.message, case.version)
    codecs = {library: make(name, case.version) for library, make in LIBRARIES.items()}
    values = {library: codec.decode(data) for library, codec in codecs.items()}
    for library, codec in codecs.items():
        if bytes(codec.encode(values[library])) != data:
            sys.exit(f"{library} writes other bytes of {name} v{case.version} ({case.title})")
    decode = {library: partial(codec.decode, data) for library, codec in codecs.items()}
    encode = {library: partial(codec.encode, values[library]) for library, codec in codecs.items()}
    return len(data), {"decode": medians(decode), "encode": medians(encode)}


def speed(prefix: str) -> None:
    heads = "".join(f"{name:>13}" for name in LIBRARIES) + f"{'ratio':>7}"
    print(f"{'us a call':45}{'bytes':>6} {'decode' + heads[6:]}{'Python':>8}    {'encode' + heads[6:]}")
    worst = {"decode": float("inf"), "Python": float("inf"), "encode": float("inf")}
    for case in cases():
        name = type(case.message).__name__
        if not name.startswith(prefix):
            continue
        size, directions = measure(case)
        line = f"{f'{name} v{case.version}, {case.title}':45}{size:6} "
        for direction, times in directions.items():
            ratio = min(time for library, time in times.items() if library != "ours") / times["ours"]
            worst[direction] = min(worst[direction], ratio)
            line += "".join(f"{time:13.2f}" for time in times.values())
            line += f"{ratio:7.2f}{'!' if ratio < GOALS[direction] else ' '}"
            if direction == "decode":
                ratio = times["kafka-python"] / times["ours"]
                worst["Python"] = min(worst["Python"], ratio)
                line += f"{ratio:7.2f}{'!' if ratio < GOALS[direction] else ' '} "
        print(line.rstrip(), flush=True)
    print("least ratios:", ", ".join(f"{name} {ratio:.2f}" for name, ratio in worst.items()), end="\n\n")


_FIRST_USE = """
import gc, sys, time
from kafka_offsets.protocol import messages
name, version, data = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
gc.collect()  # the garbage of the imports shall not be counted
start = time.process_time()
cls = messages.find(name)
made = time.process_time()
if data:
    messages.decode(cls, data, version)
else:
    messages.encode(cls(), version)
end = time.process_time()
print(made - start, end - made, end - start)
"""

_IMPORT = """
import importlib, sys, time
start = time.perf_counter()
importlib.import_module(sys.argv[1])
print(time.perf_counter() - start)
"""


def in_fresh_process(code: str, *arguments: str) -> list[float]:
    """The numbers that a program prints, in ms."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    )
    return [float(word) * 1e3 for word in done.stdout.split()]


def first_use(prefix: str, shown: int = 12) -> None:
    found = []
    for name in messages.names():
        if name.startswith(prefix):
            cls, version = messages.find(name), messages.find(name).SCHEMA.versions.last
            for kind, data in (("decode", messages.encode(cls(), version).hex()), ("encode", "")):
                runs = [in_fresh_process(_FIRST_USE, name, str(version), data) for _ in range(FIRST_USE_RUNS)]
                found.append((f"{name} v{version}", kind, min(runs, key=lambda run: run[-1])))
    found.sort(key=lambda item: -item[2][-1])
    print(f"{'first use, ms':45}{'classes':>9}{'codec':>9}{'all':>7}")
    for title, kind, (classes, codec, total) in found[:shown]:
        mark = "!" if total > FIRST_USE_GOAL_MS else ""
        print(f"{f'{title}, {kind}':45}{classes:9.2f}{codec:9.2f}{total:7.2f}{mark}")
    print(f"{len(found) // 2} messages of {len(schema_files.names())} schema files\n")


def import_times() -> None:
    for module in ("kafka_offsets", "kafka_offsets.protocol.messages", "kafka_offsets.broker.network.server"):
        times = [in_fresh_process(_IMPORT, module)[0] for _ in range(IMPORT_RUNS)]
        median = statistics.median(times)
        mark = "!" if module == "kafka_offsets" and median > IMPORT_GOAL_MS else ""
        print(f"import {module:34}{median:6.1f} ms{mark}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="PREFIX", help="messages whose name begins so")
    parser.add_argument("--speed", action="store_true", help="decoding and encoding alone")
    options = parser.parse_args()
    for package in ("kafka", "kio"):
        if importlib.util.find_spec(package) is None:
            sys.exit(f"codecs.py: {package} is missing; install it by: pip install kafka-python kio")
    speed(options.only)
    if not options.speed:
        first_use(options.only)
        import_times()


if __name__ == "__main__":
    main()
