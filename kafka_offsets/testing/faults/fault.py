"""One fault: which requests it strikes, how often, and what it does to them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.wire.api import Api
from kafka_offsets.errors import ErrorCode
from kafka_offsets.testing.faults.call import Call

_WAIT_SECONDS = 10.0

Controls = Callable[[Call], Any]
"""What a function of `control` is: it sees the request, and returns what becomes of it."""


class Owner(Protocol):
    """The collection of a broker's faults, as a fault uses it."""

    def remove(self, fault: Fault) -> None:
        """End a fault, in any thread."""

    def end(self, fault: Fault) -> None:
        """End a fault, in the broker's thread."""


class Fault:
    """One fault.

    number              from 1 on, unique for a broker
    hits                how often it has struck
    kind                what it does, as `Faults` calls it
    n                   how often it strikes at most, None for no limit
    client_id, group, transactional_id, topic, partition, node  it strikes only requests with these, None for all
    apis, lists         the APIs that it strikes; of these, the APIs that list everything, so any request is struck
    The interception reads the rest: before_ms and after_ms (delays), closes_before, function, spoils (how it alters
    the answer), observes (it only counts), next_error and take_error.
    """

    def __init__(
        self,
        owner: Owner,
        kind: str,
        apis: frozenset[str] | None,
        *,
        description: str = "",
        n: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        node: int | None = None,
        errors: Sequence[ErrorCode] = (),
        function: Controls | None = None,
        before_ms: int = 0,
        after_ms: int = 0,
        closes_before: bool = False,
        spoils: Callable[[Context, Any, Any], None] | None = None,
        lists: Sequence[str] = (),
        observes: bool = False,
    ) -> None:
        if n is not None and n < 1:
            raise ValueError(f"n, the largest number of hits, is 1 or more, or None for no limit, not {n}")
        if partition is not None and topic is None:
            raise ValueError(f"partition {partition} of which topic?")
        self.kind, self.apis, self.n = kind, apis, n
        self.lists = frozenset(lists)
        self.client_id, self.group, self.transactional_id = client_id, group, transactional_id
        self.topic, self.partition, self.node = topic, partition, node
        self.function, self.closes_before, self.spoils = function, closes_before, spoils
        self.before_ms, self.after_ms = before_ms, after_ms
        self.observes = observes
        self.number = 0
        self.hits = 0
        self.is_active = True
        self._owner = owner
        self._description = description
        self._error = errors[0] if len(errors) == 1 else ErrorCode.NONE
        self._errors = deque(errors) if len(errors) > 1 else None
        self._struck = threading.Condition()

    def __repr__(self) -> str:
        apis = ["every API"] if self.apis is None else [", ".join(sorted(self.apis))] if self.apis else []
        of = "".join(
            f" {name}={value!r}"
            for name in ("client_id", "group", "transactional_id", "topic", "partition", "node")
            if (value := getattr(self, name)) is not None
        )
        what = " ".join(apis + ([self._description] if self._description else []))
        often = "once" if self.hits == 1 and self.n is None else f"{self.hits} times"
        limit = "" if self.n is None else f"{self.hits} of {self.n} times"
        over = "" if self.is_active else ", over"
        return f"<fault {self.kind}{': ' if what else ''}{what}{of}, struck {limit or often}{over}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """End it. Does nothing if it is already over."""
        self._owner.remove(self)

    def wait(self, hits: int = 1, timeout: float = _WAIT_SECONDS) -> None:
        """Wait until it has struck `hits` times.

        TimeoutError after `timeout` seconds of real time, and as soon as it is over and so strikes no more.
        """
        with self._struck:
            self._struck.wait_for(lambda: self.hits >= hits or not self.is_active, timeout)
            if self.hits >= hits:
                return
            is_over = not self.is_active
        raise TimeoutError(f"{self!r}" if is_over else f"after {timeout:g} s {self!r}")

    # -- in the broker's thread

    def end(self) -> None:
        """Record that it is over."""
        with self._struck:
            self.is_active = False
            self._struck.notify_all()

    @property
    def decides(self) -> bool:
        """Whether it answers in place of the broker."""
        return self.function is not None or self._errors is not None or self._error is not ErrorCode.NONE

    @property
    def strikes_answers(self) -> bool:
        """Whether a request that it strikes is answered otherwise than without it, or later."""
        delays = self.before_ms or self.after_ms
        return bool(self.decides or delays or self.closes_before or self.spoils is not None)

    @property
    def next_error(self) -> ErrorCode:
        """The error for the next answer."""
        return self._errors[0] if self._errors else self._error

    def concerns(self, call: Call) -> bool:
        """Whether it may strike a request."""
        if not self.is_active or (self.client_id is not None and self.client_id != call.client_id):
            return False
        if self.node is not None and self.node != call.node:
            return False
        if call.api in self.lists:
            return True
        if self.group is not None and self.group not in call.groups:
            return False
        if self.transactional_id is not None and self.transactional_id not in call.transactional_ids:
            return False
        if self.topic is None or call.names_all_topics:
            return True
        return any(
            self.wants(topic, self.partition or 0 if index < 0 else index)
            for topic, index in call.topic_partitions
        )

    def wants(self, topic: str, partition: int) -> bool:
        """Whether it strikes a partition; of partition -1, whether it strikes a topic as such."""
        return self.topic in (None, topic) and self.partition in (None, partition)

    def wants_key(self, key: str) -> bool:
        """Whether it strikes a group or a transactional id."""
        return key in (self.group, self.transactional_id)

    def strike(self) -> bool:
        """Count a hit; False if it is already over."""
        if not self.is_active:
            return False
        self._count()
        if self.n is not None and self.hits >= self.n:
            self._owner.end(self)
        return True

    def _count(self) -> None:
        with self._struck:
            self.hits += 1
            self._struck.notify_all()

    def take_error(self) -> ErrorCode:
        """Return the error for a request, and count it; NONE if the broker is to serve it."""
        if self._errors is None:
            return self._error if self.strike() else ErrorCode.NONE
        if not self._errors:
            return ErrorCode.NONE
        error = self._errors.popleft()
        if error:
            self.strike()
        if not self._errors:
            self._owner.end(self)
        return error


class WithheldVersions(Fault):
    """A fault that is a shorter table of APIs.

    narrow  (api) -> the API with the remaining versions, or None
    """

    def __init__(
        self,
        owner: Owner,
        description: str,
        narrow: Callable[[Api], Api | None],
        *,
        keeps_features: bool,
        apis: Any,
    ) -> None:
        super().__init__(owner, "withhold", apis, description=description)
        self.narrow = narrow
        self.keeps_features = keeps_features

    def concerns(self, call: Call) -> bool:
        """Count requests for the API versions."""
        if call.api == "ApiVersions":
            self.strike()
        return False
