"""Our verdict on signed and altered mail, beside dkimpy's own and that of mailauth, a library nobody here wrote.

They differ in one place, on purpose: a mail with two From headers is forged to us, while mailauth, which
reads one of the two, gives no verdict on its DMARC.
"""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import dkim
import pytest

from pace import PATIENCE_S
from postroom.config import Inbound
from postroom.office.authenticate import Authenticator
from postroom.office.content import read_content
from signed import Dns, key_record, mail, signed

HERE = Path(__file__).parent / "mailauth"
PEER, FROM = "198.51.100.7", "ada@customer.example"
RECORDS = {
    **key_record("customer.example"),
    **key_record("evil.example"),
    ("customer.example", "TXT"): [b"v=spf1 ip4:203.0.113.0/24 -all"],
    ("_dmarc.customer.example", "TXT"): [b"v=DMARC1; p=reject"],
}
GOOD = signed(mail())
ED25519 = signed(mail(), algorithm="ed25519-sha256")
MAILS = {
    "signed": GOOD,
    "signed twice": signed(GOOD),
    "not signed": mail(),
    "body altered": GOOD.replace(b"Hello Scout", b"Hello Scoot"),
    "body with more blank lines at its end": GOOD + b"\r\n\r\n",
    "body appended to": GOOD + b"and more\r\n",
    "subject altered": GOOD.replace(b"Subject: Offer", b"Subject: Order"),
    "subject only refolded": GOOD.replace(b"Subject: Offer", b"Subject:\r\n  Offer"),
    "recipient altered": GOOD.replace(b"To: scout@", b"To: other@"),
    "a field added that is not signed": GOOD.replace(b"Subject:", b"X-Note: 1\r\nSubject:"),
    "signature cut": GOOD.replace(b"bh=", b"bh=AAAA"),
    "signed by another domain": signed(mail(), "evil.example"),
    "from a subdomain": signed(mail("Ada <ada@mail.customer.example>")),
    "from another domain": signed(mail("Ada <ada@other.example>")),
    "signed with Ed25519": ED25519,
    "signed with Ed25519, body altered": ED25519.replace(b"Hello Scout", b"Hello Scoot"),
    "signed with Ed25519, subject altered": ED25519.replace(b"Subject: Offer", b"Subject: Order"),
    "signed with Ed25519, said to be RSA": ED25519.replace(b"a=ed25519-sha256", b"a=rsa-sha256"),
    "signed with Ed25519, signature cut": ED25519.replace(b"bh=", b"bh=AAAA"),
    "signed with RSA and Ed25519": signed(GOOD, algorithm="ed25519-sha256"),
    "signed with Ed25519 by another domain": signed(mail(), "evil.example", algorithm="ed25519-sha256"),
    "two From": b"From: boss@customer.example\r\n" + GOOD,
}


async def ours(raw: bytes) -> tuple[str, str, str]:
    authenticator = Authenticator(Inbound(), "house.example", Dns(RECORDS))
    found = (await authenticator.authenticate(raw, read_content(raw), mail_from=FROM, peer=PEER)).authentication
    assert found is not None
    return found.spf, found.dkim, found.dmarc


@pytest.mark.parametrize("name", [name for name in MAILS if name not in ("signed twice", "signed with RSA and Ed25519")])
async def test_dkimpy_alone_says_the_same(name: str) -> None:
    raw = MAILS[name]
    records = {f"{asked}.".encode(): answers[0] for (asked, _), answers in RECORDS.items()}
    alone = dkim.verify(raw, dnsfunc=lambda asked, timeout=5: records.get(asked))
    assert ((await ours(raw))[1] == "pass") is alone


async def test_mailauth_says_the_same() -> None:
    if shutil.which("node") is None or not (HERE / "node_modules").is_dir():
        pytest.skip(f"node or mailauth is missing: npm ci --prefix {HERE.relative_to(HERE.parents[2])}")
    records = {f"{name} {kind}": [str(answer, "ascii") for answer in answers] for (name, kind), answers in RECORDS.items()}
    asked = {
        "mails": [base64.b64encode(raw).decode() for raw in MAILS.values()],
        "ip": PEER,
        "mailFrom": FROM,
        "records": records,
    }
    done = subprocess.run(
        ["node", "verdict.mjs"], cwd=HERE, input=json.dumps(asked), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    differing = {}
    for (name, raw), theirs in zip(MAILS.items(), json.loads(done.stdout), strict=True):
        mine = await ours(raw)
        dkim_passed = "pass" in theirs["dkim"]
        if (mine[0], mine[1] == "pass", mine[2]) != (theirs["spf"], dkim_passed, theirs["dmarc"]):
            differing[name] = (mine, theirs)
    assert set(differing) == {"two From"}, differing
    assert differing["two From"][0][2] == "fail"
