"""The recipe of docs/clusters.md moves topics, records and groups to Apache Kafka, and back.

MirrorMaker 2 brings topics with their configuration, records, and the offsets of groups that have read everything;
`offsets export` and `import` bring those of every group. `make other-tools` loads MirrorMaker from Maven Central;
without it the test is skipped.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import STDOUT, Popen
from typing import Any

import pytest

from kafka_offsets.testing import Broker
from tests.documents.pages import blocks, environment
from tests.interop.kafka_peer import KafkaPeer
from tests.interop.test_connect import JARS, JAVA
from tests.interop.waiting import until

PAGE = "clusters.md"
QUICK = {
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "new.offset.flush.interval.ms": "500",
    "new.scheduled.rebalance.max.delay.ms": "0",
}
PARTITIONS, RECORDS = 3, 8
END = dict.fromkeys(range(PARTITIONS), RECORDS)
MIDDLE = {0: 5, 1: 0, 2: RECORDS}

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.slow, pytest.mark.apache_kafka]


def run(*words: str, address: str, lines: str = "") -> str:
    """Run a command of ours at a broker; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "kafka_offsets", *words, "--bootstrap-server", address],
        input=lines,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fill(address: str) -> None:
    """Make a compacted topic with records, a group that has read them all, and one that has not."""
    run(
        *("topics", "create", "orders", "--partitions", str(PARTITIONS)),
        *("--replication-factor", "1", "--config", "cleanup.policy=compact"),
        address=address,
    )
    for partition in range(PARTITIONS):
        lines = "".join(f"{partition}-{index}:\n" for index in range(RECORDS))
        run("produce", "orders", "-p", str(partition), "-K", ":", address=address, lines=lines)
    for group, offsets in (("billing", END), ("audit", MIDDLE)):
        commits = [f"orders:{partition}={offset}" for partition, offset in offsets.items()]
        run("offsets", "commit", group, *commits, address=address)


def keys(address: str) -> list[str]:
    printed = run("consume", "orders", "-o", "beginning", "-e", "-J", address=address)
    return sorted(json.loads(line)["key"] for line in printed.splitlines())


def committed(address: str, group: str) -> dict[int, int]:
    """Return the committed offset of each partition; {} where the group is not there."""
    rows = [
        line.split(",") for line in run("offsets", "export", "--all-groups", address=address).splitlines()
    ]
    return {int(row[2]): int(row[3]) for row in rows if row[0].strip('"') == group}


@contextmanager
def mirror_maker(old: str, new: str, folder: Path) -> Iterator[None]:
    """Run MirrorMaker with the properties of the page."""
    (block,) = blocks(PAGE, "properties")
    text = block.code.replace("old:9092", old).replace("new:9092", new)
    properties = folder / "move.properties"
    properties.write_text(
        text + "".join(f"{key} = {value}\n" for key, value in QUICK.items()), encoding="utf-8"
    )
    log = folder / "mirror.log"
    with log.open("wb") as file:
        command = [*JAVA, "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)]
        process = Popen(command, stdout=file, stderr=STDOUT)
    try:
        yield
        assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-3000:]
    finally:
        process.kill()
        process.wait()


def run_the_commands_of_the_page(old: str, new: str, folder: Path) -> None:
    (block,) = (each for each in blocks(PAGE, "console") if "offsets export" in each.code)
    lines = [line.removeprefix("$ ") for line in block.code.splitlines() if "kafka-offsets" in line]
    script = "\n".join(lines).replace("old:9092", old).replace("new:9092", new)
    done = subprocess.run(
        ["sh", "-e", "-c", script], cwd=folder, env=environment(folder), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("direction", ["to Apache Kafka", "from Apache Kafka"])
def test_topics_records_and_groups_move(direction: str, kafka: KafkaPeer, tmp_path: Path) -> None:
    if shutil.which("java") is None or not list(JARS.glob("connect-mirror-4*.jar")):
        pytest.skip("MirrorMaker is not installed: make other-tools")
    theirs = "{}:{}".format(*kafka.start({}))
    with Broker() as broker:
        ours = broker.bootstrap_servers
        old, new = (ours, theirs) if direction == "to Apache Kafka" else (theirs, ours)
        fill(old)
        with mirror_maker(old, new, tmp_path):
            until(lambda: committed(new, "billing") == END, "MirrorMaker has brought the group")
        assert keys(new) == keys(old) and len(keys(new)) == PARTITIONS * RECORDS
        configs: Any = run("topics", "configs", "orders", address=new)
        assert "cleanup.policy" in configs and "compact" in configs
        run_the_commands_of_the_page(old, new, tmp_path)
        assert committed(new, "audit") == MIDDLE
        assert committed(new, "billing") == END
