"""Many cases in one item of pytest: for cases that each take less time than what pytest does for an item."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each_case(
    names: str | tuple[str, ...],
    cases: Iterable[Any],
    ids: Iterable[str] | Callable[[Any], str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with every case; `names`, `cases` and `ids` as for `pytest.mark.parametrize`.

    All cases run, and the failure of the test has the name and the traceback of each that failed. They share the
    fixtures of the test, so a test with a folder, a broker or a random generator is parametrised by pytest.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [case if hasattr(case, "marks") else _row(case, len(wanted)) for case in cases]
    given = [None] * len(rows) if ids is None or callable(ids) else list(ids)
    shown = ids if callable(ids) else str
    titles = [
        str(row.id or title or "-".join(shown(value)[:80] for value in row.values))
        for row, title in zip(rows, given, strict=True)
    ]
    assert rows, "there are no cases"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[Exception] = []
            for title, row in zip(titles, rows, strict=True):
                try:
                    test(**dict(zip(wanted, row.values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001
                    error.add_note(f"case: {title}")
                    failures.append(
                        error if isinstance(error, Exception) else AssertionError(f"{title}: {error}")
                    )
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(rows)} cases fail", failures)

        signature = inspect.signature(test)
        fixtures = [name for name in signature.parameters if name not in wanted]
        assert len(fixtures) + len(wanted) == len(signature.parameters), f"{wanted} are no parameters"
        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[signature.parameters[name] for name in fixtures]
        )
        return run

    return decorate


def _row(case: Any, width: int) -> Any:
    return pytest.param(case) if width == 1 else pytest.param(*case)
