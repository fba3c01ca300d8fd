"""Long campaigns in slices: what is done stands in .crash/, and a run goes on where the last one stopped."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / ".crash"


class DoneSlices:
    """What is known of the slices that are done, a line of JSON each; those of other sources do not count."""

    def __init__(self, campaign: str) -> None:
        FOLDER.mkdir(exist_ok=True)
        self._path = FOLDER / f"{campaign}.jsonl"
        self._sources = _fingerprint_of_sources()

    def read(self) -> Iterator[dict[str, Any]]:
        """What was added, by this process and by earlier ones."""
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            entry = json.loads(line)
            if entry.pop("sources") == self._sources:
                yield entry

    def add(self, **fields: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"sources": self._sources} | fields) + "\n")


def _fingerprint_of_sources() -> str:
    sources = sorted(REPOSITORY.glob("kafka_offsets/**/*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
