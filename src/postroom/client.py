"""Speak to the daemon over HTTP, with the standard library only: the command line and hooks start fast.

Where it is and who we are: POSTROOM_URL and POSTROOM_TOKEN, else `endpoint.json` and `owner.key` in
the data folder. The owner's key is sent only while the folder's lock is held: after a crash another
program may listen on the old port, and must not be handed the key.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from postroom import errors

TIMEOUT_S = 60.0

_BY_STATUS: Mapping[int, type[errors.PostroomError]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    503: errors.StorageFailure,
}
_REJECTED = "MessageRejectedError"


def data_folder(given: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The data folder: as given, else POSTROOM_DATA, else the platform's folder for user data."""
    if given is not None:
        return given.expanduser()
    if environ.get("POSTROOM_DATA"):
        return Path(environ["POSTROOM_DATA"]).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "postroom"
    return Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "postroom"


class Client:
    """The daemon at `url`, asked with `token`. Every answer that is not a success raises a `PostroomError`."""

    def __init__(self, url: str, token: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._https, self._host, self._port, self._base = _parts(url)
        self._token = token.strip()
        if not _is_visible(self._token):
            raise errors.Invalid("the token holds characters that no token has", fix="set POSTROOM_TOKEN to it as it was printed")
        self._timeout_s = timeout_s

    def get(self, path: str, **query: Any) -> Any:
        """GET; parameters that are None are left out."""
        return self.call("GET", path, query=query)

    def post(self, path: str, body: Any = None) -> Any:
        """POST a JSON body."""
        return self.call("POST", path, body)

    def call(self, method: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None) -> Any:
        """One request; the decoded JSON of its answer."""
        content = self.fetch(method, path, body, query=query)
        return json.loads(content) if content else None

    def fetch(self, method: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None) -> bytes:
        """One request; the bytes of its answer."""
        asked = {name: value for name, value in (query or {}).items() if value is not None}
        headers = {"Accept": "application/json"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        with self.open(method, path + (f"?{urlencode(asked)}" if asked else ""), content, headers) as answer:
            text = answer.read()
        if answer.status >= http.client.MULTIPLE_CHOICES:
            raise told(answer.status, text)
        return text

    @contextmanager
    def open(
        self, method: str, target: str, content: bytes | None, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        """One request and its answer, whatever its status, still to be read."""
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.request(method, self._base + target, content, {"Authorization": f"Bearer {self._token}", **headers})
            yield connection.getresponse()
        except ConnectionRefusedError:
            raise no_daemon() from None
        except (OSError, http.client.HTTPException) as problem:
            raise errors.TransportFailure(
                f"the connection to the service failed: {type(problem).__name__}", kind="temporary", fix="try again"
            ) from None
        finally:
            connection.close()


def connect(folder: Path | None = None, environ: Mapping[str, str] = os.environ, *, timeout_s: float = TIMEOUT_S) -> Client:
    """The client this environment asks for. Raises `TransportFailure` when no daemon runs on the data folder."""
    url, token = environ.get("POSTROOM_URL"), _token(environ.get("POSTROOM_TOKEN"))
    if url:
        if not token:
            raise errors.Unauthorized("POSTROOM_URL is set, POSTROOM_TOKEN is not", fix="set both, or neither")
        return Client(url, token, timeout_s=timeout_s)
    folder = data_folder(folder, environ)
    return Client(_announced(folder), token or _owner_key(folder), timeout_s=timeout_s)


def url_of(environ: Mapping[str, str] = os.environ) -> str:
    """Where the daemon of this environment listens. Raises `TransportFailure` when none runs."""
    return environ.get("POSTROOM_URL") or _announced(data_folder(environ=environ))


def no_daemon() -> errors.TransportFailure:
    """Nothing is listening."""
    return errors.TransportFailure("postroom is not running", kind="temporary", fix="start it with: postroom serve")


def told(status: int, text: bytes) -> errors.PostroomError:
    """The error an answer tells, as the class it was when it was raised."""
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    message, code, fix = str(body.get("message") or f"the service answered {status}"), body.get("code"), body.get("fix")
    details = {key: value for key, value in body.items() if key not in ("name", "message", "code", "fix")}
    if status == http.client.REQUEST_ENTITY_TOO_LARGE:
        return errors.TooLarge(message, code=code, fix=fix)
    if status in (http.client.BAD_REQUEST, http.client.UNPROCESSABLE_ENTITY):
        return errors.Invalid(message, code=code, fix=fix, errors=body.get("errors") or ())
    if status == http.client.TOO_MANY_REQUESTS:
        return errors.Busy(message, retry_after_s=float(body.get("retry_after_s") or 1), code=code, fix=fix)
    if status == http.client.BAD_GATEWAY:
        how = "permanent" if body.get("kind") == "permanent" else "temporary"
        return errors.TransportFailure(message, kind=how, code=code, fix=fix, details=details)
    kind = errors.Refused if body.get("name") == _REJECTED else _BY_STATUS.get(status, errors.PostroomError)
    return kind(message, code=code, fix=fix, details=details)


def _parts(url: str) -> tuple[bool, str, int | None, str]:
    """Whether it is https, host, port and path. Raises `Invalid`."""
    try:
        parts = urlsplit(url)
        sound = _is_visible(url) and parts.scheme in ("http", "https") and bool(parts.hostname)
        if sound:
            return parts.scheme == "https", parts.hostname or "", parts.port, parts.path.rstrip("/")
    except ValueError:  # brackets or a port that are none
        pass
    raise errors.Invalid("the service's address is not a URL", fix="set POSTROOM_URL, for example http://127.0.0.1:4470")


def _is_visible(text: str) -> bool:
    """Printable ASCII without a blank: what can stand in a request's head."""
    return all("!" <= char <= "~" for char in text)


def _token(given: str | None) -> str | None:
    """The token, or what the file holds that `file:PATH` names: harnesses are given a path, not a secret."""
    if given is None or not given.startswith("file:"):
        return given
    try:
        return Path(given.removeprefix("file:")).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise errors.Unauthorized("the file that POSTROOM_TOKEN names cannot be read", fix="connect the harness again") from None


def _announced(folder: Path) -> str:
    """The address in `endpoint.json`, if the process that wrote it is alive."""
    try:
        address = str(json.loads((folder / "endpoint.json").read_text(encoding="utf-8"))["http"])
    except (OSError, ValueError, KeyError, TypeError):
        raise no_daemon() from None
    if not _is_locked(folder / "lock"):
        raise no_daemon()
    return address if "://" in address else f"http://{address}"


def _is_locked(lock: Path) -> bool:
    """Whether the process that owns the folder lives. Asking takes no lock a starting one would miss for long."""
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _owner_key(folder: Path) -> str:
    try:
        return (folder / "owner.key").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise errors.Unauthorized(
            "the owner's key in the data folder cannot be read", fix="set POSTROOM_TOKEN to a token of your own"
        ) from None
