"""The log in and out: export as JSON lines, and import of the reference's `mail.jsonl` with a report.

An import appends: what was written elsewhere becomes records of this log, in their old order, under
their authors' names, redacted like everything else. Their old numbers are kept as keys, so that a
second import of the same file adds nothing. A line that cannot be read is skipped and reported, never
fatal; an edit or withdrawal by somebody else than the author is ignored, as its readers did.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from sqlalchemy import bindparam, select

from postroom.errors import Conflict, Forbidden, NotFound, PostroomError
from postroom.limits import KEY_CHARS
from postroom.mailbox.records import decoded
from postroom.mailbox.room import Mailbox
from postroom.mailbox.sending import Letter
from postroom.mailbox.tables import record as t
from postroom.model.principal import Principal
from postroom.store.engine import Reader, Row
from postroom.store.statement import sql

PIECE: Final = 500
_PROBLEMS: Final = 100  # named in a report; the rest are counted

_ROWS = sql(
    select(t.c.seq, t.c.kind, t.c.body, t.c.entry_hash, t.c.link)
    .where(t.c.seq > bindparam("after"))
    .order_by(t.c.seq)
    .limit(bindparam("count"))
)


async def exported(mailbox: Mailbox, since: int = 0) -> AsyncIterator[bytes]:
    """The log after `since` as JSON lines, a piece at a time."""
    while rows := await mailbox.look_through(partial(_rows_after, after=since)):
        yield b"".join(map(_line, rows))
        since = rows[-1][0]


def _rows_after(reader: Reader, after: int) -> list[Row]:
    return reader.all(_ROWS, after=after, count=PIECE)


def _line(row: Row) -> bytes:
    """One record as a line: its place in the chain, then what it says."""
    seq, kind, body, hashed, link = row
    place = {"seq": seq, "hash": bytes(hashed).hex(), "link": bytes(link).hex()}
    says = decoded(bytes(body)) if body is not None else {"kind": kind}
    return json.dumps({**place, **says}, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


@dataclass(slots=True, kw_only=True)
class Report:
    """What an import came to."""

    messages: int = 0
    changes: int = 0
    receipts: int = 0
    known: int = 0
    skipped: int = 0
    problems: list[str] = field(default_factory=list)

    def skip(self, line: int, why: str) -> None:
        """One line that did not come in."""
        self.skipped += 1
        if len(self.problems) < _PROBLEMS:
            self.problems.append(f"line {line}: {why}")


class Import:
    """One import. `principal` is the owner's: it speaks for every author in the file."""

    def __init__(self, mailbox: Mailbox, principal: Principal, source: str) -> None:
        self._mailbox = mailbox
        self._principal = principal
        self._source = source  # names the file, so that its numbers are no other file's
        self._numbers: dict[int, int] = {}  # theirs -> ours
        self.report = Report()

    async def run(self, content: bytes) -> Report:
        """Every line of the file."""
        receipts: dict[str, int] = {}
        seen: set[int] = set()
        for number, entry in self._lines(content):
            seq = entry.get("seq")
            if entry.get("kind") != "compaction" and (type(seq) is not int or seq in seen):
                self.report.skip(
                    number, f"number {seq} was there before" if type(seq) is int else "the number is missing or none"
                )
                continue
            seen.add(seq if type(seq) is int else -number)
            try:
                await self._take(entry, receipts)
            except (PostroomError, KeyError, TypeError) as problem:
                why = problem.code if isinstance(problem, PostroomError) else "a field is missing or odd"
                self.report.skip(number, why)
        for name, up_to in receipts.items():
            await self._receipt(name, up_to)
        return self.report

    def _lines(self, content: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for number, line in enumerate(content.split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                self.report.skip(number, "not a line of JSON (torn?)")
                continue
            if isinstance(entry, dict):
                yield number, entry
            else:
                self.report.skip(number, "not an object")

    async def _take(self, entry: Mapping[str, Any], receipts: dict[str, int]) -> None:
        kind = entry.get("kind", "message")
        if kind == "message":
            await self._message(entry)
        elif kind in ("edit", "withdraw", "reaction"):
            await self._change(kind, entry)
        elif kind == "receipt":
            name = str(entry["from"])
            receipts[name] = max(receipts.get(name, 0), int(entry["upTo"]))
        elif kind != "compaction":
            raise TypeError(kind)

    async def _message(self, entry: Mapping[str, Any]) -> None:
        sender, to = str(entry["from"]), str(entry["to"])
        for name in {sender, to} - {"*"}:
            await self._mailbox.announce(self._principal, name=name)
        parent = entry.get("replyTo")
        letter = Letter(
            to=to,
            text=entry["text"],
            thread=self._thread(entry.get("thread"), parent),
            reply_to=self._numbers.get(parent) if type(parent) is int else None,
            priority=entry.get("priority"),
            key=f"import:{self._source}:{entry['seq']}"[:KEY_CHARS],
        )
        stored = await self._mailbox.send(self._principal, letter, sender=sender)
        self._numbers[entry["seq"]] = stored.seq
        if stored.deduplicated:
            self.report.known += 1
        else:
            self.report.messages += 1

    def _thread(self, thread: Any, parent: Any) -> str | None:
        """A thread's name. The reference names a reply's thread by the parent's number: that is our own thread of it."""
        if thread is None or (parent is not None and str(thread) == str(parent)):
            return None
        named = str(thread)
        return None if named.isdigit() and int(named) in self._numbers else named.lstrip("#") or None

    async def _change(self, kind: str, entry: Mapping[str, Any]) -> None:
        target = self._numbers[entry[{"edit": "edits", "withdraw": "withdraws", "reaction": "reactsTo"}[kind]]]
        sender = str(entry["from"])
        try:
            if kind == "edit":
                stored = await self._mailbox.edit(self._principal, target, entry["text"], sender=sender)
            elif kind == "withdraw":
                stored = await self._mailbox.withdraw(self._principal, target, sender=sender)
            else:
                stored = await self._mailbox.react(self._principal, target, entry["emoji"], sender=sender)
        except (Forbidden, NotFound, Conflict):
            self.report.known += 1  # not the author's, or there from an earlier import
            return
        self.report.changes += not stored.deduplicated
        self.report.known += stored.deduplicated

    async def _receipt(self, name: str, up_to: int) -> None:
        """The reader had taken everything up to there: of ours, up to the last that came from before it."""
        reached = max((ours for theirs, ours in self._numbers.items() if theirs <= up_to), default=0)
        try:
            await self._mailbox.acknowledge(self._principal, reached, reader=name)
        except PostroomError as problem:
            self.report.skip(0, f"a receipt: {problem.code}")
            return
        self.report.receipts += 1
