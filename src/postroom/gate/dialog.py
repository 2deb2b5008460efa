"""A person's yes or no in the dialog of the harness they sit at, as its plugin reports it.

The plugin holds an agent's key, and an agent that runs as its person's OS user can read that key: the
report is worth as much as the gate is there, a *rule*. Behind a wall it is worth nothing, unless the
owner says so (`gate.harness_approvals`). A no always counts. What was asked about is frozen before it
is shown, and an answer names its digest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Literal

from postroom.errors import Conflict, Forbidden
from postroom.gate.gate import Gate
from postroom.model.outgoing import Boundary, Outgoing, State, Submission
from postroom.model.principal import Kind, Principal
from postroom.store.engine import Store

ANSWERER = "a person in the harness's dialog"


class Dialog:
    """Questions a bridge may put to its person. `mode` is `gate.harness_approvals`."""

    def __init__(
        self,
        store: Store,
        gate: Gate,
        *,
        mode: Literal["auto", "on", "off"],
        boundary: Callable[[Principal], tuple[Boundary, str]],
    ) -> None:
        self._store = store
        self._gate = gate
        self._mode = mode
        self._boundary = boundary

    def counts(self, principal: Principal) -> bool:
        """Whether a yes reported with this credential is a person's yes here."""
        if not principal.bridge or self._mode == "off":
            return False
        return self._mode == "on" or self._boundary(principal)[0] == "rule"

    async def answer(self, principal: Principal, outgoing_id: str, digest: str, *, allowed: bool) -> None:
        """Approve or refuse. Somebody else may have decided before: then that stands.

        Raises `NotFound`, `Forbidden` for a yes that does not count, `Conflict` for a yes to something else.
        """
        await self.shown(principal, outgoing_id)
        if allowed and not self.counts(principal):
            raise Forbidden("a yes in the harness does not count here", fix="the owner approves it: postroom held")
        person = Principal(kind=Kind.OWNER, pod_id=principal.pod_id, name=ANSWERER)
        try:
            if allowed:
                await self._gate.approve(person, outgoing_id, digest)
            else:
                await self._gate.refuse(person, outgoing_id)
        except Conflict:
            if (await self.shown(principal, outgoing_id)).state is State.HELD:
                raise

    async def decided(self, principal: Principal, outgoing_id: str, wait_s: float) -> bool:
        """Whether it waits no more, told as soon as it is so. Raises `NotFound`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while True:
                    seq = self._store.events.last_seq()
                    if (await self.shown(principal, outgoing_id)).state is not State.HELD:
                        return True
                    await self._store.events.wait(seq)
        return False

    async def shown(self, principal: Principal, outgoing_id: str) -> Outgoing:
        """The mail as its approver needs it."""
        return await self._gate.show(principal, outgoing_id)

    def outcome(self, principal: Principal, outgoing_id: str) -> Submission:
        """What became of it."""
        return self._gate.standing(principal, outgoing_id)
