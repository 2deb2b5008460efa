"""Edit, withdraw, react: records of their own, and what they make of a message for its readers.

Only the author edits and withdraws; whoever may see a message may react to it. A message that is not
there and one that is not the caller's to see are answered alike. The original stays in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from postroom.errors import Conflict, Forbidden, NotFound
from postroom.mailbox import content, log
from postroom.mailbox.folding import folded
from postroom.mailbox.log import MessageRow
from postroom.mailbox.names import EVERYONE, wrong
from postroom.mailbox.records import EDIT, REACTION, WITHDRAW, Stored, decoded
from postroom.store.engine import Tx
from postroom.store.log_search import LogSearch


class Changes:
    """The verbs on one message, each inside a transaction."""

    def __init__(self, search: LogSearch, key: bytes) -> None:
        self._search = search
        self._key = key

    def edit(self, tx: Tx, author: str, seq: int, text: str, at: int) -> tuple[Stored, str]:
        """New text for the author's own message; whom it is news for comes second."""
        row, state = self._own(tx, author, seq)
        if text == _text(row, state):
            return Stored(seq=seq, link=log.link_at(tx, seq), at=at, thread=row.thread, deduplicated=True), ""
        mentions = content.mentions_in(text)
        entry = {"kind": EDIT, "at": at, "from": author, "edits": seq, "mentions": mentions, "text": text}
        self._search.remove(tx, seq, _text(row, state), (row.sender, row.recipient))
        self._search.add(tx, seq, text, (row.sender, row.recipient))
        return self._changed(tx, row, state, entry, row.recipient)

    def withdraw(self, tx: Tx, author: str, seq: int, at: int) -> tuple[Stored, str]:
        """A tombstone on the author's own message."""
        row, state = self._own(tx, author, seq)
        entry = {"kind": WITHDRAW, "at": at, "from": author, "withdraws": seq}
        self._search.remove(tx, seq, _text(row, state), (row.sender, row.recipient))
        return self._changed(tx, row, state, entry, row.recipient)

    def react(self, tx: Tx, who: str, seq: int, emoji: str, at: int, *, remove: bool) -> tuple[Stored, str]:
        """One reaction of each kind per reader; `remove` takes it back."""
        row, state = _visible(tx, who, seq)
        reactions = [list(each) for each in state.get("reactions", ())]
        if ([who, emoji] in reactions) is not remove:
            return Stored(seq=seq, link=log.link_at(tx, seq), at=at, thread=row.thread, deduplicated=True), ""
        entry = {"kind": REACTION, "at": at, "from": who, "reacts_to": seq, "emoji": emoji, "removed": True if remove else None}
        other = row.recipient if row.recipient == EVERYONE or who == row.sender else row.sender
        return self._changed(tx, row, state, entry, other)

    def _changed(
        self, tx: Tx, row: MessageRow, state: Mapping[str, Any], entry: Mapping[str, Any], shown_to: str
    ) -> tuple[Stored, str]:
        log.set_state(tx, row.seq, msgspec.json.encode(folded(state, entry)).decode())
        link = log.append(tx, self._key, log.entry_of(entry, recipient=shown_to, target=row.seq), row.thread)
        return Stored(seq=link.seq, link=link.link.hex(), at=entry["at"], thread=row.thread), shown_to

    def _own(self, tx: Tx, author: str, seq: int) -> tuple[MessageRow, dict[str, Any]]:
        row, state = _visible(tx, author, seq)
        if row.sender != author:
            raise Forbidden("only its author can change a message", code="not_the_author")
        return row, state


def number_of(value: Any, field: str = "seq") -> int:
    """A message's number."""
    if type(value) is not int or not 0 < value < 2**53:
        raise wrong(field, f"{field} is the number of a message")
    return value


def _visible(tx: Tx, who: str, seq: int) -> tuple[MessageRow, dict[str, Any]]:
    row = log.message_row(tx, seq)
    if row is None or not (who in (row.sender, row.recipient) or row.recipient == EVERYONE):
        raise NotFound("there is no such message", fix="use a seq that mailbox_read showed")
    state: dict[str, Any] = msgspec.json.decode(row.state) if row.state else {}
    if "withdrawn_at" in state:
        raise Conflict("that message has been withdrawn", code="withdrawn")
    return row, state


def _text(row: MessageRow, state: Mapping[str, Any]) -> str:
    """The text that is in the index."""
    return str(state["text"] if "text" in state else decoded(row.body)["text"])
