"""SPF, DKIM and ARC of one mail, by their libraries, with every DNS question going through `Ask`.

A library that trips over a mail is a failed check, never a failed mail. Signatures that leave part of
the body out (`l=`) or use SHA-1 prove nothing here. Runs in a thread: hashing a large body takes time.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from typing import Any, Final

from postroom.errors import TransportFailure
from postroom.mime.authentication import Proof
from postroom.wires.dns import Answer, Kind, Lookup

QUESTIONS: Final = 40  # per mail
SIGNATURES: Final = 4
SEALS: Final = 10
_OURS: Final = tuple(
    ipaddress.ip_network(net)
    for net in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "169.254.0.0/16", "fe80::/10")
)
_SPF_WORDS: Final = frozenset(["pass", "fail", "softfail", "neutral", "none", "temperror", "permerror"])


class Ask:
    """Questions of a checking thread to the resolver on the loop: so many, and until then."""

    def __init__(self, resolver: Lookup, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._resolver = resolver
        self._loop = loop
        self._end = time.monotonic() + seconds
        self._left = QUESTIONS
        self.failed = False

    def __call__(self, name: str, kind: Kind) -> tuple[Answer, ...]:
        """The answers. Raises `TransportFailure` when there are none in time, or too much was asked."""
        self._left -= 1
        seconds = self._end - time.monotonic()
        if self._left < 0 or seconds <= 0:
            self.failed = True
            raise TransportFailure("this mail asks too much of DNS", kind="temporary", code="dns_failure")
        asked = asyncio.run_coroutine_threadsafe(self._resolver.lookup(name, kind), self._loop)
        try:
            return asked.result(seconds)
        except (TransportFailure, TimeoutError):
            asked.cancel()
            self.failed = True
            raise TransportFailure("DNS did not answer", kind="temporary", code="dns_failure") from None

    def text(self, name: bytes | str, timeout: float = 0) -> bytes | None:
        """The one TXT record of a key's name, as dkimpy asks for it."""
        spelled = name.decode("ascii", "replace") if isinstance(name, bytes) else name
        found = self(spelled, "TXT")
        return found[0] if found and isinstance(found[0], bytes) else None


def is_outside(peer: str) -> bool:
    """True when SPF can say something about this address: it is not our own host or network."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or any(address in network for network in _OURS))


def check_spf(ask: Ask, peer: str, mail_from: str) -> tuple[Proof, ...]:
    """SPF of the envelope's sender for the peer's address; nothing for `<>` or a peer of our own network."""
    domain = mail_from.rpartition("@")[2].lower()
    if not domain or not is_outside(peer):
        return ()
    import spf

    class Query(spf.query):  # type: ignore[misc]  # the library has no types
        def dns(self, name: str, qtype: Kind, cnames: Any = None, ignore_void: bool = False) -> list[Any]:
            try:
                found = ask(str(name), qtype)
            except TransportFailure as problem:
                raise spf.TempError(str(problem)) from None
            if not found and not ignore_void:
                self.void_lookups += 1
                if self.void_lookups > spf.MAX_VOID_LOOKUPS:
                    raise spf.PermError("too many lookups found nothing")
            return [(entry,) if qtype == "TXT" else entry for entry in found]

    try:
        result = str(Query(i=peer, s=mail_from, h=domain).check()[0])
    except Exception:  # noqa: BLE001 - whatever a stranger's record does to the library, it is no pass
        result = "permerror"
    return (Proof(method="spf", result=result if result in _SPF_WORDS else "permerror", domain=domain),)


def check_dkim(ask: Ask, raw: bytes) -> tuple[Proof, ...]:
    """The first few signatures."""
    import dkim

    try:
        mail = dkim.DKIM(raw, logger=_silent())
    except dkim.DKIMException:
        return ()
    count = sum(name.lower() == b"dkim-signature" for name, _ in mail.headers)
    return tuple(_signature(ask, mail, number) for number in range(min(count, SIGNATURES)))


def check_arc(ask: Ask, raw: bytes) -> str:
    """Is the chain of seals whole? Shown, not believed: whoever seals may be anybody."""
    import dkim

    try:
        mail = dkim.ARC(raw, logger=_silent())
        seals = sum(name.lower() == b"arc-seal" for name, _ in mail.headers)
        if not seals:
            return "none"
        ask.failed = False
        result = mail.verify(dnsfunc=ask.text)[0] if seals <= SEALS else b"fail"
    except Exception:  # noqa: BLE001 - a broken chain is a failed one
        result = b"fail"
    return "pass" if result == dkim.CV_Pass else "temperror" if ask.failed else "fail"


def _signature(ask: Ask, mail: Any, number: int) -> Proof:
    import dkim

    mail.domain, ask.failed = b"", False
    try:
        result = "pass" if mail.verify(idx=number, dnsfunc=ask.text) else "fail"
    except dkim.ValidationError:
        result = "fail"
    except Exception:  # noqa: BLE001 - a signature nobody can read
        result = "permerror"
    if ask.failed and result != "pass":
        result = "temperror"
    fields = getattr(mail, "signature_fields", {})
    if result == "pass" and (b"l" in fields or fields.get(b"a") == b"rsa-sha1"):
        result = "policy"
    return Proof(method="dkim", result=result, domain=bytes(mail.domain or b"").decode("ascii", "replace").lower().rstrip("."))


def _silent() -> logging.Logger:
    logger = logging.Logger("postroom.dkim")  # noqa: LOG001 - kept out of the tree: it would print strangers' text
    logger.addHandler(logging.NullHandler())
    return logger
