"""docs/from-docker.md: "before" is at least Python, and sets keys that are served."""

import ast
import re

from kafka_offsets.broker.config.keys import Config
from tests.documents import pages

PAGE = "from-docker.md"


def test_the_examples_before_the_migration_are_python() -> None:
    before = [block.code for block in pages.blocks(PAGE, "python") if block.mark == "not run"]
    assert len(before) == 3
    for code in before:
        ast.parse(code)


def test_what_a_compose_file_sets_is_served_by_the_same_keys() -> None:
    (composed,) = pages.blocks(PAGE, "yaml")
    given = dict(re.findall(r"^ +KAFKA_(\w+): (\S+)$", composed.code, re.MULTILINE))
    assert len(given) == 2
    keys = {name.lower().replace("_", "."): value for name, value in given.items()}
    assert Config.load(keys).num_partitions == int(keys["num.partitions"])
