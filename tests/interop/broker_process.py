"""A broker as a process of its own: started, killed, stopped, and asked what CPU it used.

The command is `python -m kafka_offsets.cli serve`. KAFKA_OFFSETS_TEST_SERVE names another one that takes the same
options, such as `python -m tests.interop.real_kafka`: that is how these tests are shown to hold for Apache Kafka.

Our command runs in a fork of a process that has imported it, see forks.py, unless a test asks for the command itself.
"""

import atexit
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.interop import forks
from tests.interop.waiting import DEADLINE_S, until

READY = "listening on "
OVERRIDE = os.environ.get("KAFKA_OFFSETS_TEST_SERVE")
COMMAND = shlex.split(OVERRIDE) if OVERRIDE else [sys.executable, "-m", "kafka_offsets.cli", "serve"]
# A JVM that obeys SIGTERM still reports the signal in its exit code.
CLEAN_EXITS = (0, 143) if OVERRIDE else (0,)
REPOSITORY = Path(__file__).resolve().parents[2]

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "4",
}


class BrokerProcess:
    """One broker on one data directory; the same object can be started again after it was killed or stopped."""

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
        *,
        as_users_do: bool = False,
    ) -> None:
        """Take what it is started with.

        as_users_do  start the command itself, not a fork that runs the same
        """
        self.data_dir = data_dir
        self._command = [*command]
        self.settings = SETTINGS | dict(settings or {})
        self.address = ""
        self.log: list[str] = []
        self.as_users_do = as_users_do or OVERRIDE is not None
        self._process: forks.Process | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()
        # A test that fails half-way stops nothing, and the broker would outlive the tests.
        atexit.register(self._kill_left_over)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, port: int = 0) -> str:
        """Start on `port` (0: a free one) and return HOST:PORT once the broker says that it listens."""
        assert not self.alive
        options = ["--port", str(port), "--data-dir", str(self.data_dir)]
        for key, value in self.settings.items():
            options += ["--set", f"{key}={value}"]
        self._ready.clear()
        begin = forks.start_program if self.as_users_do else forks.start
        process = begin(self._command + options, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._process = process
        self._reader = threading.Thread(target=self._read_log, args=(process,), daemon=True)
        self._reader.start()
        if not self._ready.wait(DEADLINE_S) or not self.address:
            self.kill()
            raise AssertionError(f"the broker did not come up:\n{self.log_text()}")
        return self.address

    def kill(self) -> None:
        """End it as a power cut would end the process: SIGKILL, nothing flushed by hand."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to stop; it must do so in time, with exit code 0 and without a traceback in its log."""
        code = self._end(signal.SIGTERM)
        assert code in CLEAN_EXITS, f"exit code {code}:\n{self.log_text()}"
        self.assert_clean_log()

    def assert_clean_log(self) -> None:
        """No exception reached the log."""
        assert not any(line.lstrip().startswith("Traceback") for line in self.log), self.log_text()

    def until_logged(self, text: str) -> None:
        """Wait for a line: a thread of the broker writes it, and one of this process reads it."""
        until(lambda: any(text in line for line in list(self.log)), f"a line of the log with {text!r}")

    def log_text(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log[-60:])

    def cpu_ns(self) -> int:
        """CPU time used by all its threads so far, in nanoseconds (not in ticks of 10 ms as in /proc/PID/stat)."""
        running = 0
        for file in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended in the meantime
                running += int(file.read_text().split()[0])
        return running

    def _kill_left_over(self) -> None:
        if self.alive:
            self.kill()

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None and process.stderr is not None and self._reader is not None
        process.send_signal(number)
        try:
            code = process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"{number.name} was not obeyed:\n{self.log_text()}") from None
        finally:
            self._reader.join()
            process.stderr.close()
        return code

    def _read_log(self, process: forks.Process) -> None:
        assert process.stderr is not None
        self.address = ""
        for line in process.stderr:
            self.log.append(line.rstrip("\n"))
            if not self._ready.is_set() and READY in line:
                self.address = line.rsplit(READY, 1)[1].split()[0]
                self._ready.set()
        self._ready.set()  # it ended: a thread that waits for it should not wait longer
