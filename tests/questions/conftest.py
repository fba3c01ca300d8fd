"""The fixture of the plugin, also where that is not installed, and what clients need: see tests/interop."""

import tests.interop  # noqa: F401
from kafka_offsets.testing.plugin import kafka_broker  # noqa: F401
from tests.interop.conftest import leaks_are_told_here  # noqa: F401
