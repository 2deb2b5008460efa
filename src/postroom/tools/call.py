"""One tool call with its arguments checked, and the inbox it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from postroom.config import Config
from postroom.errors import Invalid, NotFound
from postroom.model.mail import Inbox
from postroom.model.paging import PageRequest
from postroom.model.ports import Mail
from postroom.model.principal import Principal

_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`inbox` is the one the connection was opened for; `canonical` asks for the reference's field names."""

    principal: Principal
    arguments: Mapping[str, Any]
    call_id: str | None = None
    inbox: str | None = None
    canonical: bool = False

    def text(self, name: str) -> str:
        """A required text."""
        return str(self.arguments[name])

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty when not given."""
        return tuple(self.arguments.get(name, ()))

    def page(self, default: int) -> PageRequest:
        """The page asked for, 1 to 100 rows."""
        page = PageRequest(limit=self.arguments.get("limit", default), page_token=self.arguments.get("pageToken"))
        page.size(filtered=True)
        return page


async def listing_inbox(mail: Mail, call: Call) -> str | None:
    """The inbox a list or search covers; None: every inbox of the agent. Raises `Invalid` for the owner without one."""
    if call.inbox is not None:
        return (await mail.get_inbox(call.principal, call.inbox)).inbox_id
    if call.principal.is_owner:
        raise await _unnamed(mail, call)
    return None


async def sending_inbox(mail: Mail, call: Call, config: Config) -> str:
    """The inbox a new mail leaves from: the connection's, the only one, else the configured one."""
    if call.inbox is not None:
        return (await mail.get_inbox(call.principal, call.inbox)).inbox_id
    if call.principal.is_owner:
        raise await _unnamed(mail, call)
    owned = (await mail.list_inboxes(call.principal, PageRequest(limit=_LISTED))).items
    if len(owned) == 1:
        return owned[0].inbox_id
    agent = config.agents.get(call.principal.name or "")
    wanted = (agent.inbox if agent else "") or config.office.inbox
    if any(inbox.inbox_id == wanted for inbox in owned):
        return wanted
    raise _choose(owned, "set agents.NAME.inbox in the config, or add ?inbox=ADDRESS to the MCP address")


async def message_inbox(mail: Mail, call: Call, message_id: str) -> str:
    """The caller's inbox that holds this message. Raises `NotFound`."""
    if call.inbox is not None or call.principal.is_owner:
        return await listing_inbox(mail, call) or ""
    for inbox in (await mail.list_inboxes(call.principal, PageRequest(limit=_LISTED))).items:
        try:
            await mail.get_message(call.principal, inbox.inbox_id, message_id)
        except NotFound:
            continue
        return inbox.inbox_id
    raise NotFound("Message not found", fix="read the thread and use a message_id from there")


async def draft_inbox(mail: Mail, call: Call, draft_id: str) -> str:
    """The inbox of a draft the caller may use. Raises `NotFound`."""
    return (await mail.get_draft(call.principal, await listing_inbox(mail, call), draft_id)).inbox_id


async def _unnamed(mail: Mail, call: Call) -> Invalid:
    inboxes = (await mail.list_inboxes(call.principal, PageRequest(limit=_LISTED))).items
    return _choose(inboxes, "the owner's key names one by ?inbox=ADDRESS in the MCP address")


def _choose(inboxes: tuple[Inbox, ...], fix: str) -> Invalid:
    if not inboxes:
        return Invalid("there is no inbox yet", code="no_inbox", fix="the owner makes one: postroom agent add NAME")
    listed = ", ".join(inbox.inbox_id for inbox in inboxes)
    return Invalid(f"it is not clear which inbox is meant: {listed}", code="inbox_needed", fix=fix)
