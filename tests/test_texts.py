"""Text of other programs: byte-order marks, UTF-16, ends of lines, spaces, and the place of what cannot be read."""

import io
import re
from pathlib import Path

import pytest

from kafka_offsets import texts
from kafka_offsets.broker.config.properties import read_properties
from kafka_offsets.client.moves import MoveError, Row, read_rows
from kafka_offsets.errors import ConfigError
from kafka_offsets.texts import TextError
from tests.conftest import REPOSITORY

ENCODINGS = {
    "plain": lambda text: text.encode(),
    "UTF-8 with a mark": lambda text: text.encode("utf-8-sig"),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, big end first": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "UTF-16 without a mark": lambda text: text.encode("utf-16-le"),
    "UTF-16 without a mark, big end first": lambda text: text.encode("utf-16-be"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "CR LF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
}
"""How programs write the same text. Windows PowerShell writes UTF-16 for `>`, and a mark with -Encoding utf8."""

OFFSETS = '"billing","orders",0,17\n"billing","orders",1,3\n'
ROWS = [Row("billing", ("orders", 0), 17), Row("billing", ("orders", 1), 3)]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_file_is_read_as_it_was_meant(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(ENCODINGS[encoding](OFFSETS))
    assert read_rows(texts.read_text(path), "file") == ROWS
    path.write_bytes(ENCODINGS[encoding]("security.protocol = SSL\nclient.id = me\n"))
    assert [(key, value) for _, key, value in read_properties(path)] == [
        ("security.protocol", "SSL"),
        ("client.id", "me"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        ' "billing" , "orders" , 0 , 17 \n\n\tbilling,\torders,1, 3\n',
        "group,topic,partition,offset\nbilling,orders,0,17\nbilling,orders,1,3",
        "GROUP, TOPIC, PARTITION, NEW-OFFSET\nbilling,orders,0,17\nbilling,orders,1,3",
        (
            '{"group": "billing", "topic": "orders", "partition": 0, "offset": 17}\n'
            '{"group": "billing", "topic": "orders", "partition": 1, "offset": 3}'
        ),
        (
            '[\n  {"group": "billing", "topic": "orders", "partition": 0, "offset": 17},\n'
            '  {"group": "billing",\n   "topic": "orders", "partition": 1, "offset": 3}\n]\n'
        ),
    ],
)
def test_offsets_are_read_as_other_programs_write_them(text: str) -> None:
    assert read_rows(text, "file") == ROWS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("g,orders,0,1\ng,orders,\xa01,2", r"f line 2 column 10: not a number: the partition is '\xa01'"),
        ("g,orders,0,\u200b17", r"f line 1 column 12: not a number: the offset is '\u200b17'"),
        ("orders;0;17", "f line 1 column 1: 1 field: a line is [GROUP,]TOPIC,PARTITION,OFFSET"),
        ('orders,"0"x,1', "f line 1 column 8: not a field: '\"0\"x,1'"),
        (
            '{"topic": "orders", "partition": 0, "offset": "17"}',
            "f line 1 column 1: not a number: offset is '17'",
        ),
        ('[{"topic": "orders",\n "partition": x}]', "f line 2 column 15: not JSON: Expecting value"),
    ],
)
def test_what_cannot_be_read_is_named_by_line_and_column(text: str, said: str) -> None:
    with pytest.raises(MoveError) as caught:
        read_rows(text, "f")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a=b\r\nkey=caf\xe9\r\n", "line 2 column 8: not UTF-8: 0xe9"),
        ("ö".encode() + b"\xff", "line 1 column 2: not UTF-8: 0xff"),
        (b"\xff\xfea\0\n\0\0\xd8", "line 2 column 1: not UTF-16-LE: 0x00d8"),
    ],
)
def test_bytes_that_are_no_text_are_named_by_line_and_column(data: bytes, said: str) -> None:
    with pytest.raises(TextError) as caught:
        texts.decoded(data, "file")
    assert str(caught.value) == f"file {said}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{\n  "security.protocol": "SSL"\n}\n', "a JSON file"),
        ('["a"]', "a JSON file"),
        ('{"security.protocol": "SSL",}', "a file like JSON"),
        ("# client\nkafka:\n  security.protocol: SSL\n", "a YAML file"),
        ("---\nsecurity.protocol: SSL\n", "a YAML file"),
        ("servers:\n- one\n- two\n", "a YAML file"),
        ("[client]\nsecurity.protocol = SSL\n", "an INI file"),
        ("; mine\n[client]\n", "an INI file"),
        ('[client]\nsecurity.protocol = "SSL"\nretries = 3\n', "a TOML file"),
        ('"security.protocol" = "SSL"\n"client.id" = "me"\n', "a TOML file"),
        ("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", "a PEM file"),
        ('<?xml version="1.0"?>\n<properties/>\n', "an XML or HTML file"),
        ('<html lang="en">\n<body>hello, <b>you</b></body>\n</html>\n', "an XML or HTML file"),
    ],
)
def test_a_file_of_another_kind_says_which_it_is(text: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_properties(path)
    assert str(caught.value) == (
        f"{path}: {kind}, not a file of properties, which has KEY=VALUE on each line"
    )


@pytest.mark.parametrize(
    "text",
    [
        "security.protocol: SSL\nclient.id: me\n",
        'sasl.jaas.config="a"\n',
        "listeners=\\\n  PLAINTEXT://[::1]:9092,\\\n  SSL://:9093\n",
        "ssl.keystore.password:\nclient.id: me\n",
        "ssl.keystore.certificate.chain=-----BEGIN CERTIFICATE-----\\\nMIIB\n",
    ],
)
def test_properties_that_look_like_other_files_are_properties(text: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text, encoding="utf-8")
    assert read_properties(path)


def test_standard_input_is_read_as_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(OFFSETS.encode("utf-16"))))
    assert read_rows(texts.read_text(Path("-")), "-") == ROWS
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(TextError, match="standard input is closed"):
        texts.read_text(Path("-"))


OWN_FILES = {
    "installation.py",
    "memory.py",
    "texts.py",
    "schema_files.py",
    "http/app.py",
    "http/control.py",
    "spark/report.py",
}
"""What reads files of our own, of pip, of Spark or of the system, whose encoding is known."""


def test_no_other_module_reads_text_of_users() -> None:
    package = REPOSITORY / "kafka_offsets"
    reading = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"\.read_text\(|sys\.stdin\.read\(", path.read_text(encoding="utf-8"))
    }
    assert reading == OWN_FILES
