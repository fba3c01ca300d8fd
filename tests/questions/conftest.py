"""The fixture of the plugin, also where that is not installed; kafka-python is imported without its warning."""

import tests.interop  # noqa: F401
from kafka_offsets.testing.plugin import kafka_broker  # noqa: F401
