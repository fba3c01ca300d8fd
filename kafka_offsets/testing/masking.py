"""Masking: frames without passwords and tokens, for requests that are recorded."""

import re
from typing import Any

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages

_SECRETS = {
    "SaslAuthenticateRequest": ((), "auth_bytes"),
    "AlterUserScramCredentialsRequest": (("upsertions",), "salted_password"),
    "RenewDelegationTokenRequest": ((), "hmac"),
    "ExpireDelegationTokenRequest": ((), "hmac"),
    "CreateDelegationTokenResponse": ((), "hmac"),
    "DescribeDelegationTokenResponse": (("tokens",), "hmac"),
    "AlterConfigsRequest": (("resources", "configs"), "value"),
    "IncrementalAlterConfigsRequest": (("resources", "configs"), "value"),
}
"""By message: the arrays down to the secret, and the field; a value of a key is one if the key says so."""

_PASSWORD = re.compile(r"password|keystore\.key$|certificate|jaas|secret|users", re.IGNORECASE)


def masked(frame: bytes, body: int, message: type[messages.MessageValue] | None, version: int) -> bytes:
    """Return a frame with asterisks for its secrets; one with secrets that does not decode without its body.

    body  the position of the message in the frame
    """
    if message is None or message.SCHEMA.name not in _SECRETS:
        return frame
    arrays, field = _SECRETS[message.SCHEMA.name]
    try:
        if version not in message.SCHEMA.versions:
            return frame[:body]
        value: Any = messages.decode(message, frame, version, body)[0]
    except ProtocolError:
        return frame[:body]
    found = [value]
    for array in arrays:
        found = [inner for each in found for inner in getattr(each, array)]
    for each in found:
        secret = getattr(each, field)
        if isinstance(secret, str):
            setattr(each, field, "*" * len(secret) if _PASSWORD.search(each.name) else secret)
        elif secret is not None:
            setattr(each, field, b"*" * len(secret))
    return frame[:body] + messages.encode(value, version)
