"""What `make stranger` reads from the README, and the test that a stranger makes of the printed one."""

import ast

from tests import stranger


def test_the_commands_of_the_readme_install_the_package_and_what_its_test_imports() -> None:
    clone, packages = stranger.install_commands()
    assert clone == "pip install ."
    modules = {alias.name for node in ast.walk(ast.parse(stranger.printed_test())) for alias in _names(node)}
    assert {"pytest", "confluent_kafka"} <= modules
    assert {"pytest", "confluent-kafka"} <= set(packages.split())


def _names(node: ast.AST) -> list[ast.alias]:
    if isinstance(node, ast.ImportFrom):
        return [ast.alias(node.module or "")]
    return node.names if isinstance(node, ast.Import) else []


def test_the_strangers_own_test_has_another_topic_group_and_number_of_records() -> None:
    own = stranger.own_test()
    ast.parse(own)
    assert own.count('"parcels"') == 3 and '"shipping"' in own and '"third"' in own and 'b"third"' in own
    assert "orders" not in own.replace("orders =", "").replace("return orders", "").replace("of orders", "")
