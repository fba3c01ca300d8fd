"""kill -9 of a broker and of a program that copies a topic in transactions, over and over on one data directory.

Numbers go into the partitions of a topic; copier.py copies them, each batch in one transaction with the offsets of its
group. After each kill the transaction that was open is settled; what committed readers find in a partition then is what
was put into it, in order and once each, up to the committed offset. In the end it is everything.

    python -m tests.interop.exactly_once    the full form: 100 rounds for each policy of fsync; goes on where it stopped
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.servers import free_port
from tests.interop import broker_process, copier
from tests.interop.broker_process import BrokerProcess
from tests.interop.copier import PARTITIONS
from tests.interop.planted import PLANTS
from tests.interop.story import Member
from tests.interop.waiting import until
from tests.slices import DoneSlices

POLICIES = ("never", "commit")
ROUNDS = 100
ROUNDS_OF_A_SLICE = 10
SOURCE, TARGET, GROUP = "exactly-once-in", "exactly-once-out", "exactly-once"
BACKLOG = 400
KILL_AFTER_S = (0.0, 0.4)
KILLED_WHILE_STARTING = 0.25
VICTIMS = (("broker",), ("copier",), ("broker", "copier"))
PATIENCE_S = 120.0  # a busy machine may need long for what takes a second
# Small segments of what is compacted, so that rounds crash beside that too.
SETTINGS = {
    "offsets.topic.segment.bytes": "1048576" if broker_process.OVERRIDE else "65536",  # Kafka refuses less
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


class Campaign:
    """A broker, a copier, and what was put into the source.

    bug  of the copier, see copier.py, or of the broker, see planted.py; the campaign is to find it
    """

    def __init__(self, data_dir: Path, fsync: str, seed: int, bug: str = "") -> None:
        self.counts: Counter[str] = Counter()
        self._chance = random.Random(seed)
        planted = [sys.executable, "-m", "tests.interop.planted", bug, "serve"]
        command = planted if bug in PLANTS else broker_process.COMMAND
        self._broker = BrokerProcess(data_dir, SETTINGS | {"fsync": fsync}, command)
        self._port = free_port()
        self._bug = [bug] if bug == copier.OUTSIDE else []
        self._sent: list[list[str]] = [[] for _ in range(PARTITIONS)]
        self._copier: Member | None = None
        self._address = self._broker.start(self._port)
        admin = AdminClient({"bootstrap.servers": self._address})
        for future in admin.create_topics(
            [NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]
        ).values():
            future.result(PATIENCE_S)

    def round(self) -> None:
        """Start who is down, feed the source, kill at random, compare."""
        self._feed(self.check())
        running = self._start_copier()
        if self._chance.random() > KILLED_WHILE_STARTING:
            until(lambda: transactions(running), "the copier copies", PATIENCE_S)
        # Not a wait for anything: the moment of the crash is the random input.
        threading.Event().wait(self._chance.uniform(*KILL_AFTER_S))
        victims = self._chance.choice(VICTIMS)
        self.counts["kills of " + " and ".join(victims)] += 1
        if "copier" in victims:
            self._stop_copier()
        if "broker" in victims:
            self._broker.kill()
            self._broker.assert_clean_log()
            self._broker.start(self._port)
        if "copier" not in victims:
            done = transactions(running)
            until(
                lambda: transactions(running) > done or self._is_copied(running),
                "the copier goes on",
                PATIENCE_S,
            )
            self._stop_copier()

    def finish(self) -> None:
        """Copy what is left; now the target is the source."""
        running = self._start_copier()
        until(lambda: self._is_copied(running), "all is copied", PATIENCE_S)
        self._copier = None
        assert running.leave() == 0, running.log[-20:]
        self._count(running)
        assert self.check() == 0
        self.counts["records"] = sum(map(len, self._sent))
        self._broker.stop()

    def check(self) -> int:
        """Settle what is open, and compare the target with the source; return how many records are not copied yet."""
        Producer(self._settings() | {"transactional.id": TARGET}).init_transactions(PATIENCE_S)
        committed, found = self._committed(), self._read()
        for partition, sent in enumerate(self._sent):
            expected = sent[: committed[partition]]
            assert found[partition] == expected, (
                f"partition {partition}, committed offset {committed[partition]}: "
                + difference(found[partition], expected)
            )
        return sum(map(len, self._sent)) - sum(committed)

    def close(self) -> None:
        """End what still runs, after a failure."""
        if self._copier is not None:
            self._copier.kill()
            self._copier.leave()
        if self._broker.alive:
            self._broker.kill()

    def _settings(self) -> dict[str, object]:
        return {"bootstrap.servers": self._address, "log_level": 0}

    def _feed(self, waiting: int) -> None:
        producer = Producer(self._settings() | {"enable.idempotence": True})
        for number in range(BACKLOG - waiting):
            partition = number % PARTITIONS
            value = f"{partition}-{len(self._sent[partition])}"
            self._sent[partition].append(value)
            producer.produce(SOURCE, value, partition=partition)
        assert producer.flush(PATIENCE_S) == 0

    def _start_copier(self) -> Member:
        seed = str(self._chance.randrange(1 << 32))
        words = ["-m", "tests.interop.copier", self._address, SOURCE, TARGET, GROUP, seed, *self._bug]
        self._copier = Member([sys.executable, *words])
        return self._copier

    def _stop_copier(self) -> None:
        running, self._copier = self._copier, None
        if running is None:
            return
        running.assert_alive()
        running.kill()
        running.leave()
        self._count(running)

    def _count(self, copied: Member) -> None:
        self.counts["transactions"] += ended(copied)

    def _committed(self) -> list[int]:
        consumer = Consumer(self._settings() | {"group.id": GROUP})
        try:
            places = consumer.committed(
                [TopicPartition(SOURCE, partition) for partition in range(PARTITIONS)], PATIENCE_S
            )
        finally:
            consumer.close()
        return [max(place.offset, 0) for place in places]

    def _is_copied(self, running: Member) -> bool:
        running.assert_alive()
        if not running.log or running.log[-1].split() != [copier.IDLE]:
            return False
        return self._committed() == [len(sent) for sent in self._sent]

    def _read(self) -> list[list[str]]:
        """What committed readers find in each partition of the target."""
        found: list[list[str]] = [[] for _ in range(PARTITIONS)]
        settings = {"group.id": "readers", "isolation.level": "read_committed", "fetch.wait.max.ms": 20}
        consumer = Consumer(self._settings() | settings | {"enable.partition.eof": True})
        consumer.assign([TopicPartition(TARGET, partition, 0) for partition in range(PARTITIONS)])
        unread = set(range(PARTITIONS))
        deadline = time.monotonic() + PATIENCE_S
        while unread and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    found[message.partition()].append(message.value().decode())
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                else:
                    raise KafkaException(error)
        consumer.close()
        assert not unread, f"the ends of partitions {sorted(unread)} were not reached"
        return found


def transactions(running: Member) -> int:
    """How many a copier has ended; it must not have ended by itself."""
    running.assert_alive()
    return ended(running)


def ended(copied: Member) -> int:
    """How many transactions a copier told of."""
    return sum(line.startswith(("committed", "aborted")) for line in list(copied.log))


def difference(found: list[str], expected: list[str]) -> str:
    """Say how the records of a partition differ from those that should be there."""
    lost = sorted(set(expected) - set(found))
    more = sorted((Counter(found) - Counter(expected)).elements())
    return f"{len(lost)} lost {lost[:5]}, {len(more)} too many {more[:5]}" + (
        "" if lost or more else "; the order differs"
    )


def run(data_dir: Path, fsync: str, rounds: int, seed: int, bug: str = "") -> Counter[str]:
    """Copy through so many rounds; return what was counted. AssertionError when a record is lost or there twice."""
    campaign = Campaign(data_dir, fsync, seed, bug)
    try:
        for _ in range(rounds):
            campaign.round()
        campaign.finish()
    except BaseException:
        print(f"seed {seed}, fsync={fsync}, after {dict(campaign.counts)}", file=sys.stderr)
        raise
    finally:
        campaign.close()
    return campaign.counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="for each policy")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    done = DoneSlices("exactly-once")
    counts = {fsync: Counter[str]() for fsync in POLICIES}
    for entry in done.read():
        counts[entry["fsync"]].update(entry["counts"])
    stop_at = time.monotonic() + options.seconds
    while min(count["rounds"] for count in counts.values()) < options.rounds and time.monotonic() < stop_at:
        fsync = min(POLICIES, key=lambda fsync: counts[fsync]["rounds"])
        seed = random.SystemRandom().randrange(1 << 32)
        folder = Path(tempfile.mkdtemp(prefix="exactly-once-"))
        print(f"fsync={fsync}, seed {seed}, in {folder}, which stays there if it fails", flush=True)
        found = run(folder / "data", fsync, ROUNDS_OF_A_SLICE, seed) + Counter(rounds=ROUNDS_OF_A_SLICE)
        shutil.rmtree(folder)
        done.add(fsync=fsync, seed=seed, counts=found)
        counts[fsync] += found
        told = ", ".join(f"{number} {what}" for what, number in sorted(counts[fsync].items()))
        print(f"fsync={fsync}: {told}; each record once", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
