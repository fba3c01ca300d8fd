"""Rates and token buckets: the times for which Kafka throttles, for fixed and for drawn sequences.

The fixed ones were measured at Kafka 4.3.1 with a client that sends again when it may.
"""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.broker.access.client_quotas import ConnectionQuota, MutationQuota, RateQuota
from kafka_offsets.broker.access.rates import Rate, TokenBucket, Windows
from kafka_offsets.storage.directory.client_settings import Quotas

ELEVEN_SECONDS = Windows(11, 1000)
LIMIT = 1000.0
Use = tuple[float, int]
"""What is used, and how many ms before the next use."""


def throttles(*uses: Use, limit: float = LIMIT) -> list[int]:
    """Return for how long each use throttles a client that waits as long as it is told, and no longer than given."""
    rate, now_ms, found = Rate(ELEVEN_SECONDS), 50, []
    for value, pause_ms in uses:
        rate.record(value, now_ms)
        found.append(rate.throttle_ms(limit, now_ms))
        now_ms += pause_ms
    return found


def test_three_requests_exceed_the_quota_of_ten_seconds_and_later_ones_wait_longer() -> None:
    """These pauses, to the ms, were those of a client of Kafka."""
    uses = ((4112, 150), (4112, 4), (4112, 2212), (1112, 3090), (1112, 4105), (1112, 0))
    assert throttles(*uses) == [0, 0, 2182, 3082, 4104, 5111]


def test_what_is_used_counts_until_eleven_seconds_after_the_last_use_of_its_window() -> None:
    assert throttles((20_000, 10_999), (0, 1), (0, 0)) == [10_000, 9_001, 0]
    assert throttles((20_000, 500), (0, 10_500), (0, 500), (0, 0)) == [10_000, 9_500, 9_000, 0]


@dataclass
class KafkaSample:
    """SampledStat.Sample."""

    start_ms: int
    last_ms: int
    value: float = 0.0


class KafkaRate:
    """Rate, WindowedSum and QuotaUtils of Kafka 4.3, line by line: a ring of samples that are reset in place."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.samples: list[KafkaSample] = []
        self.current = 0

    def record(self, value: float, now_ms: int) -> None:
        if not self.samples:
            self.samples.append(KafkaSample(now_ms, now_ms))
        sample = self.samples[self.current]
        if now_ms - sample.start_ms >= self.windows.window_ms:
            self.current = (self.current + 1) % (self.windows.number + 1)
            if self.current >= len(self.samples):
                self.samples.append(KafkaSample(now_ms, now_ms))
            else:
                self.samples[self.current] = KafkaSample(now_ms, now_ms)
            sample = self.samples[self.current]
        sample.value += value
        sample.last_ms = now_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        total_ms = self.windows.number * self.windows.window_ms
        for index, sample in enumerate(self.samples):
            if now_ms - sample.last_ms >= total_ms:
                self.samples[index] = KafkaSample(now_ms, now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self.samples)
        full = elapsed_ms // self.windows.window_ms
        if full < self.windows.number - 1:
            elapsed_ms += (self.windows.number - 1 - full) * self.windows.window_ms
        elapsed_ms = max(elapsed_ms, 1)
        rate = sum(sample.value for sample in self.samples) / (elapsed_ms / 1000)
        return math.floor((rate - limit) / limit * elapsed_ms + 0.5) if rate > limit else 0


USES = st.lists(
    st.tuples(
        st.integers(0, 30_000), st.sampled_from([0, 1, 400, 999, 1000, 1001, 3500, 10_999, 11_000, 30_000])
    ),
    max_size=40,
)


@given(USES, st.sampled_from([Windows(11, 1000), Windows(1, 1000), Windows(3, 2000)]))
def test_any_sequence_throttles_as_kafkas_own_rate_does(uses: list[Use], windows: Windows) -> None:
    ours, kafkas, now_ms = Rate(windows), KafkaRate(windows), 0
    for value, pause_ms in uses:
        now_ms += pause_ms
        ours.record(value, now_ms)
        kafkas.record(value, now_ms)
        assert ours.throttle_ms(LIMIT, now_ms) == kafkas.throttle_ms(LIMIT, now_ms)


@given(USES)
def test_a_rate_that_is_dropped_when_it_is_unused_throttles_as_if_it_were_kept(uses: list[Use]) -> None:
    kept, dropped, now_ms = Rate(ELEVEN_SECONDS), Rate(ELEVEN_SECONDS), 0
    for value, pause_ms in uses:
        now_ms += pause_ms
        if dropped.is_unused(now_ms):
            dropped = Rate(ELEVEN_SECONDS)
        for rate in (kept, dropped):
            rate.record(value, now_ms)
        assert dropped.throttle_ms(LIMIT, now_ms) == kept.throttle_ms(LIMIT, now_ms)


@given(USES)
def test_a_client_that_waits_has_used_no_more_than_its_limit_by_the_end_of_its_pause(uses: list[Use]) -> None:
    """The windows of its uses and the pause together: that is how long the pause is."""
    rate, now_ms, sent = Rate(ELEVEN_SECONDS), 0, []
    for value, pause_ms in uses:
        now_ms += pause_ms
        rate.record(value, now_ms)
        sent.append((now_ms, value))
        throttle_ms = rate.throttle_ms(LIMIT, now_ms)
        recent = sum(each for at_ms, each in sent if now_ms - at_ms < ELEVEN_SECONDS.total_ms)
        assert recent <= LIMIT * (12_000 + throttle_ms + 0.5) / 1000
        now_ms += throttle_ms


@given(USES)
def test_a_bucket_is_never_exceeded_by_more_than_one_request(uses: list[Use]) -> None:
    quota = mutation_quota()
    taken: list[tuple[int, float]] = []
    now_ms = 0
    for value, pause_ms in uses:
        now_ms += pause_ms
        if not quota.record("u", "c", int(value), now_ms, is_strict=True):
            taken.append((now_ms, value))
        for since_ms, _ in taken:
            within = [each for at_ms, each in taken if at_ms >= since_ms]
            allowed = LIMIT * (11_000 + now_ms - since_ms + 0.5) / 1000
            assert sum(within[:-1]) <= allowed


@given(USES)
def test_a_bucket_that_is_dropped_when_it_is_full_equals_one_that_is_kept(uses: list[Use]) -> None:
    kept, dropped, now_ms = TokenBucket(ELEVEN_SECONDS), TokenBucket(ELEVEN_SECONDS), 0
    for value, pause_ms in uses:
        now_ms += pause_ms
        if dropped.is_unused(now_ms):
            dropped = TokenBucket(ELEVEN_SECONDS)
        for bucket in (kept, dropped):
            bucket.record(value, LIMIT, now_ms)
        assert dropped.throttle_ms(LIMIT, now_ms) == kept.throttle_ms(LIMIT, now_ms)


def of_client_c(key: str, limit: float = LIMIT) -> Quotas:
    return {frozenset({("client-id", "c")}): {key: limit}}


def mutation_quota(limit: float = LIMIT) -> MutationQuota:
    quota = MutationQuota("controller_mutation_rate", ELEVEN_SECONDS)
    quota.set(of_client_c("controller_mutation_rate", limit))
    return quota


def test_a_bucket_allows_eleven_seconds_at_once_then_refuses_until_it_is_not_negative() -> None:
    """Kafka, 1 a second: 20 partitions, then 1 is refused for 8949 ms (51 ms later)."""
    quota = mutation_quota(1.0)
    assert quota.record("u", "c", 20, 0, is_strict=True) == 0
    assert quota.record("u", "c", 1, 51, is_strict=True) == 8949
    assert quota.record("u", "c", 1, 8_999, is_strict=True) == 1
    assert quota.record("u", "c", 1, 9_000, is_strict=True) == 0


def test_without_strictness_everything_is_made_and_throttles_afterwards() -> None:
    """Kafka: 20 partitions 8973 ms, and after that pause 1 more 954 ms."""
    quota = mutation_quota(1.0)
    assert quota.record("u", "c", 20, 0, is_strict=False) == 9000
    assert quota.record("u", "c", 1, 9_046, is_strict=False) == 954


def test_a_quota_that_changes_keeps_what_was_used() -> None:
    quota = RateQuota("producer_byte_rate", ELEVEN_SECONDS)
    assert not quota.is_set
    quota.set(of_client_c("producer_byte_rate", 1000.0))
    assert quota.is_set
    assert quota.record("u", "c", 20_000, 0) == 10_000
    quota.set(of_client_c("producer_byte_rate", 2000.0))
    assert quota.record("u", "c", 0, 0) == 0
    quota.set({})
    assert quota.record("u", "c", 10**9, 0) == 0
    quota.set(of_client_c("producer_byte_rate", 1000.0))
    assert quota.record("u", "c", 0, 0) == 10_000


def test_what_is_taken_back_was_never_used() -> None:
    quota = RateQuota("consumer_byte_rate", ELEVEN_SECONDS)
    quota.set(of_client_c("consumer_byte_rate"))
    quota.record("u", "c", 9_000, 0)
    assert quota.record("u", "c", 9_000, 10) == 7_990
    quota.take_back("u", "c", 9_000, 10)
    assert quota.record("u", "c", 1_000, 20) == 0


def test_the_most_of_one_fetch_is_what_all_windows_but_one_allow() -> None:
    quota = RateQuota("consumer_byte_rate", ELEVEN_SECONDS)
    quota.set(of_client_c("consumer_byte_rate"))
    assert quota.most("u", "c") == 10_000
    assert quota.most("u", "other") == math.inf


@pytest.mark.parametrize("limit", [math.nan, math.inf])
def test_a_limit_that_is_no_number_throttles_nobody(limit: float) -> None:
    rate, changes = RateQuota("producer_byte_rate", ELEVEN_SECONDS), mutation_quota(limit)
    rate.set(of_client_c("producer_byte_rate", limit))
    for now_ms in (0, 0, 5):
        assert rate.record("u", "c", 1e12, now_ms) == 0
        assert changes.record("u", "c", 10**9, now_ms, is_strict=True) == 0


def test_the_longest_pause_fits_a_response() -> None:
    rate, changes = RateQuota("producer_byte_rate", ELEVEN_SECONDS), mutation_quota(5e-324)
    rate.set(of_client_c("producer_byte_rate", 1.0))
    assert rate.record("u", "c", 1e12, 0) == 2**31 - 1
    assert changes.record("u", "c", 10**9, 0, is_strict=False) == 2**31 - 1


def test_request_time_throttles_for_one_window_at_most() -> None:
    quota = RateQuota("request_percentage", ELEVEN_SECONDS, most_ms=1000)
    quota.set(of_client_c("request_percentage", 1e-9))
    assert quota.record("u", "c", 5.0, 0) == 1000


def connections(**rates: float) -> ConnectionQuota:
    quota = ConnectionQuota("connection_creation_rate", ELEVEN_SECONDS)
    names = {"default": None, "local": "localhost", "six": "::1", "other": "10.0.0.1"}
    quota.set(
        {frozenset({("ip", names[name])}): {"connection_creation_rate": r} for name, r in rates.items()}
    )
    return quota


def test_ten_connections_at_once_are_within_one_a_second() -> None:
    """Kafka: 10 are answered, each further one is closed after 1 s; a refused one does not count."""
    quota = connections(local=1.0)
    assert [quota.record("127.0.0.1", 0) for _ in range(12)] == [0] * 10 + [1000] * 2
    assert quota.record("127.0.0.1", 10_999) == 1
    assert quota.record("127.0.0.1", 11_000) == 0


def test_an_address_is_one_in_all_its_forms_and_a_default_counts_for_each_by_itself() -> None:
    quota = connections(local=0.1, six=0.2, default=0.3)
    assert [quota.record("::ffff:127.0.0.1", 0), quota.record("127.0.0.1", 0)] == [0, 1000]
    assert [quota.record("0:0::1", 0) for _ in range(3)] == [0, 0, 1000]
    assert [quota.record("10.0.0.9", 0) for _ in range(4)] == [0, 0, 0, 1000]
    assert quota.record("10.0.0.8", 0) == 0
    assert connections(other=0.1).record("10.0.0.9", 0) == 0
    assert connections().record("unknown", 0) == 0


def test_what_is_kept_of_many_clients_is_what_still_counts() -> None:
    quota = RateQuota("producer_byte_rate", ELEVEN_SECONDS)
    quota.set({frozenset({("client-id", None)}): {"producer_byte_rate": LIMIT}})
    for number in range(10_000):
        quota.record("u", str(number), 20_000, number * 100)
    assert len(quota._used) <= 1000
    assert quota.record("u", "9999", 0, 999_900) == 10_000
