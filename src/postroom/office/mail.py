"""`OfficeMail`: our own office behind the `Mail` Protocol. The verbs live with what they are about."""

from __future__ import annotations

from postroom.office.correspondents import Correspondents
from postroom.office.deletion import Deletion
from postroom.office.domains import Domains
from postroom.office.drafts import Drafts
from postroom.office.inboxes import Inboxes
from postroom.office.label_events import LabelEvents
from postroom.office.lists import Lists
from postroom.office.messages import Messages
from postroom.office.metrics import Metrics
from postroom.office.search import Search
from postroom.office.threads import Threads
from postroom.office.webhooks import Webhooks


class OfficeMail(
    Inboxes, Messages, Threads, Drafts, Search, Lists, Deletion, LabelEvents, Correspondents, Webhooks, Metrics, Domains
):
    """Email without the power to send it."""
