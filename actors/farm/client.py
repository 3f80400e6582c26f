"""A client of a farm's API: blocking, one connection a call, no redirects, so that no token goes elsewhere."""

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import attrs

from runtime.secret import Secret

CALL_SECONDS = 60.0
MAX_ANSWER_BYTES = 64 << 20


class BadFarmUrl(Exception):
    """The address is no farm's address; the text says why."""


class FarmUnreachable(Exception):
    """There was no answer; the text says why."""


class FarmRefused(Exception):
    """The farm said no.

    Attributes:
        status: of HTTP.
        problems: every mistake, where it told several.
    """

    def __init__(self, message: str, status: int, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.problems = problems


@attrs.frozen
class Answer:
    """What was answered, with status 200 or 201."""

    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """The body.

        Raises:
            FarmUnreachable: it is not JSON, so this is no farm.
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise FarmUnreachable("the answer is not JSON: is this the address of a farm?") from error


@attrs.frozen
class FarmClient:
    """Asks one farm."""

    url: str
    """`http://127.0.0.1:8780` or `https://farm.example`."""
    token: Secret
    ca_file: Path | None = None
    """Signed its certificate; None: the system's authorities."""

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int | None] | None = None,
    ) -> Answer:
        """Ask.

        Args:
            method: GET, POST, DELETE.
            path: Quoted already, see `path_of`.
            body: Sent as JSON.
            query: What is None is left out.

        Raises:
            BadFarmUrl: the address is wrong.
            FarmUnreachable: nobody answers, or no farm does.
            FarmRefused: it says no.
        """
        given = {key: value for key, value in (query or {}).items() if value is not None}
        target = f"{path}?{urlencode(given)}" if given else path
        headers = {"authorization": f"Bearer {self.token.reveal()}", "accept": "*/*"}
        content = None if body is None else json.dumps(dict(body)).encode()
        if content is not None:
            headers["content-type"] = "application/json"
        connection = self._connection()
        try:
            connection.request(method, target, content, headers)
            response = connection.getresponse()
            answered = response.read(MAX_ANSWER_BYTES)
        except ssl.SSLError as error:
            raise FarmUnreachable(f"{self.url}: TLS failed: {error.reason or error}; see --ca-file") from error
        except (OSError, http.client.HTTPException) as error:
            raise FarmUnreachable(f"{self.url} does not answer: {getattr(error, 'strerror', None) or error}") from error
        finally:
            connection.close()
        if response.status not in (200, 201):
            raise _refused(response.status, answered)
        return Answer(answered, {name.lower(): value for name, value in response.getheaders()})

    def _connection(self) -> http.client.HTTPConnection:
        parts = _split(self.url)
        assert parts.hostname is not None
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=CALL_SECONDS)
        try:
            context = ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        except (OSError, ssl.SSLError) as error:
            raise BadFarmUrl(f"{self.ca_file} is no file of certificates: {error}") from error
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=CALL_SECONDS, context=context)


def check_url(url: str) -> None:
    """Look whether an address can be one.

    Raises:
        BadFarmUrl: it is none.
    """
    _split(url)


def path_of(*parts: str) -> str:
    """`/api/v1/...` of parts, each of which stays one part whatever is in it."""
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


def _split(url: str) -> Any:
    try:
        parts = urlsplit(url)
        port_is_good = parts.port is None or parts.port > 0
    except ValueError as error:
        raise BadFarmUrl(f"{url!r}: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_good or parts.path not in ("", "/"):
        raise BadFarmUrl(f"{url!r} must be like http://127.0.0.1:8780 or https://farm.example")
    return parts


def _refused(status: int, body: bytes) -> FarmRefused:
    try:
        found = json.loads(body)
        message, problems = str(found["error"]), tuple(str(one) for one in found.get("problems", ()))
    except (ValueError, KeyError, TypeError, AttributeError):
        message, problems = f"it answered with HTTP {status}: is this the address of a farm?", ()
    return FarmRefused(message, status, problems)
