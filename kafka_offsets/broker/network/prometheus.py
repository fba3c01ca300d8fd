"""Metrics of a broker for Prometheus, over HTTP. prometheus-client is imported on first use."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from itertools import groupby
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from kafka_offsets.broker.core.metrics import TABLE
from kafka_offsets.broker.network.inheritance import Name, leave_to_parent, names_of
from kafka_offsets.broker.network.log_writer import announce
from kafka_offsets.clock import monotonic_s
from kafka_offsets.errors import ConfigError
from kafka_offsets.installation import install_command
from kafka_offsets.logs import new_logger

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client.metrics_core import Metric as Family


_MOST_REQUESTS = 16
"""Maximum number of concurrent requests; further connections are closed."""

_REQUEST_SECONDS = 15.0
"""Time limit of a request with its response."""

logger = new_logger(__name__)


def check_installed() -> None:
    """Raise ConfigError when prometheus-client is missing."""
    if find_spec("prometheus_client") is None:
        raise ConfigError(f"--metrics-port needs prometheus-client: {install_command('prometheus')}")


class Collector:
    """The collector that prometheus-client calls for the metrics.

    read  `Broker.metrics` or its like; called in the threads that answer requests
    """

    def __init__(self, read: Callable[[], Mapping[str, float]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Family]:
        """Return the current metrics."""
        from prometheus_client.core import GaugeMetricFamily, UnknownMetricFamily

        values = self._read()
        families = []
        for name, members in groupby(TABLE, key=lambda metric: metric.prometheus_name):
            metrics = list(members)
            labels = [metric.tag[0] for metric in metrics[:1] if metric.tag]
            meaning = metrics[0].meaning if len(metrics) == 1 else f"{metrics[0].name}, by {labels[0]}"
            # The name of a counter must end in _total; the JMX exporter leaves other names untyped.
            kind = UnknownMetricFamily if metrics[0].is_counter else GaugeMetricFamily
            family = kind(name, meaning, labels=labels)
            for metric in metrics:
                family.add_metric([metric.tag[1]] if metric.tag else [], values[metric.key])
            families.append(family)
        return families


class _Handler(WSGIRequestHandler):
    """Answers one request and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in http.server
        """Log nothing."""


class _MetricsServer(ThreadingMixIn, WSGIServer):
    """A thread for each request; their number and their time are limited."""

    daemon_threads = True

    def __init__(self, host: str, port: int, request_seconds: float) -> None:
        address_infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, *_, address = address_infos[0]
        self._request_seconds = request_seconds
        self._open: dict[object, float] = {}
        super().__init__((str(address[0]), port), _Handler)
        leave_to_parent(self)

    @property
    def socket_names(self) -> list[Name]:
        """Family, host and port of the socket at which it listens."""
        return names_of([self.socket])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a separate thread, or close the connection if there are too many."""
        if len(self._open) >= _MOST_REQUESTS:
            self.shutdown_request(request)
            return
        self._open[request] = monotonic_s()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections that send no request or do not read the response; called twice a second."""
        oldest = monotonic_s() - self._request_seconds
        for request, since in list(self._open.items()):
            if since <= oldest:
                assert isinstance(request, socket.socket)
                with suppress(OSError):  # it has just been closed
                    request.shutdown(socket.SHUT_RDWR)

    def close_request(self, request: Any) -> None:
        """Close a connection; its thread ends."""
        super().close_request(request)
        self._open.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the error of a connection in one line."""
        logger.warning("%s: a request for metrics failed: %s", client_address[0], sys.exception())


class Endpoint:
    """Answers http://HOST:PORT/metrics in separate threads, until `close`. Raises OSError when it cannot listen."""

    def __init__(
        self,
        host: str,
        port: int,
        read: Callable[[], Mapping[str, float]],
        request_seconds: float = _REQUEST_SECONDS,
    ) -> None:
        from prometheus_client import CollectorRegistry, make_wsgi_app

        registry = CollectorRegistry()
        registry.register(Collector(read))
        self._server = _MetricsServer(host, port, request_seconds)
        self._server.set_app(_logged(make_wsgi_app(registry)))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Stop listening; takes up to half a second."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _logged(response: WSGIApplication) -> WSGIApplication:
    """Return an application that logs its errors; wsgiref would write them to standard error, which can block."""

    def answer_and_log(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request; an exception is logged and becomes status 503."""
        try:
            return response(environ, start_response)
        except Exception:
            logger.exception("the metrics cannot be read")
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return []

    return answer_and_log


def listen(host: str, port: int, read: Callable[[], Mapping[str, float]]) -> Endpoint:
    """Start to answer Prometheus; write the address to standard error. Raises OSError with the address."""
    try:
        endpoint = Endpoint(host, port, read)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), f"metrics on {host}:{port}") from error
    announce(f"metrics on http://{host}:{endpoint.port}/metrics")
    return endpoint
