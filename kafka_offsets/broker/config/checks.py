"""Checks of single values of a configuration."""


def known_assignors(names: tuple[str, ...]) -> str | None:
    """Return why a list of assignors is refused, or None."""
    if not names or set(names) - {"uniform", "range"}:
        return "uniform and range are served, and at least one is needed"
    return None if len(set(names)) == len(names) else "no assignor may be there twice"


def known_policy(name: str) -> str | None:
    """Return why a migration policy is refused, or None."""
    policies = ("bidirectional", "upgrade", "downgrade", "disabled")
    return None if name.lower() in policies else f"one of {', '.join(policies)} is needed"


def one_directory(texts: tuple[str, ...]) -> str | None:
    """Return why a list of directories is refused, or None."""
    return None if len(texts) == 1 else "exactly one directory is used"
