"""The tests of kafka-go, which come with its module."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.suites.outcomes import Outcome, Outcomes, leaves
from tests.suites.suite import SuiteError, run_in_group
from tests.suites.targets import AUTHORIZER

MODULE = "github.com/segmentio/kafka-go"
ACTIONS = {"run": Outcome.FAILED, "pass": Outcome.PASSED, "fail": Outcome.FAILED, "skip": Outcome.SKIPPED}
"""A test that begins and does not end has failed."""
PORT = 9092
SETTINGS = AUTHORIZER | {
    "node.id": "1",
    "listeners": f"PLAINTEXT://127.0.0.1:{PORT},SASL_PLAINTEXT://127.0.0.1:{PORT + 1}",
    "advertised.listeners": f"PLAINTEXT://localhost:{PORT},SASL_PLAINTEXT://localhost:{PORT + 1}",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="adminplain" password="admin-secret" user_adminplain="admin-secret";'
    ),
    "message.max.bytes": "200000000",
}
"""As in docker-compose.yml of the module."""
PANICS = (
    "panics in its own helper before it sends a request (`getOffsets` makes a ConsumerGroup without "
    "`connect`), which ends the process and all later tests"
)
NOT_RUN = {
    "TestReaderConsumerGroup/consumer_group_commits_on_close": PANICS,
    "TestReaderConsumerGroup/verify_offset_committed": PANICS,
    "TestReaderConsumerGroup/verify_offset_committed_when_using_interval_committer": PANICS,
}


class KafkaGo:
    """The tests of kafka-go's main package."""

    name = "kafka-go"
    version = "v0.4.51"
    registry = "the Go module proxy"
    port = PORT
    settings = SETTINGS
    adapted = (
        "Nothing: the broker is on localhost:9092 and has the id 1. `KAFKA_VERSION=4.3.1` gives its version."
    )
    not_run = NOT_RUN
    limit_s = 1500

    def prepare(self, directory: Path) -> None:
        """Download the module, and compile its tests."""
        if (directory / "complete").exists():
            return
        copy_module(f"{MODULE}@{self.version}", directory)
        self._go(directory, ["test", "-mod=mod", "-c", "-o", "tests.exe", "."], self.limit_s)
        (directory / "complete").touch()

    def execute(self, directory: Path, names: Iterable[str] | None) -> Outcomes:
        """Run `go test`. Raises SuiteError when a panic ends it, which takes all tests after it along."""
        chosen = [f"-skip={pattern(self.not_run)}"] if names is None else [f"-run={pattern(names)}"]
        arguments = ["test", "-mod=mod", "-json", "-count=1", f"-timeout={self.limit_s - 60}s", *chosen, "."]
        self._go(directory, arguments, self.limit_s)
        output = (directory / "output.txt").read_text(encoding="utf-8", errors="replace")
        if names is None and (panic := find_panic(output)):
            raise SuiteError(f"{self.name}: not all tests were run: {panic}")
        return read_outcomes(output)

    def _go(self, directory: Path, arguments: list[str], limit_s: float) -> None:
        run_in_group(
            ["go", *arguments],
            directory / "source",
            {"KAFKA_VERSION": "4.3.1"},
            directory / "output.txt",
            limit_s,
        )


def copy_module(module: str, directory: Path) -> None:
    """Download a module with its version, and copy it to `source`: the cache of modules cannot be written."""
    shutil.rmtree(directory, ignore_errors=True)
    command = ["go", "mod", "download", "-json", module]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd="/").stdout
    shutil.copytree(json.loads(told)["Dir"], directory / "source", copy_function=shutil.copyfile)
    for folder in [directory / "source", *directory.glob("source/**/")]:
        folder.chmod(0o755)


def pattern(names: Iterable[str]) -> str:
    """Return the regular expression by which `go test` finds tests and subtests by their names."""
    return "|".join("/".join(f"^{re.escape(part)}$" for part in name.split("/")) for name in names)


def find_panic(output: str) -> str:
    """Return with what a run ended in the middle, also its time limit; "" when it came to its end."""
    for line in output.splitlines():
        if line.startswith("{"):
            told = json.loads(line).get("Output", "")
            if told.startswith("panic: "):
                return str(told).strip()
    return ""


def read_outcomes(output: str) -> Outcomes:
    """Read what `go test -json` printed; what is not JSON is the compiler's."""
    found: Outcomes = {}
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        if "Test" in event and event["Action"] in ACTIONS:
            found[event["Test"]] = ACTIONS[event["Action"]]
    return leaves(found)
