"""kafka-python is a judge here: it is imported with its one warning off, as the tests of clients do."""

import tests.interop  # noqa: F401
