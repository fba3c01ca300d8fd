"""The examples in other languages run, with the clients of these languages, and their assertions hold."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.http.conftest import Client
from tests.interop import java_program

EXAMPLES = REPOSITORY / "examples" / "http"
SOURCES = [
    EXAMPLES / "Billing.java",
    EXAMPLES / "go" / "billing.go",
    EXAMPLES / "billing.js",
    EXAMPLES / "billing.c",
]
MODULES = Path(
    os.environ.get("KAFKA_OFFSETS_NODE_MODULES", Path.home() / ".cache/kafka-offsets/node_modules")
)
MOST_LINES = 30
SECONDS = 100

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * SECONDS + 20)]


def need(*tools: str) -> None:
    """Skip without these programs. Nobody has to install all languages, so that is no failure on a build machine."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def run(*words: str | Path, cwd: Path = EXAMPLES, code: int = 0, **environment: str) -> str:
    """Run a program, and return its errors; fail unless it ends with this code."""
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=SECONDS,
        env=os.environ | environment,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr


@pytest.mark.java
def test_java(client: Client) -> None:
    java_program.need_tools()
    run("java", "-XX:TieredStopAtLevel=1", "-cp", f"{java_program.JARS}/*", "Billing.java", client.url)


def test_go(client: Client, tmp_path: Path) -> None:
    need("go")
    folder = EXAMPLES / "go"
    loaded = subprocess.run(["go", "mod", "download"], cwd=folder, capture_output=True, timeout=SECONDS)
    if loaded.returncode:
        pytest.skip(f"franz-go cannot be loaded: {loaded.stderr.decode()}")
    run("go", "build", "-o", tmp_path / "billing", ".", cwd=folder)
    run(tmp_path / "billing", client.url)


def test_javascript(client: Client) -> None:
    need("node")
    if not (MODULES / "kafkajs").is_dir():
        pytest.skip(f"kafkajs is not installed: npm install --prefix {MODULES.parent} kafkajs@2")
    run("node", "billing.js", client.url, NODE_PATH=str(MODULES))


def test_c(client: Client, tmp_path: Path) -> None:
    need("cc")
    includes = "#include <curl/curl.h>\n#include <librdkafka/rdkafka.h>\n"
    found = subprocess.run(["cc", "-E", "-"], input=includes, text=True, capture_output=True, timeout=SECONDS)
    if found.returncode:
        pytest.skip("headers are not installed: apt-get install -y librdkafka-dev libcurl4-openssl-dev")
    program = tmp_path / "billing"
    run("cc", "-Wall", "-Wextra", "-Werror", "-o", program, "billing.c", "-lrdkafka", "-lcurl")
    view = client.post("/brokers", manual_clock=True).value
    url = f"{client.url}/brokers/{view['broker']}"
    run(program, url, view["bootstrap_servers"])
    # A second run finds a topic that exists: what the interface refuses ends the program.
    assert "create_topic" in run(program, url, view["bootstrap_servers"], code=1)
    client.delete(f"/brokers/{view['broker']}")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_example_is_short(source: Path) -> None:
    text = re.sub(r"^import \(.*?^\)", "", source.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    other = re.compile(r"\s*(//.*|/\*\*.*|#include.*|import.*|package.*)?$")
    assert len([line for line in text.splitlines() if not other.match(line)]) < MOST_LINES
