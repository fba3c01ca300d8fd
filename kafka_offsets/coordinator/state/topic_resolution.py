"""Resolution of the regular expressions of a consumer group, in steps; other requests are served between two steps.

Kafka uses a separate thread: the heartbeat with a new expression is answered at once, and the member gets
its assignment with a later one. Source: GroupMetadataManager.maybeUpdateRegularExpressions and
resolveRegularExpressions of Kafka 4.3.
"""

from collections.abc import Collection, Generator, Iterable

from kafka_offsets.coordinator.state.patterns import Pattern, PatternError

_STEP_COST = 1_000_000
"""The cost limit of a step, in the unit of `Pattern.cost`: about 5 ms."""


class StepBudget:
    """What may still be done in this step; several groups share it.

    left  in the unit of `Pattern.cost`; the step ends when it is not positive
    """

    def __init__(self) -> None:
        self.left = _STEP_COST


class Resolution:
    """A resolution in progress.

    topics   the topic names that are matched
    version  `TopicView.created_version` of these topics
    found    expression -> the topics that it matches; complete after the last step
    """

    def __init__(self, expressions: Collection[str], topics: Collection[str], version: int) -> None:
        self.version = version
        self.found: dict[str, frozenset[str]] = {}
        self._steps = self._resolve(list(expressions), list(topics))

    def advance(self, budget: StepBudget) -> bool:
        """Go on until the budget is used up; return whether the resolution is complete."""
        for cost in self._steps:
            budget.left -= cost
            if budget.left <= 0:
                return False
        return True

    def _resolve(self, expressions: list[str], names: list[str]) -> Generator[int, None, None]:
        for expression in expressions:
            try:
                pattern = Pattern(expression)
            except PatternError:  # from a loaded group: another broker accepted this expression
                self.found[expression] = frozenset()
            else:
                self.found[expression] = yield from _match(pattern, names)


def _match(pattern: Pattern, names: Iterable[str]) -> Generator[int, None, frozenset[str]]:
    """Return the names that match; yield the cost of each part of the work."""
    yield pattern.cost
    matches = []
    for name in names:
        if pattern.matches(name):
            matches.append(name)
        yield pattern.cost_of(name)
    return frozenset(matches)
