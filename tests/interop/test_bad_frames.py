"""No bytes harm the broker: 24 frames with Kafka's known reaction, and many mutated ones beside a watchdog.

KAFKA_OFFSETS_FUZZ_FRAMES mutated frames are sent (10,000 unless told otherwise), from KAFKA_OFFSETS_SEED if given.
"""

import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers import wire
from tests.interop.broker_process import OVERRIDE, REPOSITORY, BrokerProcess
from tests.interop.frames import BadFrame, bad_frames, mutate, sized, valid_frames
from tests.interop.fuzzer import Fuzzer
from tests.interop.waiting import until
from tests.slowness import slowness

pytestmark = pytest.mark.interop

FRAMES = int(os.environ.get("KAFKA_OFFSETS_FUZZ_FRAMES", "10000"))
SEED = int(os.environ.get("KAFKA_OFFSETS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
# Goal B2: CPU of one bad frame. The best of a few, since timers of the broker run beside it; more on a busy machine.
CPU_NS, CPU_NS_PER_KIB = 5_000_000, 500_000
ATTEMPTS, MOST_ATTEMPTS = 3, 15
# Goal B1: CPU of the broker while others wait, how often they are served at least, and how much memory may stay.
WATCHDOG_CPU_MS = 100.0
FRAMES_PER_ANSWER = 100
GROWTH_BYTES = 16 << 20
REACTION_S = 60.0
# Where the error code stands in the answers that are short enough to say so: after the correlation id.
ERRORS = {"JoinGroup v0 no protocols": (4, 23)}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of our own, whose CPU and memory no other test uses."""
    process = BrokerProcess(tmp_path_factory.mktemp("frames") / "data")
    address = process.start()
    with wire.Connection(address) as connection:
        assert connection.create_topic("orders", 4) == 0
        until(
            lambda: connection.find_coordinator("zz") == 0,
            "the group of the JoinGroup frame has a coordinator",
        )
    yield process
    process.stop()


def reaction(address: str, data: bytes) -> bytes | None:
    """The first answer of the broker to these bytes, or None when it closes the connection."""
    with wire.Connection(address, REACTION_S) as connection:
        try:
            connection.socket.sendall(data)
            return connection.receive()
        except (wire.WireError, ConnectionError):
            return None


@pytest.mark.parametrize("frame", bad_frames(), ids=lambda frame: frame.name)
def test_a_bad_frame_gets_the_reaction_of_kafka(broker: BrokerProcess, frame: BadFrame) -> None:
    costs: list[int] = []
    limit_ns = CPU_NS + CPU_NS_PER_KIB * len(frame.data) / 1024
    while len(costs) < ATTEMPTS or (len(costs) < MOST_ATTEMPTS and min(costs) > limit_ns):
        before = broker.cpu_ns()
        answer = reaction(broker.address, frame.data)
        costs.append(broker.cpu_ns() - before)
        assert (answer is None) == frame.closed, answer
        if answer is not None:
            assert answer[:4] == frame.data[8:12], "the answer carries the correlation id"
        if answer is not None and frame.name in ERRORS:
            position, code = ERRORS[frame.name]
            assert struct.unpack_from(">h", answer, position) == (code,)
    with wire.Connection(broker.address) as connection:
        assert connection.api_versions() == 0, "others are served"
    assert broker.alive
    broker.assert_clean_log()
    print(f"CPU of {len(costs)} attempts in ms: {[cost / 1e6 for cost in costs]}")
    if not OVERRIDE:  # a JVM is busy with itself
        assert min(costs) <= limit_ns * slowness()


@pytest.mark.parametrize("name", valid_frames())
def test_a_valid_frame_is_answered(broker: BrokerProcess, name: str) -> None:
    body = valid_frames()[name]
    answer = reaction(broker.address, struct.pack(">i", len(body)) + body)
    assert answer is not None and answer[:4] == body[4:8]


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def mutated(chance: random.Random, count: int) -> Iterator[bytes]:
    """Frames to send, sizes included."""
    frames = list(valid_frames().values())
    for _ in range(count):
        yield sized(chance, mutate(chance, chance.choice(frames)))


@pytest.mark.timeout(120 + FRAMES // 100)
def test_mutated_frames_disturb_no_other_client(broker: BrokerProcess) -> None:
    print(f"seed {SEED}, {FRAMES} frames")
    chance = random.Random(SEED)
    arguments = ["-m", "tests.interop.watchdog", broker.address, str(broker.pid)]
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, *arguments], stdin=pipe, stdout=pipe, cwd=REPOSITORY) as watchdog:
        warm, fuzzer = Fuzzer(broker.address), Fuzzer(broker.address)
        warm.run(mutated(chance, FRAMES // 5))
        before = resident_bytes(broker.pid)
        fuzzer.run(mutated(chance, FRAMES - FRAMES // 5))
        growth = resident_bytes(broker.pid) - before
        report, _ = watchdog.communicate()
    outcomes = warm.outcomes + fuzzer.outcomes
    print(f"{dict(outcomes)}; memory {growth / 1e6:+.1f} MB; watchdog {report.decode()}")
    assert broker.alive
    broker.assert_clean_log()
    assert sum(outcomes.values()) == FRAMES
    assert outcomes["answered"] > FRAMES // 20 and outcomes["closed"] > FRAMES // 20
    watched = json.loads(report)
    assert watched["answers"] > FRAMES // FRAMES_PER_ANSWER, "the watchdog was served throughout"
    if not OVERRIDE:  # a JVM collects garbage when it likes
        assert watched["longest_cpu_ms"] <= WATCHDOG_CPU_MS * slowness()
        assert growth <= GROWTH_BYTES
