"""The tests of FastStream and aiokafka, of which only their repositories have them: clones, with the releases."""

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from tests.suites.outcomes import Outcomes
from tests.suites.pytest_suite import make_environment, run_pytest
from tests.suites.suite import SuiteError

PORTS = {"faststream": 21153, "aiokafka": 21155}


def settings_at(port: int) -> dict[str, str]:
    """Return what a broker at this port is configured with."""
    return {"node.id": "1", "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}


def clone(address: str, tag: str, directory: Path) -> Path:
    """Return a clone of what has this tag, in `source`."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    source = directory / "source"
    command = ["git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1", "--branch", tag]
    subprocess.run([*command, address, str(source)], check=True)
    return source


def edit(file: Path, before: str, after: str) -> None:
    """Replace a text of a file. Raises SuiteError when it is not there: the tests would look for another broker."""
    text = file.read_text(encoding="utf-8")
    if before not in text:
        raise SuiteError(f"{file} has no {before}")
    file.write_text(text.replace(before, after), encoding="utf-8")


MISCONFIGURE = "tests/brokers/kafka/test_misconfigure.py"
ALL_BROKERS = "imports the clients of all brokers that FastStream knows, such as RabbitMQ's"


class FastStream:
    """FastStream's tests of its Kafka broker, with aiokafka below it, as its own CI chooses them."""

    name = "faststream"
    version = "0.7.4"
    registry = "its repository"
    port = PORTS["faststream"]
    settings: Mapping[str, str] = MappingProxyType(settings_at(port))
    adapted = (
        f"The address of the broker is `localhost:{port}`, in the tests and as the default of `KafkaBroker`. The "
        "tests with the marks `kafka` and `connected` are run."
    )
    not_run: Mapping[str, str] = MappingProxyType({MISCONFIGURE: ALL_BROKERS})
    limit_s = 1500
    needs = (
        "faststream[kafka,otel,cli,prometheus]==0.7.4",
        *("aiokafka==0.14.0", "dirty-equals", "fastapi", "freezegun", "httpx", "msgspec", "psutil"),
        *("pydantic-settings", "pytest==9.0.3", "pytest-asyncio==1.3.0", "pytest-rerunfailures"),
        *("pytest-timeout", "PyYAML"),
    )
    folders = ("tests/brokers/kafka", "tests/opentelemetry/kafka", "tests/prometheus/kafka")

    def prepare(self, directory: Path) -> None:
        """Clone the repository, and give its tests the address of the broker."""
        if (directory / "complete").exists():
            return
        source = clone("https://github.com/ag2ai/faststream.git", self.version, directory)
        address = f"localhost:{self.port}"
        for file in ("broker/broker.py", "fastapi/fastapi.py"):
            edit(source / "faststream/kafka" / file, '"localhost"', f'"{address}"')
        for name in ("settings.py", "test_consumer_only.py"):
            edit(source / "tests/brokers/kafka" / name, "localhost:9092", address)
        admin = "AIOKafkaAdminClient("
        edit(
            source / "tests/brokers/kafka/test_consume.py",
            f"{admin})",
            f'{admin}bootstrap_servers="{address}")',
        )
        make_environment(directory, self.needs)
        (directory / "complete").touch()

    def execute(self, directory: Path, names: Iterable[str] | None) -> Outcomes:
        """Run pytest in its environment."""
        words = ["-m", "kafka and connected", f"--ignore={MISCONFIGURE}"]
        words += self.folders if names is None else names
        return run_pytest(directory, directory / "source", words, {}, self.limit_s)


FIXTURES = f"""

# The broker is there already, and no Docker.
@pytest.fixture(scope="session")
def docker():
    return None


@pytest.fixture(scope="session")
def ssl_folder():
    return None


@pytest.fixture(scope="session")
def kafka_server():
    return KafkaServer("127.0.0.1", {PORTS["aiokafka"]}, 0, 0, 0, None)


@pytest.fixture(scope="class")
def acl_manager():
    return None


@pytest.fixture(scope="class")
def kafka_config():
    return None


@pytest.fixture(scope="class")
def kerberos_utils():
    return None
"""
TLS = "needs the certificates and the listener of the project's own Docker image"
CONTAINER = "needs Kerberos and Kafka's scripts inside of the project's own Docker image"


class Aiokafka:
    """aiokafka's tests that need a broker."""

    name = "aiokafka"
    version = "v0.14.0"
    registry = "its repository"
    port = PORTS["aiokafka"]
    settings: Mapping[str, str] = MappingProxyType(
        settings_at(port) | {"node.id": "0", "num.partitions": "2"}
    )
    adapted = (
        "Fixtures at the end of `conftest.py` give the address of the broker, in place of those that start Docker. "
        "`--docker-image=kafka:4.3.1` says the version."
    )
    not_run: Mapping[str, str] = MappingProxyType({"tests/test_sasl.py": CONTAINER, "-m ssl": TLS})
    limit_s = 1500
    needs = (
        *("aiokafka==0.14.0", "async-timeout", "cramjam", "docker==7.1.0", "pytest==9.0.2"),
        *("pytest-asyncio==1.3.0", "pytest-mock==3.15.1", "pytest-timeout"),
    )
    files = tuple(
        f"tests/test_{name}.py"
        for name in (
            *(
                "admin",
                "client",
                "conn",
                "consumer",
                "coordinator",
                "fetcher",
                "message_accumulator",
                "pep492",
            ),
            *("producer", "sender", "transactional_consumer", "transactional_producer"),
        )
    )

    def prepare(self, directory: Path) -> None:
        """Clone the repository, and have its tests import the release, which is compiled."""
        if (directory / "complete").exists():
            return
        source = clone("https://github.com/aio-libs/aiokafka.git", self.version, directory)
        shutil.rmtree(source / "aiokafka")
        with (source / "tests" / "conftest.py").open("a", encoding="utf-8") as file:
            file.write(FIXTURES)
        make_environment(directory, self.needs)
        (directory / "complete").touch()

    def execute(self, directory: Path, names: Iterable[str] | None) -> Outcomes:
        """Run pytest in its environment."""
        words = ["--docker-image=kafka:4.3.1", "-m", "not ssl"]
        words += self.files if names is None else names
        return run_pytest(directory, directory / "source", words, {}, self.limit_s)
