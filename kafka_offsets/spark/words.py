"""Durations, sizes and long names as text for people."""

_PARTS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_UNITS = ("KiB", "MiB", "GiB", "TiB")


def duration(ms: int) -> str:
    """Return a duration with its two largest units: `3 d 4 h`, `9 h 26 min`, `12 s`."""
    for index, (size, unit) in enumerate(_PARTS):
        if ms >= size:
            more = ms % size // _PARTS[index + 1][0] if index + 1 < len(_PARTS) else 0
            return f"{ms // size} {unit}" + (f" {more} {_PARTS[index + 1][1]}" if more else "")
    return f"{ms} ms"


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
