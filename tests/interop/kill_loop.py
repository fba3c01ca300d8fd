"""kill -9 while eight clients commit, over and over on one data directory.

Every round recovers what the last one left, writes on, and crashes again. Each client has a group of its own and
commits 1, 2, 3, … to all partitions of a topic: after a start every partition of a group has the same offset, the last
one acknowledged or a later one that was sent. The frames are made by hand, so that our codecs do not judge themselves.

    python -m tests.interop.kill_loop    the full form: 1,000 rounds for each policy of fsync; goes on where it stopped
    python -m tests.interop.kill_loop --compacting    1,000 rounds over all policies, compaction forced every 50 ms

With --compacting what the broker serves after each start is compared with a replay of the log that the kill has left,
and with a replay of that log when it has been compacted to the end.
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from pathlib import Path

from tests.drivers import wire
from tests.interop import broker_process, compacting_broker
from tests.interop.broker_process import BrokerProcess
from tests.interop.committer import Committer
from tests.interop.replays import replay_before_and_after
from tests.interop.waiting import until
from tests.slices import DoneSlices

POLICIES = ("never", "interval", "commit")
ROUNDS = 1000
ROUNDS_OF_A_SLICE = 25
CLIENTS = 8
WINDOW = 8
PARTITIONS = 3
TOPIC = "kill-loop"
KILL_AFTER_S = (0.005, 0.200)
PATIENCE_S = 60.0  # a busy disk may hold an fsync for long
# Small segments and a cleaner that does not rest, so that rounds crash beside both.
COMPACTING_S = 60.0
COMPACTING_PAUSE_S = 0.01  # eight clients without a pause write quicker than a busy machine compacts
COMPACTING_SETTINGS = {
    "offsets.topic.num.partitions": "1"
}  # one log, so that one compaction comes after the other
COMPACTING = (sys.executable, "-m", compacting_broker.__name__)
SETTINGS = {
    "offsets.topic.segment.bytes": "1048576" if broker_process.OVERRIDE else "65536",  # Kafka refuses less
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "fsync.interval.ms": "20",
}


class WindowCommitter(Committer):
    """Commits with a window of requests in flight."""

    def __init__(self, number: int, pause_s: float = 0.0) -> None:
        super().__init__(f"kill-loop-{number}", TOPIC, PARTITIONS)
        self._pause_s = pause_s
        self.under_way = threading.Event()

    def run(self, address: str) -> None:
        """Commit until the broker is gone."""
        self.under_way.clear()
        pending: deque[int] = deque()
        try:
            with wire.Connection(address, PATIENCE_S) as connection:
                while True:
                    if self._pause_s:
                        threading.Event().wait(self._pause_s)
                    while len(pending) < WINDOW:
                        pending.append(self.send(connection))
                    if self.take(connection, pending.popleft()):
                        self.under_way.set()
        except (wire.WireError, ConnectionError):
            pass  # it was killed, as it should be


def prepare(address: str, committers: list[WindowCommitter]) -> None:
    """The topic exists, and every group has a coordinator that takes its first commit."""
    with wire.Connection(address) as connection:
        assert connection.create_topic(TOPIC, PARTITIONS) in {0, 36}
        for committer in committers:
            until(lambda group=committer.group: connection.find_coordinator(group) == 0, "a coordinator")  # type: ignore[misc]
            commit = wire.offset_commit(0, committer.group, TOPIC, 0, PARTITIONS)

            def accepted(commit: bytes = commit) -> bool:
                connection.socket.sendall(commit)
                return wire.offset_commit_errors(connection.receive(), TOPIC) == {0}

            until(accepted, "the first commit is accepted")


def commit_until_killed(
    broker: BrokerProcess, committers: list[WindowCommitter], delay_s: float, *, compacting: bool = False
) -> None:
    """All clients commit; the broker is killed `delay_s` after each of them had an acknowledgement.

    compacting  and after the broker has compacted something meanwhile, or was busy with it for COMPACTING_S
    """
    compacted = compactions(broker)
    threads = [threading.Thread(target=committer.run, args=(broker.address,)) for committer in committers]
    for thread in threads:
        thread.start()
    started = all(committer.under_way.wait(PATIENCE_S) for committer in committers)
    if started and compacting:
        give_up_at = time.monotonic() + COMPACTING_S
        while compactions(broker) == compacted and time.monotonic() < give_up_at:
            threading.Event().wait(0.01)
    threading.Event().wait(delay_s)  # not a wait for anything: the moment of the crash is the random input
    broker.kill()
    for thread in threads:
        thread.join()
    assert started
    assert not any(committer.refused for committer in committers), [one.errors for one in committers]


def compactions(broker: BrokerProcess) -> int:
    """How many it has said that it has ended."""
    return sum("compacted up to" in line for line in broker.log)


def run(data_dir: Path, fsync: str, rounds: int, seed: int, *, compacting: bool = False) -> int:
    """Kill a broker so many times; return how many commits were acknowledged. AssertionError when one is lost.

    compacting  all is compacted every 50 ms, and each start compared with replays before and after a compaction
    """
    chance = random.Random(seed)
    settings = SETTINGS | {"fsync": fsync} | (COMPACTING_SETTINGS if compacting else {})
    command = COMPACTING if compacting else broker_process.COMMAND
    broker = BrokerProcess(data_dir, settings, command, as_users_do=fsync == POLICIES[0])
    taken = 0
    committers = [
        WindowCommitter(number, COMPACTING_PAUSE_S if compacting else 0.0) for number in range(CLIENTS)
    ]
    prepare(broker.start(), committers)
    broker.as_users_do = broker_process.OVERRIDE is not None
    for number in range(rounds):
        try:
            commit_until_killed(broker, committers, chance.uniform(*KILL_AFTER_S), compacting=compacting)
            broker.assert_clean_log()
            scratch = data_dir.with_name("copy")
            replays = replay_before_and_after(data_dir, scratch, settings) if compacting else None
            address = broker.start()
            with wire.Connection(address) as connection:
                for committer in committers:
                    committer.check(connection)
            if replays is not None:
                before, after, count = replays
                live = {key: entry for committer in committers for key, entry in committer.found.items()}
                assert live == before, f"served {live}, by replay {before}"
                assert after == before, f"after compaction {after}, before {before}"
                taken += count
        except BaseException:
            print(f"round {number} of seed {seed}, fsync={fsync}", file=sys.stderr)
            raise
    broker.stop()
    if compacting:
        assert compactions(broker), "in no round the broker has compacted anything"
        assert not [line for line in broker.log if compacting_broker.FAILED in line], broker.log_text()
        print(
            f"{compactions(broker)} compactions in {rounds} rounds; those of the copies took {taken} records more"
        )
    return sum(committer.acknowledged for committer in committers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="for each policy")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument(
        "--compacting", action="store_true", help="force compaction; --rounds are over all policies"
    )
    options = parser.parse_args()
    wanted = -(-options.rounds // len(POLICIES)) if options.compacting else options.rounds
    done = DoneSlices("kill-loop-compacting" if options.compacting else "kill-loop")
    rounds, acknowledged = Counter[str](), Counter[str]()
    for entry in done.read():
        rounds[entry["fsync"]] += entry["rounds"]
        acknowledged[entry["fsync"]] += entry["acknowledged"]
    stop_at = time.monotonic() + options.seconds
    while min(rounds[fsync] for fsync in POLICIES) < wanted and time.monotonic() < stop_at:
        fsync = min(POLICIES, key=lambda fsync: rounds[fsync])
        seed = random.SystemRandom().randrange(1 << 32)
        folder = Path(tempfile.mkdtemp(prefix="kill-loop-"))
        print(f"fsync={fsync}, seed {seed}, in {folder}, which stays there if it fails", flush=True)
        count = min(ROUNDS_OF_A_SLICE, wanted - rounds[fsync])
        found = run(folder / "data", fsync, count, seed, compacting=options.compacting)
        shutil.rmtree(folder)
        done.add(fsync=fsync, seed=seed, rounds=count, acknowledged=found)
        rounds[fsync] += count
        acknowledged[fsync] += found
        print(
            f"fsync={fsync}: {rounds[fsync]} rounds, {acknowledged[fsync]} commits acknowledged, none lost",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
