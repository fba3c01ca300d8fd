"""A cluster as processes of its own, `serve --brokers N`: its brokers are found by what the log says of them."""

import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.interop.broker_process import COMMAND, BrokerProcess
from tests.interop.waiting import until

_PROCESS = re.compile(r"broker (\d+) is process (\d+)$")


class ClusterProcess(BrokerProcess):
    """The parent of some brokers; `address` names all of them."""

    def __init__(self, data_dir: Path, brokers: int = 3, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(data_dir, settings, [*COMMAND, "--brokers", str(brokers)])

    def processes(self) -> dict[int, int]:
        """The last process of each broker, by its id."""
        found = (_PROCESS.search(line) for line in list(self.log))
        return {int(match[1]): int(match[2]) for match in found if match is not None}

    def kill_broker(self, broker_id: int) -> None:
        """End one broker by SIGKILL; the parent starts it again."""
        os.kill(self.processes()[broker_id], signal.SIGKILL)

    def wait_until_ended(self, processes: Mapping[int, int]) -> None:
        """Return when none of these processes runs any longer."""
        for broker_id, pid in processes.items():
            until(lambda pid=pid: not _runs(pid), f"broker {broker_id} ends with its parent")

    def _kill_left_over(self) -> None:
        super()._kill_left_over()
        for pid in self.processes().values():
            if _runs(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    """Whether a process is a broker of ours: its number may be another process's by now."""
    try:
        return b"kafka_offsets.cli" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
