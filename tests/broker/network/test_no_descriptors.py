"""An embedded broker in a process without file descriptors: it loses a connection, and recovers."""

import os
import subprocess
import sys
import textwrap

SCRIPT = """
    import os, resource, socket, struct
    from kafka_offsets import Broker

    def ask(connection, key, version, body):
        header = struct.pack(">hhih", key, version, 7, -1)
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        return connection.recv(100)

    heartbeat = struct.pack(">h1sih1s", 1, b"g", 1, 1, b"m")
    list_groups = b""
    with Broker() as broker:
        host, _, port = broker.bootstrap_servers.partition(":")
        connections = [socket.create_connection((host, int(port)), 10) for _ in range(2)]
        first, second = connections
        print(len(ask(first, 16, 0, list_groups)))
        taken = []
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        print("closed", ask(first, 12, 0, heartbeat))
        print(len(ask(second, 16, 0, list_groups)))
        for descriptor in taken:
            os.close(descriptor)
        print(ask(second, 12, 0, heartbeat)[4:].hex())
"""


def test_the_first_use_of_an_api_closes_its_connection_and_works_later() -> None:
    # The description of an API is a file, which an embedded broker reads when the API is first used.
    script = textwrap.dedent(SCRIPT)
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )
    assert run.stdout.splitlines() == ["14", "closed b''", "14", "000000070019"], run.stderr
    assert "connection closed: Heartbeat v0 cannot be decoded: Too many open files" in run.stderr
    assert run.returncode == 0
