"""Events as the contract writes them: the frame a WebSocket carries and a webhook posts.

A frame is complete or it is not sent: a client's library takes an incomplete one for another type.
What a received message was is looked up when its frame is made; if it has been deleted since, there
is no frame. Above a size clients can take, bodies are left out, then other long fields: what
remains still has everything that is required, and the whole can be read by its ids.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from postroom.clock import to_iso
from postroom.errors import NotFound
from postroom.interfaces.rest.domains import Domain
from postroom.interfaces.rest.shapes import ORGANIZATION, Message, ThreadItem
from postroom.limits import FRAME_BYTES
from postroom.model import event as kinds
from postroom.model.event import Event
from postroom.model.paging import PageRequest
from postroom.model.ports import Mail
from postroom.model.principal import Principal

_RECEIVED: Final = frozenset({kinds.RECEIVED, *kinds.RESTRICTED})
# kind: the payload's key, and what the event's snapshot says of it (with what to say when it does not)
_ABOUT_SENT: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    kinds.SENT: ("send", {"recipients": []}),
    kinds.DELIVERED: ("delivery", {"recipients": []}),
    kinds.BOUNCED: ("bounce", {"type": "Permanent", "sub_type": "General", "recipients": []}),
    kinds.COMPLAINED: ("complaint", {"type": "abuse", "sub_type": "", "recipients": []}),
    kinds.REJECTED: ("reject", {"reason": "rejected"}),
}
_LONG: Final = (("text", "html", "extracted_text", "extracted_html"), ("headers", "references", "attachments"), ("cc", "bcc"))
_THREAD_LONG: Final = ("attachments",)
_LEFT_OF_LISTS: Final = 100


class Frames:
    """Makes frames out of events. `mail` is asked in the caller's name, so it sees no more than it may."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail

    async def frame(self, principal: Principal, event: Event) -> bytes | None:
        """The JSON of `event`; None when it is none of the contract's, not the caller's, or its message is gone."""
        try:
            payload = await self._payload(principal, event)
        except NotFound:
            return None
        if payload is None:
            return None
        head = {"type": "event", "event_type": event.kind, "event_id": event.event_id, "organization_id": ORGANIZATION}
        return encode(head | payload)

    async def _payload(self, principal: Principal, event: Event) -> dict[str, Any] | None:
        if event.kind == kinds.DOMAIN_VERIFIED:
            return await self._verified(principal, event)
        if event.inbox_id is None or event.thread_id is None:
            return None
        if event.kind in _RECEIVED:
            return await self._received(principal, event.inbox_id, event)
        if event.kind not in _ABOUT_SENT:
            return None
        await self._mail.get_inbox(principal, event.inbox_id)
        key, facts = _ABOUT_SENT[event.kind]
        said = {name: event.snapshot.get(name, otherwise) for name, otherwise in facts.items()}
        return {key: _ids(event) | said}

    async def _verified(self, principal: Principal, event: Event) -> dict[str, Any] | None:
        look: Callable[..., Awaitable[Any]] | None = getattr(self._mail, "get_domain", None)
        if look is None or not principal.is_owner or principal.inbox_scope is not None:
            return None
        return {"domain": Domain.of(await look(principal, event.ref)).model_dump(exclude_none=True)}

    async def _received(self, principal: Principal, inbox_id: str, event: Event) -> dict[str, Any]:
        message = await self._mail.get_message(principal, inbox_id, event.ref)
        thread = await self._mail.get_thread(principal, inbox_id, message.thread_id, PageRequest(limit=1))
        return {
            "message": Message.of(message).model_dump(by_alias=True, exclude_none=True),
            "thread": ThreadItem.of(thread).model_dump(by_alias=True, exclude_none=True),
        }


def encode(frame: dict[str, Any]) -> bytes:
    """The frame as JSON of a size clients take."""
    content = msgspec.json.encode(frame)
    for fields in _LONG:
        if len(content) <= FRAME_BYTES or "message" not in frame:
            return content
        frame = frame | {
            "message": _without(frame["message"], fields),
            "thread": _short(_without(frame["thread"], _THREAD_LONG)),
        }
        content = msgspec.json.encode(frame)
    return content


def _ids(event: Event) -> dict[str, Any]:
    return {
        "organization_id": ORGANIZATION,
        "pod_id": event.pod_id,
        "inbox_id": event.inbox_id,
        "thread_id": event.thread_id,
        "message_id": event.ref,
        "timestamp": to_iso(event.at),
    }


def _without(shape: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in shape.items() if name not in fields}


def _short(thread: dict[str, Any]) -> dict[str, Any]:
    """Its lists of people cut to the first ones: a thread may have gathered hundreds."""
    return thread | {name: thread[name][:_LEFT_OF_LISTS] for name in ("senders", "recipients")}
