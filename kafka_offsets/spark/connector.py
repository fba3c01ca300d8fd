"""Spark's Kafka connector, which is not part of PySpark: which one goes with a PySpark, and how a session gets it."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from kafka_offsets.errors import ConfigError

JARS_VARIABLE = "KAFKA_OFFSETS_SPARK_JARS"
"""Environment variable with the folder that contains the jars of Spark's Kafka connector."""

PACKAGES, EXCLUDES, JARS = "spark.jars.packages", "spark.jars.excludes", "spark.jars"

_NAME = "spark-sql-kafka-0-10_"
_JAR = re.compile(rf"{_NAME}(\d+\.\d+)-(\d+)\.(\d+)[^/]*\.jar")


class Connector(NamedTuple):
    """Versions of the connector and of what it needs beside PySpark."""

    scala: str
    spark: str
    tokens: str
    clients: str
    pool: str

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Maven coordinates."""
        return (
            f"org.apache.spark:{_NAME}{self.scala}:{self.spark}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_{self.scala}:{self.tokens}",
            f"org.apache.kafka:kafka-clients:{self.clients}",
            f"org.apache.commons:commons-pool2:{self.pool}",
        )


# Named one by one: the connector and its token provider are not always published together.
CONNECTORS = {
    (3, 5): Connector("2.12", "3.5.7", "3.5.7", "3.4.1", "2.11.1"),
    (4, 0): Connector("2.13", "4.0.1", "4.0.0", "3.9.0", "2.12.0"),
    (4, 1): Connector("2.13", "4.1.0", "4.0.0", "3.9.1", "2.12.1"),
    (4, 2): Connector("2.13", "4.2.0", "4.0.0", "3.9.2", "2.13.1"),
}
"""By the first two numbers of PySpark's version; the last serves later ones of Spark 4. docs/spark.md explains them."""


def row(version: str) -> tuple[int, int]:
    """Return the row of CONNECTORS for a version of PySpark; ConfigError for one that none serves."""
    match = re.match(r"(\d+)\.(\d+)", version)
    numbers = (int(match[1]), int(match[2])) if match else (0, 0)
    last = max(CONNECTORS)
    if numbers in CONNECTORS:
        return numbers
    if numbers[0] == last[0] and numbers > last:
        return last
    raise ConfigError(f"PySpark {version} is not served: install PySpark 3.5, or 4.0 or later of Spark 4")


def with_connector(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings of a session with those that give it the connector; lists of jars and packages are joined.

    The jars are those in the folder that KAFKA_OFFSETS_SPARK_JARS names. Without the variable Spark downloads them
    from Maven Central at its start, and keeps them. A connector among the settings' own jars and packages is used
    instead. ConfigError if PySpark is not served, and for a folder without a connector or with that of another Spark.
    """
    from pyspark import __version__ as version

    connector_version = row(version)
    if any(_NAME in settings.get(name, "") for name in (JARS, PACKAGES)):
        return dict(settings)
    folder = os.environ.get(JARS_VARIABLE)
    if folder:
        return {**settings, JARS: _joined(settings.get(JARS), *map(str, _jars(Path(folder), version)))}
    packages = _joined(settings.get(PACKAGES), *CONNECTORS[connector_version].coordinates)
    # They are in PySpark already: 60 MB.
    excludes = _joined(settings.get(EXCLUDES), "org.apache.hadoop:hadoop-client-runtime")
    return {**settings, PACKAGES: packages, EXCLUDES: excludes}


def _joined(setting: str | None, *more: str) -> str:
    """Return a list of Spark's, separated by commas, with more in it."""
    entries = [entry.strip() for entry in (setting or "").split(",") if entry.strip()]
    return ",".join(dict.fromkeys([*entries, *more]))


def _jars(folder: Path, version: str) -> list[Path]:
    """Return the jars in a folder; ConfigError unless the connector among them goes with this PySpark."""
    jars = sorted(folder.glob("*.jar"))
    jar_found = next((jar for jar in jars if _NAME in jar.name), None)
    connector = CONNECTORS[row(version)]
    needed = f"PySpark {version} needs {connector.coordinates[0]}"
    if jar_found is None:
        raise ConfigError(f"{JARS_VARIABLE}={folder} has no {_NAME}*.jar: {needed}")
    name = _JAR.fullmatch(jar_found.name)
    if name is not None and (name[1] != connector.scala or row(f"{name[2]}.{name[3]}") != row(version)):
        raise ConfigError(f"{JARS_VARIABLE}={folder} has {jar_found.name}, of another Spark: {needed}")
    return jars


def start_advice(settings: Mapping[str, str]) -> str:
    """Say what to do when the JVM of a session with these settings has ended before it answered."""
    if not settings.get(PACKAGES):
        return "Its message is above. Spark 4 needs Java 17, Spark 3.5 Java 8, 11 or 17."
    return (
        "Its message is above. If that is about unresolved dependencies, Maven Central cannot be reached from here: "
        f"download {settings[PACKAGES].replace(',', ', ')} elsewhere into a folder, and name it in the environment "
        f"variable {JARS_VARIABLE}; docs/spark.md has the command."
    )


def kafka_options(
    bootstrap_servers: str,
    *,
    user: str | None = None,
    password: str = "",
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-256",
    ca_pem: str | None = None,
    certificate_pem: str | None = None,
    key_pem: str | None = None,
) -> dict[str, str]:
    """Return the options of Spark's Kafka source and sink for a broker with SASL, TLS or both.

    user, password, mechanism  with which the client authenticates; without a user there is no SASL
    ca_pem                     the certificate of the authority that has signed the broker's; without it there is no TLS
    certificate_pem, key_pem   of the client, for a broker that requires them
    ValueError for a certificate without a key or an authority.
    """
    if (certificate_pem is None) != (key_pem is None) or (certificate_pem is not None and ca_pem is None):
        raise ValueError("a client's certificate needs certificate_pem, key_pem and ca_pem")
    protocol = ("" if user is None else "SASL_") + ("PLAINTEXT" if ca_pem is None else "SSL")
    properties = {"bootstrap.servers": bootstrap_servers, "security.protocol": protocol}
    if ca_pem is not None:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca_pem}
    if certificate_pem is not None and key_pem is not None:
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": certificate_pem}
        properties["ssl.keystore.key"] = key_pem
    if user is not None:
        kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        properties["sasl.mechanism"] = mechanism
        properties["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{kind}LoginModule required "
            f"username={_quoted(user)} password={_quoted(password)};"
        )
    return {f"kafka.{name}": value for name, value in properties.items()}


def _quoted(text: str) -> str:
    """Return a text as a value in Kafka's form of JAAS."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
