"""Resolution of the regular expressions of a consumer group, in steps between which other requests are served.

Kafka does this in a thread of its own: the heartbeat that brings an expression is answered at once, and the member gets
its assignment with a later one. Source: GroupMetadataManager.maybeUpdateRegularExpressions and
resolveRegularExpressions of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Generator

from kafka_offsets.coordinator.consumer.patterns import PatternError, TopicPattern

_STEP_COST = 10_000
"""What a step may cost, in the unit of `TopicPattern.match_in_steps`: about 5 ms."""


class Resolution:
    """Expressions that are being resolved.

    topics   the names of the topics that they are compared with
    version  `TopicView.created_version` of these topics
    found    expression -> the topics that it matches; of all expressions when the last step is done
    """

    def __init__(self, expressions: Collection[str], topics: Collection[str], version: int) -> None:
        self.version = version
        self.found: dict[str, frozenset[str]] = {}
        self._steps = self._resolve(list(expressions), list(topics))

    def advance(self) -> bool:
        """Take a step; return whether it was the last one."""
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
            except PatternError:  # of a group that was loaded, and another broker's idea of an expression
                self.found[expression] = frozenset()
            else:
                self.found[expression] = yield from pattern.match_in_steps(names)
