"""The table: every situation by its name, and what must be served before ours is asked."""

import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.differential.play import Play

Script = Callable[..., Any]

PARTS = (
    "commits",
    "fetches",
    "offset_deletes",
    "joins",
    "syncs",
    "heartbeats",
    "leaves",
    "static_members",
    "rebalances",
    "timeouts",
    "group_sessions",
    "descriptions",
    "listings",
    "group_deletes",
    "coordinators",
    "clusters",
    "records",
    "fetch_sessions",
    "produced",
    "batch_limits",
    "administration",
    "quotas_and_passwords",
    "acls",
    "authorization",
    "group_configs",
    "creations",
    "deadlines",
    "expiry",
    "consumer_groups",
    "consumer_instances",
    "consumer_oddities",
    "consumer_sessions",
    "transactions",
    "transaction_partitions",
    "transactional_offsets",
    "odd_requests",
)
"""The modules of tests/differential/situations, in the order of the table."""

SMALL_CONSUMER_GROUPS = {
    "group.min.session.timeout.ms": "100",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "group.max.size": "3",
    "group.consumer.max.size": "6",
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.heartbeat.interval.ms": "700",
    "group.consumer.min.heartbeat.interval.ms": "100",
}

SETTINGS = {
    "default": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
    },
    "new": {
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
    },
    "sessions": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "group.max.size": "3",
    },
    "consumers": SMALL_CONSUMER_GROUPS | {"group.consumer.assignment.interval.ms": "0"},
    "interval": SMALL_CONSUMER_GROUPS,
    "creating": {
        "offsets.topic.num.partitions": "4",
        "num.partitions": "3",
    },
    "delayed": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "500",
        "group.max.size": "3",
        "offset.metadata.max.bytes": "10",
    },
    "expiring": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "offsets.retention.check.interval.ms": "500",
    },
    "modern": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.session.timeout.ms": "1500",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.max.size": "3",
    },
    "transactions": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "transaction.max.timeout.ms": "60000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    },
    "acls": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "true",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    },
}
"""What a broker is configured to beyond benchmarks/peers/kafka.sh, by the name that a situation gives.

A broker of the setting `new` has no topics, and no coordinators yet.
"""


USERS = ("admin", "alice", "bob")
HAVE_USERS = frozenset({"acls"})
"""The settings whose clients are users: ours is told who they are, of Kafka they authenticate."""


class Situation(NamedTuple):
    """A script for one or more clients.

    name      a sentence; the versions of a situation share it, with "(v3)" after it
    setting   which of SETTINGS its broker has
    script    plays it
    version   given to the script, None when it takes none
    """

    name: str
    part: str
    setting: str
    script: Script
    version: int | None

    def play(self, play: "Play") -> None:
        """Send the requests and take the answers."""
        if self.version is None:
            self.script(play)
        else:
            self.script(play, self.version)


_situations: dict[str, Situation] = {}


def situation(
    sentence: str, versions: Iterable[int] | None = None, setting: str = "default"
) -> Callable[[Script], Script]:
    """Enter a script into the table; with `versions` once for each, which it gets as its second argument."""

    def enter(script: Script) -> Script:
        part = script.__module__.rpartition(".")[2]
        for version in [None] if versions is None else versions:
            name = sentence if version is None else f"{sentence} (v{version})"
            assert name not in _situations, f"twice: {name}"
            _situations[name] = Situation(name, part, setting, script, version)
        return script

    return enter


def situations() -> dict[str, Situation]:
    """Return the whole table by name."""
    for part in PARTS:
        importlib.import_module(f"tests.differential.situations.{part}")
    order = {part: number for number, part in enumerate(PARTS)}
    return dict(sorted(_situations.items(), key=lambda item: order[item[1].part]))
