"""Hex as other programs print it: each form is read as the bytes that the program was given."""

import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_offsets.inspect.declarations import InspectError
from kafka_offsets.inspect.hex_text import from_hex
from tests.inspect.explained import VALID_FRAMES

FRAME = VALID_FRAMES["OffsetCommit v8"]


def wireshark(data: bytes) -> str:
    rows = [data[start : start + 16] for start in range(0, len(data), 16)]
    lines = (f"{16 * n:04x}   {row.hex(' '):<47}   {shown(row)}\n" for n, row in enumerate(rows))
    return "".join(lines)


def escaped_string(data: bytes) -> str:
    """Wireshark: Copy as escaped string."""
    rows = [data[start : start + 16] for start in range(0, len(data), 16)]
    return " \\\n".join('"' + "".join(f"\\x{byte:02x}" for byte in row) + '"' for row in rows)


def c_array(data: bytes) -> str:
    """Wireshark: Follow stream as C arrays."""
    rows = [data[start : start + 8] for start in range(0, len(data), 8)]
    lines = ", \n".join(", ".join(f"0x{byte:02x}" for byte in row) for row in rows)
    return f"char peer0_0[] = {{ /* Packet 4 */\n{lines} }};\n"


def xxd_array(data: bytes) -> str:
    return (
        f"unsigned char frame[] = {{\n  {', '.join(f'0x{byte:02x}' for byte in data)}\n}};\n"
        f"unsigned int frame_len = {len(data)};\n"
    )


def shown(row: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)


FORMS: dict[str, Callable[[bytes], str]] = {
    "Wireshark": wireshark,
    "Wireshark, escaped string": escaped_string,
    "Wireshark, C array": c_array,
    "xxd -i": xxd_array,
    "colons": lambda data: data.hex(":"),
    "dashes": lambda data: data.hex("-").upper(),
    "0x each": lambda data: " ".join(f"0x{byte:02X}" for byte in data),
    "Python": repr,
    "Python's bytearray": lambda data: repr(bytearray(data)),
    "Python's hexlify": lambda data: repr(data.hex().encode()),
    "bytes.fromhex": lambda data: f'bytes.fromhex("{data.hex(" ")}")',
    "escapes": lambda data: "".join(f"\\x{byte:02x}" for byte in data),
    "printf": lambda data: "printf '" + "".join(f"\\x{byte:02x}" for byte in data) + "' | nc localhost 9092",
    "octal": lambda data: '"' + "".join(f"\\{byte:03o}" for byte in data) + '"',
    "Go": lambda data: "[]byte{" + ", ".join(f"0x{byte:x}" for byte in data) + "}",
    "Java": lambda data: "new byte[] { " + ", ".join(f"(byte) 0x{byte:02x}" for byte in data) + " };",
    "PostgreSQL": lambda data: "\\x" + data.hex(),
    "Node.js": lambda data: f"<Buffer {data.hex(' ')}>",
    "a mark of an editor": lambda data: f"  {data.hex(' ')}\r\n\r\n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("data", [FRAME, FRAME[:8], FRAME[:1], bytes(40), bytes(range(256))])
def test_every_form_is_read(form: str, data: bytes) -> None:
    assert from_hex(FORMS[form](data)) == data


@settings(max_examples=60)
@given(st.binary(min_size=1, max_size=80), st.sampled_from(sorted(FORMS)))
def test_any_bytes_are_read_in_every_form(data: bytes, form: str) -> None:
    assert from_hex(FORMS[form](b"\0\x12" + data)) == b"\0\x12" + data


TOOLS = {
    "xxd": ["xxd"],
    "xxd -p": ["xxd", "-p"],
    "xxd -i": ["xxd", "-i"],
    "xxd -c 8 -g 1": ["xxd", "-c", "8", "-g", "1"],
    "hexdump -C": ["hexdump", "-C"],
    "od -t x1": ["od", "-t", "x1"],
    "od -A x -t x1z": ["od", "-A", "x", "-t", "x1z"],
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("data", [FRAME, bytes(100) + b"raw", FRAME[:16]])
def test_the_tools_print_these_forms(tool: str, data: bytes) -> None:
    if shutil.which(TOOLS[tool][0]) is None:
        pytest.skip(f"{TOOLS[tool][0]} is not installed")
    done = subprocess.run(TOOLS[tool], input=data, capture_output=True, check=True)
    if tool.startswith("od") and b"\n*\n" in done.stdout:
        with pytest.raises(InspectError, match="use od -v"):
            from_hex(done.stdout.decode())
    else:
        assert from_hex(done.stdout.decode()) == data


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("00 01\n02 \u200b03", r"hex line 2 column 4: not hex: '\u200b03'"),
        ("0000000 0000 2e00\n0000004", "od and hexdump print words with their bytes swapped"),
        ("<Buffer 00 01 ... 50 more bytes>", "hex line 1 column 15: not hex: '...'"),
        ("char a[] = { 0x00 };\nchar b[] = { 0x01 };", "hex line 2 column 12: a second array: give one"),
        ("b'\\x0'", "hex line 1 column 3: no byte of a literal: '\\x'"),
        ('"\\x00ä"', "hex line 1 column 6: no byte of a literal: 'ä'"),
        ("*\n00000000: 00", "hex line 1 column 1"),
    ],
)
def test_what_is_no_hex_is_named_by_line_and_column(text: str, said: str) -> None:
    with pytest.raises(InspectError, match="^" + re.escape(said)):
        from_hex(text)


@settings(max_examples=300)
@given(st.text("01af*\n :,.x0\\\"'{}[]<>/bB", max_size=60))
def test_any_text_is_bytes_or_refused(text: str) -> None:
    with suppress(InspectError):  # anything else is a fault
        assert isinstance(from_hex(text), bytes)
