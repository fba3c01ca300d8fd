"""What a user installs: a wheel that is whole, and that works alone, from any folder.

The frames are made by hand with the standard library, so that nothing but the wheel is needed.
"""

import configparser
import email
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "kafka_offsets"
NOT_IN_SOURCES = {".git", ".github"}
"""What the source distribution does not have."""
FOUND_BY_SPARK = "pyspark_kafka_offsets"
HEAVY = (
    "numpy",
    "pyarrow",
    "pyspark",
    "fsspec",
    "kazoo",
    "pytest",
    "hypothesis",
    "kafka",
    "aiokafka",
    "confluent_kafka",
)

pytestmark = pytest.mark.slow


def run(*words: str | Path, cwd: Path) -> str:
    """Run a command that must succeed; return what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, f"{words}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def files_of_the_project() -> list[str]:
    """Return the paths of all files: those that git knows, or those of an unpacked source distribution."""
    if (REPOSITORY / ".git").exists():
        listed = run(
            "git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=REPOSITORY
        ).splitlines()
        return [name for name in listed if (REPOSITORY / name).is_file()]
    made = {"PKG-INFO", "build", "dist"}
    return [
        path.relative_to(REPOSITORY).as_posix()
        for path in REPOSITORY.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not {path.relative_to(REPOSITORY).parts[0], path.suffix} & {*made, ".egg-info"}
        and not path.relative_to(REPOSITORY).parts[0].endswith((".egg-info", "_cache", ".hypothesis"))
    ]


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built from a copy of the project so that none of its leftovers stand in the checkout."""
    folder = tmp_path_factory.mktemp("sources")
    for name in files_of_the_project():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, target)
    run(sys.executable, "-c", "import setuptools.build_meta as b; b.build_sdist('dist')", cwd=folder)
    (built,) = (folder / "dist").glob("kafka_offsets-*.tar.gz")
    return built


@pytest.fixture(scope="session")
def unpacked(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sources) as archive:
        if hasattr(tarfile, "data_filter"):  # not in the first releases of Python 3.11
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)
    (top,) = folder.iterdir()
    return top


@pytest.fixture(scope="session")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", ".", sources,
        cwd=folder,
    )  # fmt: skip
    (built,) = folder.glob("kafka_offsets-*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that holds the wheel and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=folder)
    run(
        sys.executable, "-m", "pip", "--python", "venv/bin/python", "install", "--quiet", str(wheel),
        cwd=folder,
    )  # fmt: skip
    return folder / "venv" / "bin"


def test_setup_cfg_names_every_package() -> None:
    settings = configparser.ConfigParser()
    settings.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    named = set(settings["options"]["packages"].split())
    folders = {path.parent.relative_to(REPOSITORY).as_posix() for path in PACKAGE.rglob("__init__.py")}
    assert named == {folder.replace("/", ".") for folder in folders} | {
        "kafka_offsets.schemas",
        FOUND_BY_SPARK,
    }


def test_the_source_distribution_holds_every_file_that_its_tests_need(sources: Path) -> None:
    expected = {name for name in files_of_the_project() if name.partition("/")[0] not in NOT_IN_SOURCES}
    with tarfile.open(sources) as archive:
        found = {each.name.partition("/")[2] for each in archive if each.isfile()}
    assert found - {"PKG-INFO"} - {name for name in found if ".egg-info/" in name} == expected


def test_tests_of_the_source_distribution_run(unpacked: Path) -> None:
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/test_layering.py",
        "tests/coordinator/classic/test_join.py",
    ]
    assert " passed" in run(sys.executable, "-m", "pytest", *words, cwd=unpacked)


def test_the_package_index_can_show_the_readme(sources: Path, wheel: Path) -> None:
    checked = run(sys.executable, "-m", "twine", "check", "--strict", sources, wheel, cwd=wheel.parent)
    assert checked.count("PASSED") == 2, checked


def test_the_metadata_have_no_address_and_every_python_that_is_tested(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Home-page"] is None and metadata["Project-URL"] is None, "nobody has published one"
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(metadata.get_all("Classifier", [])))
    sessions = (REPOSITORY / "noxfile.py").read_text(encoding="utf-8")
    assert pythons == re.findall(r'"(3\.\d+)"', sessions.partition("PYTHONS = ")[2].partition("]")[0])


def test_one_file_serves_over_http_without_an_installation(wheel: Path, tmp_path: Path) -> None:
    """With none of the packages of this Python, and no variable of it: -I and -S."""
    one_file = tmp_path / "kafka-offsets.pyz"
    run(sys.executable, REPOSITORY / ".ci/one_file.py", wheel, one_file, cwd=tmp_path)
    command = [sys.executable, "-I", "-S", one_file]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    for _ in range(2):  # the first start unpacks it
        with subprocess.Popen(
            [*command, "serve", "--port", "0", "--http", "0", "--with-parent", "stdin"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as server:
            assert server.stdin is not None and server.stderr is not None
            url = next(line for line in server.stderr if line.startswith("HTTP on "))[len("HTTP on ") : -2]
            with urllib.request.urlopen(f"{url}/brokers") as answer:
                assert json.load(answer)[0]["broker"] == "main"
            server.stdin.close()
            assert server.wait(60) == 0, server.stderr.read()
        (unpacked,) = (tmp_path / "cache" / "kafka-offsets").iterdir()
        assert (unpacked / "kafka_offsets").is_dir()


def test_the_workflows_run_each_session_of_nox() -> None:
    text = (REPOSITORY / "noxfile.py").read_text(encoding="utf-8")
    pythons = re.findall(r'"(3\.\d+)"', text.partition("PYTHONS = ")[2].partition("]")[0])
    sessions = {f"tests-{python}" for python in pythons} | set(
        re.findall(r"^def (\w+)\(session", text, re.MULTILINE)
    )
    folder = REPOSITORY / ".github" / "workflows"
    if not folder.exists():
        pytest.skip("a source distribution has no workflows")
    workflows = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    named = set(re.findall(r"(?:session: |nox -s )([\w.-]+)", workflows))
    assert named == sessions - {"tests", f"tests-{pythons[0]}"}  # `make test` is that of the first Python


def test_the_wheel_holds_the_package_its_schemas_and_its_types_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("/LICENSE")]
    code = {
        path.relative_to(REPOSITORY).as_posix()
        for path in PACKAGE.rglob("*.py*")
        if path.suffix in (".py", ".pyi")
    }
    data = ("page.css", "http/page.html", "spark/log4j2.properties", "spark/report.html")
    code.update(f"kafka_offsets/{name}" for name in data)
    schemas = {f"kafka_offsets/schemas/{path.name}" for path in (REPOSITORY / "schemas").glob("*.schema")}
    assert schemas
    assert "kafka_offsets/protocol/messages.pyi" in code
    for_spark = {f"{FOUND_BY_SPARK}/{name}.py" for name in ("__init__", "submit")}
    assert names == code | schemas | for_spark | {"kafka_offsets/py.typed"}
    assert licences


def test_an_installed_package_brings_nothing_that_only_extras_need(installed: Path, tmp_path: Path) -> None:
    source = f"import importlib.util as u; print([n for n in {HEAVY} if u.find_spec(n)])"
    assert run(installed / "python", "-c", source, cwd=tmp_path).strip() == "[]"


def test_the_installed_program_says_its_version(wheel: Path, installed: Path, tmp_path: Path) -> None:
    version = wheel.name.split("-")[1]
    assert run(installed / "kafka-offsets", "--version", cwd=tmp_path) == f"kafka-offsets {version}\n"
    program = "import kafka_offsets; print(kafka_offsets.__version__)"
    assert run(installed / "python", "-c", program, cwd=tmp_path) == f"{version}\n"


class Connection:
    """A socket, and Kafka's frames by hand."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=10)

    def close(self) -> None:
        self._socket.close()

    def ask(self, api_key: int, api_version: int, body: bytes) -> bytes:
        """Send a request with header version 1; return the body of the answer."""
        frame = struct.pack(">hhi", api_key, api_version, 7) + text("packaging") + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._exactly(4))
        answer = self._exactly(size)
        assert struct.unpack_from(">i", answer) == (7,)
        return answer[4:]

    def _exactly(self, size: int) -> bytes:
        received = self._socket.recv(size, socket.MSG_WAITALL)
        assert len(received) == size, "the broker closed the connection"
        return received


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def one(element: bytes) -> bytes:
    return struct.pack(">i", 1) + element


@pytest.fixture
def serving(installed: Path, tmp_path: Path) -> Iterator[str]:
    """The address of an installed broker that runs in a folder of its own."""
    words = [str(installed / "kafka-offsets"), "serve", "--port", "0", "--data-dir", "data"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stderr is not None
    log: list[str] = []
    address = ""
    for line in process.stderr:
        log.append(line)
        if found := re.search(r"listening on (\S+)", line):
            address = found[1]
            break
    try:
        assert address, "".join(log)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        log.append(process.communicate()[1])
        assert process.returncode == 0, "".join(log)


def test_an_installed_broker_keeps_a_commit_and_inspect_explains_it(
    serving: str, installed: Path, tmp_path: Path
) -> None:
    connection = Connection(serving)
    try:
        create = one(text("orders") + struct.pack(">ihii", 1, 1, 0, 0)) + struct.pack(">ib", 5000, 0)
        assert connection.ask(19, 2, create) == struct.pack(">i", 0) + one(
            text("orders") + struct.pack(">hh", 0, -1)
        )
        assert connection.ask(10, 0, text("billing"))[:2] == b"\0\0"
        partition = one(struct.pack(">iq", 0, 42) + text("note"))
        commit = text("billing") + struct.pack(">i", -1) + text("") + struct.pack(">q", -1)
        answer = connection.ask(8, 2, commit + one(text("orders") + partition))
        assert answer == one(text("orders") + one(struct.pack(">ih", 0, 0)))
        answer = connection.ask(9, 1, text("billing") + one(text("orders") + one(struct.pack(">i", 0))))
        fetched = struct.pack(">iq", 0, 42) + text("note") + struct.pack(">h", 0)
        assert answer == one(text("orders") + one(fetched))
    finally:
        connection.close()
    (segment,) = (path for path in tmp_path.glob("data/__consumer_offsets-*/*.log") if path.stat().st_size)
    explained = run(installed / "kafka-offsets", "inspect", segment, cwd=tmp_path)
    assert "billing" in explained
    assert "orders" in explained
