"""Resolution of the regular expressions of a consumer group, in steps; other requests are served between two steps.

Kafka uses a separate thread: the heartbeat with a new expression is answered at once, and the member gets
its assignment with a later one. Source: GroupMetadataManager.maybeUpdateRegularExpressions and
resolveRegularExpressions of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Generator

from kafka_offsets.coordinator.consumer.patterns import PatternError, TopicPattern

_STEP_COST = 10_000
"""The cost limit of a step, in the unit of `TopicPattern.match_in_steps`: about 5 ms."""


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

    def advance(self) -> bool:
        """Take one step; return whether it was the last one."""
        left = _STEP_COST
        for cost in self._steps:
            left -= cost
            if left <= 0:
                return False
        return True

    def _resolve(self, expressions: list[str], names: list[str]) -> Generator[int, None, None]:
        for expression in expressions:
            try:
                pattern = TopicPattern(expression)
            except PatternError:  # from a loaded group: another broker accepted this expression
                self.found[expression] = frozenset()
            else:
                self.found[expression] = yield from pattern.match_in_steps(names)
