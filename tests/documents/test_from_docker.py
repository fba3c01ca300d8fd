"""docs/from-docker.md: "before" is at least Python, and sets keys that are served."""

import ast
import re

from kafka_offsets.broker.config.environment import environment_settings
from kafka_offsets.broker.config.keys import KEYS, Config
from tests.conftest import REPOSITORY
from tests.documents import pages

PAGE = "from-docker.md"


def test_the_examples_before_the_migration_are_python() -> None:
    before = [block.code for block in pages.blocks(PAGE, "python") if block.mark == "not run"]
    assert len(before) == 3
    for code in before:
        ast.parse(code)


def test_what_a_compose_file_sets_is_served_by_the_same_keys() -> None:
    composed, image, _ = (block.code for block in pages.blocks(PAGE, "yaml"))
    given = dict(re.findall(r"^ +(KAFKA_\w+): (\S+)$", composed + image, re.MULTILINE))
    assert len(given) == 2
    assert Config.load(environment_settings(given, KEYS)).num_partitions == int(given["KAFKA_NUM_PARTITIONS"])


def test_the_action_has_the_inputs_and_the_output_that_are_used() -> None:
    *_, steps = (block.code for block in pages.blocks(PAGE, "yaml"))
    action = (REPOSITORY / "action.yml").read_text(encoding="utf-8")
    inputs, outputs = action.partition("outputs:")[::2]
    used = re.findall(r"(\w+): ", re.findall(r"with: {(port.*)}", steps)[0])
    assert used == ["port", "options"]
    assert all(f"\n  {name}:\n" in inputs for name in used)
    (output,) = re.findall(r"steps\.kafka\.outputs\.([\w-]+)", steps)
    assert f"\n  {output}:\n" in outputs
