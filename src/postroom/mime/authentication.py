"""Is the address in From genuine? What RFC 8601, 7489 and their kin say of it, as pure functions.

A *proof* is what SPF or DKIM found for one domain. It counts when that domain stands for the one in
From (*alignment*): the same, or the same organisation unless the domain's DMARC policy is strict. A
mail with not exactly one author is never authenticated, whatever was proved: programs differ in which
From they show. The checks themselves, which ask DNS, are the office's; so is what follows from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from postroom.model.mail import Authentication

Method: TypeAlias = Literal["spf", "dkim"]

_RESULTS: Final = frozenset(
    ["none", "pass", "fail", "softfail", "neutral", "policy", "temperror", "permerror", "hardfail", "bestguesspass"]
)
_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\((?:[^()\\]|\\.)*\)')
_PIECE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^";]+|[";]')
_PAIR: Final = re.compile(r'([A-Za-z0-9_.-]+)(?:\s*/\s*\d+)?\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;]+)')
_NESTED: Final = 10
_VALUE_CHARS: Final = 4096
_FIELDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What one check found: `result` in RFC 8601's words, for `domain`."""

    method: Method
    result: str
    domain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One result of an Authentication-Results field; `properties` by `ptype.property`."""

    method: str
    result: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A domain's published DMARC policy. `subdomains` holds where the domain in From is below the one that publishes."""

    request: str = "none"
    subdomains: str = "none"
    strict_spf: bool = False
    strict_dkim: bool = False


def judge(
    author: str, proofs: Sequence[Proof], policy: Policy | None, *, inherited: bool = False, arc: str = "none"
) -> Authentication:
    """What the proofs mean for a mail whose one author is at `author` ("" when it has not exactly one).

    `inherited`: the policy is the organisation's, found above `author`.
    """
    spf = _best(proof.result for proof in proofs if proof.method == "spf")
    dkim = _best(proof.result for proof in proofs if proof.method == "dkim")
    if not author:
        return Authentication(spf=spf, dkim=dkim, arc=arc, dmarc="fail", policy="reject", reason="not exactly one author")
    aligned = any(proof.result == "pass" and _aligned(author, proof, policy) for proof in proofs)
    request = "" if policy is None else policy.subdomains if inherited else policy.request
    dmarc = "none" if policy is None else "pass" if aligned else "fail"
    if dmarc == "fail" and "temperror" in (spf, dkim):
        dmarc = "temperror"
    return Authentication(spf=spf, dkim=dkim, arc=arc, dmarc=dmarc, aligned=aligned, policy=request)


def believe(author: str, claims: Sequence[Claim], by: str) -> Authentication:
    """The same from what a trusted server in front found."""
    proofs = [proof for claim in claims for proof in _proofs(claim)]
    found = judge(author, proofs, None, arc=_best(claim.result for claim in claims if claim.method == "arc"))
    said = next((claim for claim in claims if claim.method == "dmarc"), None)
    if said is None or not author:
        return Authentication(**{**_fields(found), "by": by})
    about = _domain(said.properties.get("header.from", author))
    good = said.result == "pass" and about == author
    result = "fail" if said.result == "pass" and not good else said.result
    aligned = good or (result not in ("fail", "permerror") and found.aligned)
    request = said.properties.get("policy.p") or said.properties.get("policy.dmarc") or ""
    return Authentication(**{**_fields(found), "by": by, "dmarc": result, "aligned": aligned, "policy": request.lower()})


def read_results(values: Sequence[str], authserv_id: str) -> tuple[Claim, ...]:
    """The results in those Authentication-Results fields that carry `authserv_id`; anything malformed is left out."""
    return tuple(claim for value in values[:_FIELDS] if authserv_of(value) == authserv_id.lower() for claim in _claims(value))


def authserv_of(value: str) -> str:
    """Whose field this says it is."""
    words = _bare(value).partition(";")[0].split()
    return words[0].strip('"').lower() if words else ""


def as_results(found: Authentication, authserv_id: str) -> str:
    """Our own Authentication-Results value."""
    parts = [f"{name}={getattr(found, name)}" for name in ("spf", "dkim", "dmarc", "arc")]
    return "; ".join([authserv_id, *parts])


def read_policy(records: Iterable[str]) -> Policy | None:
    """The policy among a name's TXT records; None without exactly one (RFC 7489 §6.6.3)."""
    found = [record for record in records if re.match(r"v\s*=\s*DMARC1\s*(;|\Z)", record)]
    if len(found) != 1:
        return None
    tags = {name.strip().lower(): value.strip() for name, _, value in (entry.partition("=") for entry in found[0].split(";"))}
    request = tags.get("p", "").lower()
    if request not in ("none", "quarantine", "reject"):
        if not tags.get("rua"):
            return None
        request = "none"
    below = tags.get("sp", "").lower()
    return Policy(
        request=request,
        subdomains=below if below in ("none", "quarantine", "reject") else request,
        strict_spf=tags.get("aspf", "").lower() == "s",
        strict_dkim=tags.get("adkim", "").lower() == "s",
    )


def organisation(domain: str) -> str:
    """The organisational domain: one label below a public suffix."""
    return _suffixes().privatesuffix(domain) or domain


def _aligned(author: str, proof: Proof, policy: Policy | None) -> bool:
    strict = policy is not None and (policy.strict_spf if proof.method == "spf" else policy.strict_dkim)
    return proof.domain == author or (not strict and organisation(proof.domain) == organisation(author))


def _best(results: Iterable[str]) -> str:
    """One word for several results of a method."""
    order = ("pass", "temperror", "fail", "softfail", "neutral", "policy", "permerror")
    found = set(results)
    return next((word for word in order if word in found), "none")


def _claims(value: str) -> Iterable[Claim]:
    for part in _parts(_bare(value))[1:]:
        pairs = _PAIR.findall(part)
        if not pairs or pairs[0][1].lower() not in _RESULTS:
            continue
        method, result = pairs[0][0].lower(), pairs[0][1].lower()
        properties = {name.lower(): text.strip('"') for name, text in pairs[1:]}
        yield Claim(method=method, result="fail" if result == "hardfail" else result, properties=properties)


def _parts(value: str) -> list[str]:
    """What stands between semicolons outside quotes."""
    parts = [""]
    for piece in _PIECE.findall(value):
        if piece == ";":
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _proofs(claim: Claim) -> Iterable[Proof]:
    given = claim.properties
    if claim.method == "spf" and given.get("smtp.mailfrom"):
        yield Proof(method="spf", result=claim.result, domain=_domain(given["smtp.mailfrom"]))
    elif claim.method == "dkim":
        yield Proof(method="dkim", result=claim.result, domain=_domain(given.get("header.d") or given.get("header.i") or ""))


def _domain(text: str) -> str:
    return text.strip("<>").rpartition("@")[2].rstrip(".").lower()


def _bare(value: str) -> str:
    """The value without comments, on one line."""
    text = " ".join(value[:_VALUE_CHARS].split())
    for _ in range(_NESTED):
        shorter = _COMMENT.sub(lambda found: found[1] or " ", text)
        if shorter == text:
            break
        text = shorter
    return text


def _fields(found: Authentication) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Authentication.__slots__}


@cache
def _suffixes() -> Any:
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()
