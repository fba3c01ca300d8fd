"""DescribeUserScramCredentials and AlterUserScramCredentials: the SCRAM credentials of users (KIP-554).

Clients authenticate with them at listeners with SASL. As in Kafka, the two keys derived from the salted password that a
client sends are stored (RFC 5802), not the password.
Sources: ScramControlManager, ScramImage of Kafka 4.3, whose answers tests/differential compares.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.security import scram
from kafka_offsets.security.credential import Credentials, ScramCredential

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

    CredentialInfo = messages.DescribeUserScramCredentialsResponse.CredentialInfo
    Deletion = messages.AlterUserScramCredentialsRequest.ScramCredentialDeletion
    Upsertion = messages.AlterUserScramCredentialsRequest.ScramCredentialUpsertion

MOST_CREDENTIALS = 1000
"""The most credentials, one for each user and mechanism: all are in one file, which each change writes again."""

LONGEST_BYTES = 512
"""The longest name of a user in UTF-8, and the longest salt."""

_HASHES = {number: scram.HASHES[name] for name, number in scram.MECHANISM_NUMBERS.items()}
"""By number of the mechanism."""

_MOST_ITERATIONS = 16384
_TWICE = "A user credential cannot be altered twice in the same request"

Error = tuple[ErrorCode, str | None]

logger = new_logger(__name__)


def describe_user_scram_credentials(
    broker: Context,
    request: messages.DescribeUserScramCredentialsRequest,
    context: RequestContext,
    now: Now,
) -> messages.DescribeUserScramCredentialsResponse:
    """Describe the mechanisms and iterations of the named users, or of all."""
    response = messages.DescribeUserScramCredentialsResponse
    infos_by_user: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), credential in sorted(broker.directory.clients.credentials.items()):
        infos_by_user.setdefault(user, []).append(response.CredentialInfo(mechanism, credential.iterations))
    times_by_user = (
        Counter(user.name for user in request.users) if request.users else Counter(infos_by_user.keys())
    )
    results = []
    for user, times in times_by_user.items():
        error, message = ErrorCode.NONE, ""
        if times > 1:
            error = ErrorCode.DUPLICATE_RESOURCE
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        elif user not in infos_by_user:
            error = ErrorCode.RESOURCE_NOT_FOUND
            message = f"Attempt to describe a user credential that does not exist: {user}"
        infos = infos_by_user[user] if error is ErrorCode.NONE else []
        results.append(response.DescribeUserScramCredentialsResult(user, error, message, infos))
    return response(error_message="", results=results)


def fail_describe_user_scram_credentials(
    request: messages.DescribeUserScramCredentialsRequest, error: ErrorCode, api_version: int
) -> messages.DescribeUserScramCredentialsResponse:
    """Answer `error`, also for each requested user; Kafka does not name the users."""
    response = messages.DescribeUserScramCredentialsResponse
    result = response.DescribeUserScramCredentialsResult("", error, None)
    return response(error_code=error, error_message=None, results=[result for _ in request.users or ()])


def alter_user_scram_credentials(
    broker: Context,
    request: messages.AlterUserScramCredentialsRequest,
    context: RequestContext,
    now: Now,
) -> messages.AlterUserScramCredentialsResponse:
    """Remove, set and replace credentials, each user by itself, with one write for all of them."""
    before = broker.directory.clients.credentials
    errors, deletions, upsertions = _checked(request, before)
    after = dict(before)
    for deletion in deletions.values():
        del after[deletion.name, deletion.mechanism]
    for upsertion in upsertions.values():
        error = _upsert(after, upsertion)
        if error[0] is not ErrorCode.NONE:
            errors[upsertion.name] = error
    changed = [user for user in (*deletions, *upsertions) if user not in errors]
    try:
        broker.settings.set_credentials(after)
    except StorageError as error:
        logger.error("the SCRAM credentials were not changed: %s", error)
        errors |= dict.fromkeys(changed, (ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
    answered = dict.fromkeys(changed, (ErrorCode.NONE, None)) | errors
    response = messages.AlterUserScramCredentialsResponse
    return response(
        results=[response.AlterUserScramCredentialsResult(user, *error) for user, error in answered.items()]
    )


def _checked(
    request: messages.AlterUserScramCredentialsRequest, before: Credentials
) -> tuple[dict[str, Error], dict[str, Deletion], dict[str, Upsertion]]:
    """Return by user the errors, the removals and the new credentials. The first error of a user counts."""
    errors: dict[str, Error] = {}
    deletions: dict[str, Deletion] = {}
    upsertions: dict[str, Upsertion] = {}
    for deletion in request.deletions:
        user = deletion.name
        if user in errors:
            continue
        if deletions.pop(user, None) is not None:
            errors[user] = ErrorCode.DUPLICATE_RESOURCE, _TWICE
        elif (refused := _check_deletion(deletion, before))[0] is not ErrorCode.NONE:
            errors[user] = refused
        else:
            deletions[user] = deletion
    for upsertion in request.upsertions:
        user = upsertion.name
        if user in errors:
            continue
        if deletions.pop(user, None) is not None or upsertions.pop(user, None) is not None:
            errors[user] = ErrorCode.DUPLICATE_RESOURCE, _TWICE
        elif (refused := _check_upsertion(upsertion))[0] is not ErrorCode.NONE:
            errors[user] = refused
        else:
            upsertions[user] = upsertion
    return errors, deletions, upsertions


def _check_user_and_mechanism(user: str, mechanism: int) -> Error:
    if not user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism not in _HASHES:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return ErrorCode.NONE, None


def _check_deletion(deletion: Deletion, before: Credentials) -> Error:
    refused = _check_user_and_mechanism(deletion.name, deletion.mechanism)
    if refused[0] is ErrorCode.NONE and (deletion.name, deletion.mechanism) not in before:
        return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    return refused


def _check_upsertion(upsertion: Upsertion) -> Error:
    refused = _check_user_and_mechanism(upsertion.name, upsertion.mechanism)
    if refused[0] is ErrorCode.NONE and upsertion.iterations < scram.LEAST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if refused[0] is ErrorCode.NONE and upsertion.iterations > _MOST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    return refused


def _upsert(credentials: dict[tuple[str, int], ScramCredential], upsertion: Upsertion) -> Error:
    """Set one credential, unless it is too large or there are too many."""
    key = upsertion.name, upsertion.mechanism
    salt, salted = bytes(upsertion.salt), bytes(upsertion.salted_password)
    if not salted:
        return ErrorCode.UNKNOWN_SERVER_ERROR, None  # as in Kafka: Java makes no key of zero bytes
    for what, size in (("user name", len(upsertion.name.encode())), ("salt", len(salt))):
        if size > LONGEST_BYTES:
            return (
                ErrorCode.UNACCEPTABLE_CREDENTIAL,
                f"The {what} has {size} bytes, more than {LONGEST_BYTES}",
            )
    if key not in credentials and len(credentials) >= MOST_CREDENTIALS:
        message = f"{MOST_CREDENTIALS} credentials are set, which is as many as may be"
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, message
    credentials[key] = scram.credential_of(_HASHES[upsertion.mechanism], salted, salt, upsertion.iterations)
    return ErrorCode.NONE, None


def fail_alter_user_scram_credentials(
    request: messages.AlterUserScramCredentialsRequest, error: ErrorCode, api_version: int
) -> messages.AlterUserScramCredentialsResponse:
    """Answer every user with `error`."""
    response = messages.AlterUserScramCredentialsResponse
    users = dict.fromkeys(deletion.name for deletion in request.deletions)
    users |= dict.fromkeys(upsertion.name for upsertion in request.upsertions)
    return response(results=[response.AlterUserScramCredentialsResult(user, error, None) for user in users])
