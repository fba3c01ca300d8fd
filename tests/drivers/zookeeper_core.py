"""A BrokerCore whose offsets are in a ZooKeeper in memory."""

from kafka_offsets.broker.api.topic_admin import create_topic
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.turn.workers import Background, run_inline
from kafka_offsets.clock import ManualClock
from kafka_offsets.storage.files.files import Files, MemoryFiles
from tests.drivers.zookeeper import MemoryServer, MemoryZooKeeper

TIMEOUT_MS = 6000


class ZooKeeperCore:
    """A core with a topic `t` of 10 partitions, its client of ZooKeeper, and the server of that."""

    def __init__(
        self,
        server: MemoryServer | None = None,
        files: Files | None = None,
        clock: ManualClock | None = None,
        client: MemoryZooKeeper | None = None,
        background: Background = run_inline,
        **config: object,
    ) -> None:
        self.clock = clock or ManualClock()
        self.server = server or MemoryServer(self.clock)
        self.client = client or MemoryZooKeeper(self.server)
        keys: dict[str, object] = {
            "offset.storage": "zookeeper",
            "zookeeper.connect": "memory",
            "zookeeper.connection.timeout.ms": TIMEOUT_MS,
            "offsets.topic.num.partitions": 2,
        }
        keys |= {name.replace("_", "."): value for name, value in config.items()}
        self.core = BrokerCore(
            Config.load(keys),
            files or MemoryFiles(),
            self.clock,
            background=background,
            zookeeper=lambda config: self.client,
        )
        if self.core.topics.get("t") is None:
            create_topic(self.core.broker, "t", 10, {})

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self.clock.advance(ms)
        self.core.run_due()
        self.core.end_turn()
