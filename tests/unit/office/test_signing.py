"""Signatures, checked by the reference verifier."""

from __future__ import annotations

import base64
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from postroom.office.signing import new_webhook_secret, signature_headers


def test_the_reference_verifier_accepts_and_a_changed_body_fails() -> None:
    secret, body = new_webhook_secret(), '{"text":"grüße"}'.encode()
    headers = signature_headers("msg_1", int(time.time()), body, [secret])
    assert Webhook(secret).verify(body, headers) == {"text": "grüße"}
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_webhook_secret()).verify(body, headers)


def test_either_secret_verifies_while_one_replaces_the_other() -> None:
    new, old = new_webhook_secret(), new_webhook_secret()
    headers = signature_headers("msg_1", int(time.time()), b"{}", [new, old])
    assert Webhook(new).verify(b"{}", headers) == Webhook(old).verify(b"{}", headers) == {}
    assert len(headers["svix-signature"].split(" ")) == 2


def test_both_families_of_headers_say_the_same() -> None:
    headers = signature_headers("msg_1", 1_700_000_000, b"{}", ["whsec_" + base64.b64encode(b"k" * 24).decode()])
    assert {name: headers[f"svix-{name}"] == headers[f"webhook-{name}"] for name in ("id", "timestamp", "signature")} == {
        "id": True,
        "timestamp": True,
        "signature": True,
    }
    assert headers["svix-signature"] == "v1,E3sCg9uS8x43RKlJqcda1EcaYZxNkN+l2u7RBZBSZQQ="  # as openssl computes it


def test_secrets_are_24_random_bytes() -> None:
    one, other = new_webhook_secret(), new_webhook_secret()
    assert (one[:6], len(base64.b64decode(one[6:])), one != other) == ("whsec_", 24, True)
