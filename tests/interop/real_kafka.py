"""`python -m tests.interop.real_kafka --port 0 --data-dir DIR --set key=value`: Apache Kafka behind our options.

For KAFKA_OFFSETS_TEST_SERVE: what the interop tests ask of our broker is first asked of the real one. The jars are
those of benchmarks/peers/kafka.sh (run its `start` once). This process becomes the JVM, so a signal reaches it.
"""

import argparse
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.servers import free_port
from tests.interop import java_program
from tests.interop.broker_process import REPOSITORY
from tests.interop.waiting import DEADLINE_S

VERSION = os.environ.get("KAFKA_PEER_VERSION", "4.3.1")
HOME = Path(os.environ.get("KAFKA_PEER_HOME", Path.home() / ".cache" / f"kafka-peer-{VERSION}"))
OUR_OWN_KEYS = {"fsync", "recovery"}


def java(*arguments: str) -> list[str]:
    """The command line of one of Kafka's programs."""
    logging = f"-Dlog4j2.configurationFile={REPOSITORY / 'benchmarks/peers/kafka/log4j2.yaml'}"
    return ["java", "-Xms256M", "-Xmx768M", "-cp", f"{HOME / 'libs'}/*", logging, *arguments]


def tool(log4j: Path) -> list[str]:
    """Return the command line of one of Kafka's tools up to the name of its class; `log4j` is its configuration.

    It lives for a second. With the archive of loaded classes that kafka.sh leaves, it takes half the CPU time.
    """
    archive = HOME / "libs" / "kafka.jsa"
    archived = [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"] if archive.exists() else []
    logging = f"-Dlog4j2.configurationFile={log4j}"
    return ["java", *java_program.FLAGS, *archived, "-cp", f"{HOME / 'libs'}/*", logging]


def properties(port: int, controller_port: int, logs: Path, settings: list[str]) -> str:
    """A server.properties of one node that is broker and controller."""
    lines = [
        "process.roles=broker,controller",
        "node.id=1",
        f"controller.quorum.voters=1@127.0.0.1:{controller_port}",
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        f"log.dirs={logs}",
        "offsets.topic.replication.factor=1",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
    ]
    lines += [setting for setting in settings if setting.partition("=")[0] not in OUR_OWN_KEYS]
    return "\n".join(lines) + "\n"


def announce(port: int) -> None:
    """In a process of its own: print the line of a started broker once the port answers."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                print(f"listening on 127.0.0.1:{port}", file=sys.stderr, flush=True)
                return
        except OSError:
            time.sleep(0.05)


def main() -> None:
    """Format the directory if it is new, then become Kafka."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    options = parser.parse_args()
    port = options.port or free_port()
    logs = options.data_dir / "logs"
    options.data_dir.mkdir(parents=True, exist_ok=True)
    file = options.data_dir / "server.properties"
    file.write_text(properties(port, free_port(), logs, options.settings))
    if not logs.exists():
        identity = "MkU3OEVBNTcwNTJENDM2Qg"
        formatting = java("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(file))
        subprocess.run(formatting, check=True, capture_output=True)
    if os.fork() == 0:
        announce(port)
        os._exit(0)
    command = java("kafka.Kafka", str(file))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
