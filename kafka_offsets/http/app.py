"""App: requests and answers. Routes, arguments, errors, limits, and who may call.

An error is an object of RFC 9457 with a sentence. Without a token only programs on this machine are to call: a page of
a browser that reaches this address by another name (DNS rebinding) or from another origin is refused.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import inspect
import ipaddress
import json
import re
import secrets
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kafka_offsets.errors import ConfigError, KafkaOffsetsError, nearest_name
from kafka_offsets.http.control import MAIN, ConflictError, Control, NotFoundError
from kafka_offsets.http.openapi import FIELD, OTHERS, PROBLEM_TYPE, document
from kafka_offsets.http.operations import BROKER, Operation, operations
from kafka_offsets.http.values import REQUIRED, WrongValueError, read, read_text, to_json
from kafka_offsets.logs import new_logger

MAX_BODY_BYTES = 16 << 20
MAX_WAITS = 256
"""So many requests may wait at a time; further ones are refused."""

_CALLS = 64
"""So many calls are executed at a time: some of them wait for replicas of a cluster that do not answer."""

_BODY_SECONDS = 30.0
_PROBES = ("/healthz", "/readyz")
"""Probes of containers may have any Host and no token; the answers only say whether the broker is ready."""

_PAGE = "/"
"""Needs no token: it requests what it shows, with one."""

_STATUS_OF: tuple[tuple[type[BaseException], HTTPStatus], ...] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (ConflictError, HTTPStatus.CONFLICT),
    (TimeoutError, HTTPStatus.GATEWAY_TIMEOUT),
    (WrongValueError, HTTPStatus.BAD_REQUEST),
    (ConfigError, HTTPStatus.BAD_REQUEST),
    (ValueError, HTTPStatus.BAD_REQUEST),
    (TypeError, HTTPStatus.BAD_REQUEST),
    (AssertionError, HTTPStatus.CONFLICT),
    (RuntimeError, HTTPStatus.CONFLICT),
    (KafkaOffsetsError, HTTPStatus.CONFLICT),
    (OSError, HTTPStatus.CONFLICT),
)
"""What the methods of kafka_offsets.testing raise; the first that fits."""

logger = new_logger(__name__)


class App:
    """The application: answers requests for the brokers of a control.

    metrics  returns the metrics of a broker, by its id, as Prometheus reads them
    """

    def __init__(self, control: Control, metrics: Callable[[str], bytes]) -> None:
        self._control = control
        self._metrics = metrics
        self._waits = 0
        self._waiting = ThreadPoolExecutor(MAX_WAITS, thread_name_prefix="kafka-offsets-assert")
        self._threads = ThreadPoolExecutor(_CALLS, thread_name_prefix="kafka-offsets-http")
        routes = [
            Route(operation.path, self._answer_to(operation), methods=[operation.method], name=operation.name)
            for operation in operations()
        ]
        routes += [Route(path, getattr(self, f"_{name}")) for path, name, *_ in OTHERS]
        routes.append(Route(_PAGE, self._page))
        self.routes = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})

    async def by_encoded_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by the path as it was sent: `%2F` is a letter of a name there, and no separator."""
        if scope["type"] == "http":
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        await self.routes(scope, receive, send)

    def close(self) -> None:
        """Wait for the calls that are being executed; the brokers must have stopped."""
        self._threads.shutdown()
        self._waiting.shutdown()

    def _answer_to(self, operation: Operation) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            """Execute an operation; an exception becomes a problem."""
            try:
                broker = path_parts(request).get("broker", "")
                return await self._execute(operation, broker, request)
            except HTTPException:
                raise
            except Exception as error:  # noqa: BLE001 - described to the client, and logged if it is ours
                return problem_of(error)

        return answer

    async def _execute(self, operation: Operation, broker: str, request: Request) -> Response:
        """Execute an operation: in the loop, or in a thread if it waits for the loop."""
        arguments = await read_arguments(request, operation)
        field = read_field(request, operation)
        if operation.waits:
            if self._waits >= MAX_WAITS:
                raise HTTPException(503, f"{MAX_WAITS} requests wait already")
            self._waits += 1
        try:
            if not operation.in_loop:
                return await asyncio.get_running_loop().run_in_executor(
                    self._waiting if operation.waits else self._threads,
                    lambda: _success(operation, operation.run(self._control, broker, arguments), field),
                )
            result = operation.run(self._control, broker, arguments)
            if operation.waits:
                result = await _while_connected(request, result)
            elif inspect.isawaitable(result):
                result = await result
            return _success(operation, result, field)
        finally:
            if operation.waits:
                self._waits -= 1

    async def _page(self, request: Request) -> Response:
        """Answer the page. Its policy lets it load nothing, run its own script only, and call this server only."""
        text, policy = page()
        headers = {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-cache",
        }
        return Response(text, media_type="text/html; charset=utf-8", headers=headers)

    async def _openapi(self, request: Request) -> Response:
        return json_response(document(operations()))

    async def _main_metrics(self, request: Request) -> Response:
        return await self._read_metrics(MAIN)

    async def _broker_metrics(self, request: Request) -> Response:
        return await self._read_metrics(path_parts(request)["broker"])

    async def _read_metrics(self, broker: str) -> Response:
        from prometheus_client import CONTENT_TYPE_LATEST

        loop = asyncio.get_running_loop()
        try:
            text = await loop.run_in_executor(self._threads, self._metrics, broker)
        except Exception as error:  # noqa: BLE001 - as above
            return problem_of(error)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _healthz(self, request: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    async def _readyz(self, request: Request) -> Response:
        """Answer 200 when the broker of this process has loaded its groups, and it is the instance that is meant."""
        try:
            if "instance" in request.query_params:
                self._control.check_instance(request.query_params["instance"])
            loading = self._control.get(MAIN).broker.metrics()["num-partitions{state=loading}"]
        except ConflictError as error:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except NotFoundError:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "the broker is starting")
        if loading:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, f"{loading:g} partitions of offsets are loading")
        return Response("ok\n", media_type="text/plain")


async def _while_connected(request: Request, waiting: Coroutine[Any, Any, Any]) -> Any:
    """Await a result, until the client closes its connection and no longer needs it."""
    result, gone = asyncio.ensure_future(waiting), asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait((result, gone), return_when=asyncio.FIRST_COMPLETED)
        if result.done():
            return result.result()
        raise ConflictError("the client has closed its connection")
    finally:
        result.cancel()
        gone.cancel()


async def _disconnect(request: Request) -> None:
    """Return when the client has closed its connection; the body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@cache
def page() -> tuple[str, str]:
    """Return the page, and the Content-Security-Policy that names its script and its style by their hashes."""
    style = files("kafka_offsets").joinpath("page.css").read_text(encoding="utf-8")
    text = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    text = text.replace("/* page.css */\n", style)
    sources = [
        "default-src 'none'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
    for kind in ("script", "style"):
        (content,) = re.findall(f"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        sources.append(f"{kind}-src 'sha256-{digest}'")
    return text, "; ".join(sources)


def path_parts(request: Request) -> dict[str, str]:
    """Return the named parts of the path, decoded."""
    return {name: unquote(text) for name, text in request.path_params.items()}


async def read_arguments(request: Request, operation: Operation) -> dict[str, Any]:
    """Return the arguments of an operation, of the path and of the query or the body. Raises WrongValueError."""
    kinds = {parameter.name: parameter.kind for parameter in operation.parameters}
    arguments: dict[str, Any] = {}
    for name, text in path_parts(request).items():
        if name in kinds:
            arguments[name] = _named(name, read_text, kinds[name], [text])
    query = {name: request.query_params.getlist(name) for name in request.query_params.keys() - {FIELD}}
    body = await _read_body(request) if operation.method == "POST" else {}
    if query and body:
        raise WrongValueError(f"{', '.join(query)} in the query: with a body, all parameters are in it")
    for name in [*query, *body]:
        if name not in kinds or name in request.path_params:
            others = kinds.keys() - request.path_params.keys()
            advice = nearest_name(name, others) or f"; it takes {', '.join(others) or 'nothing'}"
            raise WrongValueError(f"there is no parameter {name!r}{advice}")
    arguments |= {name: _named(name, read_text, kinds[name], value) for name, value in query.items()}
    arguments |= {name: _named(name, read, kinds[name], value) for name, value in body.items()}
    missing = [
        parameter.name
        for parameter in operation.parameters
        if parameter.default is REQUIRED and parameter.name not in arguments
    ]
    if missing:
        raise WrongValueError(f"{', '.join(missing)} is missing")
    return arguments


def read_field(request: Request, operation: Operation) -> str | None:
    """Return the field of the result that the answer is, None for all of it. Raises WrongValueError."""
    field = request.query_params.get(FIELD)
    if field is not None and field not in operation.fields:
        names = ", ".join(operation.fields) or "none"
        raise WrongValueError(f"the result has no field {field!r}; its fields: {names}")
    return field


def _named(name: str, reader: Callable[[Any, Any], Any], kind: Any, value: Any) -> Any:
    try:
        return reader(kind, value)
    except WrongValueError as error:
        raise WrongValueError(f"{name}: {error}") from error


async def _read_body(request: Request) -> dict[str, Any]:
    """Return the object in the body, an empty one without a body. HTTPException for too much, or for other types."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > MAX_BODY_BYTES:
                    raise HTTPException(413, f"the body has more than {MAX_BODY_BYTES} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body has not arrived in {_BODY_SECONDS:g} s") from None
    if not body:
        return {}
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise HTTPException(415, f"the body is application/json, not {media or 'without a Content-Type'}")
    try:
        data = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WrongValueError(f"the body is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise WrongValueError("the body is an object of JSON, with the parameters by name")
    return data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _success(operation: Operation, result: Any, field: str | None) -> Response:
    """Return a result as an answer: as JSON, or one field of it as text."""
    if field is not None:
        field_value = to_json(result)[field]
        return _text(
            field_value if isinstance(field_value, str) else json.dumps(field_value), operation.status
        )
    if isinstance(result, str):
        return _text(result)
    if result is None:
        return Response(status_code=204)
    return json_response(to_json(result), operation.status)


def _text(text: str, status: int = 200) -> Response:
    return Response(text, status, media_type="text/plain; charset=utf-8")


def json_response(value: Any, status: int = 200, media: str = "application/json") -> Response:
    """Return a value of JSON as an answer, with an end of line for people who use curl."""
    return Response(f"{json.dumps(value)}\n", status, media_type=media)


def problem(status: HTTPStatus, detail: str, error: str | None = None) -> Response:
    """Return an error as an answer. Source: RFC 9457."""
    fields: dict[str, Any] = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
    }
    if error is not None:
        fields["error"] = error
    return json_response(fields, status.value, PROBLEM_TYPE)


def problem_of(error: Exception) -> Response:
    """Return an exception as an answer; one that is not expected is logged."""
    name = type(error).__name__
    for kind, status in _STATUS_OF:
        if isinstance(error, kind):
            return problem(status, str(error) or name, name)
    logger.error("an HTTP request failed", exc_info=error)
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, f"{name}: {error}", name)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = error.detail
    if detail == status.phrase:
        advice = _near_operation(request)
        if advice and status is HTTPStatus.METHOD_NOT_ALLOWED:  # of a path whose last part may be any text
            status = HTTPStatus.NOT_FOUND
        advice = advice or "; GET /openapi.json lists the operations"
        detail = f"there is no {request.method} {request.url.path}{advice}"
    response = problem(status, detail)
    response.headers.update(error.headers or {})
    return response


def _near_operation(request: Request) -> str:
    """Return the advice to use an operation of a broker with a similar name, or none."""
    start, broker, name = [*request.url.path.lstrip("/").split("/", 2), "", ""][:3]
    names = [
        operation.path.removeprefix(f"{BROKER}/")
        for operation in operations()
        if operation.method == request.method and operation.path.startswith(f"{BROKER}/")
    ]
    if (
        start != "brokers"
        or not broker
        or any(operation.path == f"{BROKER}/{name}" for operation in operations())
    ):
        return ""
    return nearest_name(name, names)


class Guard:
    """Refuses requests of those who may not call.

    app    what answers the others
    host   the address that the server listens on
    token  what a request must have; None: requests need no token, but a Host and an Origin that are this server's
    """

    def __init__(self, app: ASGIApp, host: str, token: str | None) -> None:
        self._app, self._host, self._token = app, host.lower(), token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "http":
            refused = self._refusal(scope["path"], Headers(scope=scope))
            if refused is not None:
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, path: str, headers: Headers) -> Response | None:
        if path in _PROBES:
            return None
        if self._token is not None:
            if path == _PAGE or self._has_token(headers.get("authorization", "")):
                return None
            refused = problem(
                HTTPStatus.UNAUTHORIZED, "the header `Authorization: Bearer TOKEN` is missing or wrong"
            )
            refused.headers["WWW-Authenticate"] = "Bearer"
            return refused
        host = headers.get("host", "")
        if not self._is_own(host):
            return problem(
                HTTPStatus.FORBIDDEN,
                f"the Host is {host!r}: without a token, only an address of this machine",
            )
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return problem(HTTPStatus.FORBIDDEN, f"pages of {origin!r} may not call this server")
        return None

    def _has_token(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")  # a header is decoded as latin-1
        assert self._token is not None
        is_same = secrets.compare_digest(token.strip().encode("latin-1"), self._token.encode())
        return is_same and scheme.lower() == "bearer"

    def _is_own(self, host_and_port: str) -> bool:
        """Whether a Host names this machine: by a loopback address or name, or the address that is listened on."""
        host = re.sub(r":\d*$", "", host_and_port).strip("[]").lower()
        if host in ("localhost", self._host):
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False
