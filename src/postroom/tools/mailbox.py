"""The eleven mailbox tools. Each checks its arguments, calls one verb of the mailbox, and renders.

What a participant wrote (names, thread, priority, file names, text) stands inside a fence; outside are
numbers, times and words of ours. A page holds whole messages only: what does not fit comes with the
next cursor. Who may only read has the tools that read.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from postroom.clock import to_iso
from postroom.limits import KIB
from postroom.mailbox.names import wrong
from postroom.mailbox.reading import PAGE, PAGE_MAX, Query
from postroom.mailbox.records import Batch, Stored
from postroom.mailbox.room import HOLD_MAX_S, HOLD_S, SEARCH_PAGE, Mailbox, Peer, check_limit
from postroom.mailbox.sending import Letter
from postroom.model.principal import Principal
from postroom.safety.fence import Fence
from postroom.tools.call import Call
from postroom.tools.mailbox_schemas import INSTRUCTIONS, MAILBOX_TOOLS
from postroom.tools.mailbox_view import canonical_message, message_block, message_values
from postroom.tools.result import ToolResult
from postroom.tools.running import run
from postroom.tools.schemas import ToolSpec

_PAGE_BYTES: Final = 48 * KIB
_SHOWN_FILE_CHARS: Final = 20_000
_BY_NAME: Final = {spec.name: spec for spec in MAILBOX_TOOLS}
_OBSERVERS: Final = frozenset({"mailbox_announce", "mailbox_acknowledge"})  # what an observer has besides reading
_Verb: TypeAlias = Callable[[Call], Awaitable[ToolResult]]


class MailboxTools:
    """The tools over one mailbox."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._verbs: Mapping[str, _Verb] = {
            "mailbox_send": self._send,
            "mailbox_read": self._read,
            "mailbox_wait": self._wait,
            "mailbox_peers": self._peers,
            "mailbox_announce": self._announce,
            "mailbox_acknowledge": self._acknowledge,
            "mailbox_search": self._search,
            "mailbox_react": self._react,
            "mailbox_edit": self._edit,
            "mailbox_withdraw": self._withdraw,
            "mailbox_attachment": self._attachment,
        }

    def owns(self, name: str) -> bool:
        """Whether this is one of ours."""
        return name in _BY_NAME

    def specs(self, principal: Principal) -> list[ToolSpec]:
        """The tools that exist for this caller, always in the same order."""
        only_reads = not principal.is_owner and principal.profile == "observer"
        return [spec for spec in MAILBOX_TOOLS if not only_reads or spec.reads or spec.name in _OBSERVERS]

    async def call(
        self,
        principal: Principal,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        inbox: str | None = None,
        canonical: bool = False,
    ) -> ToolResult:
        """Run one tool. Never raises: what goes wrong is a result with `is_error` that says what to do."""

        async def act(given: Mapping[str, Any]) -> ToolResult:
            call = Call(principal=principal, arguments=given, call_id=call_id, canonical=canonical)
            return await self._verbs[name](call)

        return await run(self.specs(principal), name, arguments, act)

    async def instructions(self, principal: Principal) -> str:
        """Whose mailbox it is, and the whole trust note, once."""
        named = f"Your name in the mailbox is {principal.name}. " if principal.name else ""
        return named + INSTRUCTIONS

    async def _send(self, call: Call) -> ToolResult:
        given = call.arguments
        letter = Letter(
            to=call.text("to"),
            text=call.text("text"),
            thread=given.get("thread"),
            reply_to=given.get("replyTo"),
            priority=given.get("priority"),
            attachments=given.get("attachments"),
            key=given.get("idempotencyKey") or call.call_id,
        )
        stored = await self._mailbox.send(call.principal, letter, sender=given.get("from"))
        lead = "Already stored earlier; not stored again" if stored.deduplicated else "Stored"
        notes = "" if not stored.redacted else f" {stored.redacted} secrets were taken out of the text before it was stored."
        values = _stored(stored) | ({"redacted": stored.redacted} if stored.redacted else {})
        if call.canonical:
            values["thread"] = stored.thread
        return ToolResult(text=f"{lead} as #{stored.seq}, link {stored.link}.{notes}", structured=values)

    async def _read(self, call: Call) -> ToolResult:
        query = _query(call)
        batch = await self._mailbox.read(call.principal, query, by_cursor="since" in call.arguments)
        return self._batch(call, batch, query.sent)

    async def _wait(self, call: Call) -> ToolResult:
        hold = call.arguments.get("holdMs", int(HOLD_S * 1000))
        if hold < 0:
            raise wrong("holdMs", f"holdMs must be between 0 and {int(HOLD_MAX_S * 1000)}")
        batch = await self._mailbox.wait(call.principal, _query(call), hold / 1000, by_cursor="since" in call.arguments)
        return self._batch(call, batch, sent=False)

    async def _peers(self, call: Call) -> ToolResult:
        peers = await self._mailbox.peers(call.principal)
        fence = Fence()
        lines = [fence.block("mailbox-message", "\n".join(map(_peer_line, peers)) or "(nobody)")]
        values: dict[str, Any] = {"peers": [_peer_values(peer) for peer in peers]} if call.canonical else {"count": len(peers)}
        return ToolResult(text="\n".join(lines), structured=values | {"content": "\n".join(lines)})

    async def _announce(self, call: Call) -> ToolResult:
        given = call.arguments
        peer = await self._mailbox.announce(call.principal, name=given.get("name"), role=given.get("role"))
        values = {"name": peer.name, "at": peer.seen_at // 1000, **({"role": peer.role} if peer.role else {})}
        text = f"Announced. {peer.unread} messages are not acknowledged."
        return ToolResult(text=text, structured=(values if call.canonical else {}) | {"unread": peer.unread})

    async def _acknowledge(self, call: Call) -> ToolResult:
        stored = await self._mailbox.acknowledge(call.principal, call.arguments["upTo"], reader=call.arguments.get("from"))
        text = f"Acknowledged up to {stored.seq}, link {stored.link}."
        return ToolResult(text=text, structured={"upTo": stored.seq, "link": stored.link})

    async def _search(self, call: Call) -> ToolResult:
        limit = call.arguments.get("limit", SEARCH_PAGE)
        found = await self._mailbox.search(call.principal, call.text("query"), limit=limit)
        fence = Fence()
        text = "\n".join([message_block(fence, message) for message in found] or ["No messages."])
        shape = canonical_message if call.canonical else message_values
        return ToolResult(text=text, structured={"messages": [shape(each) for each in found], "content": text})

    async def _react(self, call: Call) -> ToolResult:
        given = call.arguments
        stored = await self._mailbox.react(
            call.principal, given["seq"], given["emoji"], sender=given.get("from"), remove=given.get("remove", False)
        )
        return ToolResult(text=f"Noted on #{given['seq']}.", structured=_stored(stored))

    async def _edit(self, call: Call) -> ToolResult:
        given = call.arguments
        stored = await self._mailbox.edit(call.principal, given["seq"], given["text"], sender=given.get("from"))
        return ToolResult(text=f"#{given['seq']} now says the new text; the original is kept.", structured=_stored(stored))

    async def _withdraw(self, call: Call) -> ToolResult:
        given = call.arguments
        stored = await self._mailbox.withdraw(call.principal, given["seq"], sender=given.get("from"))
        return ToolResult(text=f"#{given['seq']} is withdrawn.", structured=_stored(stored))

    async def _attachment(self, call: Call) -> ToolResult:
        file, data = await self._mailbox.attachment(call.principal, call.text("id"))
        coded = base64.b64encode(data).decode()
        values: dict[str, Any] = {"id": file.file_id, "size": file.size}
        if call.canonical:
            return ToolResult(text=coded, structured=values | {"content": coded})
        about = f"name: {file.name}\ntype: {file.media_type}\n\n"
        try:
            shown = data.decode()
        except UnicodeDecodeError:
            shown = f"base64: {coded}"
        if len(shown) > _SHOWN_FILE_CHARS:
            shown = (
                f"{shown[:_SHOWN_FILE_CHARS]}\n[cut: {len(shown) - _SHOWN_FILE_CHARS} of {len(shown)} characters are not shown]"
            )
        text = f"attachment {file.file_id} ({file.size} B)\n{Fence().block('mailbox-message', about + shown)}"
        return ToolResult(text=text, structured=values | {"content": text})

    def _batch(self, call: Call, batch: Batch, sent: bool) -> ToolResult:
        fence = Fence()
        own = call.principal.name
        states = {
            each.seq: self._mailbox.roster.state_of(each.seq, each.sender, each.to)
            for each in batch.messages
            if sent and own in (None, each.sender)
        }
        lines = [message_block(fence, each, states.get(each.seq)) for each in batch.messages] or ["No new messages."]
        if batch.missed:
            lines.append(f"{batch.missed} older messages to you were removed by retention before you read them.")
        more = ", and there is more" if batch.more else ""
        lines.append(f"cursor {batch.cursor}, link {batch.link}{more}. Go on with since={batch.cursor}.")
        text = "\n".join(lines)
        shape = canonical_message if call.canonical else message_values
        values: dict[str, Any] = {"messages": [shape(each, states.get(each.seq)) for each in batch.messages]}
        values |= {"cursor": batch.cursor, "link": batch.link}
        values |= {name: True for name in ("more", "waited") if getattr(batch, name)}
        values |= {"missed": batch.missed} if batch.missed else {}
        return ToolResult(text=text, structured=values | {"content": text})


def _query(call: Call) -> Query:
    given = call.arguments
    since = given.get("since", 0)
    if not 0 <= since < 2**53:
        raise wrong("since", "since is a cursor that an earlier read returned, or 0")
    return Query(
        reader=given.get("to", ""),
        since=since,
        limit=check_limit(given.get("limit", PAGE), PAGE_MAX),
        sender=given.get("from"),
        thread=given.get("thread"),
        mention=given.get("mentions"),
        priority=given.get("priority"),
        sent=given.get("sent", False),
        newest=given.get("newest", False),
        most_bytes=_PAGE_BYTES,
    )


def _stored(stored: Stored) -> dict[str, Any]:
    values = {"seq": stored.seq, "at": stored.at // 1000, "link": stored.link}
    return values | ({"deduplicated": True} if stored.deduplicated else {})


def _peer_line(peer: Peer) -> str:
    live = "live" if peer.live else f"last heard {to_iso(peer.seen_at)}" if peer.seen_at else "never heard"
    role = f", {peer.role}" if peer.role else ""
    return f"{peer.name}{role}: {live}, {peer.unread} not acknowledged"


def _peer_values(peer: Peer) -> dict[str, Any]:
    values = {"name": peer.name, "live": peer.live, "at": peer.seen_at // 1000, "unread": peer.unread, "agent": peer.is_agent}
    return values | ({"role": peer.role} if peer.role else {})
