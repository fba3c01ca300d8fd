"""Incidents: the last things that went otherwise than a client wanted, kept for whoever asks why something is stuck.

A broker adds one when it removes a member, begins a rebalance, refuses a request or aborts a transaction that has timed
out; what goes well adds nothing. The same incident is one entry with a count, and the oldest entries go first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

MOST = 500
"""So many different incidents are kept."""

LONGEST = 1000
"""So many letters of a text are kept: clients choose these texts, and may offer thousands of names."""

REBALANCE, REMOVED, LEFT, REPLACED = "rebalance", "removed", "left", "replaced"
REFUSED, UNSERVED, FOREIGN, THROTTLED = "refused", "unserved", "foreign", "throttled"
TIMED_OUT, EXPIRED, DELETED = "timed-out", "expired", "deleted"
"""Kinds of incidents: a rebalance began; the broker removed a member; a member left and said why; another client took a
group instance id; a request was refused; a version or an API is not served; a connection speaks another protocol; a
client was throttled; a transaction has timed out; committed offsets have expired; a topic was deleted."""


class Incident:
    """One incident, or several that differ in nothing but their time.

    kind              one of the above
    fields            who, of what, why: names to texts and numbers
    count             how often
    first_ms, last_ms  wall time of the first and the last
    """

    __slots__ = ("count", "fields", "first_ms", "kind", "last_ms")

    def __init__(self, kind: str, fields: dict[str, str | int], wall_ms: int) -> None:
        self.kind, self.fields = kind, fields
        self.count, self.first_ms, self.last_ms = 1, wall_ms, wall_ms

    def text(self, name: str) -> str:
        """Return a field as text, "" if it has none."""
        return str(self.fields.get(name, ""))

    def number(self, name: str) -> int:
        """Return a field as a number, 0 if it has none."""
        return int(self.fields.get(name, 0))

    def __repr__(self) -> str:
        said = " ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"<{self.kind} x{self.count} {said}>"


class Incidents:
    """The incidents of one broker: written by its thread.

    on_new  called with an incident that is the first of its kind and fields
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: dict[tuple[object, ...], Incident] = {}
        self.on_new: Callable[[Incident], None] | None = None

    def add(self, kind: str, wall_ms: int, /, **fields: str | int) -> Incident:
        """Note an incident; return it, with what is known of the same one."""
        for name, value in fields.items():
            if isinstance(value, str) and len(value) > LONGEST:
                fields[name] = f"{value[:LONGEST]}…"
        key = kind, *fields.items()
        known = self._kept.pop(key, None)
        if known is None:
            known = Incident(kind, fields, wall_ms)
            if len(self._kept) >= self._most:
                del self._kept[next(iter(self._kept))]
            if self.on_new is not None:
                self.on_new(known)
        else:
            known.count += 1
            known.last_ms = wall_ms
        self._kept[key] = known
        return known

    def __iter__(self) -> Iterator[Incident]:
        """Yield all, the one that happened last at the end."""
        return iter(list(self._kept.values()))

    def __len__(self) -> int:
        """Return how many different ones there are."""
        return len(self._kept)
