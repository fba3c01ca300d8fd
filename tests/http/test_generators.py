"""A generator of clients understands /openapi.json: one of five, the cheapest; `make generators` runs all."""

from pathlib import Path

import pytest

from tests.conftest import missing
from tests.generators.run import MODULES, check
from tests.http.conftest import Client
from tests.http.test_examples import need

pytestmark = pytest.mark.interop


@pytest.mark.timeout(300)
def test_a_typescript_client_makes_a_broker_and_reads_a_record(client: Client, tmp_path: Path) -> None:
    need("node")
    if not (MODULES / "openapi-fetch").is_dir():
        missing("openapi-fetch", "make tools")
    check("typescript", tmp_path, client.url)
