"""Unsecured tokens: what no peer's token can do. tests/stories/oauth_tokens.txt has Kafka's answers."""

import json
from base64 import urlsafe_b64encode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.oauth import Claims
from kafka_offsets.security.sasl.oauthbearer import OAuthBearerServer
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


def test_a_token_without_its_scopes_is_refused_with_all_that_are_required() -> None:
    rules = UnsecuredRules(required_scope=("read", "write"))
    token = f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'exp': NOW_MS // 1000 + 1})}."
    server = OAuthBearerServer(lambda bearer: unsecured_claims(bearer, rules, NOW_MS))
    refusal = server.evaluate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    assert json.loads(refusal) == {"status": "insufficient_scope", "scope": "[read, write]"}


@pytest.mark.parametrize(("seconds", "accepted"), [((1 << 40) - 1, True), (1 << 40, False)])
def test_a_token_expires_within_the_calendar(seconds: int, *, accepted: bool) -> None:
    token = f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'exp': seconds})}."
    if accepted:
        assert unsecured_claims(token, UnsecuredRules(), NOW_MS).expires_ms == seconds * 1000
    else:
        with pytest.raises(ValueError, match="exp of the token is no time"):
            unsecured_claims(token, UnsecuredRules(), NOW_MS)
