"""The two brokers of the walks: ours in memory, a new one for each walk, and one Kafka for all."""

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kafka_offsets.clock import ManualClock
from tests.differential.brokers import OwnBroker, RemoteBroker
from tests.differential.play import TOPICS, Client, Play
from tests.stories.record import KAFKA, await_coordinators, prepare

SETTINGS = {
    "group.min.session.timeout.ms": "100",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.max.timeout.ms": "60000",
    "group.consumer.max.size": "3",
    "group.consumer.assignment.interval.ms": "0",  # or an assignment would wait for time to pass
    "offset.metadata.max.bytes": "10",
}
"""What both brokers are configured to."""

BARRIER = "barrier"
"""The topic whose configuration says how far Kafka's broker has followed its controller."""

LOADING_GROUPS = [f"g{number}" for number in range(24)]
"""One at least is of each partition of the offsets topic, and of the log of transactions."""


NOW_MS = 1_790_000_000_000
"""Later than the records of walks: what is stamped with the time of now is the latest."""


class OwnPeer:
    """Ours, for one walk."""

    def __init__(self) -> None:
        self._broker = OwnBroker(SETTINGS, clock=ManualClock(NOW_MS))
        play = Play(self._broker, "prepare", ())
        prepare(Client(play, "prepare"))
        play.transactional("g0")

    def connect(self) -> OwnBroker:
        return self._broker

    def follow(self, broker: OwnBroker) -> None:
        broker.pause(100)

    def restart(self) -> None:
        before = self._broker
        self._broker = OwnBroker(SETTINGS, before.files, before.clock)
        self._broker.pause(100)


class KafkaPeer:
    """A real Kafka that this started."""

    def __init__(self, port: int, directory: Path) -> None:
        self._port = port
        self._directory = directory
        self._changes = itertools.count(1_000_000)

    def start(self) -> None:
        extra = self._directory / "extra.properties"
        extra.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()), encoding="utf-8")
        self._run("start", self._port, self._directory, extra)

    def stop(self) -> None:
        self._run("stop", self._directory)

    def _run(self, *words: object) -> None:
        subprocess.run(["bash", str(KAFKA), *map(str, words)], check=True)

    def prepare(self) -> None:
        """Make what every walk finds."""
        broker = self.connect()
        play = Play(broker, "prepare", ())
        prepare(Client(play, "prepare"))
        play.topic(BARRIER)
        self._await_coordinators(play)
        broker.close()

    def _await_coordinators(self, play: Play) -> None:
        await_coordinators(Client(play, "prepare"))
        for name in LOADING_GROUPS:
            play.transactional(name)

    def connect(self) -> RemoteBroker:
        return RemoteBroker("127.0.0.1", self._port)

    def follow(self, broker: RemoteBroker) -> None:
        """Wait until the broker has followed its controller.

        Changes are published in their order, some of them together: when the second barrier is seen, all that came
        before the first is done.
        """
        client = Client(Play(broker, "follow", ()), "follow")
        topic = {"resource_type": 2, "resource_name": BARRIER}
        for _ in range(2):
            value = str(next(self._changes))
            change = {"name": "retention.ms", "config_operation": 0, "value": value}
            client.ask(
                "IncrementalAlterConfigs", 1, resources=[topic | {"configs": [change]}], validate_only=False
            )
            wanted = topic | {"configuration_keys": ["retention.ms"]}

            def has_followed(wanted: dict[str, Any] = wanted, value: str = value) -> bool:
                found = client.ask("DescribeConfigs", 4, resources=[wanted])
                return bool(found.results[0].configs[0].value == value)

            while not has_followed():
                broker.pause(2)

    def restart(self) -> None:
        self.stop()
        self.start()
        broker = self.connect()
        play = Play(broker, "prepare", ())
        play.until(lambda: len(play.learn(*TOPICS).topics) == len(TOPICS) and play._is_led("orders", 4))
        self._await_coordinators(play)
        broker.close()


@contextmanager
def kafka(port: int) -> Iterator[KafkaPeer]:
    """A new Kafka that has what every walk finds."""
    with TemporaryDirectory() as directory:
        peer = KafkaPeer(port, Path(directory))
        peer.start()
        try:
            peer.prepare()
            yield peer
        finally:
            peer.stop()
