"""Which broker a command asks where no option names one: that of the environment, or of the context."""

import pwd
from pathlib import Path
from typing import NoReturn

import pytest

from kafka_offsets import Broker, cli


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without a context."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    return tmp_path


def context(home: Path, text: str) -> Path:
    file = home / ".config" / "kafka-offsets" / "client.properties"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def test_the_environment_and_the_context_name_a_broker(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["groups", "list"]) == cli.CANNOT
    assert "the variable KAFKA_BOOTSTRAP_SERVERS" in capsys.readouterr().err
    with Broker() as broker, Broker() as other:
        broker.create_topic("orders")
        other.create_topic("orders")
        broker.commit("first", {("orders", 0): 0})
        other.commit("second", {("orders", 0): 0})
        context(home, f"bootstrap.servers={broker.bootstrap_servers}\n")
        assert cli.main(["groups", "list"]) == 0
        assert "first" in capsys.readouterr().out
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", other.bootstrap_servers)
        assert cli.main(["groups", "list"]) == 0
        assert "second" in capsys.readouterr().out
        assert cli.main(["groups", "list", "-b", broker.bootstrap_servers]) == 0
        assert "first" in capsys.readouterr().out


def test_a_password_of_the_context_is_for_its_own_brokers(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = context(home, "bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_PLAINTEXT\nno.such.key=1\n")
    with Broker() as broker:
        assert cli.main(["groups", "list", "-b", broker.bootstrap_servers]) == 0
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        assert cli.main(["groups", "list"]) == 0
    assert "no.such.key" not in capsys.readouterr().err
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "nonsense")
    assert cli.main(["groups", "list"]) == cli.CANNOT
    assert "nonsense" in capsys.readouterr().err
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS")
    assert cli.main(["groups", "list"]) == cli.CANNOT
    assert capsys.readouterr().err.startswith(f"kafka-offsets: {file}: "), "the file is named"


def test_a_user_without_a_home_directory_has_no_context(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a container that runs with any number of a user: it was a traceback."""

    def unknown(number: int) -> NoReturn:
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert cli.main(["groups", "list"]) == cli.CANNOT
    assert capsys.readouterr().err.startswith("kafka-offsets: name a broker, ")
