"""The reader against dovecot: real mails over verified TLS, listed, searched and read, and nothing about them changed."""

import asyncio
import grp
import ipaddress
import os
import pwd
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from postroom.config import ReaderAccount
from postroom.errors import PostroomError
from postroom.mime.parse import parse
from postroom.reader.request import ReadRequest
from readerkit import OWNER, Kit, kit

CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/dovecot.log
protocols = imap
listen = 127.0.0.1
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
ssl = required
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
mail_location = maildir:{folder}/mail
first_valid_uid = 0
first_valid_gid = 0
passdb {{
  driver = static
  args = password=imap-password
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/home
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    port = {port}
    ssl = yes
  }}
}}
service anvil {{
  chroot =
}}
"""


@dataclass
class Dovecot:
    folder: Path
    port: int
    tls: ssl.SSLContext
    raws: dict[str, bytes]

    @property
    def account(self) -> ReaderAccount:
        return ReaderAccount(id="work", provider="imap", host="127.0.0.1", port=self.port, user="me", password="env:PASSWORD")

    def flags(self) -> list[str]:
        """Every message's file with its flags: Maildir writes them into the name."""
        return sorted(path.name for path in (self.folder / "mail").rglob("*") if path.parent.name in ("cur", "new"))


def certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "postroom test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=12))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def fill(folder: Path, raws: dict[str, bytes]) -> None:
    """A Maildir with these mails, one second apart, every third one seen."""
    for name in ("cur", "new", "tmp"):
        (folder / "mail" / name).mkdir(parents=True)
    for number, raw in enumerate(raws.values()):
        path = folder / "mail" / "cur" / f"{1767225600 + number}.{number:06d}.host:2,{'S' if number % 3 == 0 else ''}"
        path.write_bytes(raw)
        os.utime(path, (1767225600 + number, 1767225600 + number))


def letters() -> dict[str, bytes]:
    """Mails of our own: kinds the corpus may lack."""
    html = "Content-Type: text/html; charset=utf-8\r\n\r\n<p>Shown</p><p style='display:none'>Hidden order</p><img src='http://x.example/p.png'>\r\n"
    attached = (
        'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\n'
        "Content-Transfer-Encoding: quoted-printable\r\n\r\nCaf=E9\r\n--b\r\nContent-Type: application/pdf; name*=utf-8''r%C3%A9sum%C3%A9.pdf\r\n"
        "Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment\r\n\r\nQUJDREVG\r\n--b--\r\n"
    )
    long = "Content-Type: text/plain\r\n\r\n" + "long line of text\r\n" * 30_000
    head = "From: =?utf-8?q?Ad=C3=A4?= <ada@customer.example>\r\nTo: me@example.test\r\nMessage-ID: <{0}@customer.example>\r\nSubject: {0}\r\n"
    return {name: (head.format(name) + rest).encode() for name, rest in (("html", html), ("attached", attached), ("long", long))}


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    program = shutil.which("dovecot") or shutil.which("dovecot", path="/usr/sbin")
    if program is None:
        pytest.skip("peer absent: dovecot (apt dovecot-imapd)")
    folder = Path(tempfile.mkdtemp(prefix="dovecot-"))  # not pytest's: its folders are closed to other users
    folder.chmod(0o755)
    raws = {**corpus(), **letters()}
    fill(folder, raws)
    certificate(folder)
    (folder / "home").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    me = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())  # dovecot serves no root
    inside, group = ("dovecot", "dovecot") if os.getuid() == 0 else (me.pw_name, grp.getgrgid(me.pw_gid).gr_name)
    if os.getuid() == 0:
        for path in (folder / "home", folder / "mail", *(folder / "mail").rglob("*")):
            os.chown(path, me.pw_uid, me.pw_gid)
    (folder / "dovecot.conf").write_text(
        CONFIG.format(folder=folder, port=port, uid=me.pw_uid, gid=me.pw_gid, user=inside, group=group), encoding="utf-8"
    )
    process = subprocess.Popen([program, "-F", "-c", str(folder / "dovecot.conf")], stderr=subprocess.DEVNULL)
    tls = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    until_up(port, tls, folder)
    yield Dovecot(folder, port, tls, raws)
    process.terminate()
    process.wait(10)
    shutil.rmtree(folder)


def corpus() -> dict[str, bytes]:
    cases = Path(__file__).resolve().parents[3] / "shared" / "cases" / "mail"
    files = sorted(cases.rglob("*.eml")) if cases.is_dir() else []
    return {path.name: raw for path in files if b"\0" not in (raw := path.read_bytes())}


def until_up(port: int, tls: ssl.SSLContext, folder: Path) -> None:
    end = time.monotonic() + 15
    while True:
        try:
            with (
                socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
                tls.wrap_socket(plain, server_hostname="127.0.0.1"),
            ):
                return
        except OSError:
            assert time.monotonic() < end, (folder / "dovecot.log").read_text(encoding="utf-8")
            time.sleep(0.05)  # another process: there is nothing to wait on but its port


@pytest.fixture
def made(dovecot: Dovecot, tmp_path: Path) -> Kit:
    ready = kit(tmp_path, "http://127.0.0.1:1", dovecot.account, max_limit=500)
    ready.reader._tls = dovecot.tls
    return ready


async def everything(made: Kit) -> list:
    """All messages of the mailbox, page by page."""
    found, request = [], ReadRequest(limit=100)
    while True:
        reading = await made.reader.read(OWNER, request)
        found += reading.messages
        following = reading.page_token(len(reading.messages))
        if following is None:
            return found
        request = ReadRequest(limit=100, page_token=following)


async def test_every_mail_is_listed_once_and_reads_as_it_was_sent_with_its_flags_unchanged(made: Kit, dovecot: Dovecot):
    before = dovecot.flags()
    found = await everything(made)
    assert dovecot.flags() == before
    assert len(found) == len({message.id for message in found}) == len(dovecot.raws)
    agree = 0
    for message, raw in zip(reversed(found), dovecot.raws.values(), strict=True):
        wanted = parse(raw)
        agree += message.subject == (wanted.subject or "")
    assert agree >= len(found) * 0.97


async def test_newest_first_and_one_message_reads_like_in_the_list(made: Kit):
    listed = await made.reader.read(OWNER, ReadRequest(limit=3))
    assert [message.subject for message in listed.messages] == ["long", "attached", "html"]
    one = await made.reader.read(OWNER, ReadRequest(message_id=listed.messages[1].id))
    assert one.messages == listed.messages[1:2]


async def test_c13_html_becomes_what_a_person_sees(made: Kit):
    message = (await made.reader.read(OWNER, ReadRequest(limit=3))).messages[2]
    assert message.text == "Shown"
    assert [finding.code for finding in message.findings] == ["hidden_text"]


async def test_c12_an_attachment_is_a_name_a_type_and_a_size(made: Kit):
    message = (await made.reader.read(OWNER, ReadRequest(limit=2))).messages[1]
    assert message.text == "Café"
    assert message.from_ == "Adä <ada@customer.example>"
    assert [(file.filename, file.content_type, file.size) for file in message.attachments] == [
        ("résumé.pdf", "application/pdf", 6)
    ]


async def test_c15_a_body_over_the_bound_is_omitted_not_fetched(made: Kit):
    message = (await made.reader.read(OWNER, ReadRequest(limit=1))).messages[0]
    assert (message.text, message.text_omitted) == ("", True)


async def test_search_unread_and_dates_hold_together(made: Kit, dovecot: Dovecot):
    found = await made.reader.read(OWNER, ReadRequest(query="Shown", limit=10))
    assert [message.subject for message in found.messages] == ["html"]
    unread = await made.reader.read(OWNER, ReadRequest(unread_only=True, limit=500))
    assert len(unread.messages) == len([name for name in dovecot.flags() if not name.endswith("S")])
    empty = await made.reader.read(OWNER, ReadRequest(after="2026-01-02", limit=10))
    day = await made.reader.read(OWNER, ReadRequest(after="2026-01-01", before="2026-01-02", limit=2))
    assert (len(empty.messages), len(day.messages)) == (0, 2)


async def test_c30_a_folder_that_is_not_there_and_an_id_of_another_are_not_found(made: Kit):
    with pytest.raises(PostroomError) as caught:
        await made.reader.read(OWNER, ReadRequest(folder='x" (BODY[])'))
    assert caught.value.code == "MAIL_NOT_FOUND"
    listed = await made.reader.read(OWNER, ReadRequest(limit=1))
    validity, uid, folder = listed.messages[0].id.split("-", 2)
    for wrong in (f"{int(validity) + 1}-{uid}-{folder}", f"{validity}-4294967290-{folder}"):
        with pytest.raises(PostroomError) as caught:
            await made.reader.read(OWNER, ReadRequest(message_id=wrong))
        assert caught.value.code == "MAIL_NOT_FOUND"


async def test_a_wrong_password_and_an_unknown_certificate_are_told_without_the_password(
    made: Kit, dovecot: Dovecot, tmp_path: Path
):
    stranger = kit(tmp_path / "s", "http://127.0.0.1:1", dovecot.account)  # trusts public authorities only
    with pytest.raises(PostroomError) as caught:
        await stranger.reader.read(OWNER, ReadRequest())
    assert caught.value.code == "MAIL_CONNECTION_FAILED"
    made.secrets["env:PASSWORD"] = "not-the-password"
    with pytest.raises(PostroomError) as caught:
        await made.reader.read(OWNER, ReadRequest())
    assert caught.value.code == "MAIL_LOGIN_FAILED"
    assert "not-the-password" not in f"{caught.value.message} {caught.value.fix}"
    del made.secrets["env:PASSWORD"]
    with pytest.raises(PostroomError) as caught:
        await made.reader.read(OWNER, ReadRequest())
    assert caught.value.code == "MAIL_CREDENTIAL_MISSING"


async def test_a_server_that_sends_too_much_is_left(dovecot: Dovecot, tmp_path: Path):
    small = kit(tmp_path, "http://127.0.0.1:1", dovecot.account, max_provider_response_bytes=20_000)
    small.reader._tls = dovecot.tls
    with pytest.raises(PostroomError) as caught:
        await small.reader.read(OWNER, ReadRequest(limit=50))
    assert caught.value.code == "MAIL_RESPONSE_TOO_LARGE"


async def test_three_reads_at_once_are_three_answers(made: Kit):
    readings = await asyncio.gather(*(made.reader.read(OWNER, ReadRequest(limit=2)) for _ in range(3)))
    assert [len(reading.messages) for reading in readings] == [2, 2, 2]
