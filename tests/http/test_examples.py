"""The examples in other languages run, with the clients of these languages, and their assertions hold."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, GeneratedPart, missing
from tests.documents.pages import ADDRESS, HTTP
from tests.http.conftest import Client
from tests.interop import java_program

EXAMPLES = REPOSITORY / "examples" / "http"
SOURCES = [
    EXAMPLES / "BillingTest.java",
    EXAMPLES / "LatestTest.java",
    EXAMPLES / "go" / "billing_test.go",
    EXAMPLES / "go" / "latest_test.go",
    EXAMPLES / "billing.test.js",
    EXAMPLES / "latest.test.js",
    EXAMPLES / "billing.c",
]
HELPERS = {
    "Java": (EXAMPLES / "KafkaBroker.java", EXAMPLES / "BillingTest.java"),
    "Go": (EXAMPLES / "go" / "broker_test.go", EXAMPLES / "go" / "billing_test.go"),
    "Node.js": (EXAMPLES / "node" / "broker.cjs", EXAMPLES / "billing.test.js"),
}
"""A broker for each test, to copy, and a test that uses it."""
LANGUAGES = {".java": "java", ".go": "go", ".cjs": "javascript", ".js": "javascript"}
JUNIT = java_program.JARS.parent / "junit"
MODULES = Path(
    os.environ.get("KAFKA_OFFSETS_NODE_MODULES", Path.home() / ".cache/kafka-offsets/node_modules")
)
MOST_LINES = 32
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that lives for a test."""

NOT_LOADED = (
    *("DependencyResolutionException", "UnresolvableModelException"),
    *("PluginResolutionException", "PluginManagerException"),
)
"""Whose pages Maven names in a build that fails as it cannot load something."""

pytestmark = pytest.mark.interop


def need(*tools: str) -> None:
    """Skip without these programs. Nobody has to install all languages, so that is no failure on a build machine."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


@pytest.fixture
def folder(client: Client, tmp_path: Path) -> Path:
    """A copy of the examples that calls the server of these tests."""
    found = tmp_path / "http"
    shutil.copytree(EXAMPLES, found)
    for source in (EXAMPLES / "billing.c", *(helper for helper, _ in HELPERS.values())):
        replace(found / source.relative_to(EXAMPLES), HTTP, client.url)
    return found


def replace(path: Path, old: str, new: str) -> None:
    """Replace a text that a file has."""
    text = path.read_text(encoding="utf-8")
    assert old in text, path
    path.write_text(text.replace(old, new), encoding="utf-8")


def run(*words: str | Path, cwd: Path, code: int = 0, **environment: str) -> str:
    """Run a program, and return what it prints; fail unless it ends with this code."""
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | environment,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.java
def test_java(folder: Path, tmp_path: Path) -> None:
    java_program.need_tools()
    launcher = next(JUNIT.glob("junit-platform-console-standalone-*.jar"), None)
    if launcher is None:
        pom = java_program.JAVA / "junit.xml"
        missing("JUnit's console launcher", f"bash benchmarks/peers/jars.sh {pom} {JUNIT}")
    classpath = os.pathsep.join([f"{java_program.JARS}/*", str(launcher), str(tmp_path)])
    names = ["BillingTest", "LatestTest"]
    sources = [f"{name}.java" for name in ("KafkaBroker", *names)]
    run("javac", "-cp", classpath, "-d", tmp_path, *sources, cwd=folder)
    words = ["-jar", launcher, "execute", "--disable-banner", "--details=summary"]
    words += [f"--select-class={name}" for name in names]
    jars = os.pathsep.join(map(str, [tmp_path, *java_program.JARS.glob("*.jar")]))
    summary = run("java", *QUICK_JVM.split(), *words, f"--class-path={jars}", cwd=folder)
    assert "2 tests successful" in summary, summary


@pytest.mark.java
@pytest.mark.parametrize(("framework", "options"), [("spring", []), ("quarkus", ["--http", "0"])])
@pytest.mark.timeout(1800)  # the first time, Maven loads the framework
def test_a_framework_of_java_uses_the_broker_around_its_tests(
    folder: Path, framework: str, options: list[str]
) -> None:
    """Its own broker for tests is off: there is no Docker here."""
    need("mvn", "javac")
    words = [sys.executable, "-m", "kafka_offsets.cli", "exec", *options, "--topic", "orders:1"]
    done = subprocess.run(
        [*words, "--", "mvn", "-B", "-ntp", f"-DargLine={QUICK_JVM}", "test"],
        capture_output=True,
        text=True,
        cwd=folder / framework,
        env=os.environ
        | {"PYTHONPATH": str(REPOSITORY), "MAVEN_OPTS": f"{os.environ.get('MAVEN_OPTS', '')} {QUICK_JVM}"},
    )
    if any(text in done.stdout for text in NOT_LOADED):
        pytest.skip(f"{framework} cannot be loaded: {done.stdout[-1000:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0" in done.stdout


@pytest.mark.timeout(0)  # a first build takes what the machine needs; Go itself ends a test that hangs
def test_go(folder: Path) -> None:
    need("go", "cc")  # the race detector needs a compiler of C
    cwd = folder / "go"
    loaded = subprocess.run(["go", "mod", "download"], cwd=cwd, capture_output=True)
    if loaded.returncode:
        pytest.skip(f"franz-go cannot be loaded: {loaded.stderr.decode()}")
    printed = run("go", "test", "-race", "-v", ".", cwd=cwd)
    assert "--- PASS: TestACommitIsRepeatedAndExpires" in printed
    assert "--- PASS: TestOrders/third" in printed
    assert "--- PASS: TestTwoConsumersAtTheEnd" in printed


def test_javascript(folder: Path) -> None:
    need("node")
    if not (MODULES / "kafkajs").is_dir():
        pytest.skip(f"kafkajs is not installed: npm install --prefix {MODULES.parent} kafkajs@2")
    words = ["node", "--test", "--test-reporter=tap", "billing.test.js", "latest.test.js"]
    assert "# pass 2\n# fail 0" in run(*words, cwd=folder, NODE_PATH=str(MODULES))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jest", "--testTimeout=60000"], "Tests:       2 passed, 2 total"),
        (["vitest", "run", "--testTimeout=60000", "--hookTimeout=60000"], "2 passed (2)"),
    ],
    ids=["jest", "vitest"],
)
@pytest.mark.timeout(300)
def test_a_runner_of_javascript_starts_and_stops_a_server(
    folder: Path, tmp_path: Path, words: list[str], said: str
) -> None:
    """It ends by itself: no client and no server keeps it, as `--forceExit` would hide."""
    need("node")
    if not (MODULES / words[0]).is_dir():
        pytest.skip(f"{words[0]} is not installed: make tools")
    program = tmp_path / "bin" / "kafka-offsets"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho $$ > {tmp_path}/pid\nexec {sys.executable} -m kafka_offsets.cli "$@"\n'
    )
    program.chmod(0o755)
    (folder / "node" / "node_modules").symlink_to(MODULES)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    command = [MODULES / ".bin" / words[0], *words[1:]]
    printed = run(*command, cwd=folder / "node", PATH=path, PYTHONPATH=str(REPOSITORY), NO_COLOR="1")
    assert said in printed and "did not exit" not in printed, printed
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_c(client: Client, folder: Path) -> None:
    need("cc")
    includes = "#include <curl/curl.h>\n#include <librdkafka/rdkafka.h>\n"
    found = subprocess.run(["cc", "-E", "-"], input=includes, text=True, capture_output=True)
    if found.returncode:
        pytest.skip("headers are not installed: apt-get install -y librdkafka-dev libcurl4-openssl-dev")
    view = client.post("/brokers", manual_clock=True, topics={"orders": 1}).value
    replace(folder / "billing.c", "/brokers/main", f"/brokers/{view['broker']}")
    replace(folder / "billing.c", ADDRESS, view["bootstrap_servers"])
    run("cc", "-Wall", "-Wextra", "-Werror", "billing.c", "-lrdkafka", "-lcurl", cwd=folder)
    run("./a.out", cwd=folder)
    client.delete(f"/brokers/{view['broker']}")
    # What the interface refuses ends the program: there is no such broker any more.
    assert "refused" in run("./a.out", cwd=folder, code=1)


def test_the_page_of_clients_has_the_helpers(generated: GeneratedPart) -> None:
    parts = []
    for name, helper_and_test in HELPERS.items():
        helper, test = (f"[{each.name}](../{each.relative_to(REPOSITORY)})" for each in helper_and_test)
        path = helper_and_test[0]
        code = f"```{LANGUAGES[path.suffix]}\n{path.read_text(encoding='utf-8')}```"
        parts.append(f"### {name}\n\n{helper}, and a test that uses it, {test}:\n\n{code}")
    generated.check("docs/clients.md", "helpers", "\n\n".join(parts))


def test_the_first_page_has_the_tests(generated: GeneratedPart) -> None:
    parts = []
    for name, (_, test) in HELPERS.items():
        code = f"```{LANGUAGES[test.suffix]}\n{test.read_text(encoding='utf-8')}```"
        parts.append(f"### {name}\n\n{code}")
    generated.check("docs/index.md", "tests", "\n\n".join(parts))


@pytest.mark.parametrize(
    "source", [*SOURCES, *(helper for helper, _ in HELPERS.values())], ids=lambda path: path.name
)
def test_the_example_is_short(source: Path) -> None:
    """Every line counts."""
    lines = source.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 120
