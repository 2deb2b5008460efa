"""What whoever is asked should know of a held mail beside its words: in full, because a person reads it.

Of the mail itself: recipients and links that pass for others. Of the mail it answers or passes on:
everything that was noticed when that arrived, and what its view took away. Nothing here decides.
"""

from __future__ import annotations

import dataclasses

from postroom.errors import NotFound
from postroom.model.mail import Finding, Message
from postroom.model.ports import Mail
from postroom.model.principal import Principal
from postroom.model.request import Outbound
from postroom.safety.links import hosts
from postroom.safety.lookalike import domain_findings
from postroom.safety.redact import Redactor
from postroom.safety.view import VIEW_CHARS, body_view


async def noticed(mail: Mail, system: Principal, outbound: Outbound, redactor: Redactor) -> tuple[Finding, ...]:
    """The findings, each detail saying which of the two mails it is about."""
    source = await _source(mail, system, outbound)
    known = [_domain(text) for text in (outbound.inbox_id, *((source.from_,) if source is not None else ()))]
    domains = dict.fromkeys(map(_domain, (*outbound.bcc, *outbound.to, *outbound.cc, *outbound.reply_to)))
    found = [finding for domain in domains for finding in domain_findings(domain, known, whose="a recipient's domain")]
    links = hosts(f"{outbound.text or ''}\n{outbound.html or ''}"[:VIEW_CHARS])
    found += [finding for host in links for finding in domain_findings(host, known, whose="the host of a link")]
    if source is not None:
        about = body_view(source, max_chars=VIEW_CHARS, redactor=redactor).findings
        found += [dataclasses.replace(each, detail=f"in the mail it is about: {each.detail or each.code}") for each in about]
    return tuple(dict.fromkeys(found))


async def _source(mail: Mail, system: Principal, outbound: Outbound) -> Message | None:
    if outbound.source_message_id is None:
        return None
    try:
        return await mail.get_message(system, outbound.inbox_id, outbound.source_message_id)
    except NotFound:
        return None  # deleted since


def _domain(address: str) -> str:
    return address.rstrip(">").rpartition("@")[2]
