"""The player of a story: it sends what the text asks, and takes the answers where the text takes them.

A client is a connection; its name is its client id, and its user where the broker has users. The text says of a request
that its answer `waits`; otherwise an answer may take any time. A request without an answer in the text is held back to
the end: its answer, if there is one, is an event too. The commands among the requests:

    setting NAME                             of which of SETTINGS the broker is: of a situation, or of all of a file;
                                             with `transactions` the coordinator of $slug is at work
    topic NAME partitions=N [KEY=VALUE …]    there is this topic, and it is led
    ids NAME …                               learn the ids of topics that no `topic` has made
    transactional NAME                       the coordinator of this transactional id is at work
    pause N ms                               time passes, say until a broker follows what its controller has answered
    until NAME has N partitions              time passes until a topic that was asked for is led, …
    until NAME is gone                       … until one that was deleted is not known any more; its committed offsets
                                             are deleted a moment later: `pause 300 ms`, …
    until N acls                             … until the broker knows so many ACLs, …
    until group coordinator NAME             … or until there is one, or that of a `transaction`
    no acls                                  all ACLs are deleted, and the broker knows it
    quietly CLIENT REQUEST                   a request whose answer is not recorded; it is no error

After an EndTxn or an InitProducerId the player lets time pass until the markers of the transaction are written.
"""

from collections.abc import Iterable
from typing import Any

from tests.differential.brokers import ADMIN, Broker
from tests.differential.play import ORDER_MS, Client, Event, Play
from tests.differential.settings import USERS
from tests.differential.stories import COMMANDS, QUIETLY, StoryError

EVERY_ACL = {
    **dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter")),
    **dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1),
}


class Player:
    """One story with one broker; a `name` is that of the story, and of the groups that it makes."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._play = Play(broker, name)
        self._clients: dict[str, Client] = {}
        self._ending: dict[str, str] = {}
        self._sessions: dict[str, int] = {}

    def play(self, told: list[Event]) -> list[Event]:
        """Return what is told with the requests as they were sent, and the answers of this broker.

        An error says in a note of which story and event it is.
        """
        for event, following in zip(told, [*told[1:], [""]], strict=True):
            try:
                self._step(event, following)
            except Exception as error:
                error.add_note(f"{self._play.group}: {event}")
                raise
        self._hear_the_rest()
        return self._play.events

    def _step(self, event: Event, following: Event) -> None:
        front, what, *request = event
        if front in COMMANDS:
            self._do(front, *what.split())
            self._play.events.append(event)
        elif front.startswith(QUIETLY):
            label = front.removeprefix(QUIETLY)
            self._ask(label, what, request[0])
            answer = self._answer(label)
            (_, *sent), shown = self._play.events[-2:]
            assert answer is not None and not getattr(answer, "error_code", 0), shown
            self._play.events[-2:] = [[front, *sent]]
        elif request:
            self._ask(front, what, request[0])
            if following[0] != front or len(following) > 2 or following[1] == "waits":
                self._play.pause(ORDER_MS)
        elif what == "waits":
            self._client(front).silent()
        else:
            self._answer(front)

    def _hear_the_rest(self) -> None:
        """Listen for the answers that are held back to the end; one that has come is an event."""
        for label, client in self._clients.items():
            if client.pending:
                client.silent()
                if self._play.events[-1] == [label, "waits"]:
                    self._play.events.pop()

    def _client(self, label: str) -> Client:
        if label not in self._clients:
            self._clients[label] = Client(self._play, label, label if label in USERS else ADMIN)
        return self._clients[label]

    def _ask(self, label: str, asked: str, fields: dict[str, Any]) -> None:
        client, names, (api, _, version) = self._client(label), self._play.names, asked.partition(" v")
        # SESSION is the client's own fetch session, or the last one of another client.
        names.session_id = self._sessions.get(label, names.session_id)
        client.member_id = fields.get("member_id") or ""  # of none, the answer says which id the broker makes
        client.send_at_once(api, int(version), **fields)
        if api in ("EndTxn", "InitProducerId") and fields["transactional_id"]:
            self._ending[label] = fields["transactional_id"]

    def _answer(self, label: str) -> Any:
        before = self._play.names.session_id
        answer = self._client(label).answer()
        if (session_id := self._play.names.session_id) != before:
            self._sessions[label] = session_id
        if label in self._ending:
            self._play.settle(self._ending.pop(label))
        return answer

    def _do(self, *command: str) -> None:
        """Carry a command out; stories.py has checked its form."""
        play, said = self._play, " ".join(command)
        match command:
            case ["setting", name]:
                if name == "transactions":
                    play.transactional(play.slug)
            case ["topic", name, partitions, *configs]:
                count = int(partitions.removeprefix("partitions="))
                play.topic(name, count, **dict(each.split("=") for each in configs))
            case ["ids", *names]:
                play.learn(*names)
            case ["transactional", *words]:
                play.transactional(" ".join(words))
            case ["pause", ms, _]:
                play.pause(int(ms))
            case ["until", name, "has", count, "partitions"]:
                play.until(lambda: play.has_topic(name, int(count)), said)
            case ["until", name, "is", "gone"]:
                play.until(lambda: bool(play.learn(name).topics[0].error_code), said)
            case ["until", count, "acls"]:
                play.until(lambda: self._acls() == int(count), said)
            case ["until", kind, "coordinator", *words]:
                key, of_transactions = " ".join(words), kind == "transaction"
                play.until(lambda: play.has_coordinator(key, of_transactions=of_transactions), said)
            case ["no", "acls"]:
                play.ask("DeleteAcls", 3, filters=[EVERY_ACL])
                play.until(lambda: not self._acls(), said)
            case _:
                raise StoryError(f"`{said}`: the player has one broker; clusters are of replicas.py")

    def _acls(self) -> int:
        resources: Iterable[Any] = self._play.ask("DescribeAcls", 3, **EVERY_ACL).resources
        return sum(len(resource.acls) for resource in resources)
