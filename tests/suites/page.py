"""docs/suites.md: the results of the suites, and the excluded tests."""

from collections.abc import Iterable, Sequence

from tests.suites.outcomes import Outcome, Run, worse
from tests.suites.suite import Suite


def results(runs: Iterable[Run]) -> str:
    """Return the table of runs."""
    lines = [
        "| suite | broker | passed | of these, when run again | failed | skipped | seconds | date |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for run in runs:
        counts = (
            run.count(Outcome.PASSED),
            len(run.repeated),
            run.count(Outcome.FAILED),
            run.count(Outcome.SKIPPED),
        )
        numbers = " | ".join(str(count) for count in counts)
        lines.append(
            f"| {run.suite} {run.version} | {run.target} | {numbers} | {run.seconds:.0f} | {run.day} |"
        )
    return "\n".join(lines)


def failures(runs: Iterable[Run]) -> str:
    """Return which tests failed, and which only passed when they were run again."""
    lines = ["| suite | broker | test | |", "|---|---|---|---|"]
    for run in runs:
        told = [(name, "failed") for name in run.having(Outcome.FAILED)]
        told += [(name, "passed when run again") for name in run.repeated]
        lines += [f"| {run.suite} | {run.target} | `{name}` | {what} |" for name, what in sorted(told)]
    return "\n".join(lines)


def sources(suites: Iterable[Suite]) -> str:
    """Return where the suites come from, and what is changed in them."""
    lines = ["| suite | from | adapted | the brokers are configured with |", "|---|---|---|---|"]
    for suite in suites:
        settings = "<br>".join(f"`{key}={value}`" for key, value in suite.settings.items())
        lines.append(f"| {suite.name} {suite.version} | {suite.registry} | {suite.adapted} | {settings} |")
    return "\n".join(lines)


def left_out(suites: Iterable[Suite]) -> str:
    """Return the tests that are not run, and why."""
    lines = ["| suite | test | why |", "|---|---|---|"]
    for suite in suites:
        lines += [f"| {suite.name} | `{name}` | {why} |" for name, why in suite.not_run.items()]
    return "\n".join(lines)


def complaints(pairs: Iterable[tuple[Run, Run]]) -> Sequence[str]:
    """Return a line for each test that passes with Kafka and not with ours, of pairs of Kafka's run and ours."""
    return [
        f"{ours.suite}: {name} passes with {kafkas.target} and not with {ours.target}"
        for kafkas, ours in pairs
        for name in worse(ours, kafkas)
    ]
