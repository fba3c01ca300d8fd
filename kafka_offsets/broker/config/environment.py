"""Environment: the variables by which Kafka's Docker images are configured, as configuration keys.

KAFKA_NUM_PARTITIONS=3 is num.partitions=3. `_` is a dot, `__` is `_` and `___` is `-`. The images
apache/kafka and confluentinc/cp-kafka have the same rule. Source: KafkaDockerWrapper.scala, KIP-975.
"""

from collections.abc import Mapping

from kafka_offsets.broker.config.given_values import is_known
from kafka_offsets.broker.config.listeners import listeners_for
from kafka_offsets.broker.config.types import Key
from kafka_offsets.logs import new_logger

_PREFIX = "KAFKA_"
_NAMES = """
    KAFKA_VERSION KAFKA_HOME KAFKA_OPTS KAFKA_HEAP_OPTS KAFKA_JVM_PERFORMANCE_OPTS KAFKA_GC_LOG_OPTS
    KAFKA_JMX_OPTS KAFKA_JMX_PORT KAFKA_JMX_HOSTNAME KAFKA_LOG4J_OPTS KAFKA_LOG4J_LOGGERS KAFKA_LOG4J_ROOT_LOGLEVEL
    KAFKA_TOOLS_LOG4J_LOGLEVEL KAFKA_OFFSETS_HTTP_TOKEN KAFKA_OFFSETS_JARS KAFKA_OFFSETS_SPARK_JARS
"""
_NO_KEYS = frozenset(_NAMES.split())
"""Variables of the images for the JVM and the log of the process, and those of this project."""

logger = new_logger(__name__)


def environment_settings(environment: Mapping[str, str], keys: Mapping[str, Key]) -> dict[str, str]:
    """Return the keys that variables set, with their values as text.

    keys  all keys that have an effect
    Without `listeners` the broker listens at the ports of `advertised.listeners` on every interface, as in the images.
    Variables that name no key of Kafka are named in one warning: many images and clusters define such.
    """
    found, unknown = {}, []
    for variable, value in sorted(environment.items()):
        if not variable.startswith(_PREFIX) or variable in _NO_KEYS:
            continue
        name = _key(variable.removeprefix(_PREFIX))
        if is_known(name, keys):
            found[name] = value
        else:
            unknown.append(variable)
    if "advertised.listeners" in found:
        found.setdefault("listeners", listeners_for(found["advertised.listeners"]))
    if unknown:
        logger.warning("these variables name no key of a broker: %s", ", ".join(unknown))
    return found


def _key(text: str) -> str:
    return text.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
