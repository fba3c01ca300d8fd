"""Simpler forms of a request: one item of a list less, or one field with its default. A list keeps an item: without
any, many a request means something else."""

from collections.abc import Iterator
from typing import Any

from tests.walks.plan import Step

KEPT = "group_id", "transactional_id", "name", "records"
"""The fields that a walk looks at, to learn from answers and to wait."""


def simpler_steps(step: Step) -> Iterator[Step]:
    """Yield a request with less in it, each time in one place, large pieces first."""
    for fields in _simpler(step.fields):
        yield step._replace(fields=fields)


def _simpler(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for number in range(len(value) if len(value) > 1 else 0):
            yield value[:number] + value[number + 1 :]
        for number, item in enumerate(value):
            for fewer in _simpler(item):
                yield [*value[:number], fewer, *value[number + 1 :]]
    elif isinstance(value, dict) and not any(name.startswith("$") for name in value):
        for name, item in value.items():
            if not isinstance(item, list) and name not in KEPT:
                yield {other: each for other, each in value.items() if other != name}
        for name, item in value.items():
            for fewer in _simpler(item):
                yield value | {name: fewer}
