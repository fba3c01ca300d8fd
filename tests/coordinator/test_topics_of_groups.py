"""Which topics a group means, and whether they changed: regular expressions beside RE2J, hashes beside hash4j."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.coordinator.consumer.patterns import TOO_LARGE, PatternError, TopicPattern
from kafka_offsets.coordinator.consumer.topic_hash import group_hash, topic_hash, xxh3
from tests.cases import each_case

PATTERNS = Path(__file__).parents[1] / "data" / "topic_patterns.jsonl.gz"
"""What com.google.re2j 1.8 of Kafka 4.3.1 said of each pattern: the topics it matches, or why it is none."""

XXH3 = (
    (1, 5502495245947142431),
    (2, -3660713480651886901),
    (3, -2435923551891627940),
    (4, 4653969523093080297),
    (7, 4456298447970664091),
    (8, -6750019901159189773),
    (9, 6652467088568612289),
    (16, -1263320542281686480),
    (17, 5962440443734462918),
    (31, -1764271441371818891),
    (32, -7905709299578972471),
    (33, -1485945759424947789),
    (64, -8930502163690834587),
    (65, -6784124195103285120),
    (100, -2277228254266646082),
    (127, 8711546522150910562),
    (128, -7336584588440872852),
    (129, -7742722186820757969),
    (143, -7309359670246477426),
    (144, 8234407555977462051),
    (160, -8575103814522307846),
    (200, 7793012886818502030),
    (239, 7608645352714229004),
    (240, 7764826843306154051),
    (241, 5466794207891645081),
    (255, 5032560773240720817),
    (256, 2768073855359201733),
    (257, -6911291301862155020),
    (300, 8965690713607083348),
    (512, -6844930229325834375),
    (1000, -9019314227147325137),
    (1023, 603450811766175127),
    (1024, -4123326091855918005),
    (1025, -4981348903648910562),
    (1088, 2227280071716788345),
    (1089, -3835016512837183166),
    (2048, 8868703256888860160),
    (5000, -8047794332888908631),
    (20001, 7436838569076978344),
)
"""Lengths, and what hash4j 0.22.0 of Kafka 4.3.1 returned for so many bytes, see `data_of`."""


def data_of(length: int) -> bytes:
    return bytes((index * 131 + length * 7 + (index >> 8)) & 255 for index in range(length))


@each_case(("length", "hashed"), XXH3)
def test_bytes_of_any_length_have_the_hash_of_hash4j(length: int, hashed: int) -> None:
    assert xxh3(data_of(length)) == hashed % 2**64


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


def table() -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(PATTERNS.read_bytes()).splitlines()]


def test_patterns_match_what_re2j_matches_and_are_refused_in_its_words() -> None:
    topics, *rows = table()
    different = []
    for row in rows:
        try:
            found: Any = TopicPattern(row["pattern"]).matching(topics["topics"])
        except PatternError as error:
            found = str(error)
        expected = row["error"] if "error" in row else frozenset(row["matches"])
        if found != expected:
            different.append((row["pattern"], found, expected))
    assert different == []


@pytest.mark.parametrize("pattern", ["a{1234567890}", "a{1,99999999999}", "a{1001}", "a{2,1}"])
def test_a_count_of_any_length_is_refused_in_re2js_words(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"^invalid repeat count$"):
        TopicPattern(pattern)


def test_a_pattern_that_makes_backtracking_explode_is_read_in_no_time() -> None:
    name = "a" * 249
    assert TopicPattern("(a*)*(a|aa)+(a?){200}").matching([name]) == {name}
    assert TopicPattern("(a*)*(a|aa)+b").matching([name]) == frozenset()


@pytest.mark.parametrize("pattern", ["((a{1000}){1000}){1000}", "(" * 200 + "a" + ")" * 200, "a{999}" * 100])
def test_a_pattern_of_any_size_costs_little(pattern: str) -> None:
    with pytest.raises(PatternError, match=TOO_LARGE):
        TopicPattern(pattern)
