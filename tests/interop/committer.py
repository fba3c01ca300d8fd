"""A client that commits 1, 2, 3, … for its own group and remembers what was acknowledged, in frames made by hand."""

import struct

from tests.drivers import wire
from tests.interop.replays import Offsets
from tests.interop.waiting import until


class Committer:
    """Each commit is one offset for all partitions of a topic, so that a commit in part can be told.

    sent          the last offset sent
    acknowledged  the last one of which an answer said so
    refused       how many were refused, and `errors`, with what
    found         what the last `check` has found
    """

    def __init__(self, group: str, topic: str, partitions: int) -> None:
        self.group, self.topic, self.partitions = group, topic, partitions
        self.sent = self.acknowledged = self.refused = 0
        self.errors: set[int] = set()
        self.found: Offsets = {}

    def send(self, connection: wire.Connection) -> int:
        """Send the next commit; return its offset."""
        self.sent += 1
        frame = wire.offset_commit(self.sent, self.group, self.topic, self.sent, self.partitions)
        connection.socket.sendall(frame)
        return self.sent

    def take(self, connection: wire.Connection, number: int) -> bool:
        """Take the answer to a commit; return whether it was acknowledged."""
        answer = connection.receive()
        assert struct.unpack_from(">i", answer)[0] == number, "answers come in the order of the requests"
        errors = wire.offset_commit_errors(answer, self.topic)
        assert len(errors) == 1, "accepted in part"
        if errors != {0}:
            self.refused += 1
            self.errors |= errors
            return False
        self.acknowledged = number
        return True

    def check(self, connection: wire.Connection) -> None:
        """Compare what the broker has with what it acknowledged and with what it was sent."""
        found = until(lambda: self._fetch(connection), f"offsets of {self.group} are served")
        offsets = {offset for offset, _ in found.values()}
        story = f"{self.group}: found {found}, acknowledged {self.acknowledged}, sent {self.sent}"
        assert len(found) == self.partitions, story
        assert len(offsets) == 1, f"a commit was found in part: {story}"
        self.found = {(self.group, self.topic, partition): entry for partition, entry in found.items()}
        (offset,) = offsets
        assert offset >= self.acknowledged, f"an acknowledged commit is lost: {story}"
        assert offset <= self.sent, f"a commit was invented: {story}"
        assert {metadata for _, metadata in found.values()} == {str(offset)}, (
            f"metadata of another commit: {story}"
        )

    def _fetch(self, connection: wire.Connection) -> dict[int, tuple[int, str]]:
        """Partition to offset and metadata; nothing while the group is being loaded."""
        answer = connection.fetch_offsets(self.group, self.topic, self.partitions)
        if isinstance(answer, int):
            assert answer in {14, 15, 16}, f"error {answer}"
            return {}
        return answer
