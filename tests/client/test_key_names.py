"""Client properties of librdkafka and of Python's clients, given to our commands."""

from pathlib import Path

import pytest

from kafka_offsets import Broker, cli
from kafka_offsets.errors import ConfigError
from kafka_offsets.security.jaas import jaas_options
from kafka_offsets.security.key_names import composed, renamed
from kafka_offsets.testing import CertificateAuthority
from tests.drivers.secured import PASSWORD, USER, Secured, write_properties

HARD = "a \"b\" 'c' \\d\n;"


def java(given: dict[str, str]) -> dict[str, str]:
    return composed(renamed(given))


@pytest.mark.parametrize(
    ("form", "protocol"), [("librdkafka", "SSL"), ("librdkafka", "SASL_SSL"), ("kafka_python", "SASL_SSL")]
)
def test_a_command_takes_the_settings_of_other_clients(
    form: str, protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secured = Secured(tmp_path)
    users = {USER: PASSWORD} if protocol == "SASL_SSL" else None
    with Broker(secured.config(protocol), users=users) as broker:
        broker.create_topic("orders")
        broker.commit("billing", {("orders", 0): 3})
        where = broker.address_of(protocol)
        if form == "librdkafka":
            given = secured.librdkafka(where, protocol) | {"security.protocol": protocol.lower()}
            if "sasl.mechanism" in given:
                given["sasl.mechanisms"] = given.pop("sasl.mechanism")
        else:
            given = secured.kafka_python(where, protocol)
        path = write_properties(tmp_path / "client", given)
        assert cli.main(["groups", "list", "--command-config", path]) == 0
        each = [word for key, value in given.items() for word in ("-X", f"{key}={value}")]
        assert cli.main(["consume", "orders", "-e", *each]) == 0
    printed = capsys.readouterr()
    assert "billing" in printed.out and printed.err == ""


@pytest.mark.parametrize("password", [HARD, "", "plain", "ä€"])
def test_a_password_is_what_was_written(password: str) -> None:
    found = java({"security.protocol": "SASL_SSL", "sasl.username": "u s", "sasl.password": password})
    assert jaas_options(found["sasl.jaas.config"]) == {"username": "u s", "password": password}


def test_a_certificate_and_its_key_in_two_files_are_a_keystore(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    signed = authority.sign("client")
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    key.write_bytes(b"\xef\xbb\xbf" + signed.key_pem().encode())
    certificate.write_text(signed.certificate_pem)
    config = authority.broker_config() | {"listeners": "SSL://127.0.0.1:0", "ssl.client.auth": "required"}
    with Broker(config) as broker:
        words = ["groups", "list", "-b", broker.bootstrap_servers, "-X", "security.protocol=ssl"]
        (tmp_path / "ca").write_text(authority.certificate_pem)
        words += ["-X", f"ssl.ca.location={tmp_path / 'ca'}", "-X", f"ssl.certificate.location={certificate}"]
        assert cli.main([*words, "-X", f"ssl.key.location={key}"]) == 0
        assert cli.main(words) == cli.CANNOT


def test_an_option_overrides_the_file_by_another_name_of_the_key(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    with Broker(secured.config("SASL_PLAINTEXT"), users={USER: PASSWORD}) as broker:
        given = secured.librdkafka(broker.address_of("SASL_PLAINTEXT"), "SASL_PLAINTEXT")
        path = write_properties(tmp_path / "file", given | {"sasl.mechanism": "GSSAPI"})
        words = ["groups", "list", "--command-config", path]
        assert cli.main(words) == cli.CANNOT
        assert cli.main([*words, "-X", "sasl.mechanisms=PLAIN"]) == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"sasl.mechanism": "PLAIN", "sasl.mechanisms": "OAUTHBEARER"},
            "sasl.mechanism and sasl.mechanisms are",
        ),
        (
            {"sasl.username": "a"},
            "sasl.username and sasl.password are needed, and there is only sasl.username",
        ),
        ({"sasl.password": "secret"}, "sasl.username and sasl.password are needed"),
        (
            {"sasl.jaas.config": "x", "sasl.username": "a", "sasl.password": "secret"},
            "sasl.jaas.config and sasl.username say the same: leave one out",
        ),
        ({"ssl.ca.location": "/no/such"}, "ssl.ca.location: /no/such: No such file or directory"),
        ({"ssl.ca.location": "/tmp"}, "ssl.ca.location: /tmp: Is a directory"),
        ({"ssl.ca.location": "/a", "ssl.ca.pem": "b"}, "ssl.ca.location or its pem, not both"),
        ({"ssl.certificate.pem": "a"}, "ssl.certificate.location and ssl.key.location are needed, each once"),
        ({"ssl.ca.pem": "a", "ssl.truststore.location": "b"}, "ssl.truststore.… and ssl.ca.pem say the same"),
        ({"enable.ssl.certificate.verification": "false"}, "certificates are always checked"),
        ({"ssl_check_hostname": "false"}, "write ssl.endpoint.identification.algorithm= with an empty value"),
        (
            {"sasl.oauthbearer.config": "principal=x"},
            "write sasl.oauthbearer.token.endpoint.url=file:///PATH",
        ),
    ],
)
def test_what_cannot_be_meant_is_named_with_what_to_write(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        java({"security.protocol": "sasl_ssl"} | given)
    assert said in str(caught.value) and "secret" not in str(caught.value)


def test_keys_of_librdkafka_that_say_what_is_so_anyway_are_taken() -> None:
    given = {
        "enable.ssl.certificate.verification": "true",
        "ssl.ca.location": "probe",
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "socket.timeout.ms": "5",
    }
    assert java(given) == {
        "ssl.endpoint.identification.algorithm": "",
        "sasl.oauthbearer.client.credentials.client.id": "me",
        "request.timeout.ms": "5",
    }
