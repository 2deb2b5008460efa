"""Redaction: clean text, the same rules run one by one, and the worst a hostile megabyte does to one rule.

Clean text is the third-party mail corpus beside the repository where it is present, else text made here
from a fixed seed: in both, no rule has anything to find, which is what nearly all mail is like. Both
sides read the same bytes, in turn, on one thread; seconds are of processor time, best of three rounds.
"""

from __future__ import annotations

import base64
import email
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import re2

from postroom.safety.redact import Redactor
from postroom.safety.secret_rules import RULES

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
ROUNDS = 3
MEGABYTE = 1_000_000


def rows() -> list[dict[str, Any]]:
    """Throughput on clean text, and seconds of the slowest rule on the worst of eight hostile megabytes."""
    text = clean_text()
    one_by_one = rules_alone()
    size = len(text.encode()) / 1e6
    ours = size / best(lambda: Redactor(["a-secret-of-this-house"]).redact(text))
    theirs = size / best(lambda: [list(rule.finditer(text.encode())) for rule in one_by_one.values()])
    slowest, kind, name = max(
        (best(lambda rule=rule, data=data: sum(1 for _ in rule.finditer(data)), rounds=1), kind, name)
        for kind, rule in one_by_one.items()
        for name, data in hostile().items()
    )
    whole = max(best(lambda data=data: Redactor().redact(data.decode()), rounds=1) for data in hostile().values())
    return [
        row("redact clean text", ours, "MB/s", f"the same {len(RULES)} rules one by one", theirs),
        row(f"slowest rule on a hostile megabyte ({kind}, {name})", slowest, "s", "what is allowed", 1.0),
        row("slowest whole redaction of a hostile megabyte", whole, "s", "", None),
    ]


def row(name: str, value: float, unit: str, reference: str, reference_value: float | None) -> dict[str, Any]:
    """One line of the table."""
    ratio = value / reference_value if reference_value else None
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "reference": reference,
        "reference_value": reference_value,
        "ratio": ratio,
    }


def best(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Processor seconds of the fastest of some rounds."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def rules_alone() -> dict[str, Any]:
    """Each rule compiled as a redactor without a set would."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return {f"{rule.kind} {number}": re2.compile(rule.pattern.encode("latin-1"), options) for number, rule in enumerate(RULES)}


def clean_text() -> str:
    """About four megabytes of mail text."""
    texts = [text for path in sorted((CASES / "mail").rglob("*.eml")) for text in parts(path.read_bytes())]
    return "\n".join(texts) if texts else made_text()


def parts(raw: bytes) -> list[str]:
    """The decoded text parts of a mail."""
    wanted = (part for part in email.message_from_bytes(raw).walk() if part.get_content_maintype() == "text")
    return [payload.decode("utf-8", "replace") for part in wanted if isinstance(payload := part.get_payload(decode=True), bytes)]


def made_text() -> str:
    """Words of uneven length and frequency, with the odd address and number."""
    draw = random.Random(5)
    words = ["".join(draw.choices("etaoinshrdlucmfwypvbgkjqxz", k=draw.randint(2, 11))) for _ in range(5000)]
    lines = (" ".join(draw.choices(words, k=12)) + f" https://example.com/{draw.randint(1, 999)} é\n" for _ in range(40_000))
    return "".join(lines)


def hostile() -> dict[str, bytes]:
    """Text that keeps automatons busy."""
    made = {
        "one letter": "a" * MEGABYTE,
        "prefixes": "sk-" * (MEGABYTE // 3),
        "open urls": "://:" * (MEGABYTE // 4),
        "key headers": ("-----BEGIN RSA PRIVATE " + "KEY-----\n") * (MEGABYTE // 32),
        "assignments": "password = " * (MEGABYTE // 11),
        "dots": "eyJ" + "a." * (MEGABYTE // 2),
        "blanks": "ghp_ " + " \n" * (MEGABYTE // 2),
        "noise": base64.b64encode(random.Random(7).randbytes(MEGABYTE * 3 // 4)).decode(),
    }
    return {name: text.encode() for name, text in made.items()}
