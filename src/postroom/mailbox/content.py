"""What may be said: every argument of a send checked, cleaned and redacted before the log sees it.

Over a limit is refused, never cut: half a diff is worse than none. Control characters become
U+FFFD, so that a reader sees that something stood there. Secrets are taken out of every stored text;
an attachment that holds one is refused, because an altered file would be a lie.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from postroom.errors import Refused, TooLarge
from postroom.limits import KEY_CHARS, MAILBOX_ATTACHMENT_BYTES, MAILBOX_ATTACHMENTS, MAILBOX_TEXT_BYTES
from postroom.mailbox.names import wrong
from postroom.mailbox.records import File
from postroom.safety.redact import Redactor

THREAD_CHARS: Final = 200
PRIORITY_CHARS: Final = 32
ROLE_CHARS: Final = 64
EMOJI_CHARS: Final = 32
FILE_NAME_CHARS: Final = 200
MEDIA_TYPE_CHARS: Final = 100
_MENTION = re.compile(r"(?<![\w.@+-])@([A-Za-z0-9_-]{1,64})(?![\w@-]|\.\w)")
_BREAKS = re.compile("\r\n?")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_LINE_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(;[ -~]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An attachment's bytes and how it will be listed."""

    file: File
    data: bytes


def text_of(value: Any, redactor: Redactor, field: str = "text") -> tuple[str, int]:
    """A message's text as it is stored, and how many secrets were taken out."""
    if not isinstance(value, str):
        raise wrong(field, f"{field} must be text")
    if not value.strip():
        raise wrong(field, f"{field} must not be blank")
    if len(value) > MAILBOX_TEXT_BYTES or len(value.encode("utf-8", "surrogatepass")) > MAILBOX_TEXT_BYTES:
        raise TooLarge(
            f"{field} is over the limit of {MAILBOX_TEXT_BYTES} bytes; nothing was stored",
            fix="send it as an attachment, or in parts",
            errors=[{"path": [field], "message": f"over {MAILBOX_TEXT_BYTES} bytes", "code": "too_large"}],
        )
    if not value.isprintable():
        value = _CONTROLS.sub("\ufffd", _BREAKS.sub("\n", value))
    return redactor.redact(value)


def line_of(value: Any, field: str, limit: int, redactor: Redactor) -> str | None:
    """A short one-line text, None when not given or blank. Control characters are refused: it is read in terminals."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise wrong(field, f"{field} must be text")
    line = unicodedata.normalize("NFC", value).strip()
    if not line:
        return None
    if len(line) > limit:
        raise wrong(field, f"{field} is longer than {limit} characters", "too_large")
    if _LINE_CONTROLS.search(line):
        raise wrong(field, f"{field} holds a control character")
    return redactor.redact(line)[0]


def thread_of(value: Any, redactor: Redactor) -> str | None:
    """A thread's name, or `#number` of one that has none."""
    line = line_of(value, "thread", THREAD_CHARS, redactor)
    if line is not None and line.startswith("#") and not re.fullmatch(r"#[1-9][0-9]{0,15}", line):
        raise wrong("thread", "a thread's name must not begin with #; #NUMBER is the thread that message began")
    return line


def key_of(value: Any) -> str | None:
    """An idempotency key."""
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(value) > KEY_CHARS or not value.isprintable():
        raise wrong("idempotencyKey", f"an idempotency key is 1 to {KEY_CHARS} printable characters")
    return value


def mentions_in(text: str) -> list[str]:
    """Names after an `@`, each once. An e-mail address mentions nobody."""
    return list(dict.fromkeys(_MENTION.findall(text))) if "@" in text else []


def uploads_of(values: Any, redactor: Redactor) -> tuple[Upload, ...]:
    """Attachments, decoded strictly. Raises `Invalid`, `TooLarge`, or `Refused` when one holds a secret."""
    if values is None:
        return ()
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise wrong("attachments", "attachments must be a list")
    if len(values) > MAILBOX_ATTACHMENTS:
        raise TooLarge(f"there are more than {MAILBOX_ATTACHMENTS} attachments; nothing was stored")
    return tuple(_upload(value, redactor) for value in values)


def _upload(value: Any, redactor: Redactor) -> Upload:
    if not isinstance(value, Mapping) or not isinstance(value.get("content"), str):
        raise wrong("attachments", "an attachment is {content: base64, name, mediaType}")
    try:
        data = base64.b64decode(value["content"], validate=True)
    except (binascii.Error, ValueError):
        raise wrong("attachments", "an attachment's content must be base64") from None
    if not data:
        raise wrong("attachments", "an attachment must not be empty")
    if len(data) > MAILBOX_ATTACHMENT_BYTES:
        raise TooLarge(f"an attachment is over the limit of {MAILBOX_ATTACHMENT_BYTES} bytes; nothing was stored")
    if redactor.find(data.decode("utf-8", "replace")):
        raise Refused(
            "an attachment holds what looks like a secret; nothing was stored", code="secret_found", fix="take the secret out"
        )
    name = line_of(value.get("name"), "name", FILE_NAME_CHARS, redactor) or "attachment"
    kind = line_of(value.get("mediaType") or value.get("media_type"), "mediaType", MEDIA_TYPE_CHARS, redactor)
    if kind is not None and not _MEDIA_TYPE.fullmatch(kind):
        raise wrong("mediaType", "a media type is written type/subtype")
    file = File(
        file_id=hashlib.sha256(data).hexdigest(), name=name, media_type=kind or "application/octet-stream", size=len(data)
    )
    return Upload(file=file, data=data)
