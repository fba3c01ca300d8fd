"""What the children of tests do: a module of its own, as those that are not forked import it."""

from multiprocessing.connection import Connection

from tests.drivers import wire


def ask(address: str) -> int:
    """Ask a broker for its APIs; return the error code."""
    with wire.Connection(address) as connection:
        return connection.api_versions()


def answer(orders: "Connection[int, str]") -> None:
    """Ask the broker at the address in an order, and live until the next order."""
    orders.send(ask(orders.recv()))
    orders.recv()
