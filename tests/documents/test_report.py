"""The report in the README is that of its test, if the code under test does not commit. --rewrite-docs writes it."""

import re
import subprocess
import sys

import pytest

from tests.conftest import GeneratedPart
from tests.documents.pages import blocks, environment

_SHOWN_REQUESTS = ("OffsetFetch", "records: 2", "LeaveGroup")
"""Those of the story: the others and their order differ from run to run."""
_SETTING = '"auto.offset.reset": "earliest",'
_NUMBERS = (
    (r"\d\d:\d\d:\d\d\.\d{3} +[\d.]+ ms", "17:04:05.168     0.3 ms"),
    (r"(?m)^\d\d:\d\d:\d\d (?=group )", "17:04:05 "),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:39227"),
)
_REQUEST = re.compile(r"… |\d\d:\d\d:\d\d\.\d{3} ")
_MEMBER = re.compile(r"rdkafka-[\da-f-]{30,}")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What pytest prints, with the same times and addresses each time."""
    (block,) = (each for each in blocks("README.md", "python") if each.is_test)
    assert _SETTING in block.code
    code = block.code.replace(_SETTING, f'{_SETTING} "enable.auto.commit": False,')
    code = code.replace("    assert fault.hits == 1", "    #")
    folder = tmp_path_factory.mktemp("report")
    (folder / "test_billing.py").write_text(code, encoding="utf-8")
    words = ["-q", "-p", "kafka_offsets.testing.plugin", "-p", "no:cacheprovider", "--tb=short"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(folder),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    text = done.stdout
    for number, shown in _NUMBERS:
        text = re.sub(number, shown, text)
    return _MEMBER.sub("rdkafka-…", text).splitlines()


def chosen(lines: list[str]) -> str:
    """Return the error and the section of the broker, with the requests that tell the story."""
    error = [line.removeprefix("E   ") for line in lines if line.startswith("E   ")]
    (begin,) = (at for at, line in enumerate(lines) if " Kafka broker (" in line)
    (end,) = (at for at, line in enumerate(lines) if line.startswith("====") and "short test summary" in line)
    section = [line for line in lines[begin + 1 : end] if not _REQUEST.match(line) or _is_shown(line)]
    return "\n".join(["```text", *error, lines[begin], *section, "```"])


def _is_shown(request: str) -> bool:
    return any(word in request for word in _SHOWN_REQUESTS)


def _masked(line: str) -> str:
    return re.sub(r"\d+", "0", line.removeprefix("E   "))


def test_the_report_of_the_readme_is_what_pytest_prints(printed: list[str], generated: GeneratedPart) -> None:
    made = chosen(printed)
    kept = next(each.code for each in blocks("README.md", "text") if "Kafka broker (" in each.code)
    there = {_masked(line) for line in printed}
    missing = [line for line in kept.splitlines() if _masked(line) not in there]
    if missing:  # the order and the number of a client's requests may differ each time
        generated.check("README.md", "report", made)
