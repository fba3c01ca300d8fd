"""Unsecured tokens: what no peer's token can do. tests/stories/oauth_tokens.txt has Kafka's answers."""

import json
from base64 import urlsafe_b64encode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.oauth import Claims
from kafka_offsets.security.unsecured_tokens import UnsecuredRules, unsecured_claims, unsecured_rules

NOW_MS = 1_700_000_000_000
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)


def part(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_the_rules_are_the_options_of_jaas() -> None:
    options = {
        "unsecuredValidatorPrincipalClaimName": "email",
        "unsecuredValidatorScopeClaimName": "scp",
        "unsecuredValidatorRequiredScope": " read  write ",
        "unsecuredValidatorAllowableClockSkewMs": "3000",
    }
    assert unsecured_rules({}) == UnsecuredRules()
    assert unsecured_rules(options) == UnsecuredRules("email", "scp", ("read", "write"), 3000)


@pytest.mark.parametrize("skew", ["-1", "x", "1.5", "²"])
def test_a_skew_that_is_no_number_is_a_mistake_of_the_operator(skew: str) -> None:
    with pytest.raises(ConfigError, match="unsecuredValidatorAllowableClockSkewMs"):
        unsecured_rules({"unsecuredValidatorAllowableClockSkewMs": skew})


@given(
    st.fixed_dictionaries({"alg": st.just("none") | VALUES}),
    st.dictionaries(st.sampled_from(["sub", "exp", "iat", "scope"]), VALUES),
)
@example({"alg": "none"}, {"sub": "alice", "exp": float("inf")})
@example({"alg": "none"}, {"sub": "alice", "exp": float("nan")})
@example({"alg": "none"}, {"sub": "alice", "exp": 10**400})
@example({"alg": "none"}, {"sub": "alice", "exp": 1_700_000_001})
def test_any_claims_give_a_name_or_a_refusal(header: dict[str, object], claims: dict[str, object]) -> None:
    try:
        found = unsecured_claims(f"{part(header)}.{part(claims)}.", UnsecuredRules(), NOW_MS)
    except ValueError:
        return
    assert isinstance(found, Claims)
    assert found.name == claims["sub"] and found.expires_ms > NOW_MS and header["alg"] == "none"


@given(st.text(alphabet="abcXYZ019-_.", max_size=40) | st.just(part([]) + "." + part("[" * 9) + "."))
def test_any_text_is_refused_or_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        unsecured_claims(text, UnsecuredRules(), NOW_MS)


def test_deeply_nested_json_is_refused() -> None:
    nested = urlsafe_b64encode(b"[" * 100_000).rstrip(b"=").decode()
    with pytest.raises(ValueError, match=r"\w"):
        unsecured_claims(f"{nested}.{nested}.", UnsecuredRules(), NOW_MS)
