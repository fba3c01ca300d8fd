"""Token endpoint: a token of OAUTHBEARER for a client that has an id and a secret (RFC 6749, section 4.4).

    POST, Authorization: Basic base64(id:secret)       grant_type=client_credentials[&scope=SCOPE]
    200                                                {"access_token": "…", "expires_in": 3600}

A token is kept for 80 % of its time, after which Kafka's clients replace theirs. Redirects are not followed: they would
give the secret to another server. Source: HttpJwtRetriever, ClientCredentialsRequestFormatter and
ExpiringCredentialRefreshConfig of Kafka 4.3.
"""

import json
import re
from base64 import b64encode
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from kafka_offsets.clock import monotonic_s
from kafka_offsets.errors import ConfigError, ConnectionLostError
from kafka_offsets.security.credential import Secret

_TIMEOUT_S = 10
_KEPT_SHARE = 0.8
_MOST_BYTES = 1 << 20
_SERVER_ERROR = 500
_TOKEN = re.compile(r"[-._~+/a-zA-Z0-9]+=*")
"""A token as RFC 6750 defines it."""


class ClientCredentials(NamedTuple):
    """What a client proves its name with, and which rights it wants; scope: empty for the default ones."""

    client_id: str
    secret: Secret
    scope: str = ""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Let the redirect be an error."""


class TokenEndpoint:
    """Gets tokens from one URL, http or https; certificates are checked by the authorities of the system."""

    def __init__(self, url: str, credentials: ClientCredentials) -> None:
        self._url, self._credentials = url, credentials
        self._open = build_opener(ProxyHandler({}), _NoRedirects()).open
        self._token = ""
        self._until_s = 0.0

    def __call__(self) -> str:
        """Return a token, which is at most 80 % of its time old. It may wait for 10 s.

        Raises ConfigError if the endpoint refuses the client, and ConnectionLostError if it does not answer.
        """
        if not self._token or monotonic_s() >= self._until_s:
            asked_s, response = monotonic_s(), self._ask()
            token, lifetime_s = response.get("access_token"), response.get("expires_in", 0)
            if not isinstance(token, str) or not _TOKEN.fullmatch(token):
                raise ConfigError(f"{self._url}: there is no access_token in the answer")
            if not isinstance(lifetime_s, int | float):
                raise ConfigError(f"{self._url}: expires_in is not a number")
            self._token, self._until_s = token, asked_s + lifetime_s * _KEPT_SHARE
        return self._token

    def _ask(self) -> dict[str, Any]:
        credentials = self._credentials
        form = {"grant_type": "client_credentials"} | (
            {"scope": credentials.scope} if credentials.scope else {}
        )
        basic = b64encode(f"{credentials.client_id}:{credentials.secret.value}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Accept": "application/json"}
        request = Request(self._url, urlencode(form).encode(), headers)  # noqa: S310 - http or https, as `__init__` says
        try:
            with self._open(request, timeout=_TIMEOUT_S) as response:
                response_fields = json.loads(response.read(_MOST_BYTES))
        except HTTPError as error:
            error.close()
            if error.code < _SERVER_ERROR:
                raise ConfigError(
                    f"{self._url}: the client is refused: HTTP {error.code} {error.reason}"
                ) from None
            raise ConnectionLostError(f"{self._url}: HTTP {error.code} {error.reason}") from None
        except URLError as error:
            raise ConnectionLostError(f"{self._url}: {error.reason}") from None
        except (OSError, HTTPException) as error:
            raise ConnectionLostError(f"{self._url}: {str(error) or type(error).__name__}") from None
        except (ValueError, RecursionError):
            response_fields = None
        if not isinstance(response_fields, dict):
            raise ConfigError(f"{self._url}: the answer is no JSON object")
        return response_fields
