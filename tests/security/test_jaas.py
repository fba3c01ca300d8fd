"""JAAS: what Kafka's keys sasl.jaas.config contain."""

import pytest

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.jaas import jaas_options

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", {}),
        ('username="a" password="b c"', {"username": "a", "password": "b c"}),
        (r'user_alice="\"q\" \\ ;="', {"user_alice": '"q" \\ ;='}),
        ("\n  a=b\n  c = 'd'\n", {"a": "b", "c": "'d'"}),
    ],
)
def test_options_are_read(options: str, found: dict[str, str]) -> None:
    assert jaas_options(f"{MODULE} {options};") == found


@pytest.mark.parametrize(
    "text", ["", MODULE, f"{MODULE} a;", f"{MODULE} a=;", f'{MODULE} password="hush;', "x maybe a=hush;"]
)
def test_anything_else_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config cannot be read") as caught:
        jaas_options(text)
    assert "hush" not in str(caught.value)
