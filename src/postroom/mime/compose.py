"""An `Outbound` becomes RFC 5322 bytes: CRLF lines, 7-bit, no Bcc field, the same bytes for the same input.

An approval binds to these bytes, so nothing here depends on the hour, the machine or chance: the
Message-ID, the moment and the boundary seed are arguments. Control characters in header values are
refused. What is composed is read back by `mime.parse` unchanged; that is the test.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

from postroom.clock import MICROS
from postroom.errors import Invalid
from postroom.mime.addresses import Address, parse_address
from postroom.mime.filename import safe_filename
from postroom.mime.header_lines import CRLF, address_field, ids_field, parameter, text_field
from postroom.mime.parameters import parse_parameterized
from postroom.model.mail import AttachmentData
from postroom.model.request import Outbound

_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_NOT_IN_TEXT: Final = re.compile(r"[\x00\ud800-\udfff]")
_MESSAGE_ID: Final = re.compile(r"<[!-;=?-~]{1,980}>")
_NAME: Final = re.compile(r"[!-9;-~]{1,76}")
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_PARAMETER_VALUE: Final = re.compile(r"[A-Za-z0-9._:+-]{1,60}")
_LINE_BYTES: Final = 900
# Ours to write, or able to change who gets the mail, how it is read or whom it claims to be from.
_RESERVED: Final = frozenset(
    ("from", "sender", "to", "cc", "bcc", "reply-to", "subject", "date", "message-id", "in-reply-to", "references",
     "mime-version", "return-path", "received", "delivered-to", "dkim-signature", "authentication-results")
)  # fmt: skip
_RESERVED_PREFIXES: Final = ("content-", "resent-", "arc-", "x-postroom-")


def compose(outbound: Outbound, *, message_id: str, at_us: int, boundary_seed: str) -> bytes:
    """The mail as it will leave. Raises `Invalid` for anything that cannot stand in a mail."""
    return _head(outbound, message_id, at_us).encode("ascii") + _body(outbound, boundary_seed)


def _head(outbound: Outbound, message_id: str, at_us: int) -> str:
    to = _addresses(outbound.to)
    cc = _addresses(outbound.cc)
    reply_to = _addresses(outbound.reply_to)
    references = _writable(outbound.references)
    answered = _writable([outbound.in_reply_to] if outbound.in_reply_to else [])
    if not _MESSAGE_ID.fullmatch(message_id):
        raise Invalid("a message id is <…> in printable ASCII, at most 980 characters", code="invalid_message_id")
    return "".join(
        (
            address_field("From", _addresses([outbound.from_])),
            address_field("To", to) if to else "" if cc else f"To: undisclosed-recipients:;{CRLF}",
            address_field("Cc", cc) if cc else "",
            address_field("Reply-To", reply_to) if reply_to else "",
            text_field("Subject", _line("subject", outbound.subject)),
            f"Date: {format_datetime(datetime.fromtimestamp(at_us // MICROS, UTC))}{CRLF}",
            ids_field("Message-ID", [message_id]),
            ids_field("In-Reply-To", answered) if answered else "",
            ids_field("References", references) if references else "",
            _own_fields(outbound.headers),
            f"MIME-Version: 1.0{CRLF}",
        )
    )


def _addresses(texts: Sequence[str]) -> list[Address]:
    return [parse_address(text) for text in texts]


def _writable(ids: Sequence[str]) -> list[str]:
    """Ids of other people's mail. One that no mail can carry in 7 bits is left out: it must not make a mail unanswerable."""
    return [item for item in ids if _MESSAGE_ID.fullmatch(item)]


def _line(name: str, value: str) -> str:
    if _CONTROL.search(value):
        raise Invalid(f"the value of {name!r} holds a line break or another control character", code="invalid_header")
    return value


def carried(text: str) -> str:
    """Header text of other people's mail, fit for ours: what no header can hold must not make a mail unanswerable."""
    return _CONTROL.sub(" ", text)


def _own_fields(headers: Mapping[str, str]) -> str:
    lines: list[str] = []
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise Invalid("a header's name is 1 to 76 printable ASCII characters without a colon", code="invalid_header")
        if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIXES):
            raise Invalid(f"the header {name!r} is written by postroom and cannot be set", code="invalid_header")
        lines.append(text_field(name, _line(name, value)))
    return "".join(lines)


def _body(outbound: Outbound, seed: str) -> bytes:
    """text and html as alternatives, html with its inline parts related, attachments around all of it."""
    boundaries = _Boundaries(outbound, seed)
    inline = [item for item in outbound.attachments if _is_inline(item, outbound)]
    versions: list[bytes] = []
    if outbound.text is not None or outbound.html is None:
        versions.append(_text("plain", outbound.text or ""))
    if outbound.html is not None:
        html = _text("html", outbound.html)
        versions.append(_multipart("related", [html, *map(_attachment, inline)], boundaries) if inline else html)
    body = versions[0] if len(versions) == 1 else _multipart("alternative", versions, boundaries)
    rest = [_attachment(item) for item in outbound.attachments if not _is_inline(item, outbound)]
    return _multipart("mixed", [body, *rest], boundaries) if rest else body


def _is_inline(item: AttachmentData, outbound: Outbound) -> bool:
    return bool(item.content_id) and outbound.html is not None and item.content_disposition != "attachment"


class _Boundaries:
    """Delimiters made of the seed and of the content, so that no content can hold its own delimiter."""

    def __init__(self, outbound: Outbound, seed: str) -> None:
        digest = hashlib.sha256(seed.encode())
        for text in (outbound.text, outbound.html):
            digest.update(hashlib.sha256((text or "").encode("utf-8", "replace")).digest())
        for item in outbound.attachments:
            digest.update(hashlib.sha256(item.content).digest())
        self._seed = digest.digest()

    def next(self) -> str:
        self._seed = hashlib.sha256(self._seed).digest()
        return f"=_{self._seed.hex()[:32]}"


def _multipart(subtype: str, parts: Sequence[bytes], boundaries: _Boundaries) -> bytes:
    boundary = boundaries.next()
    head = f'Content-Type: multipart/{subtype};{CRLF} boundary="{boundary}"{CRLF}{CRLF}'.encode("ascii")
    delimiter = f"--{boundary}".encode("ascii")
    pieces = [head]
    for part in parts:
        pieces += [delimiter, b"\r\n", part, b"\r\n"]
    return b"".join([*pieces, delimiter, b"--\r\n"])


def _text(subtype: str, text: str) -> bytes:
    """A text part; its last line ends too, which reading takes off again."""
    if _NOT_IN_TEXT.search(text):
        raise Invalid("the body holds a NUL or half a character (a lone surrogate)", code="invalid_body")
    raw = text.replace("\r\n", "\n").replace("\r", "\n").encode() + b"\n"
    encoding, encoded = _encode_text(raw)
    charset = "us-ascii" if raw.isascii() else "utf-8"
    head = f"Content-Type: text/{subtype}; charset={charset}{CRLF}Content-Transfer-Encoding: {encoding}{CRLF}{CRLF}"
    return head.encode("ascii") + encoded.replace(b"\n", b"\r\n")


def _encode_text(raw: bytes) -> tuple[str, bytes]:
    if raw.isascii() and max(map(len, raw.split(b"\n"))) <= _LINE_BYTES:
        return "7bit", raw
    ascii_bytes = len(raw.decode().encode("ascii", "ignore"))
    if ascii_bytes * 3 < len(raw) * 2:
        return "base64", base64.encodebytes(raw)
    return "quoted-printable", binascii.b2a_qp(raw, istext=True)


def _attachment(item: AttachmentData) -> bytes:
    filename = safe_filename(_line("filename", item.filename)) if item.filename else None
    media_type, parameters = _media_type(item)
    as_it_is = media_type == "message/rfc822" and _is_seven_bit(item.content)
    if media_type.startswith(("message/", "multipart/")) and not as_it_is:
        media_type, parameters = "application/octet-stream", ""  # RFC 2046 §5.2.1 forbids base64 for these
    disposition = item.content_disposition or ("inline" if item.content_id else "attachment")
    if media_type in {"text/plain", "text/html"} and not filename:
        disposition = "attachment"  # shown inline and without a name it would be the mail's own text
    head = f"Content-Type: {media_type}{parameters}{parameter('name', filename) if filename else ''}{CRLF}"
    head += f"Content-Transfer-Encoding: {'7bit' if as_it_is else 'base64'}{CRLF}"
    head += f"Content-Disposition: {disposition}{parameter('filename', filename) if filename else ''}{CRLF}"
    if item.content_id:
        head += ids_field("Content-ID", [_content_id(item.content_id)])
    encoded = item.content if as_it_is else base64.encodebytes(item.content).replace(b"\n", b"\r\n")
    return f"{head}{CRLF}".encode("ascii") + encoded


def _media_type(item: AttachmentData) -> tuple[str, str]:
    declared = parse_parameterized(_line("content_type", item.content_type or "application/octet-stream"))
    if not _TYPE.fullmatch(declared.value):
        raise Invalid("a content type is type/subtype, for example application/pdf", code="invalid_attachment")
    kept = [(name, declared.parameters.get(name, "")) for name in ("charset", "method")]
    return declared.value, "".join(f"; {name}={value}" for name, value in kept if _PARAMETER_VALUE.fullmatch(value))


def _is_seven_bit(content: bytes) -> bool:
    lines = content.split(b"\r\n")
    bare = any(b"\n" in line or b"\r" in line or len(line) > _LINE_BYTES for line in lines)
    return content.isascii() and b"\0" not in content and not bare


def is_content_id(text: str) -> bool:
    """Whether a part can carry it."""
    return _MESSAGE_ID.fullmatch(f"<{text.strip('<> ')}>") is not None


def _content_id(text: str) -> str:
    if not is_content_id(_line("content_id", text)):
        raise Invalid("a content id is printable ASCII without blanks or angle brackets", code="invalid_attachment")
    return f"<{text.strip('<> ')}>"
