"""A server of the HTTP interface in a thread, for all tests of a module; each test starts brokers of its own."""

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest

from kafka_offsets.http.control import Control
from kafka_offsets.http.server import Address, HttpServer
from kafka_offsets.testing import Broker, ManualClock


class Answer(NamedTuple):
    """The answer to a request; `value` is its JSON, else its text."""

    status: int
    headers: http.client.HTTPMessage
    value: Any


class Client:
    """Sends requests to one server, each on a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.address = url.removeprefix("http://")

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request as it is given."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        is_json = response.headers.get_content_subtype().endswith("json") and data
        return Answer(response.status, response.headers, json.loads(data) if is_json else data.decode())

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, /, **given: Any) -> Answer:
        return self.request("POST", path, json.dumps(given).encode(), {"Content-Type": "application/json"})

    def delete(self, path: str) -> Answer:
        return self.request("DELETE", path)


class OneBroker:
    """Requests to one broker; each fails unless it succeeds."""

    def __init__(self, client: Client, broker: str, bootstrap_servers: str) -> None:
        self.client, self.id, self.bootstrap_servers = client, broker, bootstrap_servers
        self.path = f"/brokers/{broker}"

    def get(self, path: str) -> Any:
        return _succeeded(self.client.get(f"{self.path}/{path}"))

    def post(self, path: str, /, **given: Any) -> Any:
        return _succeeded(self.client.post(f"{self.path}/{path}", **given))

    def delete(self, path: str) -> Any:
        return _succeeded(self.client.delete(f"{self.path}/{path}"))

    def refused(self, path: str, /, **given: Any) -> tuple[int, str, str]:
        """Return status, exception and sentence of a POST that is not carried out."""
        answer = self.client.post(f"{self.path}/{path}", **given)
        assert answer.headers.get_content_type() == "application/problem+json", answer
        assert answer.value["status"] == answer.status
        return answer.status, answer.value.get("error", ""), answer.value["detail"]


def _succeeded(answer: Answer) -> Any:
    assert answer.status in (200, 201, 204), answer.value
    return answer.value


class Serving:
    """A server in a thread of its own."""

    def __init__(self, token: str | None = None, clock: ManualClock | None = None) -> None:
        self._token, self._clock = token, clock
        self._started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))

    async def _main(self) -> None:
        try:
            control = Control("127.0.0.1")
            async with HttpServer(Address("127.0.0.1", 0, self._token), control) as server:
                await control.start(Broker(record=True, clock=self._clock))
                stopped = asyncio.Event()
                self._started.set_result((server.url, asyncio.get_running_loop(), stopped))
                await stopped.wait()
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    def __enter__(self) -> Client:
        self._thread.start()
        url, self._loop, self._stopped = self._started.result()
        return Client(url)

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client of a server without a token."""
    with Serving() as found:
        yield found


@pytest.fixture
def start(client: Client) -> Iterator[Callable[..., OneBroker]]:
    """Starts brokers, which stop with the test."""
    started: list[OneBroker] = []

    def one(**given: Any) -> OneBroker:
        view = _succeeded(client.post("/brokers", **given))
        started.append(OneBroker(client, view["broker"], view["bootstrap_servers"]))
        return started[-1]

    yield one
    for each in started:
        client.delete(each.path)


@pytest.fixture
def broker(start: Callable[..., OneBroker]) -> OneBroker:
    """One broker, with a manual clock."""
    return start(manual_clock=True)
