"""Progress of long commands on standard error, if that is a terminal: a bar with share, rate and remaining time.

It needs rich, and is not shown without it. Nothing is imported if standard error is no terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, ProgressColumn, Task
    from rich.text import Text


@contextmanager
def progress(
    what: str, total: int | Callable[[], int], done: Callable[[], int], *, unit: str = "bytes"
) -> Iterator[None]:
    """Show how far something is while the body runs.

    total, done  in the unit; functions are called ten times a second, by another thread, `total` first
    unit         bytes, or a plural noun
    """
    if (isinstance(total, int) and total <= 0) or not sys.stderr.isatty() or find_spec("rich") is None:
        yield
        return
    with _polled(total, done, _columns(unit)) as shown:
        shown.add_task(what, total=None)
        yield


def _polled(
    total: int | Callable[[], int], done: Callable[[], int], columns: tuple[ProgressColumn, ...]
) -> Progress:
    """Return a display that asks how far its task is each time that it is drawn."""
    from rich.console import Console
    from rich.progress import Progress

    class Polled(Progress):
        def get_renderables(self) -> Iterator[RenderableType]:
            for task in self.task_ids:
                now = total if isinstance(total, int) else total()
                self.update(task, total=now or None, completed=min(done(), now))
            yield from super().get_renderables()

    # What the command prints is moved above the bar only where both are on one terminal.
    together = sys.stdout is not None and sys.stdout.isatty()
    console = Console(stderr=True)
    return Polled(
        *columns, console=console, transient=True, redirect_stdout=together, redirect_stderr=together
    )


def _columns(unit: str) -> tuple[ProgressColumn, ...]:
    """Return the parts of the bar: what, bar, share, amount, rate, remaining time."""
    from rich import progress as parts
    from rich.text import Text

    class RateColumn(parts.ProgressColumn):
        def render(self, task: Task) -> Text:
            """Return how many a second, nothing at the begin."""
            return Text("" if task.speed is None else f"{task.speed:,.0f} {unit}/s")

    amount: tuple[ProgressColumn, ...] = (parts.MofNCompleteColumn(), RateColumn())
    if unit == "bytes":
        amount = (parts.DownloadColumn(), parts.TransferSpeedColumn())
    before = (parts.TextColumn("{task.description}"), parts.BarColumn(), parts.TaskProgressColumn())
    return (*before, *amount, parts.TimeRemainingColumn())
