"""The command by which a message says how an extra is installed works for where this package came from."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import installation
from kafka_offsets.installation import install_command
from tests.conftest import REPOSITORY

GIT = {"url": "https://git.example/kafka-offsets.git", "vcs_info": {"vcs": "git", "commit_id": "f00d"}}


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, '"kafka-offsets[http]"'),
        ({"url": "file:///home/a%20b/clone", "dir_info": {}}, '"/home/a b/clone[http]"'),
        ({"url": "file:///clone", "dir_info": {"editable": True}}, '--editable "/clone[http]"'),
        (
            GIT | {"url": "file:///srv/kafka-offsets.git"},
            '"kafka-offsets[http] @ git+file://localhost/srv/kafka-offsets.git@f00d"',
        ),
        (GIT, '"kafka-offsets[http] @ git+https://git.example/kafka-offsets.git@f00d"'),
        (
            GIT | {"vcs_info": GIT["vcs_info"] | {"requested_revision": "main"}, "subdirectory": "a/b"},
            '"kafka-offsets[http] @ git+https://git.example/kafka-offsets.git@main#subdirectory=a/b"',
        ),
        (
            {"url": "file:///wheels/kafka_offsets-0.1.0-py3-none-any.whl", "archive_info": {}},
            '"kafka-offsets[http] @ file:///wheels/kafka_offsets-0.1.0-py3-none-any.whl"',
        ),
    ],
)
def test_an_extra_comes_from_where_the_package_came_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: Any, command: str
) -> None:
    installed(monkeypatch, tmp_path, "kafka-offsets")
    if origin is not None:
        (tmp_path / "kafka_offsets-0.1.0.dist-info" / "direct_url.json").write_text(json.dumps(origin))
    assert install_command("http") == f"pip install {command}"


@pytest.mark.parametrize(
    "told",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '{"dir_info": {}}',
        '{"url": "https://h/x.git", "vcs_info": {"vcs": "git"}}',
    ],
)
def test_an_origin_that_is_not_readable_is_that_of_an_index(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str
) -> None:
    """It raised in place of the message that a package is missing."""
    installed(monkeypatch, tmp_path, "kafka-offsets")
    (tmp_path / "kafka_offsets-0.1.0.dist-info" / "direct_url.json").write_text(told)
    assert install_command("http") == 'pip install "kafka-offsets[http]"'


def installed(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str) -> None:
    """Let only the distributions of a folder be found: one of this name."""
    info = folder / "kafka_offsets-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    monkeypatch.setattr("sys.path", [str(folder)])


def test_what_is_imported_from_a_source_tree_is_installed_from_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert install_command("http") == f'pip install "{REPOSITORY}[http]"'


def test_every_extra_that_a_message_names_exists() -> None:
    import configparser
    import re

    parsed = configparser.ConfigParser()
    parsed.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    package = Path(installation.__file__).parent
    sources = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    named = {
        name for text in sources.values() for name in re.findall(r"install_command\([\"'](\w+)[\"']\)", text)
    }
    assert named == {"fast", "http", "prometheus", "security", "spark", "zookeeper"}
    assert named <= {*parsed["options.extras_require"]}
    other = [str(path) for path, text in sources.items() if re.search(r"pip install [\"'\\]*\.", text)]
    assert other == [], "a command that works in a clone alone"
