"""Frozen mail as the gate hands it over, and a relay that says what it is told to say."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from postroom.mime.compose import compose
from postroom.model.outgoing import Frozen
from postroom.model.principal import DEFAULT_POD
from postroom.model.request import Outbound, SendKind
from postroom.policy.digest import digest_bytes
from postroom.wires.smtp import Rejection, RelayResult

from .conftest import START

ADA = "ada@postroom.localhost"


def frozen(*to: str, outgoing_id: str = "out_1", bcc: tuple[str, ...] = (), **changes: Any) -> Frozen:
    outbound = Outbound(
        inbox_id=ADA,
        kind=SendKind.SEND,
        from_=f"Ada <{ADA}>",
        to=to,
        bcc=bcc,
        **{"subject": "Offer", "text": "Dear reader", "labels": ("project",), **changes},
    )
    message_id = f"<{outgoing_id}@postroom.localhost>"
    raw = compose(outbound, message_id=message_id, at_us=START, boundary_seed=message_id)
    rcpt_to = (*to, *bcc)
    return Frozen(
        outgoing_id=outgoing_id,
        pod_id=DEFAULT_POD,
        principal_label="agent-1",
        agent_id="agt_1",
        outbound=outbound,
        message_id=message_id,
        mail_from=ADA,
        rcpt_to=rcpt_to,
        raw=raw,
        digest=digest_bytes(ADA, rcpt_to, raw),
    )


def refusal(code: int, text: str = "no") -> Rejection:
    return Rejection(code=code, text=text, permanent=code >= 500)


@dataclass
class FakeRelay:
    """Answers from `script` (an error, or refusals by address), then accepts everything."""

    script: list[Any] = field(default_factory=list)
    seen: list[tuple[str, tuple[str, ...], bytes]] = field(default_factory=list)
    entered: asyncio.Event = field(default_factory=asyncio.Event)

    async def deliver(self, mail_from: str, rcpt_to: Sequence[str], raw: bytes) -> RelayResult:
        self.seen.append((mail_from, tuple(rcpt_to), raw))
        self.entered.set()
        step = self.script.pop(0) if self.script else {}
        if step == "hang":
            await asyncio.Event().wait()
        if isinstance(step, Exception):
            raise step
        return RelayResult(accepted=tuple(entry for entry in rcpt_to if entry not in step), refused=step)
