"""`HostedMail`: the `Mail` Protocol over the AgentMail API.

The caller's rights are this house's: an agent reaches the inboxes that are its own by `inboxes`, and nothing is
asked of the service on behalf of anybody else. Ids, pages and tokens are the service's. Nothing here can send, and
nothing may be left behind that the service would send by itself: a draft with a moment to be sent at is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, TypeVar

from postroom.config import Config
from postroom.errors import Forbidden, Invalid, NotFound, Refused
from postroom.hosted import shapes
from postroom.hosted.api import Api, Json, Unexpected
from postroom.hosted.inboxes import Inboxes
from postroom.hosted.listing import merged
from postroom.ids import new_uuid
from postroom.model.mail import Attachment, AttachmentData, Blob, Draft, DraftFields, Inbox, Message, NewInbox, Thread
from postroom.model.paging import MailFilter, Page, PageRequest, make_token, read_token, scope_of
from postroom.model.ports import Attach, DraftChanges
from postroom.model.principal import Kind, Principal, require_owner
from postroom.policy.labels import check_labels

T = TypeVar("T")
_EMBEDDED: Final = Config().office.domains  # of our own office; no hosted one has it
_PAGES: Final = 100  # of a list whose end matters
_LISTS: Final = ("remove_attachments", "add_labels", "remove_labels")
_KEPT: Final = ("reply_to", "to", "cc", "bcc", "subject", "text", "html")
Path: TypeAlias = tuple[str, ...]


class HostedMail:
    """Email without the power to send it."""

    def __init__(self, api: Api, inboxes: Inboxes, config: Config) -> None:
        self._api = api
        self._inboxes = inboxes
        self._attaching: Attach | None = None
        self._domains = tuple(name.lower() for name in config.office.domains if name not in _EMBEDDED)

    def attached_by(self, attaching: Attach) -> None:
        """Who fetches attachments that are given by URL."""
        self._attaching = attaching

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains whose every inbox is the owner's, as the config says; none by default."""
        return self._domains

    async def list_inboxes(self, principal: Principal, page: PageRequest) -> Page[Inbox]:
        size = page.size()
        if principal.is_owner and principal.inbox_scope is None:
            found = await self._api.call("GET", "inboxes", query=shapes.page_query(page))
            return _page(found, [self._inboxes.noun(entry) for entry in shapes.objects_of(found, "inboxes")])
        scope = scope_of("hosted inboxes", principal.agent_id, principal.inbox_scope)
        start = (read_token(scope, page.page_token, int) or [0])[0]
        if principal.inbox_scope is not None:
            owned = [await self._inboxes.get(principal, principal.inbox_scope)]
        else:
            owned = await self._inboxes.owned(principal)
        more = make_token(scope, [start + size]) if len(owned) > start + size else None
        return Page(items=tuple(owned[start : start + size]), next_page_token=more)

    async def create_inbox(self, principal: Principal, new: NewInbox) -> Inbox:
        """Create one; for an agent also take one of the account's that is nobody's yet.

        An agent's inbox that says nothing of itself is found as `Inboxes.resolve` finds it.
        """
        require_owner(principal, "create inboxes")
        if new == NewInbox(owner_agent=new.owner_agent) and new.owner_agent is not None:
            return await self._inboxes.resolve(new.owner_agent)
        try:
            made = self._inboxes.noun(await self._api.call("POST", "inboxes", body=_new_inbox(new)))
        except Forbidden as problem:
            if problem.code not in ("already_exists", "resource_taken") or not (new.owner_agent and new.username and new.domain):
                raise
            return await self._take(principal, f"{new.username}@{new.domain}", new.owner_agent, problem)
        if new.owner_agent is None:
            return made
        return await self._inboxes.claim(made, new.owner_agent, fresh=True)

    async def get_inbox(self, principal: Principal, inbox_id: str) -> Inbox:
        return await self._inboxes.get(principal, inbox_id)

    async def list_messages(self, principal: Principal, inbox_id: str, filter: MailFilter, page: PageRequest) -> Page[Message]:
        address = self._inboxes.own(principal, inbox_id)
        query = shapes.page_query(page) | shapes.filter_query(filter, threads=False)
        found = await self._api.call("GET", "inboxes", address, "messages", query=query)
        return _page(found, [shapes.row_of(entry) for entry in shapes.objects_of(found, "messages")])

    async def get_message(self, principal: Principal, inbox_id: str, message_id: str) -> Message:
        address = self._inboxes.own(principal, inbox_id)
        return await shapes.message_of(await self._api.call("GET", "inboxes", address, "messages", message_id))

    async def get_raw(self, principal: Principal, inbox_id: str, message_id: str) -> Blob:
        address = self._inboxes.own(principal, inbox_id)
        link = await self._api.call("GET", "inboxes", address, "messages", message_id, "raw")
        return Blob(content=await self._api.download(link), filename="message.eml", content_type="message/rfc822")

    async def get_attachment(
        self, principal: Principal, inbox_id: str, message_id: str, attachment_id: str
    ) -> tuple[Attachment, Blob]:
        address = self._inboxes.own(principal, inbox_id)
        found = await self._api.call("GET", "inboxes", address, "messages", message_id, "attachments", attachment_id)
        return await self._attachment(found)

    async def update_message(
        self, principal: Principal, inbox_id: str, message_id: str, add: Sequence[str], remove: Sequence[str]
    ) -> tuple[str, ...]:
        address = self._inboxes.own(principal, inbox_id)
        found = await self._api.call("PATCH", "inboxes", address, "messages", message_id, body=_labels(add, remove))
        return shapes.texts_of(found, "labels")

    async def list_threads(
        self, principal: Principal, inbox_id: str | None, filter: MailFilter, page: PageRequest
    ) -> Page[Thread]:
        conditions = shapes.filter_query(filter, threads=True)

        async def of(path: Path, one: PageRequest) -> Page[Thread]:
            return await self._threads(path, shapes.page_query(one) | conditions)

        paths = await self._paths(principal, inbox_id)
        return await merged(paths, page, of, newest=lambda row: row.timestamp, what=f"threads {conditions}")

    async def get_thread(
        self, principal: Principal, inbox_id: str | None, thread_id: str, page: PageRequest | None = None
    ) -> Thread:
        query = {} if page is None else shapes.page_query(page)
        return await shapes.thread_of(await self._get(principal, inbox_id, "threads", thread_id, query=query))

    async def update_thread(
        self, principal: Principal, inbox_id: str | None, thread_id: str, add: Sequence[str], remove: Sequence[str]
    ) -> tuple[str, ...]:
        body = _labels(add, remove)
        if inbox_id is None:
            inbox_id = (await self.get_thread(principal, None, thread_id, PageRequest(limit=1))).inbox_id
        address = self._inboxes.own(principal, inbox_id)
        return shapes.texts_of(await self._api.call("PATCH", "inboxes", address, "threads", thread_id, body=body), "labels")

    async def search_threads(
        self, principal: Principal, inbox_id: str | None, query: str, page: PageRequest, filter: MailFilter
    ) -> Page[Thread]:
        """Full-text search, best first. The service's search takes no other conditions than before and after."""
        asked = {"q": query} | shapes.filter_query(MailFilter(before=filter.before, after=filter.after), threads=True)

        async def of(path: Path, one: PageRequest) -> Page[Thread]:
            return await self._threads((*path, "threads", "search"), shapes.page_query(one) | asked)

        return await merged(await self._paths(principal, inbox_id), page, of, what=f"search {asked}")

    async def create_draft(self, principal: Principal, inbox_id: str, fields: DraftFields) -> Draft:
        address = self._inboxes.own(principal, inbox_id)
        whole = replace(fields, attachments=await self._attached(principal, fields.attachments))
        return self._draft(await self._api.call("POST", "inboxes", address, "drafts", body=_new_draft(whole)))

    async def get_draft(self, principal: Principal, inbox_id: str | None, draft_id: str) -> Draft:
        """The draft with its attachments' bytes in `fields.attachments`."""
        said = await self._get(principal, inbox_id, "drafts", draft_id)
        address = self._inboxes.own(principal, shapes.needed(said, "inbox_id"))
        held = []
        for entry in shapes.objects_of(said, "attachments"):
            name = shapes.needed(entry, "attachment_id")
            row, blob = await self._attachment(
                await self._api.call("GET", "inboxes", address, "drafts", draft_id, "attachments", name)
            )
            held.append(
                AttachmentData(
                    content=blob.content,
                    filename=row.filename,
                    content_type=row.content_type,
                    content_disposition=row.content_disposition,
                    content_id=row.content_id,
                )
            )
        return self._draft(said, tuple(held))

    async def update_draft(self, principal: Principal, inbox_id: str, draft_id: str, changes: DraftChanges) -> Draft:
        address = self._inboxes.own(principal, inbox_id)
        if changes.get("send_at") is not None:
            raise _unscheduled()
        body: Json = {name: _plain(changes[name]) for name in _KEPT if name in changes}
        if added := changes.get("add_attachments"):
            body["add_attachments"] = [shapes.attached(entry) for entry in await self._attached(principal, added)]
        body |= {name: list(changes[name]) for name in _LISTS if changes.get(name)}
        return self._draft(await self._api.call("PATCH", "inboxes", address, "drafts", draft_id, body=body))

    async def list_drafts(self, principal: Principal, inbox_id: str | None, filter: MailFilter, page: PageRequest) -> Page[Draft]:
        conditions = shapes.filter_query(MailFilter(labels=filter.labels, before=filter.before, after=filter.after), threads=True)

        async def of(path: Path, one: PageRequest) -> Page[Draft]:
            found = await self._api.call("GET", *path, "drafts", query=shapes.page_query(one) | conditions)
            return _page(found, [self._draft(entry) for entry in shapes.objects_of(found, "drafts")])

        paths = await self._paths(principal, inbox_id)
        return await merged(paths, page, of, newest=lambda row: row.updated_at, what=f"drafts {conditions}")

    async def send_list(self, principal: Principal, inbox_id: str, kind: Literal["allow", "block"]) -> tuple[str, ...]:
        """The inbox's own list and the account's. A list the key may not read binds at the service itself."""
        address = self._inboxes.own(principal, inbox_id)
        found = await asyncio.gather(self._entries(kind, "inboxes", address), self._entries(kind))
        return tuple(dict.fromkeys(entry for entries in found for entry in entries))

    async def is_authenticated(self, principal: Principal, address: str) -> bool:
        """A hosted office does not say what it proved of a sender, so nobody counts as proved."""
        return False

    async def _attached(self, principal: Principal, entries: Sequence[AttachmentData]) -> tuple[AttachmentData, ...]:
        """The attachments with their bytes. The service would fetch a URL itself, from anywhere: that is never asked of it."""
        held = tuple(entries) if self._attaching is None else await self._attaching.attach(principal, entries)
        if any(entry.url is not None for entry in held):
            raise Refused("attachments by url are not fetched here", fix="send the bytes as base64 in content")
        return held

    async def _take(self, principal: Principal, address: str, agent_id: str, taken: Forbidden) -> Inbox:
        """The inbox there is at an address, for an agent. Raises `taken` when it is not the account's."""
        try:
            inbox = await self._inboxes.get(principal, address)
        except (NotFound, Forbidden):
            raise taken from None
        return await self._inboxes.claim(inbox, agent_id)

    async def _paths(self, principal: Principal, inbox_id: str | None) -> list[Path]:
        """Where to look: the inbox named, the whole account for its owner, each of its inboxes for an agent."""
        if inbox_id is not None:
            return [("inboxes", self._inboxes.own(principal, inbox_id))]
        if principal.inbox_scope is not None:
            return [("inboxes", self._inboxes.own(principal, principal.inbox_scope))]
        if principal.is_owner:
            return [()]
        return [("inboxes", inbox.inbox_id) for inbox in await self._inboxes.owned(principal)]

    async def _get(
        self, principal: Principal, inbox_id: str | None, what: str, its_id: str, *, query: Mapping[str, str] | None = None
    ) -> Json:
        """A thread or a draft, from the first place that has it."""
        for path in await self._paths(principal, inbox_id):
            try:
                return await self._api.call("GET", *path, what, its_id, query=query)
            except NotFound:
                continue
        raise NotFound(f"{what.removesuffix('s').capitalize()} not found")

    async def _threads(self, path: Path, query: Mapping[str, str]) -> Page[Thread]:
        found = await self._api.call("GET", *(path if path[-1:] == ("search",) else (*path, "threads")), query=query)
        return _page(found, [await shapes.thread_of(entry) for entry in shapes.objects_of(found, "threads")])

    def _draft(self, said: Json, held: tuple[AttachmentData, ...] = ()) -> Draft:
        row = self._inboxes.find(shapes.needed(said, "inbox_id").lower())
        author = Kind.OWNER.value if row is None else row.owner_agent or Kind.OWNER.value
        return shapes.draft_of(said, author=author, held=held)

    async def _attachment(self, said: Json) -> tuple[Attachment, Blob]:
        row = shapes.attachment_of(said)
        return row, Blob(content=await self._api.download(said), filename=row.filename, content_type=row.content_type)

    async def _entries(self, kind: str, *path: str) -> list[str]:
        """Every entry of one send list."""
        entries: list[str] = []
        token: str | None = None
        for _ in range(_PAGES):
            query = {"limit": "100"} | ({"page_token": token} if token else {})
            try:
                found = await self._api.call("GET", *path, "lists", "send", kind, query=query)
            except (Forbidden, NotFound):
                return entries
            entries += [shapes.needed(entry, "entry") for entry in shapes.objects_of(found, "entries")]
            token = shapes.text_of(found, "next_page_token")
            if not token:
                return entries
        raise Unexpected("a list has no end")


def _page(found: Json, rows: Sequence[T]) -> Page[T]:
    return Page(items=tuple(rows), next_page_token=shapes.text_of(found, "next_page_token") or None)


def _new_inbox(new: NewInbox) -> Json:
    """The request; its client id makes asking twice harmless."""
    given = {"username": new.username, "domain": new.domain, "display_name": new.display_name}
    body: Json = {name: value for name, value in given.items() if value is not None}
    if new.status != "active":
        body["status"] = new.status
    return body | ({"metadata": dict(new.metadata)} if new.metadata else {}) | {"client_id": new.client_id or new_uuid()}


def _new_draft(fields: DraftFields) -> Json:
    if fields.send_at is not None:
        raise _unscheduled()
    lists = {name: list(getattr(fields, name)) for name in ("to", "cc", "bcc", "reply_to", "labels")}
    given = {name: getattr(fields, name) for name in ("subject", "text", "html", "in_reply_to", "forward_of")}
    body: Json = {name: value for name, value in (lists | given).items() if value not in (None, [])}
    if fields.attachments:
        body["attachments"] = [shapes.attached(entry) for entry in fields.attachments]
    if fields.reply_all:
        body["reply_all"] = True
    return body | {"client_id": fields.client_id or new_uuid()}


def _labels(add: Sequence[str], remove: Sequence[str]) -> Json:
    added, removed = check_labels(add, remove)
    return {name: list(labels) for name, labels in (("add_labels", added), ("remove_labels", removed)) if labels}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _unscheduled() -> Invalid:
    return Invalid(
        "a hosted office would send this draft by itself, without asking its owner",
        code="not_scheduled",
        fix="leave out send_at, and send the draft when it is time",
    )
