"""The integration tests of kafka-python, which its source distribution holds."""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.suites.outcomes import Outcomes
from tests.suites.pytest_suite import PIP, make_environment, run_pytest
from tests.suites.targets import AUTHORIZER

SERVICE = '''\
"""Replaces the module that starts brokers, which is not in the source distribution: the broker is there already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def stop(self):
        pass


class SpawnedService:
    pass
'''
NEEDS = (
    "pytest",
    "py",
    "pytest-timeout",
    "pytest-mock",
    "crc32c",
    "lz4",
    "cramjam",
    "python-snappy",
    "zstandard",
)
TLS = "starts its own Kafka with TLS, whichever broker is given"
SSL_TESTS = "test/integration/test_ssl_integration.py"
PORT = 21852
SETTINGS = AUTHORIZER | {
    "node.id": "0",
    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{PORT}",
    "num.partitions": "4",
    "offsets.topic.num.partitions": "2",
    "group.min.session.timeout.ms": "1000",
}
"""The keys that the project's own brokers get, as far as they matter to clients."""

NOT_RUN = {SSL_TESTS: TLS}


class KafkaPython:
    """kafka-python's test/integration."""

    name = "kafka-python"
    version = "3.0.12"
    registry = "PyPI"
    port = PORT
    settings = SETTINGS
    adapted = (
        "The source distribution lacks `test/__init__.py` and `test/service.py`, which starts brokers. Both are added; "
        "this `service.py` starts nothing. `KAFKA_URI` gives the broker's address, `KAFKA_VERSION=4.3` its version."
    )
    not_run = NOT_RUN
    limit_s = 900

    def prepare(self, directory: Path) -> None:
        """Download the source distribution, add what it lacks, and make an environment."""
        source = directory / f"kafka_python-{self.version}"
        if (directory / "complete").exists():
            return
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        wanted = f"kafka-python=={self.version}"
        download = [
            *(sys.executable, *PIP),
            "download",
            "--no-deps",
            "--no-binary",
            "kafka-python",
            "--dest",
            str(directory),
            wanted,
        ]
        subprocess.run(download, check=True)
        shutil.unpack_archive(f"{source}.tar.gz", directory, filter="data")
        (source / "test" / "__init__.py").touch()
        (source / "test" / "service.py").write_text(SERVICE, encoding="utf-8")
        (directory / "no-kafka").mkdir()
        make_environment(directory, NEEDS)
        (directory / "complete").touch()

    def execute(self, directory: Path, names: Iterable[str] | None) -> Outcomes:
        """Run pytest in its environment."""
        source = directory / f"kafka_python-{self.version}"
        env = {
            "KAFKA_ROOT": str(directory / "no-kafka"),
            "KAFKA_URI": f"kafka://127.0.0.1:{self.port}",
            "KAFKA_VERSION": "4.3",
        }
        words = ["test/integration", *(f"--deselect={name}" for name in self.not_run)]
        return run_pytest(directory, source, words if names is None else names, env, self.limit_s)
