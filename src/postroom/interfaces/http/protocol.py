"""uvicorn's HTTP protocol with the bounds it lacks: deadlines, a header cap, a connection cap.

A client has one deadline at a time: for its header, counted from the first moment we wait for it,
then for the next piece of its body; and it must read what it asked for. The server looks at the deadlines of all
connections a few times a second, which costs a request nothing but an assignment. Requests the
parser cannot read are answered here, in the same JSON as everywhere.
"""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, cast
from urllib.parse import urlsplit

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from postroom import errors, limits
from postroom.interfaces.http.errors import body_of, headers_of, status_of
from postroom.interfaces.http.peer import peer_uid
from postroom.model.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one client may take. Times in seconds."""

    header_s: float = limits.HTTP_HEADER_S
    header_bytes: int = limits.HTTP_HEADER_BYTES
    body_gap_s: float = limits.HTTP_BODY_GAP_S
    unread_s: float = limits.HTTP_UNREAD_S
    connections: int = limits.HTTP_CONNECTIONS
    stop_s: int = limits.HTTP_STOP_S


class Peer:
    """The other end of one connection, shared by its requests."""

    def __init__(self, client: tuple[str, int] | None, server: tuple[str, int | None] | None) -> None:
        self._ends = (client, server)
        self._asked: Principal | None = None
        self._known: Principal | None = None

    def identify(self, principal: Principal) -> Principal:
        """The principal with the OS user at this end, looked up the first time this connection is somebody's."""
        if self._known is None or principal is not self._asked:
            self._asked = principal
            self._known = dataclasses.replace(principal, peer_uid=self._uid() if self._known is None else self._known.peer_uid)
        return self._known

    def _uid(self) -> int | None:
        client, server = self._ends
        return peer_uid(client, (server[0], server[1] or 0) if server else None)


class Gathered:
    """A transport on which an answer's head waits for the first piece of its body, so that both are one packet.

    The server writes them one after the other, and every write is a call into the kernel that wakes the client.
    A head nothing follows goes out in the loop's next round.
    """

    def __init__(self, plain: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.plain = plain
        self._loop = loop
        self._held = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def write(self, data: bytes) -> None:
        if self._held or not data:
            held, self._held = self._held, b""
            self.plain.write(held + data)
        else:
            self._held = data
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        self._flush()
        self.plain.close()

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held:
            self.plain.write(held)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `bounds` is set on a subclass per server."""

    bounds: ClassVar[Bounds]

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.deadline: float | None = None
        self._unread_until: float | None = None
        self._in_header = True
        self._header_seen = 0
        self._arrived = 0
        self._refusal: errors.PostroomError | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        super().connection_made(cast("asyncio.Transport", Gathered(transport, self.loop)))
        self.app_state = {**self.app_state, "peer": Peer(self.client, self.server)}
        self.deadline = self.loop.time() + self.bounds.header_s
        if len(self.connections) > self.bounds.connections:
            self._refuse(errors.Busy("too many connections are open", fix="try again, or close some"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.deadline = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._arrived = len(data)
        if self._in_header:
            self._header_seen += len(data)
            if self.deadline is None:
                self.deadline = self.loop.time() + self.bounds.header_s
        elif self.deadline is not None:
            self.deadline = self.loop.time() + self.bounds.body_gap_s
        super().data_received(data)
        if self._in_header and self._header_seen > self.bounds.header_bytes and not self.transport.is_closing():
            self._refuse(_header_too_large())

    def on_headers_complete(self) -> None:
        if self._header_seen + self._arrived > self.bounds.header_bytes and self._header_size() > self.bounds.header_bytes:
            self._stop_parsing(_header_too_large())
        if not self.url.startswith(b"/"):
            self.url = self._origin_form()
        self._in_header = False
        self._header_seen = 0
        self.deadline = self.loop.time() + self.bounds.body_gap_s
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_header = True
        self.deadline = None  # the next header's runs from its first byte; an idle connection has uvicorn's own

    def pause_writing(self) -> None:
        self._unread_until = self.loop.time() + self.bounds.unread_s
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_until = None
        super().resume_writing()

    def handle_websocket_upgrade(self) -> None:
        self.deadline = None
        self.transport = cast("Gathered", self.transport).plain
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or errors.Invalid("the request is not valid HTTP/1.1", code="invalid_request"))

    def expire(self, now: float) -> None:
        """Called now and then: end the connection if the client let its deadline pass, or does not read its answer."""
        if self._unread_until is not None and now >= self._unread_until:
            self.transport.abort()
            return
        if self.deadline is None or now < self.deadline or self.flow.read_paused:
            return
        if self._in_header and not self._header_seen:
            self.transport.close()
            return
        what = "header" if self._in_header else "body"
        self._refuse(errors.PostroomError(f"the rest of the {what} did not come in time", code="request_timeout"))

    def _header_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _origin_form(self) -> bytes:
        """The path of an absolute-form target (RFC 9112 §3.2.2) whose authority is the Host's; nothing else is taken."""
        hosts = [value.lower() for name, value in self.headers if name == b"host"]
        try:
            parts = urlsplit(self.url.decode("ascii"))
        except ValueError:
            self._stop_parsing(errors.Invalid("the request target is not a URL", code="invalid_request"))
        if parts.scheme != "http" or hosts != [parts.netloc.lower().encode()]:
            self._stop_parsing(errors.Invalid("the request target is not a path of this service", code="invalid_request"))
        return f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}".encode()

    def _stop_parsing(self, refusal: errors.PostroomError) -> NoReturn:
        """Leave the parser; what it makes of the exception ends in `send_400_response`."""
        self._refusal = refusal
        raise refusal

    def _refuse(self, error: errors.PostroomError) -> None:
        """Answer and close, unless an earlier response is on the wire: then just close."""
        self.deadline = None
        self._unset_keepalive_if_required()
        if self._may_answer():
            self.transport.write(_response(error))
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _may_answer(self) -> bool:
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return True
        return not (self._in_header or self.pipeline or cycle.response_started)


def _response(error: errors.PostroomError) -> bytes:
    body = msgspec.json.encode(body_of(error))
    fixed = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    head = b"".join(name + b": " + value + b"\r\n" for name, value in [*fixed, *headers_of(error)])
    return STATUS_LINE[status_of(error)[0]] + head + b"\r\n" + body


def _header_too_large() -> errors.PostroomError:
    return errors.PostroomError("the request's header is over the limit", code="header_too_large")
