"""Play walks with a real Kafka and ours; shrink what differs.

python -m tests.walks [--walks 500] [--only EXPRESSION] [--seed N] [--port 19492]      # `make walks`; Java 17 and Maven
python -m tests.walks --only "^requests of"    # `make requests`: requests of each API, drawn from the schemas
python -m tests.walks --record --walks 84      # keeps some of what is alike in tests/stories/walks
python -m tests.walks --again                  # records what is kept there again
"""

import argparse
import itertools
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.walks.compare import Difference, difference, play, sendable, shrink
from tests.walks.found import walks as found_walks
from tests.walks.kinds import load
from tests.walks.peers import KafkaPeer, kafka
from tests.walks.plan import KINDS, REQUESTS, Walk, plan
from tests.walks.recorded import Recorded, kept, read, texts, write

RESTARTS_IN = 60
"""One walk in so many is one with a restart."""


SHRINKING_PATIENCE_MS = 700
"""A smaller walk need not wait as long for an answer that is known not to come."""


def chosen(count: int, only: str, first_seed: int) -> list[Walk]:
    """Return walks of all kinds by turns, and the short ones that found something."""
    plain = [kind for kind in KINDS if "restart" not in kind and re.search(only, kind)]
    restarting = [kind for kind in KINDS if "restart" in kind and re.search(only, kind)]
    found = []
    for number in range(count):
        wants_restart = restarting and (not plain or number % RESTARTS_IN == RESTARTS_IN - 1)
        kinds = restarting if wants_restart else plain
        turn = number // RESTARTS_IN if wants_restart and plain else number
        found.append(sendable(plan(kinds[turn % len(kinds)], first_seed + number)))
    return [*(walk for walk in found_walks() if re.search(only, walk.kind)), *found]


class Tally:
    """Walks that were played, and what differed in them: shrunk, unless each smaller walk would restart the brokers."""

    def __init__(self) -> None:
        self.played: Counter[str] = Counter()
        self.alike: Counter[str] = Counter()
        self.found: list[Difference] = []
        self._numbers = itertools.count(int(time.time() * 25) % 900_000)

    def play(self, walk: Walk, peer: KafkaPeer) -> Recorded | None:
        """Play a walk, and shrink what differs; return it with Kafka's answers if nothing does."""

        def find(walk: Walk, patience_ms: int = SHRINKING_PATIENCE_MS) -> Difference | None:
            played = play(walk, peer, next(self._numbers), patience_ms)
            return difference(walk, played.ours, played.kafkas)

        self.played[walk.kind] += 1
        ours, kafkas, drew = play(walk, peer, next(self._numbers))
        seen = difference(walk, ours, kafkas)
        if seen is None:
            self.alike[walk.kind] += 1
            return Recorded(walk, kafkas, drew)
        self.found.append(seen if walk.restarts else shrink(seen, find))
        print(self.found[-1], flush=True)
        return None

    def __str__(self) -> str:
        lines = [f"{kind}: {self.alike[kind]} of {count} walks alike" for kind, count in self.played.items()]
        return "\n".join([*lines, f"{self.alike.total()} of {self.played.total()} walks alike"])


def played(walks: list[Walk], tally: Tally, port: int) -> Iterator[Recorded]:
    """Play walks with one Kafka, those with a restart with one each: epochs rise with it. Yield what is alike."""
    with kafka(port) as peer:
        yield from filter(None, (tally.play(walk, peer) for walk in walks if not walk.restarts))
    for walk in walks:
        if walk.restarts:
            with kafka(port) as peer:
                yield from filter(None, [tally.play(walk, peer)])


def main() -> None:
    """Play walks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--walks", type=int, default=500)
    parser.add_argument("--only", default=f"^(?!{REQUESTS})", help="kinds whose name this expression matches")
    parser.add_argument("--seed", type=int, default=1, help="of the first walk")
    parser.add_argument(
        "--port", type=int, default=19492, help="of the Kafka that is started, and the next one"
    )
    parser.add_argument("--record", action="store_true", help="keep the walks with Kafka's answers")
    parser.add_argument("--again", action="store_true", help="record the walks that are kept once more")
    given = parser.parse_args()
    load()
    stored = read(texts())
    walks = (
        [each.walk for each in stored if re.search(given.only, each.walk.kind)]
        if given.again
        else chosen(given.walks, given.only, given.seed)
    )
    tally = Tally()
    alike = list(played(walks, tally, given.port))
    print(tally)
    if given.record or given.again:
        found = kept(alike)
        others = [each for each in stored if not re.search(given.only, each.walk.kind)]
        write([*found, *others])
        print(f"{len(found)} of {len(walks)} walks are kept")
    sys.exit(bool(tally.found))


if __name__ == "__main__":
    main()
