"""What is the same for all steps of a seed: who takes part, and how the broker is configured."""

from typing import NamedTuple

INSTANCES = ("i0", "i1")
CASTS: list[list[tuple[str, str | None]]] = [
    [
        ("g0", None),
        ("g0", "i0"),
        ("g0", None),
        ("g1", None),
        ("g1", "i1"),
        ("g2c", None),
        ("g2c", None),
        ("", None),
    ],
    [
        ("k0", None),
        ("k0", "i0"),
        ("k0", None),
        ("k0", None),
        ("k1", None),
        ("k1", "i1"),
        ("g0", None),
        ("", None),
    ],
    [
        ("m0", None),
        ("m0", "i0"),
        ("m0", None),
        ("m0", "i1"),
        ("m1", None),
        ("m1", None),
        ("g0", None),
        ("k0", None),
    ],
]
"""Groups of clients and their instance ids: of groups of the classic protocol (g), of consumer groups (k), of groups
whose members speak the one or the other (m)."""

GROUPS = [list(dict.fromkeys(group for group, _ in cast if group)) for cast in CASTS]


class Plan(NamedTuple):
    """What is the same for all steps of a seed."""

    seed: int
    fsync: str = "never"
    shards: int = 1
    initial_delay_ms: int = 0
    max_size: int = 2_147_483_647
    segment_bytes: int = 100_000
    disk_ms: int = 0
    power: bool = False
    delete_retention_ms: int = 86_400_000
    codec: int = 0
    retention_minutes: int = 10_080
    expiry_ms: int = 600_000
    cast: int = 0
    max_consumers: int = 2_147_483_647
    assignment_pause_ms: int = 0
    regex_pause_ms: int = 10_000
