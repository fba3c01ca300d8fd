"""The numbers of a broker for Prometheus, over HTTP. prometheus-client is imported when they are asked for."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIServer

from kafka_offsets.broker.metrics import TABLE
from kafka_offsets.errors import ConfigError

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family


def check_installed() -> None:
    """Raise ConfigError when prometheus-client is missing."""
    if find_spec("prometheus_client") is None:
        raise ConfigError("--metrics-port needs prometheus-client: pip install .[prometheus]")


class Collector:
    """What prometheus-client asks for the numbers.

    read  `Broker.metrics` or its like; called in the threads that answer requests
    """

    def __init__(self, read: Callable[[], Mapping[str, float]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Family]:
        """Return all numbers as they are now."""
        from prometheus_client.core import GaugeMetricFamily, UnknownMetricFamily

        values = self._read()
        families = []
        for name, members in groupby(TABLE, key=lambda metric: metric.prometheus_name):
            metrics = list(members)
            labels = [metric.tag[0] for metric in metrics[:1] if metric.tag]
            meaning = metrics[0].meaning if len(metrics) == 1 else f"{metrics[0].name}, by {labels[0]}"
            # A counter would have to be called …_total; the JMX exporter leaves such names untyped.
            kind = UnknownMetricFamily if metrics[0].is_counter else GaugeMetricFamily
            family = kind(name, meaning, labels=labels)
            for metric in metrics:
                family.add_metric([metric.tag[1]] if metric.tag else [], values[metric.key])
            families.append(family)
        return families


class Endpoint:
    """Answers http://HOST:PORT/metrics in threads of its own, until `close`. Raises OSError when it cannot listen."""

    def __init__(self, host: str, port: int, read: Callable[[], Mapping[str, float]]) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        registry.register(Collector(read))
        self._server: WSGIServer
        self._thread: threading.Thread
        self._server, self._thread = start_http_server(port, host, registry)
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Stop listening; takes up to half a second."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def listen(host: str, port: int, read: Callable[[], Mapping[str, float]]) -> Endpoint:
    """Begin to answer Prometheus; say where on standard error. Raises OSError that names the address."""
    try:
        endpoint = Endpoint(host, port, read)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), f"metrics on {host}:{port}") from error
    sys.stderr.write(f"metrics on http://{host}:{endpoint.port}/metrics\n")
    return endpoint
