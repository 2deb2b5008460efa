"""Ten thousand mails nobody would write: none raises, none takes a second, none is lost or changed."""

import hashlib
from collections import Counter
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pace import within
from postroom.config import Config
from postroom.mime.parse import parse
from postroom.model.mail import NewInbox
from postroom.model.paging import MailFilter, PageRequest
from postroom.model.principal import SYSTEM
from postroom.office.intake import Envelope
from postroom.office.office import Office
from postroom.store.engine import Store

INBOX = "scout@postroom.localhost"
COUNT = 10_000
NAMES = [b"From", b"To", b"Cc", b"Subject", b"Date", b"Message-ID", b"In-Reply-To", b"References", b"MIME-Version", b"Reply-To"]
NAMES += [b"Content-Type", b"Content-Transfer-Encoding", b"Content-Disposition", b"Content-ID", b"Received", b"X-Odd", b"", b" "]
PIECES = [
    b"=?utf-8?q?=E4=B8?=",
    b"=?utf-7?b?+ADw-?=",
    b"<a@b.example>",
    b"(((",
    b'"',
    b"\\",
    b"\r\n ",
    b"\r",
    b"\n",
    b"\x00",
    b"\xff\xfe",
]
PIECES += [
    b"multipart/mixed; boundary=b",
    b"text/html; charset=utf-7",
    b"message/rfc822",
    b"base64",
    b"quoted-printable",
    b";",
    b",",
    b":",
]
PIECES += [
    b"boundary*0*=utf-8''x; boundary*1=y",
    b"attachment; filename*=x''%FF",
    b"a@[::1]",
    b"<<<<",
    b"@",
    b"=",
    b"--b",
    b"--b--",
]

words = st.one_of(st.sampled_from(PIECES), st.binary(max_size=20))
values = st.lists(words, max_size=6).map(b" ".join)
fields = st.tuples(st.sampled_from(NAMES), st.sampled_from([b": ", b":", b" : ", b""]), values).map(b"".join)
heads = st.lists(fields, max_size=10).map(b"\r\n".join)
bodies = st.lists(words, max_size=12).map(b"\r\n".join)
mails = st.tuples(heads, st.sampled_from([b"\r\n\r\n", b"\n\n", b"\r\r", b""]), bodies, st.just(b"\r\n")).map(b"".join)


def generated() -> list[bytes]:
    """The mails, each read on the way."""
    made: list[bytes] = []

    @settings(max_examples=COUNT, deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(mails)
    def read(raw: bytes) -> None:
        made.append(raw)
        within(1.0, partial(parse, raw))

    read()
    return made


@pytest.mark.timeout(1800)  # a minute of work, on a machine that may be busy
async def test_ten_thousand_generated_mails_are_read_listed_and_unchanged():
    made = generated()
    assert len(made) >= COUNT * 0.9
    store = await Store.open(":memory:")
    try:
        office = await Office.open(store, Config())
        await office.mail.create_inbox(SYSTEM, NewInbox(username="scout"))
        local = [raw for raw in made if b"postroom.localhost" not in raw]
        for raw in local:
            await office.intake.accept(Envelope(mail_from="a@b.example", rcpt_to=(INBOX,)), raw)
        taken = 1
        while taken:
            taken = await office.ingest.step()
        stored: Counter[str] = Counter()
        page = PageRequest(limit=1000)
        while True:
            found = await office.mail.list_messages(SYSTEM, INBOX, MailFilter(), page)
            for message in found.items:
                raw = (await office.mail.get_raw(SYSTEM, INBOX, message.message_id)).content
                stored[hashlib.sha256(raw).hexdigest()] += 1
            if found.next_page_token is None:
                break
            page = PageRequest(limit=1000, page_token=found.next_page_token)
        assert stored == Counter(hashlib.sha256(raw).hexdigest() for raw in local)
    finally:
        await store.close()
