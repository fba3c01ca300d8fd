"""Times of any number as text."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.clock import utc_text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
        (8_640_000_000_000_000, "+275760-09-13T00:00:00.000Z"),  # JavaScript's last
        (-62_198_755_200_000, "-000001-01-01T00:00:00.000Z"),
        ((1 << 63) - 1, "+292278994-08-17T07:12:55.807Z"),  # java.time's text of Long.MAX_VALUE ms
    ],
)
def test_a_time_has_a_text_whatever_its_number(ms: int, text: str) -> None:
    assert utc_text(ms) == text


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_within_the_calendar_it_is_that_of_python(ms: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert utc_text(ms) == moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
