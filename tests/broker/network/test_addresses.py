"""The addresses that clients receive: where a listener listens, unless `advertised.listeners` says otherwise."""

import asyncio

from kafka_offsets.client.connection import Connection
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Broker
from tests.cases import each_case

TWO = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}


def given_at(address: str) -> tuple[str, int]:
    """The address of the broker that a client receives at an address."""
    host, _, port = address.rpartition(":")
    with Connection(host, int(port), 20.0) as connection:
        (broker,) = connection.call(messages.MetadataRequest([]), 9).brokers
    return broker.host, broker.port


@each_case("host", ["127.0.0.1", "0.0.0.0"])
def test_port_0_of_an_advertised_listener_is_the_bound_one_as_in_kafka(host: str) -> None:
    """Every client received `vm:0`."""
    with Broker({"advertised.listeners": "PLAINTEXT://vm.example:0"}, host=host) as broker:
        _, _, port = broker.bootstrap_servers.rpartition(":")
        assert broker.bootstrap_servers == f"vm.example:{port}" and port != "0"
        assert given_at(f"127.0.0.1:{port}") == ("vm.example", int(port))


def test_several_listeners_take_free_ports_and_each_gives_its_own_address() -> None:
    keys = {"listeners": "A://127.0.0.1:0,B://:0", "advertised.listeners": "A://a.example:0,B://:0", **TWO}
    with Broker(keys) as broker:
        addresses = broker.address_of("A"), broker.address_of("B")
        ports = [int(address.rpartition(":")[2]) for address in addresses]
        assert len(set(ports)) == 2 and 0 not in ports
        assert addresses == (f"a.example:{ports[0]}", f"localhost:{ports[1]}")
        assert given_at(f"127.0.0.1:{ports[0]}") == ("a.example", ports[0])
        assert given_at(f"127.0.0.1:{ports[1]}") == ("localhost", ports[1])


def test_an_advertised_port_of_another_machine_stays_as_it_is() -> None:
    async def scenario() -> None:
        async with Broker({"advertised.listeners": "PLAINTEXT://nat.example:19092"}) as broker:
            assert broker.bootstrap_servers == "nat.example:19092"

    asyncio.run(scenario())
