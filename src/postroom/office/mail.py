"""`OfficeMail`: our own office behind the `Mail` Protocol. The verbs live with what they are about."""

from __future__ import annotations

from postroom.office.inboxes import Inboxes
from postroom.office.messages import Messages
from postroom.office.threads import Threads


class OfficeMail(Inboxes, Messages, Threads):
    """Email without the power to send it."""
