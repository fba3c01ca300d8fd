"""What the kinds of walks ask."""

import importlib

PARTS = "classic", "consumer", "offsets", "transactions", "fetching", "admin", "requests"


def load() -> None:
    """Enter all kinds."""
    for part in PARTS:
        importlib.import_module(f"{__name__}.{part}")
