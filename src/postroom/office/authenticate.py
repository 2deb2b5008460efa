"""Who sent this arrived mail, as far as that can be proved; asked once, when it is read.

Either a mail server in front has checked and its name is configured, or the house asks DNS itself, or
neither and nothing is said. Mail between inboxes of the house needs no proof: it never left.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Final

import structlog

from postroom.config import Inbound
from postroom.mime.authentication import (
    Proof,
    as_results,
    authserv_of,
    believe,
    judge,
    organisation,
    read_policy,
    read_results,
)
from postroom.mime.header_block import read_block
from postroom.model.mail import Authentication, Finding
from postroom.office.content import Content
from postroom.office.proofs import Ask, check_arc, check_dkim, check_spf
from postroom.wires.dns import Lookup, Resolver

BUDGET_S: Final = 10.0  # per mail, RFC 7208 §4.6.4
AT_ONCE: Final = 8  # mails whose senders are looked into together
_FIELD: Final = "authentication-results"

log = structlog.get_logger("postroom.office")


class Authenticator:
    """Proves senders the way `config` says. `name` is ours, in the results we write."""

    def __init__(self, config: Inbound, name: str, resolver: Lookup | None = None, *, budget_s: float = BUDGET_S) -> None:
        self._believed = config.authserv_id.lower()
        self._name = name.lower()
        self._resolver = resolver or (Resolver(config.dns) if config.dns != "off" else None)
        self._budget_s = budget_s

    @property
    def works(self) -> bool:
        """False when nothing is configured that could prove a sender."""
        return bool(self._believed) or self._resolver is not None

    async def authenticate(self, raw: bytes, content: Content, *, mail_from: str, peer: str) -> Content:
        """`content` with what is known of its sender, and what others claimed in our name taken out."""
        found = await self._find(raw, content, mail_from=mail_from, peer=peer)
        return content if found is None else _with(content, found, self._believed or self._name)

    async def _find(self, raw: bytes, content: Content, *, mail_from: str, peer: str) -> Authentication | None:
        if self._believed:
            claims = read_results(_trace(raw), self._believed)
            if claims:
                return believe(content.author_domain, claims, self._believed)
        if self._resolver is None:
            return judge(content.author_domain, (), None) if self._believed else None
        return await self._check(self._resolver, raw, content.author_domain, mail_from=mail_from, peer=peer)

    async def _check(self, resolver: Lookup, raw: bytes, author: str, *, mail_from: str, peer: str) -> Authentication:
        ask = Ask(resolver, asyncio.get_running_loop(), self._budget_s)
        work = asyncio.to_thread(_all_checks, ask, raw, author, mail_from=mail_from, peer=peer)
        try:
            async with asyncio.timeout(self._budget_s + 1):
                return await work
        except TimeoutError:
            return Authentication(spf="temperror", dkim="temperror", dmarc="temperror", reason="it took too long")
        except Exception as problem:  # noqa: BLE001 - a mail is delivered whatever it does to a library
            log.warning("not_authenticated", reason=type(problem).__name__)
            return Authentication(dmarc="permerror", reason="the checks failed")


def _all_checks(ask: Ask, raw: bytes, author: str, *, mail_from: str, peer: str) -> Authentication:
    proofs: tuple[Proof, ...] = (*check_spf(ask, peer, mail_from), *check_dkim(ask, raw))
    arc = check_arc(ask, raw)
    if not author:
        return judge("", proofs, None, arc=arc)
    try:
        policy, inherited = read_policy(_texts(ask, author)), False
        if policy is None and (above := organisation(author)) != author:
            policy, inherited = read_policy(_texts(ask, above)), True
    except Exception:  # noqa: BLE001 - without the policy nothing can be concluded from what failed
        found = judge(author, proofs, None, arc=arc)
        return dataclasses.replace(found, dmarc="temperror", reason="its domain's policy could not be read")
    return judge(author, proofs, policy, inherited=inherited, arc=arc)


def _texts(ask: Ask, domain: str) -> list[str]:
    return [text.decode("ascii", "replace") for text in ask(f"_dmarc.{domain}", "TXT") if isinstance(text, bytes)]


def _trace(raw: bytes) -> list[str]:
    """Authentication-Results the nearest server can have written: those above the second Received."""
    fields: list[str] = []
    received = 0
    for name, value in read_block(raw, 0, len(raw)).fields:
        received += name.lower() == "received"
        if received > 1:
            break
        if name.lower() == _FIELD:
            fields.append(value.decode("utf-8", "replace"))
    return fields


def _with(content: Content, found: Authentication, name: str) -> Content:
    kept = {key: value for key, value in content.headers.items() if key.lower() != _FIELD or authserv_of(value) != name}
    ours = {} if any(key.lower() == _FIELD for key in kept) else {"Authentication-Results": as_results(found, name)}
    return dataclasses.replace(
        content, authentication=found, headers={**ours, **kept}, findings=(*_findings(found), *content.findings)
    )


def _findings(found: Authentication) -> tuple[Finding, ...]:
    said = f"spf={found.spf} dkim={found.dkim} dmarc={found.dmarc}"
    if found.passed:
        return ()
    if found.dmarc == "fail":
        return (
            Finding(
                code="auth_fail", detail=f"the sender's address is forged or was changed on its way ({found.reason or said})"
            ),
        )
    return (Finding(code="not_authenticated", detail=f"nothing proves the sender's address ({said})"),)
