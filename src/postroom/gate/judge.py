"""Gathers what the decision needs to know. The decision itself is `policy.decision`, a pure function.

Lists are read through `Mail` as the system, so an agent's rights do not narrow what binds it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from postroom.config import Gate as GateConfig
from postroom.gate.freeze import recipients
from postroom.model.ports import Mail, Sender
from postroom.model.principal import SYSTEM, Principal
from postroom.model.request import Outbound
from postroom.policy.decision import Decision, Facts, RecipientFacts, decide
from postroom.policy.recipients import matches
from postroom.safety.redact import Redactor


class Judge:
    """May this principal send this mail, as things stand now?"""

    def __init__(self, mail: Mail, sender: Sender, config: GateConfig, redactor: Redactor) -> None:
        self._mail = mail
        self._sender = sender
        self._config = config
        self._redactor = redactor

    async def decide(self, principal: Principal, outbound: Outbound) -> Decision:
        """The owner's rules applied to facts as of now."""
        system = dataclasses.replace(SYSTEM, pod_id=principal.pod_id)
        limit = (*self._config.limit, *await self._mail.send_list(system, outbound.inbox_id, "allow"))
        blocked = (*self._config.blocked, *await self._mail.send_list(system, outbound.inbox_id, "block"))
        addresses = recipients(outbound)
        unreachable = {address: why for address in addresses if (why := self._sender.can_reach(address)) is not None}
        facts = Facts(
            principal_is_owner=principal.is_owner,
            recipients=tuple(self._recipient(address, limit, blocked) for address in addresses),
            profile=principal.profile,
            read_only=self._config.read_only,
            approval=self._config.approval,
            secrets_found=self._secrets(outbound),
            unreachable=unreachable,
        )
        return decide(facts)

    def _recipient(self, address: str, limit: Sequence[str], blocked: Sequence[str]) -> RecipientFacts:
        is_local = address.rpartition("@")[2] in self._mail.domains
        return RecipientFacts(
            address=address,
            is_local=is_local,
            blocked=_covered(blocked, address),
            in_limit=_covered(limit, address),
            limit_set=bool(limit),
            trusted=_covered(self._config.trusted, address),
            authenticated=is_local,
        )

    def _secrets(self, outbound: Outbound) -> tuple[str, ...]:
        names = [entry.filename for entry in outbound.attachments]
        texts = (outbound.subject, outbound.text, outbound.html, *outbound.headers.values(), *names)
        return tuple(dict.fromkeys(span.kind for text in texts if text for span in self._redactor.find(text)))


def _covered(entries: Sequence[str], address: str) -> bool:
    return any(matches(entry, address) for entry in entries)
