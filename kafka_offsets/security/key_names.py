"""Names of client properties in other clients, as Kafka's keys: those of librdkafka, kafka-python and aiokafka.

    sasl.username, sasl.password         sasl.jaas.config
    ssl.ca.location, ssl.ca.pem          a truststore of PEM
    ssl.certificate.*, ssl.key.*         a keystore of PEM: the certificates and the key

Source: the list of configuration properties of librdkafka 2.
"""

from collections.abc import Mapping, MutableMapping
from pathlib import Path

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.credential import Secret
from kafka_offsets.texts import TextError, read_text

_USER, _PASSWORD, _JAAS = "sasl.username", "sasl.password", "sasl.jaas.config"
_CLIENT = "sasl.oauthbearer.client.credentials.client"
_NAMES = {
    "metadata.broker.list": "bootstrap.servers",
    "bootstrap_servers": "bootstrap.servers",
    "socket.timeout.ms": "request.timeout.ms",
    "request_timeout_ms": "request.timeout.ms",
    "group_id": "group.id",
    "auto_offset_reset": "auto.offset.reset",
    "security_protocol": "security.protocol",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": _USER,
    "sasl_plain_password": _PASSWORD,
    "sasl.oauthbearer.client.id": f"{_CLIENT}.id",
    "sasl.oauthbearer.client.secret": f"{_CLIENT}.secret",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
}
_WITHOUT_MEANING = {
    "enable.ssl.certificate.verification": ("true",),
    "ssl_check_hostname": ("true",),
    "sasl.oauthbearer.method": ("default", "oidc"),
    "ssl.ca.location": ("probe",),
    "enable.sasl.oauthbearer.unsecure.jwt": ("false",),
}
"""Keys with the values that say what is so anyway."""

_INSTEAD = {
    "enable.ssl.certificate.verification": (
        "certificates are always checked: name the authority with ssl.truststore.location or ssl.ca.location"
    ),
    "ssl_check_hostname": "write ssl.endpoint.identification.algorithm= with an empty value",
    "enable.sasl.oauthbearer.unsecure.jwt": (
        "write sasl.oauthbearer.token.endpoint.url=file:///PATH of a file with a token"
    ),
    "sasl.oauthbearer.method": "only oidc is known",
    "sasl.oauthbearer.config": (
        "write sasl.oauthbearer.token.endpoint.url=file:///PATH of a file with a token"
    ),
}


def renamed(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of one source by Kafka's names, where there is one.

    Raises ConfigError for two names of one key with two values.
    """
    renamed_properties: dict[str, str] = {}
    given_keys: dict[str, str] = {}
    for key, value in properties.items():
        name = _NAMES.get(key, key)
        if renamed_properties.setdefault(name, value) != value:
            raise ConfigError(f"{given_keys[name]} and {key} are the same and differ: leave one out")
        given_keys[name] = key
    return renamed_properties


def composed(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties in which the keys that Kafka's clients have not are made into theirs.

    Raises ConfigError, which shows no password, and names what to write instead of a key that has no such form.
    """
    composed_properties = dict(properties)
    for key, values in _WITHOUT_MEANING.items():
        if composed_properties.get(key, "").strip().lower() in values:
            del composed_properties[key]
    for key, instead in _INSTEAD.items():
        if key in composed_properties:
            raise ConfigError(f"{key} is not known here: {instead}")
    names = "ssl.endpoint.identification.algorithm"
    if composed_properties.get(names, "").strip().lower() == "none":
        composed_properties[names] = ""
    protocol = composed_properties.get("security.protocol", "").strip().upper()
    if protocol.startswith("SASL_"):
        _compose_login(composed_properties)
    if protocol.endswith("SSL"):
        _compose_store(composed_properties, "truststore", ("certificates", "ssl.ca"))
        _compose_store(
            composed_properties, "keystore", ("certificate.chain", "ssl.certificate"), ("key", "ssl.key")
        )
    return composed_properties


def _compose_login(properties: MutableMapping[str, str]) -> None:
    given_keys = [key for key in (_USER, _PASSWORD) if key in properties]
    if not given_keys:
        return
    if _JAAS in properties:
        raise ConfigError(f"{_JAAS} and {given_keys[0]} say the same: leave one out")
    if len(given_keys) == 1:
        raise ConfigError(f"{_USER} and {_PASSWORD} are needed, and there is only {given_keys[0]}")
    user, password = properties.pop(_USER), Secret(properties.pop(_PASSWORD))
    module = "plain.Plain" if properties.get("sasl.mechanism", "").strip() == "PLAIN" else "scram.Scram"
    properties[_JAAS] = (
        f"org.apache.kafka.common.security.{module}LoginModule required "
        f"username={_quoted(user)} password={_quoted(password.value)};"
    )


def _quoted(text: str) -> str:
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, escaped)
    return f'"{text}"'


def _compose_store(properties: MutableMapping[str, str], store: str, *parts: tuple[str, str]) -> None:
    """Make a store of PEM of texts or files: `parts` are the names of each part in the store, and of its keys."""
    given_parts = [
        (part, f"{key}.{form}")
        for part, key in parts
        for form in ("location", "pem")
        if f"{key}.{form}" in properties
    ]
    if not given_parts:
        return
    if f"ssl.{store}.location" in properties or any(f"ssl.{store}.{part}" in properties for part, _ in parts):
        raise ConfigError(f"ssl.{store}.… and {given_parts[0][1]} say the same: leave one out")
    if len(given_parts) != len(parts):
        needed_keys = " and ".join(f"{key}.location" for _, key in parts)
        raise ConfigError(
            f"{needed_keys} are needed, each once"
            if len(parts) > 1
            else f"{needed_keys} or its pem, not both"
        )
    for part, key in given_parts:
        text = properties.pop(key)
        if key.endswith(".location"):
            try:
                text = read_text(Path(text.strip()))
            except TextError as error:
                raise ConfigError(f"{key}: {error}") from error
        properties[f"ssl.{store}.{part}"] = text.replace("\\n", "\n")
    properties[f"ssl.{store}.type"] = "PEM"
