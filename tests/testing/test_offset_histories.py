"""Drawn histories of the offsets topic are read back as what is committed at their end."""

from hypothesis import given

from kafka_offsets.coordinator.state import stored
from kafka_offsets.testing import strategies


@given(strategies.offset_histories())
def test_a_history_ends_with_its_last_records(history: strategies.OffsetHistory) -> None:
    found: dict[tuple[str, str, int], int] = {}
    for offset, (key, value) in enumerate(history.records):
        parsed = stored.parse_key(key)
        if not isinstance(parsed, stored.OffsetKey):
            continue
        if value is None:
            found.pop(tuple(parsed), None)  # type: ignore[call-overload]
        else:
            found[tuple(parsed)] = stored.parse_offset_value(value, offset).offset  # type: ignore[index]
    assert found == history.committed
