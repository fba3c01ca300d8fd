"""docs/from-docker.md: "before" runs with our KafkaContainer, and sets keys that are served."""

import re
from pathlib import Path

import pytest

from kafka_offsets.broker.config.environment import environment_settings
from kafka_offsets.broker.config.keys import KEYS, Config
from kafka_offsets.broker.config.listeners import Listener, address_text
from tests.conftest import REPOSITORY
from tests.documents import pages

PAGE = "from-docker.md"
HERE = Listener("localhost", 0)

CONTAINER = "from kafka_offsets.testing import KafkaContainer\n"
"""A module that has the name of Testcontainers', so that the code runs as it is printed."""

HELPERS = """\
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka_offsets.client import Admin


def create_topic(address, topic, partitions):
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])


def produce(address, topic, records):
    with KafkaProducer(bootstrap_servers=address) as producer:
        for each in records:
            producer.send(topic, each.encode()).get(timeout=10)


def count_orders(address, topic, group):
    with KafkaConsumer(
        topic, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        found = [next(consumer), next(consumer)]
        consumer.commit()
    return len(found)


def committed(address, topic):
    admin = Admin({"bootstrap.servers": address})
    return sum(
        each.offset
        for group in admin.list_groups()
        for (name, _), each in admin.list_consumer_group_offsets(group.group).items()
        if name == topic
    )


def wait_until(is_true, timeout):
    return is_true()
"""
"""What the page leaves to the reader."""

USED = """

@pytest.mark.asyncio(loop_scope="session")
async def test_the_broker_of_the_fixture_is_reached(kafka):
    from kafka_offsets.client import Admin

    assert Admin({"bootstrap.servers": kafka}).list_groups() == []
"""
"""A test of the fixture that the page shows alone."""


@pytest.mark.interop
def test_the_tests_before_the_migration_pass_with_our_container(tmp_path: Path) -> None:
    first, second = (
        block.code for block in pages.blocks(PAGE, "python") if block.why.endswith(Path(__file__).name)
    )
    package = tmp_path / "testcontainers"
    package.mkdir()
    (package / "__init__.py").touch()  # before an installed one
    (package / "kafka.py").write_text(CONTAINER, encoding="utf-8")
    files = {
        "helpers.py": HELPERS,
        "test_first.py": first,
        "test_second.py": f"import pytest\n{second}{USED}",
    }
    assert pages.run_as_tests(files, tmp_path, "pytest_asyncio.plugin") == 2


def test_what_a_compose_file_sets_is_served_by_the_same_keys() -> None:
    composed, image, addresses, _ = (block.code for block in pages.blocks(PAGE, "yaml"))
    given = dict(re.findall(r"^ +(KAFKA_\w+): (\S+)$", composed + image, re.MULTILINE))
    assert len(given) == 2
    assert Config.load(environment_settings(given, KEYS)).num_partitions == int(given["KAFKA_NUM_PARTITIONS"])
    given = dict(re.findall(r"^ +(KAFKA_\w+): (\S+)$", addresses, re.MULTILINE))
    inside, outside = Config.load(environment_settings(given, KEYS)).endpoints()
    (said,) = (block.code for block in pages.blocks(PAGE, "text"))
    assert said.splitlines() == [
        f"clients of the listener {inside.name} receive {address_text(*inside.address_for_clients(HERE))}",
        f"listener {outside.name} on {address_text(*outside.address_for_clients(HERE))}",
        f"listening on localhost:{inside.listener.port}",
    ]


def test_the_action_has_the_inputs_and_the_output_that_are_used() -> None:
    *_, steps = (block.code for block in pages.blocks(PAGE, "yaml"))
    action = (REPOSITORY / "action.yml").read_text(encoding="utf-8")
    inputs, outputs = action.partition("outputs:")[::2]
    used = re.findall(r"(\w+): ", re.findall(r"with: {(port.*)}", steps)[0])
    assert used == ["port", "options"]
    assert all(f"\n  {name}:\n" in inputs for name in used)
    (output,) = re.findall(r"steps\.kafka\.outputs\.([\w-]+)", steps)
    assert f"\n  {output}:\n" in outputs
