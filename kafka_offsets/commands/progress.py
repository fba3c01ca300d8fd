"""Progress of long commands on standard error, if that is a terminal: a bar with share, rate and remaining time.

It needs rich, and is not shown without it. Nothing is imported if standard error is no terminal.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec


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
    from rich.console import Console, RenderableType
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """How many a second."""

        def render(self, task: Task) -> Text:
            """Return the rate, nothing at the begin."""
            return Text("" if task.speed is None else f"{task.speed:,.0f} {unit}/s")

    class Polled(Progress):
        """Asks how far it is each time that it is drawn."""

        def get_renderables(self) -> Iterator[RenderableType]:
            """Return the bar."""
            for task in self.task_ids:
                now = total if isinstance(total, int) else total()
                self.update(task, total=now or None, completed=min(done(), now))
            yield from super().get_renderables()

    amount = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(), Rate())
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        *amount,
        TimeRemainingColumn(),
    )
    # What the command prints is moved above the bar only where both are on one terminal.
    together = sys.stdout is not None and sys.stdout.isatty()
    with Polled(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=together,
        redirect_stderr=together,
    ) as shown:
        shown.add_task(what, total=None)
        yield
