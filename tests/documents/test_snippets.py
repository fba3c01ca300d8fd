"""Every block of code in README.md and docs/ runs as it is printed, or says in a mark why not."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafka_offsets import Broker
from kafka_offsets.client import Consumer
from kafka_offsets.testing import Cluster, ManualClock
from tests.conftest import REPOSITORY
from tests.documents import pages
from tests.documents.pages import ADDRESS, ADDRESSES, BLOCKS, WARNINGS, Block
from tests.http.conftest import OneBroker, Serving

NOT_RUN = {
    "clients.md": 1,
    "performance.md": 1,
    "service.md": 1,
    "spark.md": 3,
}
"""How many blocks of a page do not run. A new one needs a reason that these have, not only a mark."""

RUN = [block for block in BLOCKS if not block.mark]
PROGRAMS = [block for block in RUN if block.language == "python" and not block.is_test]
CONSOLES = [block for block in RUN if block.language == "console"]

_PRINTED = re.compile(r"print\(.*\)  # (.*)")


def test_every_block_says_its_language() -> None:
    languages = {
        "python",
        "console",
        "bash",
        "yaml",
        "properties",
        "text",
        "java",
        "go",
        "javascript",
        "{toctree}",
        "{eval-rst}",
    }
    assert [block.place for block in BLOCKS if block.language not in languages] == []


def test_only_these_blocks_do_not_run() -> None:
    marked = [block for block in BLOCKS if block.mark == "not run"]
    assert Counter(block.page for block in marked) == NOT_RUN
    assert all(block.language in ("python", "console", "bash") for block in marked)
    assert not any(block.language == "bash" for block in RUN)


def test_a_block_that_other_tests_run_is_named_there() -> None:
    marked = [block for block in BLOCKS if block.mark == "run by"]
    assert marked
    for block in marked:
        assert block.page in (REPOSITORY / block.why).read_text(encoding="utf-8"), block.place


@pytest.mark.interop
def test_the_tests_of_the_pages_pass(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for block in RUN:
        if block.language == "python" and (block.is_test or block.page == "recipes.md"):
            name = f"test_{Path(block.page).stem.lower().replace('-', '_')}.py"
            files[name] = files.get(name, "") + ("\n\n" if name in files else "") + block.code
    assert len(files) >= 5
    assert pages.run_as_tests(files, tmp_path) >= sum(text.count("def test_") for text in files.values())


@pytest.mark.interop
@pytest.mark.parametrize(
    "block", [block for block in PROGRAMS if block.page != "recipes.md"], ids=lambda block: block.place
)
def test_a_program_prints_the_output_beside_it(block: Block) -> None:
    with Cluster() if ADDRESSES in block.code else Broker() as broker:
        servers = broker.bootstrap_servers
        code = block.code.replace(ADDRESSES, servers).replace(ADDRESS, servers)
        done = subprocess.run(
            [sys.executable, *WARNINGS, "-c", code],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == _PRINTED.findall(block.code)


def test_every_client_has_its_program() -> None:
    imported = {
        word for block in PROGRAMS for word in re.findall(r"^(?:from|import) (\w+)", block.code, re.MULTILINE)
    }
    assert imported >= {"kafka", "confluent_kafka", "aiokafka", "kafka_offsets"}


@pytest.mark.interop
@pytest.mark.parametrize("block", CONSOLES, ids=lambda block: block.place)
def test_the_lines_for_a_shell_print_the_output_below_them(block: Block, tmp_path: Path) -> None:
    for tool in ("kcat", "curl"):
        if tool in block.code and shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt-get install -y {tool}")
    with SEEDS.get(block.page, one_broker)(block, tmp_path) as (address, cwd, *http):
        pages.run_in_shell(block.code, address, tmp_path, cwd, *http)


@contextmanager
def one_broker(block: Block, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the address of a broker with a topic `orders`, and a folder to run in."""
    with Broker() as broker:
        broker.create_topic("orders")
        yield broker.bootstrap_servers, folder


@contextmanager
def with_authorizer(block: Block, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the address of a broker that serves ACLs, to clients that do not authenticate."""
    with Broker({"super.users": "User:ANONYMOUS"}, acls=[]) as broker:
        yield broker.bootstrap_servers, folder


@contextmanager
def in_repository(block: Block, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the repository, where the data of tests are; no broker."""
    yield ADDRESS, REPOSITORY


AT = datetime(2026, 1, 31, 6, tzinfo=UTC)


@contextmanager
def directories(block: Block, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield a folder with a damaged `./data`, or the repository for its own data."""
    if "tests/data" in block.code:
        yield ADDRESS, REPOSITORY
        return
    clock = ManualClock(AT.timestamp() * 1000)
    with Broker(data_directory=folder / "data", clock=clock) as broker:
        broker.create_topic("orders")
        for offset in range(3):
            clock.advance(1)  # the time index names the batch with the latest timestamp
            broker.commit("billing", {("orders", 0): offset})
    (segment,) = (
        path for path in (folder / "data").glob("__consumer_offsets-*/*.log") if path.stat().st_size
    )
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    yield ADDRESS, folder


@contextmanager
def groups(block: Block, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield a broker with the groups of the page, half a year ago by its clock."""
    clock = ManualClock(AT.timestamp() * 1000)
    with ExitStack() as stack:
        broker = stack.enter_context(Broker({"offsets.topic.num.partitions": 1}, clock=clock))
        broker.create_topic("orders", 2)
        if "offsets commit" in block.code:
            yield broker.bootstrap_servers, folder
            return
        for partition, (before, count) in enumerate([(12, 100), (3, 7)]):
            stamps = [clock.now().wall_ms - 1 if n < before else clock.now().wall_ms for n in range(count)]
            records = [{"value": b"v", "timestamp": stamp} for stamp in stamps]
            broker.produce("orders", records, partition=partition)

        def join(group: str, protocol: str, client_id: str) -> Consumer:
            consumer = stack.enter_context(
                Consumer(
                    {
                        "bootstrap.servers": broker.bootstrap_servers,
                        "group.id": group,
                        "group.protocol": protocol,
                        "client.id": client_id,
                        "enable.auto.commit": False,
                    }
                )
            )
            consumer.subscribe("orders")
            while not consumer.get_partitions():
                consumer.poll(100)
            return consumer

        join("billing", "classic", "biller").close()
        broker.commit("billing", {("orders", 0): 40})
        clock.advance(125)
        broker.commit("billing", {("orders", 1): 7})
        if "cleanup" in block.code:
            join("invoices", "classic", "invoicer").commit([("orders", 0, 1)])
        elif "groups" in block.code:
            join("reports", "consumer", "reporter").commit([("orders", 0, 40)])
        yield broker.bootstrap_servers, folder


@contextmanager
def over_http(block: Block, folder: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield a broker with HTTP, and the topic and group of the page, for blocks that start none."""
    with Serving(clock=ManualClock()) as client:
        broker = OneBroker(client, "main", client.get("/brokers/main").value["bootstrap_servers"])
        if "produce" not in block.code:
            broker.post("produce", topic="orders", records=["a", "b"])
            broker.post("commit", group="billing", offsets={"orders": {"0": 1}})
        yield broker.bootstrap_servers, folder, client.url


SEEDS: dict[str, Callable[[Block, Path], "contextmanager[tuple[str, ...]]"]] = {
    "acls.md": with_authorizer,
    "directories.md": directories,
    "groups.md": groups,
    "http.md": over_http,
    "inspect.md": in_repository,
}
