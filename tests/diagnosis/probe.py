"""A plugin of pytest, and a module for programs: each broker writes what it finds when it stops."""

import sys
from typing import Any

from kafka_offsets.testing import Broker

_stop = Broker._stop_server


async def _probe_and_stop(self: Any) -> None:
    if self._server is not None:
        for finding in self.why():
            print(f"FINDING {finding.name}: {finding}", file=sys.stderr, flush=True)
        print("PROBED", file=sys.stderr, flush=True)
    await _stop(self)


Broker._stop_server = _probe_and_stop  # type: ignore[method-assign]
