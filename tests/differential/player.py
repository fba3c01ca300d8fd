"""The player of a story: it sends what the text asks, and takes the answers where the text takes them.

A client is a connection; its name is its client id, and its user where the broker has users. The text says of a request
that its answer `waits`; otherwise an answer may take any time. The commands among the requests:

    setting NAME                             of which of SETTINGS the broker is: of a situation, or of all of a file;
                                             with `transactions` the coordinator of $slug is at work
    topic NAME partitions=N [KEY=VALUE …]    there is this topic, and it is led
    ids NAME …                               learn the ids of topics that no `topic` has made
    transactional NAME                       the coordinator of this transactional id is at work
    pause N ms                               time passes
    until NAME has N partitions              time passes until a topic that was asked for is led, …
    until NAME is gone                       … until one that was deleted is not known any more; its committed offsets
                                             are deleted a moment later: `pause 300 ms`, …
    until N acls                             … until the broker knows so many ACLs, …
    until group coordinator NAME             … or until there is one, or that of a `transaction`
    quietly CLIENT REQUEST                   a request that is not recorded

After an EndTxn the player lets time pass until its markers are written.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tests.differential.brokers import ADMIN, Broker
from tests.differential.play import ORDER_MS, Client, Event, Play
from tests.differential.stories import CLUSTER, COMMANDS, QUIETLY, StoryError
from tests.differential.table import USERS

EVERY_ACL = {
    **dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter")),
    **dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1),
}


class Player:
    """One story with one broker; a `name` is that of the story, and of the groups that it makes."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._name = name
        self._play = Play(broker, name)
        self._clients: dict[str, Client] = {}
        self._ending: dict[str, str] = {}
        self._sessions: dict[str, int] = {}

    def play(self, told: list[Event]) -> list[Event]:
        """Return what is told with the answers of this broker."""
        for event, following in zip(told, [*told[1:], [""]], strict=True):
            front, what, *request = event
            if front == CLUSTER:
                raise StoryError(
                    f"{self._name}: `{front} {what}`: the player has one broker; clusters are of replicas.py"
                )
            if front in COMMANDS:
                getattr(self, f"_{front}")(*what.split())
                self._play.events.append(event)
            elif front.startswith(QUIETLY):
                with self._play.unrecorded():
                    self._ask(front.removeprefix(QUIETLY), what, request[0])
                    self._answer(front.removeprefix(QUIETLY))
                self._play.events.append(event)
            elif request:
                self._ask(front, what, request[0])
                if following[0] != front or len(following) > 2 or following[1] == "waits":
                    self._play.pause(ORDER_MS)
            elif what == "waits":
                self._client(front).silent()
            else:
                self._answer(front)
        return self._play.events

    def clean_up(self) -> None:
        """Delete all ACLs."""
        self._play.ask("DeleteAcls", 3, filters=[EVERY_ACL])
        self._until("0", "acls")

    def _client(self, label: str) -> Client:
        if label not in self._clients:
            self._clients[label] = self._play.client(label, label if label in USERS else ADMIN)
        return self._clients[label]

    def _ask(self, label: str, asked: str, fields: dict[str, Any]) -> None:
        client, names, (api, _, version) = self._client(label), self._play.names, asked.partition(" v")
        # SESSION is the client's own fetch session, or the last one of another client.
        names.session_id = self._sessions.get(label, names.session_id)
        client.member_id = fields.get("member_id") or ""  # of none, the answer says which id the broker makes
        client.send_at_once(api, int(version), **fields)
        if api == "EndTxn":
            self._ending[label] = fields["transactional_id"]

    def _answer(self, label: str) -> None:
        before = self._play.names.session_id
        self._client(label).answer()
        if (session_id := self._play.names.session_id) != before:
            self._sessions[label] = session_id
        if label in self._ending:
            self._play.settle(self._ending.pop(label))

    # -- commands

    def _setting(self, name: str) -> None:
        if name == "transactions":
            self._play.transactional()

    def _topic(self, name: str, partitions: str, *configs: str) -> None:
        count = int(partitions.removeprefix("partitions="))
        self._play.topic(count, name, **dict(each.split("=") for each in configs))

    def _ids(self, *names: str) -> None:
        self._play.learn(*names)

    def _transactional(self, *words: str) -> None:
        self._play.transactional(" ".join(words))

    def _pause(self, ms: str, _: str) -> None:
        self._play.pause(int(ms))

    def _until(self, *words: str) -> None:
        self._play.until(self._condition(*words), " ".join(("until", *words)))

    def _condition(self, *words: str) -> Callable[[], bool]:
        match words:
            case [name, "has", count, "partitions"]:
                return lambda: self._play.has_topic(name, int(count))
            case [name, "is", "gone"]:
                return lambda: bool(self._play.learn(name).topics[0].error_code)
            case [count, "acls"]:
                return lambda: self._acls() == int(count)
            case [kind, "coordinator", *name]:
                of_transactions = kind == "transaction"
                return lambda: self._play.has_coordinator(" ".join(name), of_transactions=of_transactions)
        raise StoryError(f"{self._name}: until {' '.join(words)}")

    def _acls(self) -> int:
        resources: Iterable[Any] = self._play.ask("DescribeAcls", 3, **EVERY_ACL).resources
        return sum(len(resource.acls) for resource in resources)
