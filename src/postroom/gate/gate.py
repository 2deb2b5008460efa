"""The gate: the one way out. Every door submits here; only here is the power to send.

A mail is frozen when it is submitted, judged by the owner's rules, held for a person where they say
so, and handed to the sender once approved. Each step is one commit; after a crash `run` finishes
what was approved, and the sender takes a mail once however often it is handed over. Approving
binds to a digest of the exact bytes and envelope: what a person saw is what leaves.
"""

from __future__ import annotations

import dataclasses
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import structlog

from postroom.clock import MICROS, Clock
from postroom.config import Config
from postroom.errors import Busy, Conflict, Invalid, NotFound, Refused, StorageFailure, TransportFailure
from postroom.gate import audit, freeze, rows
from postroom.gate.attach import Attaching
from postroom.gate.audit import Audit
from postroom.gate.caps import note_asked
from postroom.gate.checkpoints import Checkpoints
from postroom.gate.dispatch import Dispatch
from postroom.gate.follow import Follow
from postroom.gate.judge import Judge
from postroom.gate.keeping import NO_BYTES
from postroom.gate.moves import Moves
from postroom.gate.noticed import noticed
from postroom.gate.readlog import StoredReadLog
from postroom.gate.rows import Row, Selection, StoredAttachment
from postroom.gate.turns import Turns
from postroom.ids import OUTGOING, new_id
from postroom.limits import IDEMPOTENCY_S, KEY_CHARS
from postroom.model.outgoing import Boundary, Outgoing, State, Submission
from postroom.model.paging import Page, PageRequest, make_token, read_token, scope_of
from postroom.model.ports import Attach, Fetch, Mail, Sender
from postroom.model.principal import SYSTEM, Principal, require_owner
from postroom.model.request import Outbound, SendKind, SendRequest
from postroom.policy.states import FINAL, check_move
from postroom.safety.redact import Redactor
from postroom.store.blobs import sha_of
from postroom.store.engine import Reader, Store, Tx

log = structlog.get_logger(__name__)

KEY = re.compile(rf"[A-Za-z0-9\-._~]{{1,{KEY_CHARS}}}")
_STATES = {"send": State.APPROVED, "hold": State.HELD, "refuse": State.REFUSED}
_Blobs: TypeAlias = Sequence[tuple[str, bytes]]


class Gate:
    """Submit, hold, approve, refuse. `boundary` says for a caller whether the gate is a wall or a rule, and why."""

    def __init__(
        self,
        store: Store,
        mail: Mail,
        sender: Sender,
        config: Config,
        *,
        clock: Clock,
        redactor: Redactor,
        boundary: Callable[[Principal], tuple[Boundary, str]],
        author: Callable[[str], Awaitable[Principal | None]] | None = None,
        audit_key: bytes = bytes(32),
        read_log: StoredReadLog | None = None,
        checkpoints: Checkpoints | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        """`author` makes the principal of an agent's id (None: it is gone), to send its scheduled drafts as it.

        `fetch` gets attachments given by URL; None: they are refused.
        """
        self._store = store
        self._mail = mail
        self._sender = sender
        self._clock = clock
        self._redactor = redactor
        self._boundary = boundary
        self._expires_us = int(config.gate.expires_h * 3600 * MICROS)
        self._moves = Moves(Audit(audit_key), store.blobs)
        self._read_log = read_log or StoredReadLog(store, clock)
        self._judge = Judge(store, mail, sender, config.gate, redactor=redactor, read_log=self._read_log, clock=clock)
        self._dispatch = Dispatch(store, sender, self._judge, self._moves, clock)
        self._checkpoints = checkpoints
        self._follow = Follow(
            store,
            mail,
            clock,
            gate=self,
            dispatch=self._dispatch,
            moves=self._moves,
            checkpoints=checkpoints,
            author=author or _nobody,
        )
        self._attaching = Attaching(fetch, config.gate, redactor=redactor, read_log=self._read_log)
        self._turns = Turns()

    async def submit(
        self, principal: Principal, request: SendRequest, key: str | None = None, *, window_s: float = 0
    ) -> Submission:
        """Freeze, judge, and send, hold or refuse: once per `key`, and with `window_s` once per content in that time.

        A draft that waits or is on its way as it stands is not asked about twice: it leaves once.

        Raises `Invalid` (the request or the key), `NotFound`, `Conflict` (the key stands for another request).
        """
        if key is not None and not KEY.fullmatch(key):
            raise Invalid("an idempotency key has 1 to 256 of the characters A-Z a-z 0-9 - . _ ~", code="invalid_key")
        asked = freeze.fingerprint(request)
        async with self._turns.of(f"{_submitter(principal)} {key or asked}"):
            known = self._store.read_now(lambda reader: self._known(reader, principal, key, asked))
            if known is not None:
                return _submission(known, repeated=True)
            row, blobs = await self._freeze(principal, request, key=key, asked=asked)
            since = self._same_since(request, window_s)
            known = await self._store.write(lambda tx: self._enter(tx, row, blobs, since))
            if known is not None:
                return _submission(known, repeated=True)
            if row.state is not State.APPROVED:
                return _submission(self._row(row.outgoing_id))
            accepted = await self._dispatch.hand_over(row.outgoing_id, judge_again=False)
            told = _submission(self._row(row.outgoing_id))
            return told if accepted is None else dataclasses.replace(told, message_id=accepted.message_id)

    async def screen(self, principal: Principal, inbox_id: str, addresses: Sequence[str]) -> None:
        """Raise `Refused` naming those of `addresses` the owner's rules would never let mail go to."""
        if not addresses:
            return
        inbox = await self._mail.get_inbox(principal, inbox_id)
        outbound = Outbound(inbox_id=inbox.inbox_id, kind=SendKind.SEND, from_=inbox.inbox_id, to=tuple(addresses))
        decision = await self._judge.decide(principal, outbound)
        if decision.outcome == "refuse":
            why = "; ".join(decision.reasons)
            raise Refused(f"{', '.join(decision.refused)}: {why}", details={"addresses": list(decision.refused)})

    async def would_hold(self, principal: Principal, request: SendRequest) -> bool:
        """Whether submitting this now would leave it waiting for a person."""
        outbound = await self._resolve(principal, request)
        return (await self._judge.decide(principal, outbound)).outcome == "hold"

    def standing(self, principal: Principal, outgoing_id: str) -> Submission:
        """What a mail has come to by now. Raises `NotFound`."""
        return _submission(self._visible(principal, outgoing_id))

    @property
    def attaching(self) -> Attach:
        """How attachments given by URL are filled in: for a draft as for a mail."""
        return self._attaching

    async def list(self, principal: Principal, *, states: Sequence[State] = (), page: PageRequest) -> Page[Outgoing]:
        """What wanted to leave, newest first: all of it for the owner, an agent's own for the agent."""
        size = page.size()
        scope = scope_of("outgoing", principal.pod_id, _seen_by(principal), principal.inbox_scope, tuple(states))
        position = read_token(scope, page.page_token, int)
        wanted = Selection(
            pod=principal.pod_id,
            states=tuple(states),
            agent_id=_seen_by(principal),
            inbox_id=principal.inbox_scope,
            before=position[0] if position else None,
        )
        found = await self._store.read(lambda reader: rows.select_rows(reader, wanted, size + 1))
        more = make_token(scope, [found[size - 1].id]) if len(found) > size else None
        return Page(items=tuple(row.shown() for row in found[:size]), next_page_token=more)

    async def show(self, principal: Principal, outgoing_id: str) -> Outgoing:
        """One of them, with what is odd about it and what the agent had read from outside by then.

        Raises `NotFound`, also for another agent's.
        """
        row = self._visible(principal, outgoing_id)
        read = self._read_log.refs(row.agent_id, until=row.created_at) if row.agent_id else ()
        system = dataclasses.replace(SYSTEM, pod_id=row.pod)
        findings = await noticed(self._mail, system, row.outbound, self._redactor)
        return dataclasses.replace(row.shown(), read=read, findings=findings)

    async def clear_reading(self, principal: Principal, agent_id: str) -> int:
        """What this agent read from outside so far counts no more; how many mails that was. Owner only."""
        require_owner(principal, "clear what an agent has read")
        return await self._read_log.clear(agent_id)

    async def raw(self, principal: Principal, outgoing_id: str) -> bytes:
        """The frozen bytes. Raises `NotFound`, also for a mail that got a no: its bytes are not kept."""
        row = self._visible(principal, outgoing_id)
        if row.state in NO_BYTES:
            raise NotFound(f"the bytes of a mail that is {row.state.value} are not kept", fix="show it: what it said is there")
        return await self._store.blobs.get(row.raw_sha)

    async def history(self, principal: Principal, outgoing_id: str) -> Sequence[Mapping[str, Any]]:
        """The audit entries of one mail, oldest first."""
        self._visible(principal, outgoing_id)
        return await self._store.read(lambda reader: audit.history(reader, outgoing_id))

    async def approve(self, principal: Principal, outgoing_id: str, digest: str) -> Outgoing:
        """Let the mail with this digest go. Owner only.

        Raises `Forbidden`, `NotFound`, `Conflict` (not held, another digest, or too late).
        """
        require_owner(principal, "approve mail")
        row = self._visible(principal, outgoing_id)
        check_move(row.state, State.APPROVED)
        frozen = await self._dispatch.frozen(row)
        if not hmac.compare_digest(digest.encode(), row.digest.encode()) or not self._dispatch.matches(frozen):
            raise Conflict(
                "this is not the digest of the held mail", code="digest_mismatch", fix="show it again and approve what you see"
            )
        now = self._clock.now_us()
        if row.expires_at <= now:
            await self._follow.expire(outgoing_id)
            raise Conflict("the mail waited too long and has expired", code="expired", fix="submit it again")
        decided: dict[str, Any] = {"decided_by": principal.label, "decided_at": now}
        await self._store.write(lambda tx: self._moves.move(tx, row, State.APPROVED, actor=principal.label, at=now, **decided))
        try:
            await self._dispatch.hand_over(outgoing_id)
        except (StorageFailure, Busy, TransportFailure) as problem:  # it stays approved, and is handed over later
            log.warning("approved_not_handed_over", outgoing_id=outgoing_id, code=problem.code)
        return self._row(outgoing_id).shown()

    async def refuse(self, principal: Principal, outgoing_id: str, comment: str = "") -> Outgoing:
        """Say no for good: the owner to any, an agent to its own. Raises `NotFound`, `Conflict` (decided already)."""
        row = self._visible(principal, outgoing_id)
        now = self._clock.now_us()
        decided: dict[str, Any] = {"decided_by": principal.label, "decided_at": now, "comment": comment or None}
        await self._store.write(lambda tx: self._moves.move(tx, row, State.REFUSED, actor=principal.label, at=now, **decided))
        return self._row(outgoing_id).shown()

    async def run(self) -> None:
        """Follow the event log, expire, and finish what a crash left. Until cancelled."""
        await self._follow.run()

    async def close(self) -> None:
        """Sign what was written since the last time, and fetch nothing more."""
        await self._attaching.close()
        if self._checkpoints is not None:
            await self._checkpoints.write()

    async def catch_up(self) -> None:
        """Apply what the event log says since the last time; `run` does it as events come."""
        await self._follow.catch_up()

    async def sweep(self) -> None:
        """Expire what nobody answered and hand over again what is not with the sender; `run` does it regularly."""
        await self._follow.sweep()

    async def _resolve(self, principal: Principal, request: SendRequest) -> Outbound:
        return await freeze.resolve(
            self._mail,
            principal,
            request,
            redact=lambda text: self._redactor.redact(text)[0],
            quotes=self._sender.binds == "bytes",
        )

    async def _freeze(self, principal: Principal, request: SendRequest, *, key: str | None, asked: str) -> tuple[Row, _Blobs]:
        outbound = await self._resolve(principal, request)
        written = request.raw or b""
        decision = await self._judge.decide(principal, outbound, raw=written)
        if decision.outcome != "refuse" and any(entry.url for entry in outbound.attachments):
            outbound = dataclasses.replace(outbound, attachments=await self._attaching.attach(principal, outbound.attachments))
            decision = await self._judge.decide(principal, outbound, raw=written)  # the files are read too
        now = self._clock.now_us()
        submitted = request.raw if request.kind is SendKind.SUBMISSION else None
        fixed = freeze.fix(outbound, binds=self._sender.binds, at_us=now, submitted=submitted)
        refused = decision.outcome == "refuse"
        whole = (fixed.raw, *(entry.content for entry in outbound.attachments))
        blobs = [(sha_of(data) if refused else await self._store.blobs.put(data), data) for data in whole]
        boundary, why = self._boundary(principal)
        automatic = decision.outcome == "send"
        row = Row(
            outgoing_id=new_id(OUTGOING),
            pod=principal.pod_id,
            submitter=_submitter(principal),
            submission_key=key,
            fingerprint=asked,
            content=freeze.content_hash(outbound),
            principal=principal,
            agent_id=principal.agent_id,
            inbox_id=outbound.inbox_id,
            state=_STATES[decision.outcome],
            outbound=dataclasses.replace(outbound, attachments=()),
            attachments=tuple(
                StoredAttachment.of(entry, sha) for entry, (sha, _) in zip(outbound.attachments, blobs[1:], strict=True)
            ),
            mail_from=fixed.mail_from,
            rcpt_to=fixed.rcpt_to,
            raw_sha=blobs[0][0],
            size=len(fixed.raw),
            digest=fixed.digest,
            message_id=fixed.message_id,
            thread_id=outbound.thread_id,
            reasons=decision.reasons,
            refused=decision.refused,
            boundary=boundary,
            boundary_reason=why,
            created_at=now,
            expires_at=now + self._expires_us,
            decided_by=(principal.label if principal.is_owner else "policy") if automatic else None,
            decided_at=now if automatic else None,
        )
        return row, blobs

    def _enter(self, tx: Tx, row: Row, blobs: _Blobs, since: int | None) -> Row | None:
        """Write the row unless its key, or its content since a moment, has one already: then that one."""
        known = self._known(tx, row.principal, row.submission_key, row.fingerprint)
        if known is None and since is not None:
            known = rows.find_content(tx, row.pod, row.submitter, row.content, since=since)
        if known is not None:
            return known
        if row.submission_key is not None:
            rows.free_key(tx, row.pod, row.submitter, row.submission_key)
        if row.agent_id is not None and row.state is not State.REFUSED:
            note_asked(tx, row.agent_id, row.rcpt_to, at=row.created_at)
        self._moves.enter(tx, row, () if row.state is State.REFUSED else blobs)
        return None

    def _same_since(self, request: SendRequest, window_s: float) -> int | None:
        """From when on the same content again is the same mail; None: it never is."""
        if request.kind is SendKind.DRAFT:
            return 0
        return self._clock.now_us() - int(window_s * MICROS) if window_s else None

    def _known(self, reader: Reader, principal: Principal, key: str | None, asked: str) -> Row | None:
        known = rows.find_key(reader, principal.pod_id, _submitter(principal), key) if key is not None else None
        if known is None or (known.state in FINAL and known.created_at < self._clock.now_us() - IDEMPOTENCY_S * MICROS):
            return None
        if known.fingerprint != asked:
            raise Conflict("this idempotency key was used for another message", fix="use a new key for a new message")
        return known

    def _row(self, outgoing_id: str) -> Row:
        row = self._store.read_now(lambda reader: rows.find(reader, outgoing_id))
        if row is None:
            raise NotFound("Outgoing mail not found", fix="list outgoing mail to see what there is")
        return row

    def _visible(self, principal: Principal, outgoing_id: str) -> Row:
        row = self._row(outgoing_id)
        foreign = row.pod != principal.pod_id or _seen_by(principal) not in (None, row.agent_id)
        if foreign or principal.inbox_scope not in (None, row.inbox_id):
            raise NotFound("Outgoing mail not found", fix="list outgoing mail to see what there is")
        return row


def _submitter(principal: Principal) -> str:
    return principal.agent_id or principal.kind.value


def _seen_by(principal: Principal) -> str | None:
    """The agent whose rows this principal sees; None: every agent's."""
    return None if principal.is_owner else principal.agent_id or ""


async def _nobody(agent_id: str) -> Principal | None:
    return None


def _submission(row: Row, *, repeated: bool = False) -> Submission:
    waits = row.state is State.SENDING and row.handed_at is None  # the sender does not have it yet
    left = row.state in (State.SENDING, State.SENT) and not waits
    refused = row.refused or (row.rcpt_to if row.state in (State.REFUSED, State.EXPIRED, State.FAILED) else ())
    reasons = row.reasons if row.detail is None else (*row.reasons, row.detail)
    return Submission(
        outgoing_id=row.outgoing_id,
        state=State.APPROVED if waits else row.state,
        message_id=row.message_id if left else None,
        thread_id=row.thread_id if left else None,
        digest=row.digest,
        reasons=reasons,
        refused=refused,
        expires_at=row.expires_at if row.state is State.HELD else None,
        repeated=repeated,
    )
