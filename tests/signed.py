"""Mail signed with a key of the test's own, and a DNS that knows what the test tells it."""

import base64
from collections.abc import Mapping, Sequence
from functools import cache

import dkim
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from postroom.errors import TransportFailure

SELECTOR, ED25519_SELECTOR = "test", "test-ed25519"


class Dns:
    """Answers from a table of (name, kind); a name in `silent` gets no answer at all."""

    def __init__(self, records: Mapping[tuple[str, str], Sequence[object]], silent: Sequence[str] = ()) -> None:
        self.records, self.silent = dict(records), silent
        self.asked: list[tuple[str, str]] = []

    async def lookup(self, name, kind):
        self.asked.append((name.rstrip("."), kind))
        if name.rstrip(".") in self.silent:
            raise TransportFailure("DNS did not answer", kind="temporary")
        return tuple(self.records.get((name.rstrip("."), kind), ()))


@cache
def key() -> tuple[bytes, bytes]:
    """A private key in PEM, and the TXT record of its public half."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return pem, b"v=DKIM1; k=rsa; p=" + base64.b64encode(public)


@cache
def ed25519_key() -> tuple[bytes, bytes]:
    """The same of the other kind of key (RFC 8463)."""
    private = ed25519.Ed25519PrivateKey.generate()
    return base64.b64encode(private.private_bytes_raw()), b"v=DKIM1; k=ed25519; p=" + base64.b64encode(
        private.public_key().public_bytes_raw()
    )


def key_record(domain: str) -> dict[tuple[str, str], list[object]]:
    keys = {SELECTOR: key(), ED25519_SELECTOR: ed25519_key()}
    return {(f"{selector}._domainkey.{domain}", "TXT"): [record] for selector, (_, record) in keys.items()}


def mail(sender: str = "Ada <ada@customer.example>", *, text: str = "Hello Scout", extra: Sequence[str] = ()) -> bytes:
    lines = [f"From: {sender}", "To: scout@postroom.localhost", "Subject: Offer", "Message-ID: <one@customer.example>", *extra]
    return "\r\n".join([*lines, "", text, ""]).encode()


def signed(raw: bytes, domain: str = "customer.example", *, length: bool = False, algorithm: str = "rsa-sha256") -> bytes:
    """`raw` under a DKIM signature of `domain`."""
    selector, private = (SELECTOR, key()[0]) if algorithm.startswith("rsa") else (ED25519_SELECTOR, ed25519_key()[0])
    signature = dkim.sign(
        raw,
        selector.encode(),
        domain.encode(),
        private,
        signature_algorithm=algorithm.encode(),
        canonicalize=(b"relaxed", b"relaxed"),
        include_headers=[b"from", b"to", b"subject", b"message-id"],
        length=length,
    )
    return bytes(signature) + raw
