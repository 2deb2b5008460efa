"""A sent message as a task: its state folded from the log, nothing of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from postroom.errors import NotFound
from postroom.mailbox.names import EVERYONE
from postroom.mailbox.reading import PAGE_MAX, Query
from postroom.mailbox.records import Message
from postroom.mailbox.room import Mailbox
from postroom.model.principal import Principal

SUBMITTED: Final = "TASK_STATE_SUBMITTED"
WORKING: Final = "TASK_STATE_WORKING"
COMPLETED: Final = "TASK_STATE_COMPLETED"
CANCELED: Final = "TASK_STATE_CANCELED"
INPUT_REQUIRED: Final = "TASK_STATE_INPUT_REQUIRED"
REJECTED: Final = "TASK_STATE_REJECTED"
FAILED: Final = "TASK_STATE_FAILED"
ENDED: Final = frozenset({COMPLETED, CANCELED, REJECTED, FAILED})
SETTLED: Final = ENDED | {INPUT_REQUIRED}  # a blocking send returns on these
SAYS: Final = {"input-required": INPUT_REQUIRED, "rejected": REJECTED, "failed": FAILED}  # by a reply's priority; else completed
_LOOK_S: Final = 1.0  # an acknowledgement rings no bell of the sender's, so it is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """One task as it stands. `history` is what both said, oldest first; `answer` the reply that completed it or asks."""

    message: Message
    state: str
    history: tuple[Message, ...]
    answer: Message | None = None

    @property
    def task_id(self) -> str:
        """The task's id: the message's number in the log."""
        return f"task-{self.message.seq}"

    @property
    def at(self) -> int:
        """When it came to its state."""
        if self.message.withdrawn_at is not None:
            return self.message.withdrawn_at
        return self.answer.at if self.answer is not None else self.history[-1].at


class Tasks:
    """The tasks of one mailbox, each visible to its sender only."""

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox

    def caller(self, principal: Principal) -> str:
        """The name the caller sends under."""
        return self.mailbox.query_of(principal, Query(reader="")).reader

    async def get(self, principal: Principal, task_id: str) -> TaskView:
        """One task. Raises `NotFound` also for another's."""
        number = task_id.removeprefix("task-")
        if not (task_id.startswith("task-") and number.isascii() and number.isdigit() and len(number) <= 15 and int(number)):
            raise NotFound("there is no such task")
        name = self.caller(principal)
        message, receipt = await self.mailbox.message(principal, int(number), reader=name if principal.is_owner else None)
        if message.sender != name or message.to == EVERYONE:
            raise NotFound("there is no such task")
        return self._folded(name, message, acknowledged=receipt.get("state") == "acknowledged")

    async def listed(self, principal: Principal, *, context_id: str, before: int, count: int) -> tuple[list[TaskView], bool]:
        """The newest tasks below `before`, and whether there are older ones."""
        name = self.caller(principal)
        query = Query(reader=name, sender=name, newest=True, limit=min(count, PAGE_MAX), before=before)
        batch = await self.mailbox.read(principal, query)
        own = [each for each in reversed(batch.messages) if each.to != EVERYONE and each.reply_to is None and each.change is None]
        if context_id:
            own = [each for each in own if each.thread == context_id]
        return [await self.get(principal, f"task-{each.seq}") for each in own], batch.more

    async def follow(self, principal: Principal, task_id: str, hold_s: float) -> AsyncIterator[TaskView]:
        """The task whenever its state is another, until it has ended or `hold_s` passed."""
        seen: str | None = None
        loop = asyncio.get_running_loop()
        end = loop.time() + hold_s
        with self.mailbox.bells.listening(self.caller(principal)) as bell:
            while True:
                bell.clear()
                view = await self.get(principal, task_id)
                if (marks := f"{view.state} {len(view.history)}") != seen:
                    seen = marks
                    yield view
                left = end - loop.time()
                if view.state in ENDED or left <= 0:
                    return
                try:
                    async with asyncio.timeout(min(left, _LOOK_S)):
                        await bell.wait()
                except TimeoutError:
                    continue

    def _folded(self, name: str, message: Message, *, acknowledged: bool) -> TaskView:
        query = Query(reader=name, thread=message.thread, since=message.seq, limit=PAGE_MAX)
        chain, history = {message.seq}, [message]
        state, answer = (WORKING if acknowledged else SUBMITTED), None
        for each in self.mailbox.look(query).messages:
            if each.reply_to not in chain or each.sender not in (name, message.to):
                continue
            chain.add(each.seq)
            history.append(each)
            answer = each if each.sender == message.to else None
            state = SUBMITTED
            if answer is not None:
                state = SAYS.get(each.priority or "", COMPLETED)
        if message.withdrawn_at is not None:
            state, answer = CANCELED, None
        return TaskView(message=message, state=state, history=tuple(history), answer=answer)
