"""Gathers what the decision needs to know. The decision itself is `policy.decision`, a pure function.

Lists are read through `Mail` as the system, so an agent's rights do not narrow what binds it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Sequence
from typing import Final

from postroom.clock import Clock
from postroom.config import Gate as GateConfig
from postroom.errors import Invalid
from postroom.gate.caps import over_cap
from postroom.gate.freeze import hidden_recipients, recipients
from postroom.gate.readlog import StoredReadLog
from postroom.limits import KIB
from postroom.model.ports import Mail, Sender
from postroom.model.principal import SYSTEM, Principal
from postroom.model.request import Outbound, SendKind
from postroom.policy.decision import Decision, Facts, RecipientFacts, decide
from postroom.policy.recipients import check_entry, matches
from postroom.safety.redact import Redactor
from postroom.store.engine import Store

_AT_ONCE: Final = 256 * KIB  # of attachments
_CODED_LINE: Final = re.compile(rb"(?m)^[A-Za-z0-9+/=]{60,}\r?$")  # of a part, which is read decoded


class Judge:
    """May this principal send this mail, as things stand now?"""

    def __init__(
        self,
        store: Store,
        mail: Mail,
        sender: Sender,
        config: GateConfig,
        *,
        redactor: Redactor,
        read_log: StoredReadLog,
        clock: Clock,
    ) -> None:
        for name in ("limit", "trusted", "blocked"):
            _check_list(name, getattr(config, name))
        self._store = store
        self._read_log = read_log
        self._clock = clock
        self._mail = mail
        self._sender = sender
        self._config = config
        self._redactor = redactor

    async def decide(self, principal: Principal, outbound: Outbound, *, raw: bytes = b"", again: bool = False) -> Decision:
        """The owner's rules applied to facts as of now. `again`: it was counted against the caps when it was submitted.

        `raw` are the bytes that would leave: what a mail written elsewhere says is not all in `outbound`.
        """
        system = dataclasses.replace(SYSTEM, pod_id=principal.pod_id)
        limit = (*self._config.limit, *await self._mail.send_list(system, outbound.inbox_id, "allow"))
        blocked = (*self._config.blocked, *await self._mail.send_list(system, outbound.inbox_id, "block"))
        addresses = recipients(outbound)
        unreachable = {address: why for address in addresses if (why := self._sender.can_reach(address)) is not None}
        facts = Facts(
            principal_is_owner=principal.is_owner,
            recipients=tuple([await self._recipient(system, address, limit, blocked) for address in addresses]),
            profile=principal.profile,
            read_only=self._config.read_only,
            approval=self._config.approval,
            hidden=() if principal.is_owner or self._config.bcc else hidden_recipients(outbound),
            secrets_found=await self._secrets(outbound, raw if outbound.kind is SendKind.SUBMISSION else b""),
            over_cap=None if again else self._over_cap(principal, addresses),
            unreachable=unreachable,
            read_outside=0 if principal.agent_id is None else self._read_log.count(principal.agent_id),
        )
        return decide(facts)

    def _over_cap(self, principal: Principal, addresses: Sequence[str]) -> str | None:
        agent_id, now = principal.agent_id, self._clock.now_us()
        if agent_id is None:
            return None
        return self._store.read_now(lambda reader: over_cap(reader, self._config, agent_id, addresses, now=now))

    async def _recipient(self, system: Principal, address: str, limit: Sequence[str], blocked: Sequence[str]) -> RecipientFacts:
        is_local = address.rpartition("@")[2] in self._mail.domains
        trusted = _covered(self._config.trusted, address)
        return RecipientFacts(
            address=address,
            is_local=is_local,
            blocked=_covered(blocked, address),
            in_limit=_covered(limit, address),
            limit_set=bool(limit),
            trusted=trusted,
            authenticated=is_local or (trusted and await self._mail.is_authenticated(system, address)),
        )

    async def _secrets(self, outbound: Outbound, raw: bytes) -> tuple[str, ...]:
        """The kinds of secrets in everything that would leave, files too; much of it is read in a thread."""
        files = (*(entry.content for entry in outbound.attachments), _CODED_LINE.sub(b"", raw))
        large = sum(map(len, files)) > _AT_ONCE
        return await asyncio.to_thread(self._kinds, outbound, files) if large else self._kinds(outbound, files)

    def _kinds(self, outbound: Outbound, files: Sequence[bytes]) -> tuple[str, ...]:
        names = (name for entry in outbound.attachments for name in (entry.filename, entry.url))
        addresses = (*outbound.to, *outbound.cc, *outbound.bcc, *outbound.reply_to)
        answered = (outbound.in_reply_to, *outbound.references)
        texts = (outbound.subject, outbound.text, outbound.html, *outbound.headers.values(), *answered, *addresses, *names)
        found = [span.kind for text in texts if text for span in self._redactor.find(text)]
        found += [kind for content in files for kind in self._redactor.kinds_in(content)]
        return tuple(dict.fromkeys(found))


def _check_list(name: str, entries: Sequence[str]) -> None:
    """An entry that can match nobody would be a rule its owner believes in and nobody is bound by."""
    for entry in entries:
        try:
            check_entry(entry)
        except Invalid as problem:
            raise Invalid(f"gate.{name}: {entry!r} is neither an address nor a domain", fix=problem.fix) from None


def _covered(entries: Sequence[str], address: str) -> bool:
    return any(matches(entry, address) for entry in entries)
