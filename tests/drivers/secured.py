"""Secured listeners for tests: the certificates of a broker, and the settings with which clients connect."""

from __future__ import annotations

from pathlib import Path

from kafka_offsets.testing import CertificateAuthority

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER, PASSWORD = "alice", "secret"


class Secured:
    """The certificates of a broker.

    folder   for the file
    trusted  the file with the certificate of the authority
    """

    def __init__(self, folder: Path) -> None:
        self._authority = CertificateAuthority()
        self.trusted = folder / "ca.pem"
        self._authority.write_certificate(self.trusted)

    def config(self, *protocols: str) -> dict[str, object]:
        """Return the configuration of a broker with a listener of each protocol."""
        listeners = ",".join(f"{name}://127.0.0.1:0" for name in protocols)
        return {"listeners": listeners} | self._authority.broker_config()

    def java(
        self,
        bootstrap: str,
        protocol: str,
        mechanism: str = "PLAIN",
        user: str = USER,
        password: str = PASSWORD,
    ) -> dict[str, str]:
        """Return Kafka's client properties."""
        found = {"bootstrap.servers": bootstrap, "security.protocol": protocol}
        if protocol.endswith("SSL"):
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.trusted)}
        if protocol.startswith("SASL"):
            kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
            quoted = password.replace("\\", "\\\\").replace('"', '\\"')
            found["sasl.mechanism"] = mechanism
            found["sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{kind}LoginModule required "
                f'username="{user}" password="{quoted}";'
            )
        return found

    def librdkafka(self, bootstrap: str, protocol: str, mechanism: str = "PLAIN") -> dict[str, str]:
        """Return the settings of librdkafka."""
        found = {"bootstrap.servers": bootstrap, "security.protocol": protocol}
        if protocol.endswith("SSL"):
            found["ssl.ca.location"] = str(self.trusted)
        if protocol.startswith("SASL"):
            found |= {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
        return found

    def kafka_python(self, bootstrap: str, protocol: str, mechanism: str = "PLAIN") -> dict[str, str]:
        """Return the settings of kafka-python, and of aiokafka but for `ssl_cafile`."""
        found = {"bootstrap_servers": bootstrap, "security_protocol": protocol}
        if protocol.endswith("SSL"):
            found["ssl_cafile"] = str(self.trusted)
        if protocol.startswith("SASL"):
            found |= {
                "sasl_mechanism": mechanism,
                "sasl_plain_username": USER,
                "sasl_plain_password": PASSWORD,
            }
        return found


def write_properties(path: Path, properties: dict[str, str]) -> str:
    """Write a file of properties; return its name."""
    lines = (f"{key}={value}\n".replace("\\", "\\\\") for key, value in properties.items())
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)
