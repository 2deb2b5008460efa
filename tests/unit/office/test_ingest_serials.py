"""Copies of the very same mail are all kept, however far apart they arrive."""

from postroom.config import Config
from postroom.model.mail import NewInbox
from postroom.model.paging import MailFilter, PageRequest
from postroom.model.principal import SYSTEM
from postroom.office.intake import Envelope
from postroom.office.office import Office
from postroom.store.engine import Store

INBOX = "scout@postroom.localhost"
RAW = b"From: a@b.example\r\nSubject: the same\r\n\r\nthe same\r\n"


async def test_the_same_mail_sent_again_after_the_queue_was_empty_is_another_message():
    store = await Store.open(":memory:")
    try:
        office = await Office.open(store, Config())
        await office.mail.create_inbox(SYSTEM, NewInbox(username="scout"))
        numbers = []
        for _ in range(5):
            accepted = await office.intake.accept(Envelope(mail_from="a@b.example", rcpt_to=(INBOX,)), RAW)
            numbers += accepted.ids
            await office.ingest.step()
        page = await office.mail.list_messages(SYSTEM, INBOX, MailFilter(), PageRequest())
        assert len(page.items) == 5
        assert len({message.message_id for message in page.items}) == 5
        assert len(set(numbers)) == 5
    finally:
        await store.close()
