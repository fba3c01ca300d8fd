"""The files of docs/ are read by what reads them: server.properties, client properties, a JAAS file."""

from pathlib import Path

import pytest

from kafka_offsets import Broker, cli
from kafka_offsets.broker.config.properties import read_properties
from kafka_offsets.client.settings import take_connection_settings
from kafka_offsets.testing import CertificateAuthority
from tests.documents import pages
from tests.documents.pages import BLOCKS, Block
from tests.drivers.secured import PASSWORD, USER

PROPERTIES = [block for block in BLOCKS if block.language == "properties" and not block.mark]
OF_CLIENTS = [block for block in PROPERTIES if "security.protocol=" in block.code]
OF_BROKERS = [block for block in PROPERTIES if block not in OF_CLIENTS]
LOGINS = [block for block in OF_CLIENTS if "sasl.jaas.config=" in block.code]

FOLDER = "/etc/kafka/"
"""Where the pages have their certificates."""


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    """The authority of the certificates in a folder of their own, for a broker at 127.0.0.1."""
    made = CertificateAuthority()
    made.write_certificate(tmp_path / "ca.pem")
    made.sign("localhost", hosts=("127.0.0.1",)).write_pem(tmp_path / "server.pem")
    return made


def written(block: Block, folder: Path) -> Path:
    """Write a file of a page, with certificates of the folder and any free ports."""
    text = block.code.replace(FOLDER, f"{folder}/")
    for port in ("9092", "9093", "9192"):
        text = text.replace(f":{port}", ":0")
    path = folder / "some.properties"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_pages_have_both_kinds() -> None:
    assert len(OF_BROKERS) >= 4 and len(LOGINS) >= 2 and len(OF_CLIENTS) > len(LOGINS)
    assert any("username='" in block.code for block in LOGINS)


@pytest.mark.parametrize("block", OF_BROKERS, ids=lambda block: block.place)
def test_a_broker_starts_with_each_file(
    block: Block, tmp_path: Path, authority: CertificateAuthority
) -> None:
    path = written(block, tmp_path)
    with Broker(properties_file=path) as broker:
        given = {each.key: each.value for each in read_properties(path)}
        names = [each.partition("://")[0] for each in given.get("listeners", "PLAINTEXT://").split(",")]
        assert [each.name for each in broker.config.endpoints()] == names


@pytest.mark.parametrize("block", LOGINS, ids=lambda block: block.place)
def test_a_client_logs_in_with_each_file(
    block: Block, tmp_path: Path, authority: CertificateAuthority, capsys: pytest.CaptureFixture[str]
) -> None:
    config = authority.broker_config() | {"listeners": "SASL_SSL://127.0.0.1:0"}
    with Broker(config, users={USER: PASSWORD}) as broker:
        broker.create_topic("orders")
        broker.commit("billing", {("orders", 0): 3})
        words = ["groups", "list", "--command-config", str(written(block, tmp_path))]
        assert cli.main([*words, "-b", broker.address_of("SASL_SSL")]) == 0
    said = capsys.readouterr()
    assert "billing" in said.out and not said.err


@pytest.mark.parametrize(
    "block", [block for block in OF_CLIENTS if block not in LOGINS], ids=lambda block: block.place
)
def test_what_needs_a_server_of_others_has_an_effect(block: Block, tmp_path: Path) -> None:
    given = {each.key: each.value for each in read_properties(written(block, tmp_path))}
    given["bootstrap.servers"] = "127.0.0.1:1"
    settings = take_connection_settings(given)
    assert settings.security.login is not None and not given


def test_the_jaas_file_of_the_page_has_the_users_of_a_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = (each for each in pages.blocks("security.md", "text") if "LoginModule" in each.code)
    file = tmp_path / "jaas.conf"
    file.write_text(block.code, encoding="utf-8")
    config = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "java.security.auth.login.config": str(file)}
    with Broker(config) as broker:
        words = ["groups", "list", "-b", broker.address_of("SASL_PLAINTEXT"), "-X", "sasl.mechanism=PLAIN"]
        words += ["-X", "security.protocol=SASL_PLAINTEXT"]
        for user, password, code in (
            ("alice", "secret", 0),
            ("bob", 'it\'s "another"', 0),
            ("bob", "secret", 1),
        ):
            assert (
                cli.main([*words, "-X", f"sasl.username={user}", "-X", f"sasl.password={password}"]) == code
            )
    assert "SASL_AUTHENTICATION_FAILED" in capsys.readouterr().err
