"""Incidents: the last things that went otherwise than a client wanted, kept for whoever asks why something is stuck.

A broker adds one when it removes a member, begins a rebalance, refuses a request or aborts a transaction that has timed
out; what goes well adds nothing, and ends what was refused to the same client before. The same incident is one entry
with a count, and the oldest entries go first.
"""

from __future__ import annotations

import itertools
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

WHY_REMOVED = {
    "session": "its session ended: no heartbeat for {span}",
    "join": "it did not join again within its rebalance timeout, {span}",
    "sync": "it did not ask for its assignment within its rebalance timeout, {span}",
    "revocation": "it did not give up its partitions within its rebalance timeout, {span}",
}
"""Why a member is removed, by the reason of the incident."""

_CLIENT = ("api", "client", "host")
_ASKER = ("group", "transactional_id", "topic")
"""The fields that say who asks for what: a client that is served ends what it was refused for the same."""

FENCED = frozenset(("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"))
"""Errors of a producer that has lost its transactional id: that it is served again begins with InitProducerId."""

_OF_ONE_MEMBER = frozenset(("FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID"))
"""Errors of a member whose instance id another one has, perhaps with the same client id."""

Fields = dict[str, str | int]
_Key = tuple[object, ...]

new_number = itertools.count(1).__next__
"""Numbers of incidents in this process: one that comes later has a larger number."""


class Incident:
    """One incident, or several that differ in nothing but their time.

    kind              one of the above
    fields            who, of what, why: names to texts and numbers
    count             how often
    first_ms, last_ms  wall time of the first and the last
    serial            number of the last, by `new_number`
    """

    __slots__ = ("count", "fields", "first_ms", "kind", "last_ms", "serial")

    def __init__(self, kind: str, fields: Fields, wall_ms: int) -> None:
        self.kind, self.fields, self.serial = kind, fields, 0
        self.count, self.first_ms, self.last_ms = 1, wall_ms, wall_ms

    def text(self, name: str) -> str:
        """Return a field as text, "" if it has none."""
        return str(self.fields.get(name, ""))

    def number(self, name: str) -> int:
        """Return a field as a number, 0 if it has none."""
        return int(self.fields.get(name, 0))

    def __repr__(self) -> str:
        fields_text = " ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"<{self.kind} x{self.count} {fields_text}>"


class Incidents:
    """The incidents of one broker: written by its thread.

    on_new    called with an incident that is the first of its kind and fields
    refusals  of requests, by API, client id and host, and then by who asks for what: the keys of the incidents that end
              when that is served
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: dict[_Key, Incident] = {}
        self.refusals: dict[_Key, dict[_Key, list[_Key]]] = {}
        self.on_new: Callable[[Incident], None] | None = None

    def add(self, kind: str, wall_ms: int, /, **fields: str | int) -> Incident:
        """Note an incident; return it, with what is known of the same one."""
        for name, value in fields.items():
            if isinstance(value, str) and len(value) > LONGEST:
                fields[name] = f"{value[:LONGEST]}…"
        key = kind, *fields.items()
        incident = self._kept.pop(key, None)
        if incident is None:
            incident = Incident(kind, fields, wall_ms)
            if len(self._kept) >= self._most:
                self._forget(next(iter(self._kept)))
            if kind == REFUSED and incident.text("error") not in FENCED:
                self.refusals.setdefault(_client(fields), {}).setdefault(_asker(fields), []).append(key)
            if self.on_new is not None:
                self.on_new(incident)
        else:
            incident.count += 1
            incident.last_ms = wall_ms
        incident.serial = new_number()
        self._kept[key] = incident
        return incident

    def end_refusals(self, fields: Fields) -> None:
        """Forget what was refused to a client for that with which it is served now."""
        refusals = self.refusals.get(_client(fields), {})
        for asker in (_asker(fields), (*_asker(fields), fields.get("member", ""))):
            for key in list(refusals.get(asker, ())):
                self._forget(key)

    def end_producer(self, transactional_id: str, client: str, host: str) -> None:
        """Forget that a transaction has timed out, or its client was fenced: the client has begun anew."""
        for key, incident in list(self._kept.items()):
            if incident.text("transactional_id") != transactional_id:
                continue
            is_fenced = incident.kind == REFUSED and incident.text("error") in FENCED
            if incident.kind == TIMED_OUT or (
                is_fenced and (incident.text("client"), incident.text("host")) == (client, host)
            ):
                self._forget(key)

    def _forget(self, key: _Key) -> None:
        gone = self._kept.pop(key)
        client, asker = _client(gone.fields), _asker(gone.fields)
        keys = self.refusals.get(client, {}).get(asker, [])
        if key in keys:
            keys.remove(key)
            if not keys:
                del self.refusals[client][asker]
            if not self.refusals[client]:
                del self.refusals[client]

    def __iter__(self) -> Iterator[Incident]:
        """Yield all, the one that happened last at the end."""
        return iter(list(self._kept.values()))

    def __len__(self) -> int:
        """Return how many different ones there are."""
        return len(self._kept)


def _client(fields: Fields) -> _Key:
    return tuple(fields.get(name, "") for name in _CLIENT)


def _asker(fields: Fields) -> _Key:
    who = tuple(fields.get(name, "") for name in _ASKER)
    return (*who, fields.get("member", "")) if fields.get("error") in _OF_ONE_MEMBER else who
