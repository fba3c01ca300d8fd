"""docs/recipes.md: every recipe runs."""

from pathlib import Path

import pytest

from kafka_offsets import Broker
from tests.documents import pages

RECIPES = pages.blocks("recipes.md", "python")


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_every_recipe_is_a_test_that_passes(tmp_path: Path) -> None:
    assert pages.run_as_tests(RECIPES, tmp_path) >= 20


def test_every_block_but_the_first_is_a_recipe() -> None:
    assert all("def test_" in code for code in RECIPES[1:])


@pytest.mark.interop
def test_the_lines_for_a_shell_print_the_output_below_them(tmp_path: Path) -> None:
    (code,) = pages.blocks("recipes.md", "console")
    with Broker() as broker:
        broker.create_topic("orders")
        pages.run_in_shell(code, broker, tmp_path)
