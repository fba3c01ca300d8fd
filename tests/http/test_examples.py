"""The examples in other languages run, with the clients of these languages, and their assertions hold."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, missing
from tests.http.conftest import Client
from tests.interop import java_program

EXAMPLES = REPOSITORY / "examples" / "http"
SOURCES = [
    EXAMPLES / "BillingTest.java",
    EXAMPLES / "go" / "billing_test.go",
    EXAMPLES / "billing.test.js",
    EXAMPLES / "billing.c",
]
JUNIT = java_program.JARS.parent / "junit"
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
    """Run a program, and return what it prints; fail unless it ends with this code."""
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=SECONDS,
        env=os.environ | environment,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.java
def test_java(client: Client, tmp_path: Path) -> None:
    java_program.need_tools()
    launcher = next(JUNIT.glob("junit-platform-console-standalone-*.jar"), None)
    if launcher is None:
        pom = java_program.JAVA / "junit.xml"
        missing("JUnit's console launcher", f"bash benchmarks/peers/jars.sh {pom} {JUNIT}")
    classpath = os.pathsep.join([f"{java_program.JARS}/*", str(launcher), str(tmp_path)])
    run("javac", "-cp", classpath, "-d", tmp_path, "BillingTest.java")
    words = [
        "-jar",
        launcher,
        "execute",
        "--disable-banner",
        "--select-class=BillingTest",
        "--details=summary",
    ]
    jars = os.pathsep.join(map(str, [tmp_path, *java_program.JARS.glob("*.jar")]))
    summary = run(
        "java", "-XX:TieredStopAtLevel=1", *words, f"--class-path={jars}", KAFKA_OFFSETS_URL=client.url
    )
    assert "1 tests successful" in summary, summary


def test_go(client: Client, tmp_path: Path) -> None:
    need("go")
    folder = EXAMPLES / "go"
    loaded = subprocess.run(["go", "mod", "download"], cwd=folder, capture_output=True, timeout=SECONDS)
    if loaded.returncode:
        pytest.skip(f"franz-go cannot be loaded: {loaded.stderr.decode()}")
    run("go", "test", "-c", "-o", tmp_path / "billing.test", ".", cwd=folder)
    passed = run(tmp_path / "billing.test", "-test.v", KAFKA_OFFSETS_URL=client.url)
    assert "--- PASS: TestACommitIsRepeatedAndExpires" in passed


def test_javascript(client: Client) -> None:
    need("node")
    if not (MODULES / "kafkajs").is_dir():
        pytest.skip(f"kafkajs is not installed: npm install --prefix {MODULES.parent} kafkajs@2")
    environment = {"NODE_PATH": str(MODULES), "KAFKA_OFFSETS_URL": client.url}
    assert "# pass 1\n# fail 0" in run(
        "node", "--test", "--test-reporter=tap", "billing.test.js", **environment
    )


def test_c(client: Client, tmp_path: Path) -> None:
    need("cc")
    includes = "#include <curl/curl.h>\n#include <librdkafka/rdkafka.h>\n"
    found = subprocess.run(["cc", "-E", "-"], input=includes, text=True, capture_output=True, timeout=SECONDS)
    if found.returncode:
        pytest.skip("headers are not installed: apt-get install -y librdkafka-dev libcurl4-openssl-dev")
    program = tmp_path / "billing"
    run("cc", "-Wall", "-Wextra", "-Werror", "-o", program, "billing.c", "-lrdkafka", "-lcurl")
    view = client.post("/brokers", manual_clock=True, topics={"orders": 1}).value
    url = f"{client.url}/brokers/{view['broker']}"
    run(program, url, view["bootstrap_servers"])
    client.delete(f"/brokers/{view['broker']}")
    # What the interface refuses ends the program: there is no such broker any more.
    assert "refused" in run(program, url, view["bootstrap_servers"], code=1)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_example_is_short(source: Path) -> None:
    """The lines of imports count, blank lines and comments do not."""
    text = re.sub(r"^\s*(//.*|/\*\*.*)?\n", "", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.splitlines()
    assert len(lines) < MOST_LINES
    assert max(map(len, lines)) <= 120
