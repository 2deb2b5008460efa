"""One row per session: how far its notices were offered and taken, and the newest event routed to it.

`offered`, `taken`, `newest` and `born` are positions in the event log. A session waits when
`newest > taken`. `born` is the position just before its first event: what came earlier is its seed.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text, UniqueConstraint, bindparam, case, func, select, update

from postroom.model.event import FOLLOWUP_DONE, FOLLOWUP_DUE
from postroom.store.schema import event, metadata
from postroom.store.statement import sql

session = Table(
    "session",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("pod", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("thread", Text),
    Column("inbox", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("born", BigInteger, nullable=False),
    Column("offered", BigInteger, nullable=False),
    Column("taken", BigInteger, nullable=False),
    Column("newest", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", BigInteger, nullable=False),
    Column("waiting", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("agent", "session_id", name="session_agent_id"),
    Index("session_agent", "agent", "id"),
    Index("session_due", "next_at"),
)

_c = session.c
COLUMNS = (
    *(_c.session_id, _c.thread, _c.inbox, _c.agent, _c.born, _c.offered, _c.taken, _c.newest, _c.attempts, _c.next_at),
    *(_c.waiting, _c.created_at, _c.updated_at),
)
_THIS = (_c.agent == bindparam("agent_"), _c.session_id == bindparam("session_id_"))

GET = sql(select(*COLUMNS).where(*_THIS))
FIND = sql(select(*COLUMNS).where(_c.session_id == bindparam("session_id_")).order_by(_c.id).limit(1))
LIST = sql(select(*COLUMNS).order_by(_c.updated_at.desc(), _c.id.desc()).limit(bindparam("limit_")))
LIST_OF_AGENT = sql(
    select(*COLUMNS)
    .where(_c.agent == bindparam("agent_"))
    .order_by(_c.updated_at.desc(), _c.id.desc())
    .limit(bindparam("limit_"))
)
WAITING_ANY = sql(select(*COLUMNS).where(_c.newest > _c.taken).order_by(_c.newest).limit(bindparam("limit_")))
WAITING_OF_AGENT = sql(
    select(*COLUMNS).where(_c.agent == bindparam("agent_"), _c.newest > _c.taken).order_by(_c.newest).limit(bindparam("limit_"))
)
NEVER = 2**62  # `next_at` of a session that nothing but new mail or a person moves
DUE = sql(
    select(*COLUMNS)
    .where(_c.newest > _c.taken, _c.next_at <= bindparam("now_"))
    .order_by(_c.next_at, _c.newest)
    .limit(bindparam("limit_"))
)
AGENTS = sql(select(_c.agent).distinct())
RESCHEDULED = sql(
    update(session).where(_c.agent == bindparam("agent_"), _c.newest > _c.taken).values(next_at=bindparam("next_at_"))
)
NEXT_AT = sql(select(func.min(_c.next_at)).where(_c.newest > _c.taken, _c.next_at > bindparam("now_")))
OPEN_FOLLOWUP = sql(
    select(event.c.kind)
    .where(
        event.c.kind.in_((FOLLOWUP_DUE, FOLLOWUP_DONE)),
        event.c.inbox == bindparam("inbox_"),
        event.c.thread == bindparam("thread_"),
    )
    .order_by(event.c.seq.desc())
    .limit(1)
)
INSERT = sql(
    session.insert().values(
        pod=bindparam("pod"),
        session_id=bindparam("session_id"),
        thread=bindparam("thread"),
        inbox=bindparam("inbox"),
        agent=bindparam("agent"),
        born=bindparam("born"),
        offered=bindparam("born"),
        taken=bindparam("born"),
        newest=bindparam("newest"),
        attempts=0,
        next_at=bindparam("next_at"),
        waiting="",
        created_at=bindparam("at"),
        updated_at=bindparam("at"),
    )
)
ROUTED = sql(
    update(session)
    .where(*_THIS, _c.newest < bindparam("newest_"))
    .values(newest=bindparam("newest_"), attempts=0, next_at=bindparam("next_at_"), waiting="", updated_at=bindparam("at_"))
)
OFFERED = sql(
    update(session).where(*_THIS, _c.offered < bindparam("seq_")).values(offered=bindparam("seq_"), updated_at=bindparam("at_"))
)
TAKEN = sql(
    update(session)
    .where(*_THIS, _c.taken < bindparam("seq_"))
    .values(
        taken=bindparam("seq_"),
        attempts=0,
        next_at=case((_c.newest > bindparam("seq_"), 0), else_=NEVER),
        waiting="",
        updated_at=bindparam("at_"),
    )
)
WAITING = sql(  # what came meanwhile stays due
    update(session)
    .where(*_THIS, _c.newest == bindparam("newest_"))
    .values(
        attempts=bindparam("attempts_"), next_at=bindparam("next_at_"), waiting=bindparam("waiting_"), updated_at=bindparam("at_")
    )
)
