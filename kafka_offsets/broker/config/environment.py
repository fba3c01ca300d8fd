"""Environment: the variables by which Kafka's Docker images are configured, as configuration keys.

KAFKA_NUM_PARTITIONS=3 is num.partitions=3. `_` is a dot, `__` is `_` and `___` is `-`. The images
apache/kafka and confluentinc/cp-kafka have the same rule, and bitnami/kafka has KAFKA_CFG_NUM_PARTITIONS.
Source: KafkaDockerWrapper.scala, KIP-975.
"""

from collections.abc import Iterator, Mapping

from kafka_offsets.broker.config.advice import advice_on, advice_on_variable
from kafka_offsets.broker.config.configured_values import is_known
from kafka_offsets.broker.config.images import (
    NAMES_OF_LISTENERS,
    TAKEN,
    files_of_secrets,
    named_listeners,
    settings_of_images,
)
from kafka_offsets.broker.config.listeners import OLD_ADDRESSES, has_tls, listeners_for, listeners_of_host
from kafka_offsets.broker.config.types import Key
from kafka_offsets.logs import new_logger

_PREFIX, _BITNAMI = "KAFKA_", "KAFKA_CFG_"
_OF_KRAFT = frozenset({"controller.quorum.bootstrap.servers", "controller.quorum.voters", "process.roles"})
_CONTROLLER = "CONTROLLER"
"""The listener of controllers in images that give it a name by themselves, such as debezium/kafka."""

_OF_KUBERNETES = "tcp://"
"""How the value of KAFKA_PORT begins in a cluster with a service of the name kafka."""
_NAMES = """
    KAFKA_VERSION KAFKA_HOME KAFKA_OPTS KAFKA_HEAP_OPTS KAFKA_JVM_PERFORMANCE_OPTS KAFKA_GC_LOG_OPTS
    KAFKA_JMX_OPTS KAFKA_JMX_PORT KAFKA_JMX_HOSTNAME KAFKA_LOG4J_OPTS KAFKA_LOG4J_LOGGERS KAFKA_LOG4J_ROOT_LOGLEVEL
    KAFKA_TOOLS_LOG4J_LOGLEVEL KAFKA_OFFSETS_HTTP_TOKEN KAFKA_OFFSETS_JARS KAFKA_OFFSETS_SPARK_JARS
    KAFKA_CFG_CLUSTER_ID KAFKA_CLIENT_SASL_MECHANISMS KAFKA_CLUSTER_ID KAFKA_ENABLE_KRAFT KAFKA_JVM_OPTS
    KAFKA_KRAFT_CLUSTER_ID
"""
_NO_KEYS = frozenset(_NAMES.split())
"""Variables of the images for the JVM and the log of the process and for KRaft, and those of this project."""

logger = new_logger(__name__)


def environment_settings(
    environment: Mapping[str, str], keys: Mapping[str, Key], *, warns: bool = True
) -> dict[str, str]:
    """Return the keys that variables set, with their values as text.

    keys   all keys that have an effect
    warns  whether to name variables that name no key of Kafka: many images and clusters define such
    Without `listeners` the broker listens at the ports of `advertised.listeners` on every interface, as in the images.
    Raises ConfigError for variables of images that cannot be used.
    """
    listeners, unknown, warnings = named_listeners(environment), list[str](), list[str]()
    settings = settings_of_images(environment) | listeners
    for variable in sorted(environment):
        if not variable.startswith(_PREFIX) and (advice := advice_on_variable(variable)):
            warnings.append(f"{variable} has no effect: {advice}")
    for variable, name, value in _named(environment):
        if is_known(name, keys) and not (name in OLD_ADDRESSES and value.startswith(_OF_KUBERNETES)):
            settings[name] = value
        elif listeners and variable in NAMES_OF_LISTENERS:
            continue
        elif advice := advice_on_variable(variable) or advice_on(name):
            warnings.append(f"{variable} has no effect: {advice}")
        else:
            unknown.append(variable)
    if unknown:
        warnings.append(f"these variables name no key of a broker: {', '.join(unknown)}")
    for warning in warnings if warns else ():
        logger.warning("%s", warning)
    if not _OF_KRAFT.isdisjoint(settings):
        settings.setdefault("controller.listener.names", _CONTROLLER)
    if "advertised.listeners" in settings:
        settings.setdefault("listeners", listeners_for(settings["advertised.listeners"]))
    elif not OLD_ADDRESSES.isdisjoint(settings):
        settings.setdefault("listeners", listeners_of_host(settings))
    if has_tls(settings.get("listeners", ""), settings.get("listener.security.protocol.map", "")):
        settings = files_of_secrets(environment) | settings
    return settings


def _named(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield each variable for a key, the key and the value; bitnami's are last, since they override the others."""
    variables = sorted(environment, key=lambda name: (name.startswith(_BITNAMI), name))
    for variable in variables:
        if variable.startswith(_PREFIX) and variable not in _NO_KEYS | TAKEN:
            name = variable.removeprefix(_BITNAMI if variable.startswith(_BITNAMI) else _PREFIX)
            yield variable, _key(name), environment[variable]


def _key(text: str) -> str:
    return text.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
