"""Reading mail, and reading its HTML as a person would: throughput and misses, beside the usual code.

The mails are the third-party corpus beside the repository where it is present, and always a set made
here from a fixed seed (plain, newsletters, attachments). Both sides read the same bytes, in turn; the
best of three rounds counts, because other work on the machine only ever adds time.
"""

from __future__ import annotations

import base64
import email
import email.policy
import json
import random
import time
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from postroom.mime.parse import parse
from postroom.safety.visible import visible_text

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
ROUNDS = 3
MADE = 200


def rows() -> list[dict[str, Any]]:
    """Mail and HTML throughput, mails that are not read, hiding tricks that get through."""
    made = make_mails()
    corpus = [path.read_bytes() for path in sorted((CASES / "mail").rglob("*.eml"))]
    found = [throughput("parse made mails", made, parse, usual_code, "standard library, policy.default")]
    if corpus:
        found.append(throughput(f"parse {len(corpus)} real mails", corpus, parse, usual_code, "standard library, policy.default"))
    found.append(misses("mails not read", corpus or made, parse, usual_code, "standard library, policy.default"))
    pages = [html for raw in made if (html := parse(raw).html)]
    found.append(throughput("visible text of newsletters", pages, visible_text, plain_text, "selectolax .text(), hides nothing"))
    real = [html for raw in corpus if (html := parse(raw).html)]
    if real:
        found.append(throughput("visible text of real HTML", real, visible_text, plain_text, "selectolax .text(), hides nothing"))
        found.append(leaks())
    return found


def usual_code(raw: bytes) -> Any:
    """What programs do with the standard library: subject, sender, bodies and attachments."""
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    bodies = [part.get_content() for kind in ("plain", "html") if (part := message.get_body((kind,)))]
    files = [(part.get_filename(), part.get_content()) for part in message.iter_attachments()]
    return str(message["subject"]), str(message["from"]), message["date"], bodies, files


def plain_text(html: str) -> str:
    """The text of all elements, seen or not."""
    body = LexborHTMLParser(html).body
    return body.text() if body else ""


def throughput(
    name: str, items: Sequence[Any], ours: Callable[[Any], Any], theirs: Callable[[Any], Any], who: str
) -> dict[str, Any]:
    """MB/s of both, a mail that raises counting as read up to there."""
    size = sum(len(item) for item in items) / 1e6
    best = {"ours": 0.0, "theirs": 0.0}
    for _ in range(ROUNDS):
        for key, read in (("ours", ours), ("theirs", theirs)):
            best[key] = max(best[key], size / seconds(read, items))
    return row(name, best["ours"], "MB/s", who, best["theirs"])


def seconds(read: Callable[[Any], Any], items: Sequence[Any]) -> float:
    """Processor time for all items."""
    started = time.process_time()
    for item in items:
        raises(read, item)
    return max(time.process_time() - started, 1e-6)


def raises(read: Callable[[Any], Any], item: Any) -> bool:
    """Whether reading fails."""
    try:
        read(item)
    except Exception:
        return True
    return False


def misses(
    name: str, items: Sequence[bytes], ours: Callable[[Any], Any], theirs: Callable[[Any], Any], who: str
) -> dict[str, Any]:
    """How many mails raise."""
    return row(name, sum(raises(ours, raw) for raw in items), "mails", who, sum(raises(theirs, raw) for raw in items))


def leaks() -> dict[str, Any]:
    """How many of the shared ways to hide text reach the text."""
    tricks = [trick["html"] for trick in json.loads((CASES / "hidden-html.json").read_text("utf-8"))]
    ours = sum("SECRET" in visible_text(html).text.replace("\u200b", "") for html in tricks)
    theirs = sum("SECRET" in plain_text(html).replace("\u200b", "") for html in tricks)
    return row(f"hidden text let through, of {len(tricks)}", ours, "tricks", "selectolax .text()", theirs)


def row(name: str, value: float, unit: str, reference: str, reference_value: float) -> dict[str, Any]:
    ratio = value / reference_value if reference_value else None
    return {
        "name": name, "value": value, "unit": unit, "reference": reference, "reference_value": reference_value, "ratio": ratio,
    }  # fmt: skip


def make_mails() -> list[bytes]:
    """Ordinary mail of our own making: a third each of plain text, newsletters, and mails with attachments."""
    rng = random.Random(11)
    return [(plain_mail, newsletter, attachment_mail)[number % 3](rng, number) for number in range(MADE)]


def head(number: int, subject: str) -> list[str]:
    received = [f"Received: from mx{hop}.example.net by mx{hop + 1}.example.org with ESMTPS id {number:08x}" for hop in range(4)]
    return [
        *received,
        f"DKIM-Signature: v=1; a=rsa-sha256; d=example.net; s=s1; h=from:to:subject;\r\n bh={'A' * 44}; b={'B' * 170}",
        f"From: =?utf-8?q?J=C3=BCrgen_M=C3=BCller?= <juergen{number}@example.net>",
        'To: "Other, Ann" <ann@example.org>, bob@example.org',
        f"Subject: {subject}",
        f"Message-ID: <{number:032x}@example.net>",
        f"References: <{number - 1:032x}@example.net> <{number - 2:032x}@example.net>",
        "Date: Mon, 1 Jun 2026 09:00:00 +0200",
        "MIME-Version: 1.0",
    ]


def words(rng: random.Random, count: int) -> str:
    return " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyzé", k=rng.randint(2, 9))) for _ in range(count))


def plain_mail(rng: random.Random, number: int) -> bytes:
    lines = [words(rng, 12) for _ in range(60)]
    fields = [*head(number, "Lunch on Friday"), "Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: 8bit"]
    return "\r\n".join([*fields, "", *lines, ""]).encode()


def newsletter(rng: random.Random, number: int) -> bytes:
    style = (
        ".preheader{display:none!important;opacity:0;color:transparent;height:0}"
        "@media only screen and (max-width:600px){.pad{padding:10px!important}.hide{display:none!important}}"
        "a[x-apple-data-detectors]{color:inherit!important} #outlook a{padding:0} .body p{line-height:150%}"
    )
    cells = "".join(
        '<tr><td align="center" valign="top" class="pad" style="padding:0 20px 10px;font-family:Arial,sans-serif;font-size:14px;'
        f'line-height:21px;color:#333333"><p style="margin:0 0 10px">{words(rng, 40)} <a href="https://click.example.com/{number}/{cell}" '
        f'style="color:#1155cc">{words(rng, 3)}</a></p><img src="https://img.example.com/{cell}.png" width="120" alt="x"></td></tr>'
        for cell in range(40)
    )
    html = (
        f'<html><head><style type="text/css">{style}</style></head><body bgcolor="#f4f4f4"><div class="preheader">{words(rng, 9)}</div>'
        f'<table width="600" bgcolor="#ffffff" class="body">{cells}</table></body></html>'
    )
    encoded = base64.encodebytes(html.encode()).decode("ascii").replace("\n", "\r\n")
    fields = [*head(number, "=?utf-8?q?Your_caf=C3=A9_this_week?="), "Content-Type: text/html; charset=utf-8"]
    return "\r\n".join(
        [*fields, "List-Unsubscribe: <https://x.example>", "Content-Transfer-Encoding: base64", "", encoded]
    ).encode()


def attachment_mail(rng: random.Random, number: int) -> bytes:
    content = base64.encodebytes(rng.randbytes(60_000)).decode("ascii").replace("\n", "\r\n")
    parts = [
        "--b1", "Content-Type: text/plain; charset=iso-8859-1", "Content-Transfer-Encoding: quoted-printable", "",
        "See the caf=E9 plan =\r\nattached.", "--b1", "Content-Type: application/pdf",
        "Content-Disposition: attachment; filename*0*=utf-8''caf%C3%A9; filename*1*=%20plan.pdf", "Content-Transfer-Encoding: base64", "",
        content + "--b1--", "",
    ]  # fmt: skip
    return "\r\n".join([*head(number, "The plan"), 'Content-Type: multipart/mixed; boundary="b1"', "", *parts]).encode()
