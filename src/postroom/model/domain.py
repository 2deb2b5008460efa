"""Domains mail is delivered for, and the DNS records their owner sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainFlags:
    """What the owner asked of a domain; they shape the records that are to be set."""

    feedback: bool = True
    inbound: bool = True
    subdomains: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsRecord:
    """One record, and what the last look at the DNS found in its place."""

    type: Literal["TXT", "MX"]
    name: str
    value: str
    status: Literal["MISSING", "INVALID", "VALID"]
    priority: int | None = None
    reason: Literal["duplicate_records", "value_mismatch"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One domain. Inboxes can be made at it from the first moment; `status` is about its DNS records."""

    name: str
    pod_id: str
    status: Literal["NOT_STARTED", "PENDING", "VERIFIED"]
    flags: DomainFlags
    records: tuple[DnsRecord, ...] = field(default=())
    reason: str | None = None
    created_at: int = 0
    updated_at: int = 0
