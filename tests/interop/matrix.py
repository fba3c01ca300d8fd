"""Which client does what on the broker: a table made of the marks on the tests.

`@pytest.mark.shows(CLIENT, FEATURE, …)` on a test fills those cells. The marks are read from the sources, so that the
table is the same whatever tests are selected and whatever is installed. A cell without a test has a reason in `ABSENT`.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

MARK = "pytest.mark.shows"
CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka", "Java, classic", "Java, consumer", "kcat", "Spark")
FEATURES = (
    "produce",
    "idempotent",
    "transactional",
    "consume",
    "group",
    "static member",
    "KIP-848",
    "admin",
    "SASL_SSL",
)
CLASSIC_ONLY = "The client knows classic groups only."
SAME_CLIENT = (
    "Same client as in the row above: the group protocol does not concern the producer and the admin client."
)
OWN_ASSIGNMENT = (
    "Spark assigns partitions itself and keeps its offsets in checkpoints: it does not join a group."
)
ABSENT = {
    ("kafka-python", "KIP-848"): CLASSIC_ONLY,
    ("aiokafka", "KIP-848"): CLASSIC_ONLY,
    ("Java, classic", "KIP-848"): "See the row below: `group.protocol=consumer`.",
    ("Java, consumer", "produce"): SAME_CLIENT,
    ("Java, consumer", "idempotent"): SAME_CLIENT,
    ("Java, consumer", "transactional"): SAME_CLIENT,
    ("Java, consumer", "admin"): SAME_CLIENT,
    ("kcat", "KIP-848"): CLASSIC_ONLY,
    ("kcat", "admin"): "kcat lists metadata and offsets; it has no admin commands.",
    ("Spark", "transactional"): "Spark's sink does not support transactions.",
    ("Spark", "group"): OWN_ASSIGNMENT,
    ("Spark", "static member"): OWN_ASSIGNMENT,
    ("Spark", "KIP-848"): OWN_ASSIGNMENT,
    ("Spark", "admin"): "Spark has no admin client.",
}


def shown(folder: Path) -> dict[tuple[str, str], list[str]]:
    """Return the tests below `folder` that show each client and feature, as FILE::NAME."""
    found = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if MARK not in source:
            continue
        for function in ast.parse(source).body:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                for cell in _cells(function):
                    found[cell].append(f"{path.relative_to(folder)}::{function.name}")
    return dict(found)


def _cells(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARK:
            client, *features = (ast.literal_eval(argument) for argument in decorator.args)
            yield from ((client, feature) for feature in features)


def table(cells: set[tuple[str, str]]) -> str:
    """Return the table in Markdown: a tick for each cell that is shown, else a number that leads to the reason."""
    reasons: list[str] = []
    rows = ["| client | " + " | ".join(FEATURES) + " |", "|---" * (len(FEATURES) + 1) + "|"]
    for client in CLIENTS:
        row = []
        for feature in FEATURES:
            if (client, feature) in cells:
                row.append("✓")
                continue
            reason = ABSENT[client, feature]
            if reason not in reasons:
                reasons.append(reason)
            row.append(f"- ({reasons.index(reason) + 1})")
        rows.append(f"| {client} | " + " | ".join(row) + " |")
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join([*rows, "", *notes])
