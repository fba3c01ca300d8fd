"""Sizes and long names as text for people."""

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def size(count: int) -> str:
    """Return a number of bytes, with three digits if it is large: `512 B`, `1.21 MiB`."""
    if count < 1024:
        return f"{count} B"
    value, unit = count / 1024, 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.{3 if value < 999.5 else 9}g} {_UNITS[unit]}"


def short(name: str, most: int = 36) -> str:
    """Return a name of at most `most` characters: its begin and its end, where names differ."""
    if len(name) <= most:
        return name
    end = (most - 1) // 2
    return f"{name[: most - 1 - end]}…{name[-end:]}"
