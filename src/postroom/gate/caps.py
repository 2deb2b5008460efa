"""How much an agent asked to send lately, and to whom for the first time.

What was refused does not count: it cost nobody anything. What is held does: a flood of questions is
what the caps are against, as much as a flood of mail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import and_, bindparam, func, select

from postroom.clock import MICROS
from postroom.config import Gate as GateConfig
from postroom.gate.tables import asked_recipient, outgoing
from postroom.model.outgoing import State
from postroom.store.engine import Reader, Tx
from postroom.store.statement import in_list, insert_or_ignore, sql

DAY_US: Final = 24 * 3600 * MICROS

_COUNTED = [state.value for state in State if state not in (State.REFUSED, State.SUBMITTED)]
_SENDS = sql(
    select(func.count())
    .select_from(outgoing)
    .where(
        and_(
            outgoing.c.agent_id == bindparam("agent_id"),
            outgoing.c.created_at > bindparam("since"),
            outgoing.c.state.in_(_COUNTED),
        )
    )
)
_NEW = sql(
    select(func.count())
    .select_from(asked_recipient)
    .where(and_(asked_recipient.c.agent_id == bindparam("agent_id"), asked_recipient.c.first_at > bindparam("since")))
)
_KNOWN = sql(
    select(asked_recipient.c.address).where(
        and_(asked_recipient.c.agent_id == bindparam("agent_id"), asked_recipient.c.address.in_(in_list("addresses")))
    )
)
_ADD = insert_or_ignore(asked_recipient, ("agent_id", "address", "first_at"))


def over_cap(reader: Reader, config: GateConfig, agent_id: str, addresses: Sequence[str], *, now: int) -> str | None:
    """Why one more mail to these is one too many; None if it is not."""
    since = now - DAY_US
    most = config.max_sends_per_day
    if most and reader.scalar(_SENDS, agent_id=agent_id, since=since) >= most:
        return f"the agent has asked to send {most} mails within 24 hours, which is its cap"
    most = config.max_new_recipients_per_day
    if most:
        known = {address for (address,) in reader.all(_KNOWN, agent_id=agent_id, addresses=list(addresses))}
        fresh = len(set(addresses) - known)
        if fresh and reader.scalar(_NEW, agent_id=agent_id, since=since) + fresh > most:
            return f"the agent may write to {most} new addresses within 24 hours, and this would be more"
    return None


def note_asked(tx: Tx, agent_id: str, addresses: Sequence[str], *, at: int) -> None:
    """The agent asked to write to these."""
    tx.many(_ADD, [{"agent_id": agent_id, "address": address, "first_at": at} for address in addresses])
