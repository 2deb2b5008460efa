"""`Office`: one office put together, and the work it does on its own.

Mail comes in through `intake`, is read by `ingest`, is found through `mail`; what the gate lets out
goes through `sender` and leaves by `outbox`; `schedule` says when a draft is due; `deliveries` posts
events to webhooks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from postroom.clock import Clock
from postroom.config import Config
from postroom.limits import WEBHOOK_ANSWER_S
from postroom.office.authenticate import Authenticator
from postroom.office.deliveries import Deliveries
from postroom.office.ingest import Ingest
from postroom.office.intake import Intake
from postroom.office.local import LocalDomains
from postroom.office.mail import OfficeMail
from postroom.office.outbox import Carrier, Outbox
from postroom.office.parsing import SplitReader
from postroom.office.schedule import Schedule
from postroom.office.sender import OfficeSender
from postroom.store.engine import Store
from postroom.wires.dns import Lookup
from postroom.wires.post import Poster


class Office:
    """`mail` for everybody, `sender` for the gate alone, `intake` for the SMTP door.

    `resolver` answers DNS questions about senders in place of the configured one.
    """

    def __init__(self, store: Store, config: Config, relay: Carrier | None, *, resolver: Lookup | None = None) -> None:
        self._store = store
        self._reader = SplitReader()
        self.domains = LocalDomains(store, config)
        self.mail = OfficeMail(store, config, self.domains)
        self.mail.looked_up_by(resolver)
        self.sender = OfficeSender(store, config, self._reader, relay=relay is not None, domains=self.domains)
        self.intake = Intake(store, config, self.domains)
        authenticator = Authenticator(config.inbound, config.office.domains[0], resolver)
        self.ingest = Ingest(store, self._reader, busy=lambda: self.intake.busy, authenticator=authenticator)
        self.outbox = Outbox(store, relay)
        self.schedule = Schedule(store)
        self._poster = Poster(exceptions=config.office.webhook_hosts, timeout_s=WEBHOOK_ANSWER_S)
        self.deliveries = Deliveries(store, self._poster)
        self.intake.on_mail(self.ingest.wake)
        self.sender.on_mail(outbox=self.outbox.wake, intake=self.ingest.wake)

    @classmethod
    async def open(cls, store: Store, config: Config, relay: Carrier | None = None, *, clock: Clock | None = None) -> Office:
        """An office on an open store. `relay` None: mail stays inside. Time is the store's; `clock` is not needed."""
        return cls(store, config, relay)

    def wake(self) -> None:
        """Another node may have taken mail in, or given mail to the outbox."""
        self.ingest.wake()
        self.outbox.wake()

    async def run(self) -> None:
        """Read, send and schedule until cancelled; what is cut short is taken up again at the next start."""
        work: tuple[Coroutine[Any, Any, None], ...] = (
            self.ingest.run(),
            self.outbox.run(),
            self.schedule.run(),
            self.deliveries.run(),
        )
        try:
            async with asyncio.TaskGroup() as group:
                for job in work:
                    group.create_task(job)
        finally:
            self._reader.close()
            await self._poster.close()
