"""`HostedSender`: the power to send through the hosted office, given to the gate alone.

An approval binds to the request here: the service makes the bytes. The request is sent under the outgoing id as
idempotency key, so however often it is asked, one mail leaves while the service remembers the key (a day). After
that nobody can ask without risk of a second copy, and the mail is *uncertain*: a person decides. What the service
then says it sent is fetched and compared with what was approved; a difference is told, it cannot be undone.

A reply goes by the service's reply, with every recipient named; the service quotes the mail answered below it. All
else is sent as a new mail, whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import structlog
from sqlalchemy import bindparam, select, update

from postroom.clock import MICROS
from postroom.errors import Busy, Conflict, NotFound, PostroomError, TransportFailure
from postroom.hosted import tables
from postroom.hosted.api import Api, Json
from postroom.hosted.shapes import attached, message_of, needed
from postroom.mime.addresses import parse_list
from postroom.model.event import OUTBOX_SENT
from postroom.model.mail import Message
from postroom.model.outgoing import Accepted, Frozen
from postroom.model.request import Outbound, SendKind
from postroom.store.engine import Store, Tx
from postroom.store.statement import insert_or_ignore, sql

REMEMBERED_S: Final = 23 * 3600  # the service remembers a key for a day
NOT_NAMED: Final = "the hosted office does not name this recipient of what it sent"
NOT_COMPARED: Final = "what was sent could not be fetched and compared with what was approved"

_c = tables.hosted_send.c
_ROW = sql(select(_c.first_at, _c.message_id, _c.thread_id).where(_c.outgoing_id == bindparam("outgoing_id")))
_BEGIN = insert_or_ignore(tables.hosted_send, ("outgoing_id", "first_at"))
_DONE = sql(
    update(tables.hosted_send)
    .where(_c.outgoing_id == bindparam("at_outgoing_id"), _c.message_id.is_(None))
    .values(message_id=bindparam("new_message_id"), thread_id=bindparam("new_thread_id"))
)
_REPLIES: Final = (SendKind.REPLY, SendKind.REPLY_ALL)
log = structlog.get_logger("postroom.hosted")


class HostedSender:
    """Sends frozen mail by the API."""

    def __init__(self, store: Store, api: Api) -> None:
        self._store = store
        self._api = api

    @property
    def binds(self) -> Literal["bytes", "request"]:
        return "request"

    def can_reach(self, address: str) -> str | None:
        """The service reaches everybody, and says itself whom not."""
        return None

    async def send(self, frozen: Frozen) -> Accepted:
        """Have it sent. Idempotent on `frozen.outgoing_id`. Raises `TransportFailure`, and what the service refuses."""
        now = self._store.clock.now_us()
        first_at, message_id, thread_id = await self._begin(frozen.outgoing_id, now)
        if message_id is not None:
            return Accepted(message_id=message_id, thread_id=thread_id, binds="request")
        if now - first_at > REMEMBERED_S * MICROS:
            raise TransportFailure("the hosted office was asked to send this, and never said whether it did", kind="uncertain")
        said = await self._ask(frozen)
        accepted = Accepted(message_id=needed(said, "message_id"), thread_id=needed(said, "thread_id"), binds="request")
        snapshot = await self._compared(frozen, accepted)
        await self._store.write(lambda tx: self._finish(tx, frozen, accepted, snapshot, self._store.clock.now_us()))
        await self._drop_draft(frozen.outbound)
        return accepted

    async def _begin(self, outgoing_id: str, now: int) -> tuple[int, str | None, str]:
        """When it was first asked for, and what came of it; written before anything is asked."""

        def begin(tx: Tx) -> tuple[int, str | None, str]:
            tx.run(_BEGIN, outgoing_id=outgoing_id, first_at=now)
            row = tx.one(_ROW, outgoing_id=outgoing_id)
            return (now, None, "") if row is None else (row[0], row[1], row[2] or "")

        return await self._store.write(begin)

    async def _ask(self, frozen: Frozen) -> Json:
        outbound = frozen.outbound
        answered = outbound.source_message_id if outbound.kind in _REPLIES else None
        verb = ("send",) if answered is None else (answered, "reply")
        try:
            return await self._api.call(
                "POST", "inboxes", outbound.inbox_id, "messages", *verb, body=request_of(outbound), key=frozen.outgoing_id
            )
        except Conflict:
            raise TransportFailure("the hosted office is still busy with this mail", kind="temporary") from None
        except Busy as problem:
            raise TransportFailure(problem.message, kind="temporary") from None

    async def _compared(self, frozen: Frozen, accepted: Accepted) -> dict[str, Any]:
        """What is told of the mail that left: who got it, and in what it differs from the approved one."""
        inbox = frozen.outbound.inbox_id
        try:
            sent = await message_of(await self._api.call("GET", "inboxes", inbox, "messages", accepted.message_id))
        except PostroomError as problem:
            log.warning("sent_not_compared", outgoing_id=frozen.outgoing_id, code=problem.code)
            return {"recipients": list(frozen.rcpt_to), "failed": {}, "differs": NOT_COMPARED}
        given = _canonical((*sent.to, *sent.cc, *sent.bcc))
        hidden = set() if sent.bcc else _canonical(frozen.outbound.bcc)  # a service may keep them to itself
        missing = {address: NOT_NAMED for address in frozen.rcpt_to if address not in given | hidden}
        recipients = sorted((given | set(frozen.rcpt_to)) - set(missing))
        differs = differences(frozen.outbound, sent)
        if differs:
            log.error("sent_differs", outgoing_id=frozen.outgoing_id, fields=differs)
        told = f"what was sent differs from what was approved in: {', '.join(differs)}" if differs else ""
        return {"recipients": recipients, "failed": missing, "differs": told}

    def _finish(self, tx: Tx, frozen: Frozen, accepted: Accepted, snapshot: Mapping[str, Any], at: int) -> None:
        done = tx.run(
            _DONE,
            at_outgoing_id=frozen.outgoing_id,
            new_message_id=accepted.message_id,
            new_thread_id=accepted.thread_id,
        )
        if not done:
            return
        tx.emit(
            OUTBOX_SENT,
            frozen.outgoing_id,
            at=at,
            agent_id=frozen.agent_id,
            inbox_id=frozen.outbound.inbox_id,
            thread_id=accepted.thread_id,
            pod_id=frozen.pod_id,
            snapshot={**snapshot, "message_id": accepted.message_id, "possible_duplicate": False},
        )

    async def _drop_draft(self, outbound: Outbound) -> None:
        """The draft was copied when it was submitted; what is left of it would only be sent twice."""
        if outbound.draft_id is None:
            return
        try:
            await self._api.call("DELETE", "inboxes", outbound.inbox_id, "drafts", outbound.draft_id)
        except NotFound:
            return
        except PostroomError as problem:
            log.warning("sent_draft_not_deleted", draft_id=outbound.draft_id, code=problem.code)


def request_of(outbound: Outbound) -> Json:
    """The whole of what was approved as the service's request, every recipient named."""
    lists = {name: list(getattr(outbound, name)) for name in ("to", "cc", "bcc", "reply_to", "labels")}
    body: Json = {name: value for name, value in lists.items() if value} | {"subject": outbound.subject}
    body |= {name: value for name in ("text", "html") if (value := getattr(outbound, name)) is not None}
    if outbound.headers:
        body["headers"] = dict(outbound.headers)
    if outbound.attachments:
        body["attachments"] = [attached(entry) for entry in outbound.attachments]
    return body


def differences(approved: Outbound, sent: Message) -> list[str]:
    """Names of what the service changed. Text it adds below ours (a quotation, a footer) is not a change of ours."""
    found = []
    if _words(approved.subject) != _words(sent.subject or ""):
        found.append("subject")
    if not _words(sent.text or "").startswith(_words(approved.text or "")):
        found.append("text")
    wanted = Counter((entry.filename or "", len(entry.content)) for entry in approved.attachments)
    if wanted != Counter((entry.filename or "", entry.size) for entry in sent.attachments):
        found.append("attachments")
    return found


def _canonical(texts: Iterable[str]) -> set[str]:
    return {address.canonical for text in texts for address in parse_list(text)[:1]}


def _words(text: str) -> str:
    return " ".join(text.split())
