"""Which topics a group means, and whether they changed: regular expressions beside RE2J, hashes beside Kafka's."""

import base64
import subprocess
import sys
from typing import Any

import pytest

from kafka_offsets.coordinator.consumer.topic_hash import group_hash, topic_hash
from kafka_offsets.coordinator.state.patterns import BAD_ESCAPE, BAD_NAME, TOO_LARGE, Pattern, PatternError
from tests.coordinator.state.record_topic_patterns import read_record

DIFFERENT = {
    # A brace that begins no count cannot be repeated in RE2J.
    "{*": frozenset("{"),
    "{+": frozenset("{"),
    "a{*": frozenset(("a", "a{")),
    "{{1}": frozenset("{"),
    "{*[a-c]": frozenset("ab"),
    "{*.^,p(?P<[a-c]": BAD_NAME,
    "{+($": "missing closing )",
    r":x{3}Q{+x{3}p\dE": frozenset(),
    ":,w{{{1,2}E_*": frozenset(),
    # A backslash before a character that is not ASCII.
    "\\é": BAD_ESCAPE,
    "[\\é]": BAD_ESCAPE,
    "\\日": BAD_ESCAPE,
    "\\😀": BAD_ESCAPE,
    # Another version of Unicode, and categories whose case is ignored: the names on which they differ.
    r"\p{Common}": frozenset("😀٣"),
    r"(?i)\p{Ll}+": frozenset(("ORDERS", "aXb")),
}
"""What is not as in Kafka, as docs/differences.md says."""

TOO_LARGE_FOR_US = [
    "(.{0,100}a){50}",
    "(a{100}){11}",
    "((a{10}){10}){11}",
    r"\pL{60}",
    r"\pL" * 60,
    r"\pL" * 101,
]


def test_groups_of_a_real_log_have_the_hashes_that_kafka_stored() -> None:
    clicks, log, orders = (
        topic_hash(name, base64.urlsafe_b64decode(topic_id + "=="), count)
        for name, topic_id, count in (
            ("clicks", "wbqBSPBWSQ6RG77dwWIXGA", 2),
            ("click-log", "ULC30EMbRCKPkz4NYgsWug", 1),
            ("orders", "IXP0euYIQSWsWC6cNHzkQg", 4),
        )
    )
    assert group_hash([("clicks", clicks)]) == -7603856015720812874
    assert group_hash([("clicks", clicks), ("click-log", log)]) == -3004273792321888714
    assert group_hash([("orders", orders)]) == -7007832923725108606
    assert group_hash([]) == 0


def test_the_hashes_of_thousands_of_topics_are_computed_once() -> None:
    # Each heartbeat that changed a subscription to 5,000 topics computed all of them again: 45 ms of 120.
    topics = [(f"topic-{number}", number.to_bytes(16), 1) for number in range(5000)]
    first = [topic_hash(*topic) for topic in topics]
    computed = topic_hash.cache_info().misses
    assert [topic_hash(*topic) for topic in topics] == first
    assert topic_hash.cache_info().misses == computed


def ours(expression: str, names: list[str]) -> Any:
    try:
        return frozenset(filter(Pattern(expression).matches, names))
    except PatternError as error:
        return str(error)


def test_expressions_match_what_kafka_matches_and_are_refused_in_its_words() -> None:
    names, rows = read_record()
    different = {}
    for row in rows:
        found, kafkas = ours(row["pattern"], names), row.get("error", frozenset(row.get("matches", ())))
        if found != kafkas:
            have_names = isinstance(found, frozenset) and isinstance(kafkas, frozenset)
            different[row["pattern"]] = found ^ kafkas if have_names else found
    assert different == DIFFERENT | dict.fromkeys(TOO_LARGE_FOR_US, TOO_LARGE)


@pytest.mark.parametrize("pattern", ["a{1234567890}", "a{1,99999999999}", "a{1001}", "a{2,1}"])
def test_a_count_of_any_length_is_refused_in_re2js_words(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"^invalid repeat count$"):
        Pattern(pattern)


def test_a_pattern_that_makes_backtracking_explode_is_read_in_no_time() -> None:
    name = "a" * 249
    assert Pattern("(a*)*(a|aa)+(a?){200}").matches(name)
    assert not Pattern("(a*)*(a|aa)+b").matches(name)


@pytest.mark.parametrize(
    "pattern",
    [
        "((a{1000}){1000}){1000}",
        "a{999}" * 100,
        "x{0,999}" * 1200,  # RE2 alone takes 170 MiB and a second
        "x{0,100}" * 99,  # 0.4 s
        r"\pL" * 3300,  # 100 MiB and 0.2 s
        r"[\pL]" * 1000,
        "." * 9999,
        "a" * 10_001,
    ],
)
def test_an_expression_that_would_cost_much_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match=TOO_LARGE):
        Pattern(pattern)


def test_names_of_groups_cost_nothing() -> None:
    # RE2 would record where each of them matched: 0.3 s for this name.
    pattern = Pattern("".join(f"(?P<n{number}>a?)" for number in range(600)))
    assert pattern._compiled.groups == 0
    assert pattern.matches("a" * 249)


def test_no_compiled_expression_is_kept() -> None:
    import re2

    Pattern("orders.*")
    assert re2._Regexp._make.cache_info().currsize == 0


def test_re2_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    for expression in ("(", r"\pL{900}", "[^b]" * 2475):
        ours(expression, ["a" * 249])
    Pattern("(a?){999}" * 3).matches("a" * 249)  # more states than fit into its memory
    assert capfd.readouterr().err == ""


def test_a_broker_without_expressions_does_not_import_re2() -> None:
    source = "import sys, kafka_offsets; kafka_offsets.Broker; print('re2' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", source], capture_output=True, check=True).stdout == b"False\n"
    )
