"""A real dovecot on loopback with verified TLS, its mailbox filled with real mails; its flags can be compared."""

import contextlib
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

from pace import PATIENCE_S
from postroom.config import ReaderAccount

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


@contextlib.contextmanager
def running() -> Iterator[Dovecot]:
    """A dovecot for the length of a block, full of mails; skips the test where there is none."""
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
    process.wait(PATIENCE_S)
    shutil.rmtree(folder)


def corpus() -> dict[str, bytes]:
    cases = Path(__file__).resolve().parents[2] / "shared" / "cases" / "mail"
    files = sorted(cases.rglob("*.eml")) if cases.is_dir() else []
    return {path.name: raw for path in files if b"\0" not in (raw := path.read_bytes())}


def until_up(port: int, tls: ssl.SSLContext, folder: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            with (
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as plain,
                tls.wrap_socket(plain, server_hostname="127.0.0.1"),
            ):
                return
        except OSError:
            assert time.monotonic() < end, (folder / "dovecot.log").read_text(encoding="utf-8")
            time.sleep(0.05)  # another process: there is nothing to wait on but its port
