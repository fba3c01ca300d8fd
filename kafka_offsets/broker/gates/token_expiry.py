"""Expiry of delegation tokens: they are removed some time after they have expired.

Source: DelegationTokenControlManager.sweepExpiredDelegationTokens of Kafka 4.3.
"""

from kafka_offsets.broker.context.context import Context
from kafka_offsets.clock import Now
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger

logger = new_logger(__name__)


def start_expiry(broker: Context) -> None:
    """Remove expired tokens, every `delegation.token.expiry.check.interval.ms` of the broker's clock."""
    if not broker.access.delegation_tokens.are_enabled:
        return

    def check(now: Now) -> None:
        _remove_expired(broker, now)
        start_expiry(broker)

    broker.scheduler.after_interval(broker.config.delegation_token_expiry_check_interval_ms, check)


def _remove_expired(broker: Context, now: Now) -> None:
    before = broker.directory.clients.tokens
    remaining = {key: token for key, token in before.items() if not token.has_expired(now.wall_ms)}
    if len(remaining) == len(before):
        return
    try:
        broker.settings.set_tokens(remaining)
    except StorageError as error:  # the next check tries again; until then they are refused as expired
        logger.error("expired delegation tokens are not removed: %s", error)
