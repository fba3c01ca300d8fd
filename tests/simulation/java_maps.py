"""In which order Kafka's maps of members have their keys: it decides who leads a group.

Written from java.lang.String, java.util.HashMap and Kafka's BaseHashTable.
"""

from collections.abc import Iterable


def hash_code(text: str) -> int:
    """The hash code of an ASCII string in Java, a signed integer of 32 bits."""
    found = sum(ord(unit) * 31**place for place, unit in enumerate(reversed(text))) % 2**32
    return found - 2**32 if found >= 2**31 else found


def hash_map(names: Iterable[str]) -> list[str]:
    """The order of a classic group's members, of which there are no more than twelve."""

    def bucket(name: str) -> int:
        found = hash_code(name) % 2**32
        return (found ^ found >> 16) % 16

    return sorted(names, key=bucket)


def timeline_map(names: Iterable[str]) -> list[str]:
    """The order of a consumer group's members; of those in one slot, the last one comes first."""
    slots: list[list[str]] = [[], []]
    for size, name in enumerate(names, 1):
        if size * 3 > len(slots) * 4:
            held = [each for slot in slots for each in slot]
            slots = [[] for _ in range(2 * len(slots))]
            for each in held:
                slots[_slot(each, len(slots))].append(each)
        slots[_slot(name, len(slots))].append(name)
    return [name for slot in slots for name in reversed(slot)]


def _slot(name: str, slots: int) -> int:
    return hash_code(name) * -7046029254386353131 % 2**64 * slots >> 64
