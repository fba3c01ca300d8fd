"""Network of a cluster: a namespace for each node, so that links between nodes can be cut in each direction.

Needs root and `ip`. The process itself moves to a namespace of its own first (`enter`), where a bridge joins the nodes
and the clients; nothing is reachable from outside. All neighbours are permanent entries: to cut a direction, the sender
gets an address without a listener, and its packets are lost in silence, as with a broken switch.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

CLIENTS = 254
_INSIDE = "KAFKA_OFFSETS_TEST_NAMESPACE"
_LOST = "02:00:00:00:00:ff"


def is_possible() -> bool:
    """Whether this process may make namespaces."""
    return os.geteuid() == 0 and shutil.which("ip") is not None and shutil.which("unshare") is not None


def enter(module: str) -> None:
    """Start this process again in a namespace of its own; returns if it is in one."""
    if os.environ.get(_INSIDE) is None:
        environment = os.environ | {_INSIDE: "1"}
        os.execvpe("unshare", ["unshare", "-n", sys.executable, "-m", module, *sys.argv[1:]], environment)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _mac(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


class Network:
    """A bridge, and a namespace for each node; the clients have number 254."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self.nodes = tuple(nodes)
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "br0", "address", _mac(CLIENTS), "type", "bridge")
        _ip("address", "add", f"{self.address(CLIENTS)}/24", "dev", "br0")
        _ip("link", "set", "br0", "up")
        for node in self.nodes:
            name = self.namespace(node)
            _ip("netns", "add", name)
            _ip("link", "add", f"v{node}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"v{node}", "master", "br0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "eth0", "address", _mac(node), "up")
            _ip("-n", name, "address", "add", f"{self.address(node)}/24", "dev", "eth0")
        self.heal()

    def address(self, node: int) -> str:
        """Return the IP address of a node or of the clients."""
        return f"10.77.0.{node}"

    def namespace(self, node: int) -> str:
        """Return the name of a node's namespace, of this process alone."""
        return f"node-{os.getpid()}-{node}"

    def cut(self, sender: int, receiver: int) -> None:
        """Lose what one sends to the other from now on; not what the other sends."""
        self._neighbour(sender, receiver, _LOST)

    def heal(self) -> None:
        """Lose nothing any longer."""
        everybody = [*self.nodes, CLIENTS]
        for sender in everybody:
            for receiver in everybody:
                if sender != receiver:
                    self._neighbour(sender, receiver, _mac(receiver))

    def _neighbour(self, sender: int, receiver: int, mac: str) -> None:
        where = [] if sender == CLIENTS else ["-n", self.namespace(sender)]
        device = "br0" if sender == CLIENTS else "eth0"
        entry = [self.address(receiver), "lladdr", mac, "dev", device, "nud", "permanent"]
        _ip(*where, "neighbour", "replace", *entry)

    def close(self) -> None:
        """Remove the namespaces."""
        for node in self.nodes:
            _ip("netns", "delete", self.namespace(node))
