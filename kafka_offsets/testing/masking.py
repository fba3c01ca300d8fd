"""Masking: frames without passwords and tokens, for requests that are recorded."""

from typing import Any

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages

_SECRETS = {
    "SaslAuthenticateRequest": ("", "auth_bytes"),
    "AlterUserScramCredentialsRequest": ("upsertions", "salted_password"),
    "RenewDelegationTokenRequest": ("", "hmac"),
    "ExpireDelegationTokenRequest": ("", "hmac"),
    "CreateDelegationTokenResponse": ("", "hmac"),
    "DescribeDelegationTokenResponse": ("tokens", "hmac"),
}
"""By message: the array with the secret, "" for none, and the field."""


def masked(frame: bytes, body: int, message: type[messages.MessageValue] | None, version: int) -> bytes:
    """Return a frame with asterisks for its secrets; one with secrets that does not decode without its body.

    body  the position of the message in the frame
    """
    if message is None or message.SCHEMA.name not in _SECRETS:
        return frame
    array, field = _SECRETS[message.SCHEMA.name]
    try:
        if version not in message.SCHEMA.versions:
            return frame[:body]
        value: Any = messages.decode(message, frame, version, body)[0]
    except ProtocolError:
        return frame[:body]
    for each in getattr(value, array) if array else [value]:
        setattr(each, field, b"*" * len(getattr(each, field)))
    return frame[:body] + messages.encode(value, version)
