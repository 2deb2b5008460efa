"""Request bodies. Unknown fields are dropped, null means absent (on a draft's PATCH: clear)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, FiniteFloat, StrictBool, StrictInt, StrictStr

from postroom.errors import Invalid
from postroom.interfaces.rest.params import invalid, moment
from postroom.limits import DISPLAY_NAME_CHARS, KEY_CHARS
from postroom.model.mail import AttachmentData, DraftFields, NewInbox
from postroom.model.request import SendKind, SendRequest

Several = str | list[str] | None
ClientId = Annotated[str, Field(pattern=rf"^[A-Za-z0-9._~-]{{1,{KEY_CHARS}}}$")]
DisplayName = Annotated[str, Field(max_length=DISPLAY_NAME_CHARS, pattern=r'^[^()<>@,;:\\"\[\]\x00-\x1f\x7f]*$')]
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Value = StrictStr | StrictBool | StrictInt | FiniteFloat
_CLEARABLE: Final = ("reply_to", "to", "cc", "bcc", "subject", "text", "html", "send_at")


class CreateInbox(BaseModel):
    username: str | None = None
    domain: str | None = None
    display_name: DisplayName | None = None
    client_id: ClientId | None = None
    status: Literal["active", "paused"] | None = None
    metadata: dict[str, Value] | None = None

    def noun(self) -> NewInbox:
        return NewInbox(
            username=self.username,
            domain=self.domain,
            display_name=self.display_name,
            client_id=self.client_id,
            status=self.status or "active",
            metadata=self.metadata or {},
        )


class UpdateInbox(BaseModel):
    """At least one field. `metadata` merges: a null value deletes its key, null itself clears all."""

    display_name: DisplayName | None = None
    status: Literal["active", "paused"] | None = None
    metadata: dict[str, Value | None] | None = None

    def changes(self) -> dict[str, Any]:
        changes = {name: getattr(self, name) for name in self.model_fields_set}
        if changes.get("status", "") is None:
            del changes["status"]
        if not changes:
            raise Invalid("give display_name, status or metadata")
        if changes.get("metadata") == {}:
            raise invalid("metadata", "an empty map changes nothing; null clears all of it")
        return changes


class SendAttachment(BaseModel):
    filename: str | None = None
    content_type: str | None = None
    content_disposition: Literal["inline", "attachment"] | None = None
    content_id: str | None = None
    content: str | None = Field(default=None, description="standard base64, padded")
    url: str | None = None

    def noun(self) -> AttachmentData:
        if (self.content is None) == (self.url is None):
            raise invalid("attachments", "an attachment needs exactly one of content and url")
        try:
            content = base64.b64decode(self.content or "", validate=True)
        except (binascii.Error, ValueError):
            raise invalid("attachments", "content is not standard, padded base64") from None
        return AttachmentData(
            content=content,
            filename=self.filename,
            content_type=self.content_type,
            content_disposition=self.content_disposition,
            content_id=self.content_id,
            url=self.url,
        )


class Send(BaseModel):
    """A message to send or forward."""

    labels: list[str] | None = None
    reply_to: Several = None
    to: Several = None
    cc: Several = None
    bcc: Several = None
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    attachments: list[SendAttachment] | None = None
    headers: dict[str, str] | None = None
    track_opens: StrictBool | None = None

    def request(self, kind: SendKind, inbox_id: str, message_id: str | None = None) -> SendRequest:
        to, cc, bcc = several(self.to), several(self.cc), several(self.bcc)
        if kind in (SendKind.SEND, SendKind.FORWARD) and not (to or cc or bcc):
            raise invalid("to", "to, cc, or bcc must be specified", "required")
        return SendRequest(
            kind=kind,
            inbox_id=inbox_id,
            message_id=message_id,
            to=to,
            cc=cc,
            bcc=bcc,
            reply_to=several(self.reply_to),
            subject=self.subject,
            text=self.text,
            html=self.html,
            labels=several(self.labels),
            attachments=_data(self.attachments),
            headers=self.headers or {},
        )


class Reply(Send):
    """A reply; `to`, `cc` and `bcc` replace the derived recipients."""

    reply_all: StrictBool | None = None

    def reply(self, inbox_id: str, message_id: str) -> SendRequest:
        if not self.reply_all:
            return self.request(SendKind.REPLY, inbox_id, message_id)
        if several(self.to) or several(self.cc) or several(self.bcc):
            raise invalid("reply_all", "reply_all derives the recipients; it cannot be combined with to, cc or bcc")
        return self.request(SendKind.REPLY_ALL, inbox_id, message_id)


class ReplyAll(BaseModel):
    """A reply to everyone; recipients and subject are derived, passed ones ignored."""

    labels: list[str] | None = None
    reply_to: Several = None
    text: str | None = None
    html: str | None = None
    attachments: list[SendAttachment] | None = None
    headers: dict[str, str] | None = None
    track_opens: StrictBool | None = None

    def reply(self, inbox_id: str, message_id: str) -> SendRequest:
        whole = Send(**{name: getattr(self, name) for name in self.model_fields_set})
        return whole.request(SendKind.REPLY_ALL, inbox_id, message_id)


class CreateDraft(BaseModel):
    labels: list[str] | None = None
    reply_to: Several = None
    to: Several = None
    cc: Several = None
    bcc: Several = None
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    attachments: list[SendAttachment] | None = None
    in_reply_to: str | None = None
    forward_of: str | None = None
    reply_all: StrictBool | None = None
    send_at: Moment | None = None
    client_id: ClientId | None = None

    def noun(self) -> DraftFields:
        to, cc, bcc = several(self.to), several(self.cc), several(self.bcc)
        if self.in_reply_to and self.forward_of:
            raise invalid("forward_of", "a draft is a reply or a forward, not both")
        if self.reply_all and (to or cc or bcc):
            raise invalid("reply_all", "reply_all derives the recipients; it cannot be combined with to, cc or bcc")
        return DraftFields(
            to=to,
            cc=cc,
            bcc=bcc,
            reply_to=several(self.reply_to),
            subject=self.subject,
            text=self.text,
            html=self.html,
            labels=several(self.labels),
            attachments=_data(self.attachments),
            in_reply_to=self.in_reply_to,
            forward_of=self.forward_of,
            reply_all=bool(self.reply_all),
            send_at=moment(self.send_at, "send_at"),
            client_id=self.client_id,
        )


class UpdateLabels(BaseModel):
    """Labels to add and remove; one of both is required."""

    add_labels: Several = None
    remove_labels: Several = None

    def pair(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        add, remove = several(self.add_labels), several(self.remove_labels)
        if not add and not remove:
            raise invalid("add_labels", "give add_labels or remove_labels", "required")
        return add, remove


class SendDraft(BaseModel):
    """Labels for the message the draft becomes."""

    add_labels: Several = None
    remove_labels: Several = None


class UpdateDraft(BaseModel):
    """A field that is absent is kept, null clears it."""

    reply_to: Several = None
    to: Several = None
    cc: Several = None
    bcc: Several = None
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    send_at: Moment | None = None
    add_attachments: list[SendAttachment] | None = None
    remove_attachments: list[str] | None = None
    add_labels: Several = None
    remove_labels: Several = None

    def changes(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in _CLEARABLE if name in self.model_fields_set}
        for name in ("reply_to", "to", "cc", "bcc"):
            if name in given:
                given[name] = several(given[name])
        if "send_at" in given:
            given["send_at"] = moment(self.send_at, "send_at")
        lists = {
            "add_attachments": _data(self.add_attachments),
            "remove_attachments": tuple(self.remove_attachments or ()),
            "add_labels": several(self.add_labels),
            "remove_labels": several(self.remove_labels),
        }
        return given | {name: value for name, value in lists.items() if value}


class BatchGet(BaseModel):
    message_ids: list[str] = Field(min_length=1, max_length=500, json_schema_extra={"uniqueItems": True})

    def ids(self) -> tuple[str, ...]:
        return _distinct(self.message_ids)


class BatchUpdate(UpdateLabels):
    message_ids: list[str] = Field(min_length=1, max_length=50, json_schema_extra={"uniqueItems": True})

    def ids(self) -> tuple[str, ...]:
        return _distinct(self.message_ids)


def several(value: Several) -> tuple[str, ...]:
    """One text or a list of them, as a tuple without empty entries."""
    entries = [value] if isinstance(value, str) else value or []
    return tuple(entry for entry in entries if entry.strip())


def _data(rows: Sequence[SendAttachment] | None) -> tuple[AttachmentData, ...]:
    return tuple(row.noun() for row in rows or ())


def _distinct(ids: Sequence[str]) -> tuple[str, ...]:
    if len(set(ids)) != len(ids):
        raise invalid("message_ids", "each id may be given once", "duplicate")
    return tuple(ids)
