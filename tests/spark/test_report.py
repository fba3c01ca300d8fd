"""The page of `spark report`, from rows made by hand: order, words, gaps, colours. No session is needed."""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafka_offsets.clock import duration_text
from kafka_offsets.spark import words
from tests.http.browser import Page, chromium
from tests.spark.pipelines import at

pytestmark = [pytest.mark.spark]

HOUR = timedelta(hours=1)
LONG_NAME = "payments-reconciliation-service-of-the-north-in-production"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (12_000, "12 s"),
        (303_000, "5 min 3 s"),
        (3_600_000, "1 h"),
        (33_999_000, "9 h 26 min"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_a_duration_has_two_units(ms: int, text: str) -> None:
    assert duration_text(ms) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (1 << 20, "1 MiB"),
        (1023 << 10, "0.999 MiB"),
        (5 << 50, "5120 TiB"),
    ],
)
def test_a_size_has_a_unit_that_fits(count: int, text: str) -> None:
    assert words.size(count) == text


def test_a_long_name_keeps_its_begin_and_its_end() -> None:
    assert words.short("billing") == "billing"
    assert words.short(LONG_NAME) == "payments-reconcili…rth-in-production"


def test_a_window_without_commits_is_a_gap() -> None:
    from kafka_offsets.spark.charts import _alone, with_gaps

    hours = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(7)]
    line = with_gaps([(hours[hour], 1.0) for hour in (0, 1, 4, 6)], HOUR)
    assert [when for when, _ in line] == [hours[hour] for hour in (0, 1, 2, 4, 5, 6)]
    assert [math.isnan(value) for _, value in line] == [False, False, True, False, True, False]
    assert _alone([value for _, value in line]) == [3, 5], "points that no line shows"


def test_a_silent_group_stays_where_it_is_in_a_sum() -> None:
    from kafka_offsets.spark.report import summed

    first, second, third = (at(minutes) for minutes in (0, 60, 120))
    lines = {
        "busy": [(first, 1.0), (second, 2.0), (third, 3.0)],
        "silent": [(first, 5.0), (second, math.nan)],
    }
    assert summed(lines) == {
        "busy": [(first, 1.0), (second, 3.0), (third, 6.0)],
        "silent": [(first, 5.0), (second, 5.0), (third, 5.0)],
    }


def test_the_page_has_the_lag_first_and_a_colour_for_each_group() -> None:
    from kafka_offsets.spark.charts import OTHERS
    from kafka_offsets.spark.report import Figure, Found, Plot, Table, page

    row = {"lag": 1830, "group": LONG_NAME, "behind_since": at(3), "time_lag_ms": 61_000, "remarks": "2 <b>"}
    lag = Table("Groups by lag", "", "", list(row), [row], 1)
    lines = {
        LONG_NAME: [(at(0), 1.0), (at(60), math.nan), (at(120), 3.0)],
        OTHERS: [(at(0), 4.0), (at(60), 0.0)],
    }
    silent = Plot(
        "Rewinds", "in 1 hour", {LONG_NAME: [(at(0), 0.0), (at(60), math.nan)]}, "No group rewound."
    )
    drawn = Plot("Commits", "in 1 hour", lines)
    empty = Table("Problems", "", "Every record can be read.", ["error"], [], 0)
    found = Found(at(5), [Figure("lag", "1,830", is_bad=True)], [lag], [LONG_NAME], [drawn, silent], [empty])
    text = page(found)
    assert text.index("Groups by lag") < text.index("<svg")
    cells = re.findall(r"<td[^>]*>(.*?)</td>", text)
    assert cells[0] == "1,830" and cells[1].endswith("payments-reconcili…rth-in-production")
    assert cells[3:] == ["1 min 1 s", "2 &lt;b&gt;"]
    assert text.count("<svg") == 1 and "No group rewound." in text and "Every record can be read." in text
    assert f'title="{LONG_NAME}"' in text
    picture = text[text.index("<svg") : text.index("</svg>")]
    assert "var(--group-1)" in picture and "var(--soft)" in picture and "--group-1: light-dark(" in text
    assert not re.search(r"stroke: #(?!fff)", picture), "a colour that a dark page would not change"
    assert "src=" not in text and "<link" not in text and "<script" not in text


@pytest.mark.interop
def test_everything_fits_into_windows_of_three_widths_as_in_the_kept_pictures(
    tmp_path: Path, compare: Callable[[Page, str], list[str]]
) -> None:
    from kafka_offsets.spark.report import Figure, Found, Plot, Table, page

    row = {
        "lag": 1830,
        "group": LONG_NAME,
        "behind_since": at(3),
        "time_lag_ms": 61_000,
        "partitions": "2 of 3",
    }
    row |= {"remarks": "2 after the log end; 5 records deleted before they were read"}
    place = {"lag": 1830, "group": LONG_NAME, "topic": LONG_NAME, "partition": 12, "behind_since": at(3)}
    place |= {
        "time_lag_ms": 61_000,
        "status": "behind",
        "committed_offset": 123_456,
        "log_end_offset": 125_286,
    }
    tables = [
        Table("Groups by lag", "", "", list(row), [row], 1),
        Table("Lag", "", "", list(place), [place], 1),
    ]
    lines = {LONG_NAME: [(at(0), 1.0), (at(120), 3.0)], "b": [(at(0), 4.0), (at(60), 0.0)]}
    plots = [Plot("Lag", "records", lines), Plot("Rewinds", "in 1 hour", {}, "No group rewound.")]
    figures = [Figure("lag of all groups", "1,830", is_bad=True), Figure("longest wait", "9 h 26 min")]
    report = tmp_path / "report.html"
    report.write_text(
        page(Found(at(5), figures, tables[:1], [LONG_NAME, "b"], plots, tables[1:])), encoding="utf-8"
    )
    with chromium(tmp_path / "chromium") as browser:
        browser.open(report.as_uri())
        browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        for width in (375, 768, 1280):
            browser.resize(width)
            assert browser.layout_problems(tables_fit=width == 1280) == [], width
            for scheme in ("light", "dark"):
                browser.prefer(scheme)
                assert browser.contrast_problems() == [], scheme
        browser.run("document.querySelectorAll('details').forEach((each) => { each.open = false; })")
        assert compare(browser, "report") == []


def test_a_group_with_the_name_others_has_its_own_colour() -> None:
    from kafka_offsets.spark.charts import Plot, svg

    assert "var(--group-1)" in svg(Plot("Commits", "", {"others": [(at(0), 1.0)]}), ["others"])


@pytest.mark.parametrize(
    "minutes", [0, 1, 90, 50 * 60, 20 * 24 * 60, 50 * 24 * 60, 900 * 24 * 60, 1200 * 24 * 60]
)
def test_any_range_of_times_has_few_labels(minutes: int) -> None:
    from kafka_offsets.spark.charts import Plot, svg

    times = dict.fromkeys((at(0), at(minutes)), 1.0)
    picture = svg(Plot("Commits", "", {"billing": list(times.items())}), ["billing"])
    assert 1 <= len(re.findall(r'id="xtick_\d+"', picture)) <= 7


def test_a_window_is_as_long_as_a_log_of_any_span_makes_a_line() -> None:
    """A log of three minutes was one dot, in a window of an hour."""
    from kafka_offsets.spark.report import window_for  # late: it brings in matplotlib

    minute, hour, day = 60_000, 3_600_000, 86_400_000
    spans = (0, 3 * minute, hour, 8 * hour, 3 * day, 60 * day, 9000 * day)
    assert [window_for(ms) for ms in spans] == [
        "1 second",
        "10 seconds",
        "1 minute",
        "10 minutes",
        "1 hour",
        "1 day",
        "1 week",
    ]
