"""A mail's bytes become a `Parsed`, whatever the bytes are.

Promises: never raises; linear in the size of the mail; every string is encodable UTF-8 without NUL;
what was wrong is listed in `defects`, and where a limit was met the headers and the first text stay.
Nothing is looked up, nothing is merged that the sender kept apart: an attached mail is an attachment.
Deciding what a model may see of it is `safety`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from postroom.limits import PARTS
from postroom.mime.addresses import Address, parse_list
from postroom.mime.charset import codec, decode
from postroom.mime.fields import Defects, Fields
from postroom.mime.filename import safe_filename
from postroom.mime.flowed import unflow
from postroom.mime.marks import marks
from postroom.mime.parameters import Parameterized, parse_parameterized
from postroom.mime.structure import MEDIA_TYPE, Node, read_root, read_tree
from postroom.mime.tnef import TYPES as TNEF
from postroom.mime.tnef import File, read_tnef
from postroom.mime.transfer import decode_transfer
from postroom.model.mail import Finding

_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9._:-]{2,40})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Content that is not the mail's own text. `content_id` is without brackets; `filename` is never a path."""

    content: bytes
    content_type: str = "application/octet-stream"
    filename: str | None = None
    content_disposition: Literal["inline", "attachment"] | None = None
    content_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a mail says. Message-IDs carry brackets; `date` is in microseconds; `from_count` counts From fields.

    `text` and `html` are what the sender wrote as such, with LF line ends; either may be None.
    `headers` holds the first hundred names as written, decoded. `marks` are those of `mime.marks`.
    """

    subject: str | None = None
    from_: tuple[Address, ...] = ()
    sender: tuple[Address, ...] = ()
    to: tuple[Address, ...] = ()
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    reply_to: tuple[Address, ...] = ()
    message_id: str | None = None
    in_reply_to: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    date: int | None = None
    text: str | None = None
    html: str | None = None
    attachments: tuple[Part, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/plain"
    from_count: int = 0
    marks: tuple[str, ...] = ()
    defects: tuple[Finding, ...] = ()


def parse(raw: bytes) -> Parsed:
    """Read a mail. Never raises, whatever the bytes are."""
    defects = Defects()
    raw = _line_ends(raw, defects)
    root, structural = read_tree(raw)
    for code in structural:
        defects.add(code)
    defects.add("oversize_header_block", int(root.block.truncated))
    defects.add("stray_header_line", root.block.stray)
    fields = Fields(root, defects)
    text, html, attachments = _contents(raw, root, defects)
    from_ = fields.addresses("from")
    defects.add("multiple_from", int(fields.count("from") > 1 or len(from_) > 1))
    defects.add("no_from", int(not from_))
    return Parsed(
        subject=fields.text("subject"),
        from_=from_,
        sender=fields.addresses("sender"),
        to=fields.addresses("to"),
        cc=fields.addresses("cc"),
        bcc=fields.addresses("bcc"),
        reply_to=fields.addresses("reply-to"),
        message_id=next(iter(fields.ids("message-id")), None),
        in_reply_to=fields.ids("in-reply-to"),
        references=fields.ids("references"),
        date=fields.date(),
        text=text,
        html=html,
        attachments=attachments,
        headers=fields.mapping(),
        content_type=root.type,
        from_count=fields.count("from"),
        marks=marks(fields.pairs(), content_type=root.type),
        defects=defects.findings(),
    )


@dataclass(frozen=True, slots=True)
class Head:
    """What can be said of a mail from its header alone: fit for the moment before a 250."""

    authors: tuple[str, ...]
    message_id: str | None


def scan_head(raw: bytes) -> Head:
    """The addresses a mail shows as its author's, and its id.

    Read as `parse` reads them, then as a person would: without From the Sender, and encoded words decoded.
    """
    fields = Fields(read_root(raw if b"\n" in raw else raw.replace(b"\r", b"\n")), Defects())
    shown = fields.addresses("from") or fields.addresses("sender") or parse_list(fields.text("from") or "")
    authors = tuple(dict.fromkeys(address.canonical for address in shown))
    return Head(authors, next(iter(fields.ids("message-id")), None))


def scan_from(raw: bytes) -> tuple[str, ...]:
    """The authors `scan_head` finds."""
    return scan_head(raw).authors


def _line_ends(raw: bytes, defects: Defects) -> bytes:
    """Old mail whose only line end is CR is read with LF; any other bare CR or LF is merely noted."""
    crlf = raw.count(b"\r\n")
    lf, cr = raw.count(b"\n") - crlf, raw.count(b"\r") - crlf
    defects.add("bare_lf", lf)
    defects.add("bare_cr", cr)
    defects.add("nul", raw.count(b"\0"))
    return raw.replace(b"\r", b"\n") if cr and not crlf and not lf else raw


def _contents(raw: bytes, root: Node, defects: Defects) -> tuple[str | None, str | None, tuple[Part, ...]]:
    texts: list[str] = []
    htmls: list[str] = []
    attachments: list[Part] = []
    for node in root.leaves():
        disposition = parse_parameterized(decode(node.header("content-disposition") or b"", None))
        filename = _filename(node, disposition)
        content = _content(raw, node, defects)
        if node is root and node.type.startswith("multipart/"):  # no part found: show what there is
            texts.append(_text(content, node))
        elif node.type in {"text/plain", "text/html"} and disposition.value != "attachment" and not filename:
            (texts if node.type == "text/plain" else htmls).append(_text(content, node))
        else:
            attachments.append(_part(node, disposition, filename, content))
    text, inner = _inside(attachments, defects)
    if not texts and not htmls and text is not None:
        texts.append(text)
    return _joined(texts), _joined(htmls), (*attachments, *inner)


def _inside(attachments: Sequence[Part], defects: Defects) -> tuple[str | None, list[Part]]:
    """The text and the files of Outlook's containers; they come after everything else, so that no attachment's place moves."""
    text: str | None = None
    inner: list[Part] = []
    for part in attachments:
        if part.content_type in TNEF or (part.filename or "").lower() == "winmail.dat":
            container = read_tnef(part.content)
            defects.add("bad_tnef", int(not container.intact))
            inner += map(_file, container.files[: max(0, PARTS - len(inner))])
            text = text or container.text
    return text and text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n"), inner


def _file(file: File) -> Part:
    media_type = file.media_type.strip().lower()
    return Part(
        content=file.content,
        content_type=media_type if MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream",
        filename=safe_filename(file.name),
        content_disposition="inline" if file.content_id else "attachment",
        content_id=file.content_id.strip().strip("<>").strip() or None,
    )


def _joined(texts: Sequence[str]) -> str | None:
    return "\n".join(texts) if texts else None


def _content(raw: bytes, node: Node, defects: Defects) -> bytes:
    encoding = decode(node.header("content-transfer-encoding") or b"", None).partition(";")[0].strip().lower()
    content, intact = decode_transfer(raw[node.start : node.end], encoding)
    defects.add("bad_encoding", int(not intact))
    return content


def _text(content: bytes, node: Node) -> str:
    charset = node.content_type.parameters.get("charset")
    if node.type == "text/html" and codec(charset) is None and (meta := _META_CHARSET.search(content[:1024])):
        charset = meta[1].decode("ascii")
    text = decode(content, charset).replace("\r\n", "\n").replace("\r", "\n")
    if node.content_type.parameters.get("format", "").lower() == "flowed":
        text = unflow(text, delete_space=node.content_type.parameters.get("delsp", "").lower() == "yes")
    return text.removesuffix("\n")  # the line end of the last line ends the line, it is not text


def _filename(node: Node, disposition: Parameterized) -> str | None:
    name = disposition.parameters.get("filename") or node.content_type.parameters.get("name")
    return safe_filename(name)


def _part(node: Node, disposition: Parameterized, filename: str | None, content: bytes) -> Part:
    content_id = decode(node.header("content-id") or b"", None).strip().strip("<>").strip()
    kind: Literal["inline", "attachment"] | None = None
    if disposition.value == "inline" or (content_id and disposition.value != "attachment"):
        kind = "inline"
    elif disposition.value:
        kind = "attachment"
    method = node.content_type.parameters.get("method")
    media_type = (
        f"{node.type}; method={method.upper()}" if node.type == "text/calendar" and method and method.isalpha() else node.type
    )
    return Part(
        content=content, content_type=media_type, filename=filename, content_disposition=kind, content_id=content_id or None
    )
