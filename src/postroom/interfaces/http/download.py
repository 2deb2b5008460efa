"""`/dl/TOKEN`: a link to one piece of mail that needs no credential and expires after an hour.

The token is what the link shows and until when, signed with a secret of the house; whoever may
read the piece may make one. Bytes are served so that no browser runs or shows them as a page.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.types import Receive, Scope, Send

from postroom.clock import MICROS, Clock
from postroom.errors import NotFound, PostroomError
from postroom.interfaces.http.errors import send_error
from postroom.limits import DOWNLOAD_URL_S
from postroom.model.mail import Blob
from postroom.model.ports import Mail
from postroom.model.principal import Kind, Principal

PREFIX: Final = "dl"
SECRET: Final = "downloads"  # the name of the house's secret that signs links
_SIGNATURE: Final = 32
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)
_UNSAFE_IN_NAME = re.compile(r"[^\w .()\[\]+@-]")
_HEADERS: Final = [
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"cache-control", b"private, no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
]


class DownloadSigner:
    """Makes and reads the tokens of links."""

    def __init__(self, key: bytes, clock: Clock) -> None:
        self._key = key
        self._clock = clock

    def url(self, base: str, path: str) -> tuple[str, int]:
        """An absolute link below `base` to what `path` names, and when it expires (microseconds).

        `path` is `raw/INBOX/MESSAGE`, `attachment/INBOX/MESSAGE/ID` or `draft/INBOX/DRAFT/ID`.
        """
        expires = self._clock.now_us() + DOWNLOAD_URL_S * MICROS
        body = msgspec.json.encode((expires, path))
        token = base64.urlsafe_b64encode(self._sign(body) + body).rstrip(b"=").decode()
        return f"{base.rstrip('/')}/{PREFIX}/{token}", expires

    def read(self, token: str) -> str:
        """The path a token names. Raises `NotFound` when it is not ours or its time is over."""
        try:
            data = base64.b64decode(token.encode() + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except ValueError:
            raise _gone() from None
        signature, body = data[:_SIGNATURE], data[_SIGNATURE:]
        if not hmac.compare_digest(signature, self._sign(body)):
            raise _gone()
        expires, path = msgspec.json.decode(body, type=tuple[int, str])
        if expires <= self._clock.now_us():
            raise _gone()
        return path

    def _sign(self, body: bytes) -> bytes:
        return hmac.digest(self._key, b"postroom download\0" + body, hashlib.sha256)


class Downloads:
    """The application at `/dl`."""

    def __init__(self, signer: DownloadSigner, mail: Mail) -> None:
        self._signer = signer
        self._mail = mail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise _gone()
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, PostroomError("downloads are read with GET", code="method_not_allowed"))
            return
        blob = await self._find(self._signer.read(scope["path"].removeprefix(f"/{PREFIX}/")))
        headers = [*_HEADERS, *_describe(blob), (b"content-length", str(len(blob.content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else blob.content})

    async def _find(self, path: str) -> Blob:
        kind, inbox, rest = path.split("/", 2)
        reader = Principal(kind=Kind.SYSTEM, inbox_scope=inbox)
        if kind == "raw":
            return await self._mail.get_raw(reader, inbox, rest)
        owner, _, attachment_id = rest.rpartition("/")
        if kind == "attachment":
            return (await self._mail.get_attachment(reader, inbox, owner, attachment_id))[1]
        return await self._of_draft(reader, inbox, owner, attachment_id)

    async def _of_draft(self, reader: Principal, inbox: str, draft_id: str, attachment_id: str) -> Blob:
        draft = await self._mail.get_draft(reader, inbox, draft_id)
        for row, data in zip(draft.attachments, draft.fields.attachments, strict=False):
            if row.attachment_id == attachment_id:
                return Blob(content=data.content, filename=row.filename, content_type=row.content_type)
        raise _gone()


def _describe(blob: Blob) -> list[tuple[bytes, bytes]]:
    """Content-Type and Content-Disposition (RFC 6266): always an attachment, its name in both forms."""
    media_type = (
        blob.content_type if blob.content_type and _MEDIA_TYPE.fullmatch(blob.content_type) else "application/octet-stream"
    )
    name = "".join(char for char in (blob.filename or "download") if char.isprintable()).strip() or "download"
    plain = _UNSAFE_IN_NAME.sub("_", name.encode("ascii", "replace").decode())
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return [(b"content-type", media_type.encode()), (b"content-disposition", disposition.encode())]


def _gone() -> NotFound:
    return NotFound("this link does not exist or has expired", fix="ask for a new one")
