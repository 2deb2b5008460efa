"""Rows of `outgoing`: what a row holds, how it is written down, and the queries on it.

A row is a frozen mail with its state. Attachments are kept as blobs by their hash; everything else
of the `Outbound` is in the row, so a mail can be sent again after a crash without asking anybody.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import msgspec
from sqlalchemy import and_, bindparam, insert, select, update

from postroom.gate.tables import outgoing as t
from postroom.model.mail import AttachmentData
from postroom.model.outgoing import Boundary, Frozen, Outgoing, State
from postroom.model.principal import Principal
from postroom.model.request import Outbound
from postroom.store.engine import Reader, Tx
from postroom.store.statement import Statement, sql


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredAttachment:
    """An attachment whose bytes are the blob `sha`."""

    sha: str
    size: int
    filename: str | None = None
    content_type: str | None = None
    content_disposition: Literal["inline", "attachment"] | None = None
    content_id: str | None = None

    @classmethod
    def of(cls, entry: AttachmentData, sha: str) -> StoredAttachment:
        """`entry`, its bytes kept as `sha`."""
        return cls(
            sha=sha,
            size=len(entry.content),
            filename=entry.filename,
            content_type=entry.content_type,
            content_disposition=entry.content_disposition,
            content_id=entry.content_id,
        )

    def data(self, content: bytes) -> AttachmentData:
        """The attachment again, with its bytes."""
        return AttachmentData(
            content=content,
            filename=self.filename,
            content_type=self.content_type,
            content_disposition=self.content_disposition,
            content_id=self.content_id,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One outgoing mail. `outbound` carries no attachments here; they are in `attachments`."""

    outgoing_id: str
    pod: str
    submitter: str
    submission_key: str | None
    fingerprint: str
    content: str
    principal: Principal
    agent_id: str | None
    inbox_id: str
    state: State
    outbound: Outbound
    attachments: tuple[StoredAttachment, ...]
    mail_from: str
    rcpt_to: tuple[str, ...]
    raw_sha: str
    size: int
    digest: str
    message_id: str
    thread_id: str | None
    reasons: tuple[str, ...]
    refused: tuple[str, ...]
    boundary: Boundary
    boundary_reason: str
    created_at: int
    expires_at: int
    handed_at: int | None = None
    decided_by: str | None = None
    decided_at: int | None = None
    comment: str | None = None
    detail: str | None = None
    possible_duplicate: bool = False
    id: int = 0

    def frozen(self, raw: bytes, attachments: tuple[AttachmentData, ...]) -> Frozen:
        """The mail as the sender takes it."""
        return Frozen(
            outgoing_id=self.outgoing_id,
            pod_id=self.pod,
            principal_label=self.principal.label,
            agent_id=self.agent_id,
            outbound=dataclasses.replace(self.outbound, attachments=attachments),
            message_id=self.message_id,
            mail_from=self.mail_from,
            rcpt_to=self.rcpt_to,
            raw=raw,
            digest=self.digest,
        )

    def shown(self) -> Outgoing:
        """The row as its owner sees it."""
        out = self.outbound
        return Outgoing(
            outgoing_id=self.outgoing_id,
            state=self.state,
            inbox_id=self.inbox_id,
            agent=self.principal.label,
            session_id=self.principal.session_id,
            mail_from=self.mail_from,
            to=out.to,
            cc=out.cc,
            bcc=out.bcc,
            subject=out.subject,
            text=out.text or "",
            attachments=tuple((entry.filename or "(unnamed)", entry.size) for entry in self.attachments),
            size=self.size,
            digest=self.digest,
            message_id=self.message_id,
            thread_id=self.thread_id,
            in_reply_to=out.in_reply_to,
            reasons=self.reasons,
            boundary=self.boundary,
            boundary_reason=self.boundary_reason,
            created_at=self.created_at,
            expires_at=self.expires_at,
            decided_by=self.decided_by,
            decided_at=self.decided_at,
            comment=self.comment,
            detail=self.detail,
            possible_duplicate=self.possible_duplicate,
            html=out.html,
            reply_to=out.reply_to,
            headers=out.headers,
        )


_JSON = {"principal": Principal, "outbound": Outbound, "rcpt_to": tuple[str, ...]}
_JSON |= {"attachments": tuple[StoredAttachment, ...], "reasons": tuple[str, ...], "refused": tuple[str, ...]}
_NAMES = tuple(field.name for field in dataclasses.fields(Row))
_COLUMNS = tuple(t.c[name] for name in _NAMES)
_CHANGES = (
    "state",
    "message_id",
    "thread_id",
    "handed_at",
    "decided_by",
    "decided_at",
    "comment",
    "detail",
    "possible_duplicate",
)
_KEPT = ("reasons", "refused")

INSERT = sql(insert(t).values({name: bindparam(name) for name in _NAMES if name != "id"}))
BY_ID = sql(select(*_COLUMNS).where(t.c.outgoing_id == bindparam("outgoing_id")))
BY_KEY = sql(
    select(*_COLUMNS).where(
        t.c.pod == bindparam("pod"), t.c.submitter == bindparam("submitter"), t.c.submission_key == bindparam("key")
    )
)
_FREE_KEY = sql(
    update(t)
    .values(submission_key=None)
    .where(t.c.pod == bindparam("of_pod"), t.c.submitter == bindparam("of_submitter"), t.c.submission_key == bindparam("key"))
)
_ALIVE = [state.value for state in (State.HELD, State.APPROVED, State.SENDING, State.SENT)]
BY_CONTENT = sql(
    select(*_COLUMNS)
    .where(
        t.c.submitter == bindparam("submitter"),
        t.c.content == bindparam("content"),
        t.c.pod == bindparam("pod"),
        t.c.state.in_(_ALIVE),
        t.c.created_at > bindparam("since"),
    )
    .order_by(t.c.id.desc())
    .limit(1)
)
MOVE = sql(
    update(t)
    .values({name: bindparam(f"new_{name}") for name in (*_CHANGES, *_KEPT)})
    .where(and_(t.c.outgoing_id == bindparam("at_outgoing_id"), t.c.state == bindparam("at_state")))
)
IN_FLIGHT = sql(
    select(t.c.outgoing_id)
    .where(t.c.state.in_((State.APPROVED.value, State.SENDING.value)), t.c.handed_at.is_(None))
    .order_by(t.c.id)
)
DUE = sql(
    select(t.c.outgoing_id).where(t.c.state.in_((State.HELD.value, State.APPROVED.value)), t.c.expires_at <= bindparam("now"))
)
NEXT_EXPIRY = sql(
    select(t.c.expires_at).where(t.c.state.in_((State.HELD.value, State.APPROVED.value))).order_by(t.c.expires_at).limit(1)
)


def find(reader: Reader, outgoing_id: str) -> Row | None:
    """The row of an outgoing id."""
    return _decode(reader.one(BY_ID, outgoing_id=outgoing_id))


def find_key(reader: Reader, pod: str, submitter: str, key: str) -> Row | None:
    """The row a submitter's key stands for."""
    return _decode(reader.one(BY_KEY, pod=pod, submitter=submitter, key=key))


def free_key(tx: Tx, pod: str, submitter: str, key: str) -> None:
    """Take a key that has served its time from its row, so that it can be used again."""
    tx.run(_FREE_KEY, of_pod=pod, of_submitter=submitter, key=key)


def add(tx: Tx, row: Row) -> None:
    """Write a new row."""
    values = {name: _write(name, getattr(row, name)) for name in _NAMES if name != "id"}
    tx.insert(INSERT, **values)


def update_row(tx: Tx, before: Row, after: Row) -> bool:
    """Write what changed; False when the stored state is no longer `before`'s."""
    changed = {f"new_{name}": _write(name, getattr(after, name)) for name in (*_CHANGES, *_KEPT)}
    return tx.run(MOVE, at_outgoing_id=before.outgoing_id, at_state=before.state.value, **changed) == 1


def find_content(reader: Reader, pod: str, submitter: str, content: str, *, since: int) -> Row | None:
    """The newest row of the same content that is on its way or gone, made after `since`."""
    return _decode(reader.one(BY_CONTENT, pod=pod, submitter=submitter, content=content, since=since))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows to list; None or () leaves a condition out."""

    pod: str
    states: tuple[State, ...] = ()
    agent_id: str | None = None
    inbox_id: str | None = None
    before: int | None = None


def select_rows(reader: Reader, wanted: Selection, limit: int) -> list[Row]:
    """Rows newest first."""
    given = {name: value for name in ("agent_id", "inbox_id", "before") if (value := getattr(wanted, name)) is not None}
    statement = _listing(frozenset(given), wanted.states)
    found = reader.all(statement, pod=wanted.pod, most=limit, **given)
    return [row for values in found if (row := _decode(values)) is not None]


@functools.lru_cache(maxsize=256)
def _listing(given: frozenset[str], states: tuple[State, ...]) -> Statement:
    where = [t.c.pod == bindparam("pod")]
    where += [t.c[name] == bindparam(name) for name in ("agent_id", "inbox_id") if name in given]
    if "before" in given:
        where.append(t.c.id < bindparam("before"))
    if states:
        where.append(t.c.state.in_([state.value for state in states]))
    return sql(select(*_COLUMNS).where(*where).order_by(t.c.id.desc()).limit(bindparam("most")))


def _write(name: str, value: Any) -> Any:
    if name in _JSON:
        return msgspec.json.encode(value).decode()
    if name == "state":
        return value.value
    return int(value) if isinstance(value, bool) else value


def _decode(found: tuple[Any, ...] | None) -> Row | None:
    if found is None:
        return None
    values = dict(zip(_NAMES, found, strict=True))
    for name, kind in _JSON.items():
        values[name] = msgspec.json.decode(values[name], type=kind)
    values["state"] = State(values["state"])
    values["possible_duplicate"] = bool(values["possible_duplicate"])
    return Row(**values)
