"""The DNS records a domain's owner sets, and whether what is there will do. Pure: answers come in, statuses go out.

postroom stands behind a mail server of the owner's, so an MX may name any host, and the key that
signs (DKIM) is that server's: its record is listed with a value to replace, and not required.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from postroom.model.domain import DnsRecord, DomainFlags

# RFC 2606 and 6761: names that exist on this machine or in examples only; no DNS record can be set for them.
_RESERVED: Final = frozenset({"localhost", "test", "example", "invalid"})
_PRIORITY: Final = 10
SELECTOR: Final = "postroom"
PROBE: Final = "postroom-check"  # a name that only a wildcard answers for
REQUIRED: Final = ("MX", "SPF", "DMARC", "WILDCARD")


def is_reserved(name: str) -> bool:
    """Is it a name nobody can set records for?"""
    return name.rpartition(".")[2] in _RESERVED


def questions(name: str, flags: DomainFlags) -> dict[str, tuple[str, str]]:
    """What to ask the DNS: for each record its type and the name to ask."""
    asked = {"SPF": ("TXT", name), "DMARC": ("TXT", f"_dmarc.{name}"), "DKIM": ("TXT", f"{SELECTOR}._domainkey.{name}")}
    if flags.inbound:
        asked["MX"] = ("MX", name)
        if flags.subdomains:
            asked["WILDCARD"] = ("MX", f"{PROBE}.{name}")
    return asked


def judge(record: str, answers: Sequence[object]) -> tuple[str, str | None]:
    """Status of one record and why, from the answers to its question."""
    if record in ("MX", "WILDCARD"):
        return ("VALID", None) if answers else ("MISSING", None)
    marks = {"SPF": b"v=spf1", "DMARC": b"v=dmarc1", "DKIM": b"v=dkim1"}
    texts = [answer for answer in answers if isinstance(answer, bytes) and answer.lower().startswith(marks[record])]
    if len(texts) > 1:
        return "INVALID", "duplicate_records"  # RFC 7208 §4.5, RFC 7489 §6.6.3: then none counts
    if not texts:
        return "MISSING", None
    return ("INVALID", "value_mismatch") if record == "DKIM" and b"REPLACE" in texts[0] else ("VALID", None)


def records_of(name: str, flags: DomainFlags, found: Mapping[str, Sequence[str | None]], relay: str) -> tuple[DnsRecord, ...]:
    """The records to set, with what was found of each. `relay` is the host that sends, if there is one."""
    if is_reserved(name):
        return ()
    sends = f" a:{relay}" if relay else ""
    wanted = {
        "SPF": DnsRecord(type="TXT", name=name, value=f"v=spf1 mx{sends} -all", status="MISSING"),
        "DMARC": DnsRecord(type="TXT", name=f"_dmarc.{name}", value="v=DMARC1; p=quarantine", status="MISSING"),
        "DKIM": DnsRecord(
            type="TXT",
            name=f"{SELECTOR}._domainkey.{name}",
            value="v=DKIM1; k=rsa; p=REPLACE-WITH-THE-PUBLIC-KEY-OF-THE-MAIL-SERVER-THAT-SIGNS",
            status="MISSING",
        ),
    }
    if flags.inbound:
        wanted["MX"] = DnsRecord(type="MX", name=name, value=f"mx.{name}", status="MISSING", priority=_PRIORITY)
        if flags.subdomains:
            wanted["WILDCARD"] = replace(wanted["MX"], name=f"*.{name}")
    order = ("MX", "WILDCARD", "SPF", "DKIM", "DMARC")
    return tuple(_with(wanted[key], found.get(key)) for key in order if key in wanted)


def missing(found: Mapping[str, Sequence[str | None]], flags: DomainFlags) -> str | None:
    """Why the domain is not verified by these findings; None when it is."""
    required = [key for key in REQUIRED if key in questions("x", flags)]
    states = {found.get(key, ("MISSING",))[0] for key in required}
    if "INVALID" in states:
        return "dns_records_invalid"
    return "dns_records_missing" if "MISSING" in states else None


def zone_file(name: str, records: Sequence[DnsRecord]) -> str:
    """The records as a zone file (RFC 1035 §5)."""
    lines = [f"; records for {name}", f"$ORIGIN {name}.", "$TTL 3600"]
    for record in records:
        value = f'"{record.value}"' if record.type == "TXT" else f"{record.priority} {record.value}."
        lines.append(f"{record.name}. IN {record.type} {value}")
    return "\n".join(lines) + "\n"


def _with(record: DnsRecord, found: Sequence[str | None] | None) -> DnsRecord:
    if found is None:
        return record
    status, reason = found
    return replace(record, status=status, reason=reason)  # type: ignore[arg-type]  # as `judge` wrote them
