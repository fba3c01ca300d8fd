"""One broker for all clients of this folder.

KAFKA_OFFSETS_TEST_BOOTSTRAP=HOST:PORT names a broker that runs already; it needs SETTINGS of broker_process.
KAFKA_OFFSETS_TEST_SERVE names another command than ours to start brokers with.
"""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.names import Names

IN_CI = os.environ.get("CI") == "true"
JAVA = Path(__file__).parent / "java"
JARS = Path(os.environ.get("KAFKA_OFFSETS_JARS", Path.home() / ".cache" / "kafka-offsets" / "jars"))
GET_JARS = f"mvn -q -B -f {JAVA / 'pom.xml'} dependency:copy-dependencies -DoutputDirectory={JARS}"

_numbers = itertools.count(1)


def missing(what: str, install: str) -> None:
    """Skip for want of a tool on a developer's machine; fail where everything is expected to be installed."""
    message = f"{what} is missing; install it by: {install}"
    if IN_CI:
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of the broker under test."""
    running = os.environ.get("KAFKA_OFFSETS_TEST_BOOTSTRAP")
    if running:
        yield running
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("broker") / "data")
    yield broker.start()
    broker.stop()


@pytest.fixture
def names(request: pytest.FixtureRequest) -> Names:
    """Topic and group names nobody else uses, also against a broker that lives longer than the tests."""
    return Names(f"{request.node.name[:60]}-{os.getpid()}-{next(_numbers)}")


@pytest.fixture(scope="session")
def kcat() -> str:
    """The path of kcat."""
    path = shutil.which("kcat")
    if path is None:
        missing("kcat", "apt-get install -y kcat")
    assert path is not None
    return path


@pytest.fixture(scope="session")
def java_client(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command line that runs java/Client.java; compiled once."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        missing("a JDK", "apt-get install -y openjdk-17-jdk-headless")
    if not list(JARS.glob("kafka-clients-*.jar")):
        missing("kafka-clients.jar", GET_JARS)
    classes = tmp_path_factory.mktemp("classes")
    compile_command = ["javac", "-Werror", "-Xlint:all", "-proc:none", "-cp", f"{JARS}/*", "-d", str(classes)]
    subprocess.run([*compile_command, str(JAVA / "Client.java")], check=True, timeout=60)
    # A client's life here is a second or two: the JVM should not compile for the long run.
    flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m"]
    return ["java", *flags, "-cp", f"{classes}:{JARS}/*", "Client"]
