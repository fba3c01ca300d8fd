"""The Docker image and the GitHub Action, without Docker and GitHub: their commands run here, as they are written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.servers import free_port
from kafka_offsets import cli
from tests.conftest import REPOSITORY
from tests.http.conftest import Client
from tests.test_serve_options import serve

DOCKERFILE = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
ACTION = (REPOSITORY / "action.yml").read_text(encoding="utf-8")


def instruction(name: str) -> list[str]:
    """The last command of a kind, in its form with brackets: no shell stands between Docker's signals and it."""
    found = re.findall(rf"^{name}\b.*?(\[.*\])$", DOCKERFILE, re.MULTILINE)
    words: list[str] = json.loads(found[-1])
    return words


@pytest.mark.usefixtures("patient_checks")
def test_the_image_serves_at_every_address_of_its_variables_and_its_health_check_finds_that(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert not re.findall(r"^ENV KAFKA_", DOCKERFILE, re.MULTILINE), "it would contradict a compose file"
    (text, path), *rest = re.findall(r'^RUN echo "(listeners=.*)" > (\S+)$', DOCKERFILE, re.MULTILINE)
    assert (text, rest) == ("listeners=PLAINTEXT://:9092", [])
    file = tmp_path / "server.properties"
    file.write_text(text)
    here = {path: str(file)}
    name, *options = (here.get(word, word) for word in instruction("ENTRYPOINT"))
    check = [here.get(word, word) for word in instruction("HEALTHCHECK")]
    assert (name, options[0], *check[:2]) == ("kafka-offsets", "serve", "kafka-offsets", "serve")
    outside = (inside := free_port()) + 1
    variables = {
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://kafka.invalid:{inside},PLAINTEXT_HOST://localhost:{outside}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        "KAFKA_NUM_PARTITIONS": "3",
    }
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    with serve(*options[1:], "--topic", "t", variables=variables) as served:
        assert served.address == f"localhost:{inside}"
        assert served.before == [
            f"clients of the listener PLAINTEXT receive kafka.invalid:{inside}\n",
            f"listener PLAINTEXT_HOST on localhost:{outside}\n",
        ]
        served.address = f"127.0.0.1:{outside}"
        assert len(served.partitions("t")) == 3
        assert cli.main(check[1:]) == 0
        served.end()
    assert cli.main(check[1:]) == 1
    assert "not ready: " in (said := capsys.readouterr().err) and "Connection refused" in said


def test_the_image_has_what_the_wheel_is_built_from_and_no_root() -> None:
    copied = set(re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE))
    words = {word for line in copied for word in line.split()}
    allowed = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{word}" for word in words} == {line for line in allowed if line.startswith("!")}
    assert all((REPOSITORY / word).exists() for word in words)
    assert DOCKERFILE.index("\nUSER kafka\n") < DOCKERFILE.index("\nENTRYPOINT ")


def script(step: str) -> str:
    """The shell lines of a step of the action."""
    (found,) = re.findall(
        rf"^    - {step}\n.*?^      run: \|\n((?:        .*\n)+)", ACTION, re.MULTILINE | re.DOTALL
    )
    return re.sub("^        ", "", found, flags=re.MULTILINE)


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """The variables of a runner, on which the package is installed."""
    scripts = tmp_path / "kafka-offsets" / "bin"
    scripts.mkdir(parents=True)
    installed = scripts / "kafka-offsets"
    installed.write_text(
        f'#!/bin/sh\necho $$ > {tmp_path}/pid\nexec {sys.executable} -m kafka_offsets.cli "$@"\n'
    )
    installed.chmod(0o755)
    return {
        **os.environ,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "PYTHONPATH": str(REPOSITORY),
        "PORT": "0",
    }


def start(runner: dict[str, str], options: str) -> "subprocess.CompletedProcess[str]":
    """Run the step that starts a broker, with the options that GitHub gives bash."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script("id: start")]
    return subprocess.run(command, env=runner | {"OPTIONS": options}, capture_output=True, text=True)


def test_the_action_starts_a_broker_and_gives_its_address(runner: dict[str, str], tmp_path: Path) -> None:
    done = start(runner, "--topic orders:3")
    try:
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        name, _, address = (tmp_path / "output").read_text().strip().partition("=")
        assert name == "bootstrap-servers"
        assert cli.main(["groups", "list", "--bootstrap-server", address]) == 0
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 15)


def test_the_action_gives_the_address_of_http(runner: dict[str, str], tmp_path: Path) -> None:
    done = start(runner, "--http 0")
    try:
        assert (done.returncode, done.stderr) == (0, "")
        outputs = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
        assert outputs.keys() == {"bootstrap-servers", "http"}
        client = Client(outputs["http"])
        assert client.get("/brokers/main").value["bootstrap_servers"] == outputs["bootstrap-servers"]
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 15)


def test_the_action_installs_what_the_options_of_serve_need() -> None:
    installed = re.findall(r"GITHUB_ACTION_PATH\[([\w,]+)\]", script("id: install"))
    extras = set(installed[0].split(","))
    setup = (REPOSITORY / "setup.cfg").read_text(encoding="utf-8").partition("[options.extras_require]\n")[2]
    known = set(re.findall(r"^(\w+) =$", setup, re.MULTILINE))
    named = {
        extra
        for folder in ("broker", "http", "commands", "security", "zookeeper")
        for path in (REPOSITORY / "kafka_offsets" / folder).rglob("*.py")
        for extra in re.findall(r"\.\[(\w+)\]", path.read_text(encoding="utf-8"))
    }
    assert extras <= known
    assert named - {"spark", "cli"} <= extras


def test_the_action_fails_with_the_broker_s_reason(runner: dict[str, str]) -> None:
    done = start(runner, "--set num.partitions=many")
    assert done.returncode == 1
    assert "num.partitions" in done.stderr
