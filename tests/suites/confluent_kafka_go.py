"""The integration tests of confluent-kafka-go, which come with its module; it has librdkafka in it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from tests.suites.kafka_go import copy_module, find_panic, pattern, read_outcomes
from tests.suites.outcomes import Outcomes
from tests.suites.suite import SuiteError, run_in_group
from tests.suites.targets import AUTHORIZER

MODULE = "github.com/confluentinc/confluent-kafka-go/v2"
PORT = 9092
SETTINGS = AUTHORIZER | {
    "node.id": "1",
    "listeners": f"PLAINTEXT://127.0.0.1:{PORT},SASL_PLAINTEXT://127.0.0.1:{PORT + 1}",
    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{PORT},SASL_PLAINTEXT://127.0.0.1:{PORT + 1}",
    "num.partitions": "4",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="admin" password="admin" user_admin="admin" user_testuser="testpass";'
    ),
    "connections.max.reauth.ms": "10000",
}
"""As in testresources/kraft/server.properties of the module."""

BROKERS = {
    "Brokers": f"127.0.0.1:{PORT}",
    "BrokersSasl": f"127.0.0.1:{PORT + 1}",
    "SaslUsername": "testuser",
    "SaslPassword": "testpass",
    "SaslMechanism": "PLAIN",
    "TopicName": "test",
    "GroupID": "testgroup",
    "Config": ["api.version.request=true"],
}
COMPOSE = "github.com/testcontainers/testcontainers-go/modules/compose"
NO_COMPOSE = """\
// Replaces the module that starts Docker: the broker is there already.
package compose

type LocalDockerCompose struct{}
type Result struct{ Error error }

func NewLocalDockerCompose([]string, string) *LocalDockerCompose          { panic("no Docker") }
func (c *LocalDockerCompose) Down() Result                                { return Result{} }
func (c *LocalDockerCompose) WithCommand([]string) *LocalDockerCompose    { return c }
func (c *LocalDockerCompose) Invoke() Result                              { return Result{} }
"""
TESTS = ("TestIntegration", "TestTransactionalSendOffsets")
FLUSH = (
    "`Flush(-1)` of this client does not wait, so the test passes only if the records are acknowledged before "
    "the offsets of the transaction are: it fails with a broker that is faster than `linger.ms`"
)


class ConfluentKafkaGo:
    """The tests of its folder `kafka` that need a broker."""

    name = "confluent-kafka-go"
    version = "v2.11.1"
    registry = "the Go module proxy"
    port = PORT
    settings = SETTINGS
    adapted = (
        "`testconf.json` gives the addresses of the broker. The module that starts Docker is replaced by "
        "an empty one."
    )
    not_run: Mapping[str, str] = MappingProxyType({"TestTransactionalProducer": FLUSH})
    limit_s = 900

    def prepare(self, directory: Path) -> None:
        """Download the module, tell its tests where the broker is, and compile them."""
        if (directory / "complete").exists():
            return
        copy_module(f"{MODULE}@{self.version}", directory)
        source = directory / "source"
        (source / "compose").mkdir()
        (source / "compose" / "compose.go").write_text(NO_COMPOSE, encoding="utf-8")
        test = source / "kafka" / "integration_test.go"
        text = test.read_text(encoding="utf-8").replace(COMPOSE, f"{MODULE}/compose")
        test.write_text(text, encoding="utf-8")
        (source / "kafka" / "testconf.json").write_text(json.dumps(BROKERS), encoding="utf-8")
        self._go(directory, ["test", "-mod=mod", "-c", "-o", "tests.exe", "."])
        (directory / "complete").touch()

    def execute(self, directory: Path, names: Iterable[str] | None) -> Outcomes:
        """Run `go test`. Raises SuiteError when a panic ends it, which takes all tests after it along."""
        chosen = pattern(TESTS) if names is None else pattern(names)
        limit = f"-timeout={self.limit_s - 60}s"
        self._go(directory, ["test", "-mod=mod", "-json", "-count=1", limit, f"-run={chosen}", "."])
        output = (directory / "output.txt").read_text(encoding="utf-8", errors="replace")
        if names is None and (panic := find_panic(output)):
            raise SuiteError(f"{self.name}: not all tests were run: {panic}")
        return read_outcomes(output)

    def _go(self, directory: Path, arguments: list[str]) -> None:
        folder, output = directory / "source" / "kafka", directory / "output.txt"
        run_in_group(["go", *arguments], folder, {}, output, self.limit_s)
