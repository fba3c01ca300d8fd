"""Java's hash code of a string."""

import pytest

from kafka_offsets.protocol.java_hash import string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("ab", 97 * 31 + 98),
        ("polygenelubricants", 0x80000000),  # Integer.MIN_VALUE
        ("é", 0xE9),
        ("😀", 0xD83D * 31 + 0xDE00),
        ("\ud800", 0xD800),
    ],
)
def test_a_string_is_hashed_by_its_utf_16_units(text: str, expected: int) -> None:
    assert string_hash(text) == expected
    units = len(text.encode("utf-16-be", "surrogatepass")) // 2
    assert string_hash(f"é{text}") == (0xE9 * 31**units + expected) & 0xFFFFFFFF
