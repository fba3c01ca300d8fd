"""JAAS: what Kafka's keys sasl.jaas.config contain."""

import json
import random
import subprocess
from pathlib import Path

import pytest

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.jaas import jaas_options
from tests.conftest import SEED
from tests.interop.java_program import FLAGS, JARS, need_tools

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {}),
        ('username="a" password="b c"', {"username": "a", "password": "b c"}),
        ("username='KEY' password='a\"b;'", {"username": "KEY", "password": 'a"b;'}),
        (r'user_alice="\"q\" \\ ;="', {"user_alice": '"q" \\ ;='}),
        (r'password="\101\t\x"', {"password": "A\tx"}),
        ("\n  a=b\n  c = 'd'\n", {"a": "b", "c": "d"}),
        ("// the user\n a=b /* and */ c=d", {"a": "b", "c": "d"}),
        ("a=b /\r c=d\n e=f", {"a": "b", "e": "f"}),
        ('"a"="unclosed\n', {"a": "unclosed"}),
    ],
)
def test_options_are_read(options: str, expected: dict[str, str]) -> None:
    assert jaas_options(f"{MODULE} {options};") == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        MODULE,
        f"{MODULE} a;",
        f"{MODULE} a=;",
        f"{MODULE} a=b",
        f"{MODULE} 1=hush;",
        f"{MODULE} password=1hush;",
        f'{MODULE} password="hush;',
        f"{MODULE} a=b; {MODULE} c=hush;",
        "x maybe a=hush;",
    ],
)
def test_anything_else_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config cannot be read") as caught:
        jaas_options(text)
    assert "hush" not in str(caught.value)


PARTS = (
    *(
        MODULE,
        "required",
        "username",
        "password",
        "=",
        "=",
        "=",
        ";",
        ";",
        " ",
        " ",
        "\n",
        "\r",
        "\t",
        "'",
        '"',
    ),
    *(
        "'a b'",
        '"a b"',
        '"',
        "'",
        "\\",
        '"\\101\\7\\477\\18\\n\\q"',
        "'it\\'s'",
        "/",
        "//",
        "/*",
        "*/",
        "#",
        ",",
    ),
    *(
        "a",
        "b.c",
        "-",
        "-x",
        "x-y",
        "_",
        "$",
        "@",
        "1",
        "12.5",
        ".",
        "-3",
        "..",
        "é",
        "\x85",
        "\xa0",
        "漢",
        "😀",
        "{",
        "}",
    ),
)


def drawn(rng: random.Random) -> str:
    """Return a text that is an entry, nearly one, or only looks like one."""
    quote = rng.choice("\"'")
    value = "".join(rng.choice(PARTS) for _ in range(rng.randrange(5)))
    entry = [f"{MODULE} ", "name", "=", f"{quote}{value}{quote}", " ", "other", "=", '"more"', ";"]
    parts = [part for part in entry if rng.random() < 0.97]
    for _ in range(rng.randrange(4)):
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(PARTS))
    return "".join(parts)


@pytest.mark.java
def test_a_text_means_what_it_means_to_kafka(tmp_path: Path) -> None:
    """Kafka's JaasContext reads the same texts. It takes an option without a name, which no module could read."""
    need_tools()
    rng = random.Random(SEED)
    texts = [drawn(rng) for _ in range(4000)]
    (tmp_path / "texts").write_text("\n".join(text.encode("utf-16-be").hex() for text in texts))
    program = Path(__file__).parent / "JaasTexts.java"
    command = ["java", *FLAGS, "-cp", f"{JARS}/*", str(program), str(tmp_path / "texts")]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(lines) == len(texts)
    answers = [json.loads(line) for line in lines]
    for text, expected in zip(texts, answers, strict=True):
        try:
            options: dict[str, str] | None = jaas_options(text)
        except ConfigError:
            options = None
        if expected is not None and "no name" in expected:
            assert options is None, (SEED, text)
        else:
            assert options == (expected and expected["options"]), (SEED, text)
    assert 300 < sum(expected is not None for expected in answers) < 3500
