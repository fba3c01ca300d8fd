"""Tests of what talks to a broker."""

import tests.interop  # noqa: F401 - which imports kafka-python without its one warning
