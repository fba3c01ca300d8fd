"""Names of topics and groups for one test."""

import re


class Names:
    """Legal, unique names derived from a test's own."""

    def __init__(self, stem: str) -> None:
        self._stem = re.sub(r"[^A-Za-z0-9._-]", "_", stem)

    def topic(self, suffix: str = "topic") -> str:
        """A topic name."""
        return f"{self._stem}-{suffix}"

    def group(self, suffix: str = "group") -> str:
        """A group id."""
        return f"{self._stem}-{suffix}"
