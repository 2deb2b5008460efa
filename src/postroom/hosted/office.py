"""`HostedOffice`: a hosted office put together. `mail` for everybody, `sender` for the gate alone, and what it hears."""

from __future__ import annotations

import asyncio
from typing import Final

from postroom import config as settings
from postroom.config import Config
from postroom.errors import Invalid
from postroom.hosted.api import Api, Pause
from postroom.hosted.arrivals import Arrivals
from postroom.hosted.catchup import CatchUp
from postroom.hosted.inbound import Inbound
from postroom.hosted.inboxes import Directory, Inboxes
from postroom.hosted.mail import HostedMail
from postroom.hosted.place import place_of
from postroom.hosted.sender import HostedSender
from postroom.limits import HTTP_SEND_BODY_BYTES, MAIL_BYTES
from postroom.model.event import heard
from postroom.store.engine import Store
from postroom.wires.download import Downloader
from postroom.wires.origin import Origin
from postroom.wires.socket import opened

DOWNLOAD_BYTES: Final = MAIL_BYTES + MAIL_BYTES // 5  # a service may take somewhat larger mail than we do


class HostedOffice:
    """AgentMail, or another postroom, at `office.url`. `directory` makes the principal of an agent's id."""

    def __init__(self, store: Store, config: Config, directory: Directory, *, pause: Pause = asyncio.sleep) -> None:
        office = config.office
        key = settings.resolve_secret(office.key)
        if not key:
            raise Invalid("office.url needs office.key", fix="write env:NAME, file:PATH or keyring:NAME")
        place = place_of(office.url, key)
        self.url = place.api
        self._api = Api(
            Origin(place.api, key, timeout_s=office.timeout_s, max_bytes=HTTP_SEND_BODY_BYTES),
            Downloader(service=place.authority, setting="office.url", timeout_s=office.timeout_s, max_bytes=DOWNLOAD_BYTES),
            max_retries=office.max_retries,
            pause=pause,
        )
        self.inboxes = Inboxes(store, self._api, config, directory)
        arrivals = Arrivals(store)
        self.mail = HostedMail(self._api, self.inboxes, config)
        self.sender = HostedSender(store, self._api)
        self.inbound = Inbound(
            store,
            self.inboxes,
            arrivals,
            CatchUp(store, self._api, self.inboxes, arrivals, heard(config.inbound.event_types)),
            config.inbound,
            connect=lambda: opened(place.socket, key),
            pause=pause,
        )
        self.inboxes.claimed = self.inbound.look

    def wake(self) -> None:
        """Another node may have given an agent an inbox."""
        self.inbound.look()

    def report(self) -> dict[str, str]:
        """Where it is, and how mail is heard of at the moment."""
        return {"url": self.url, "inbound": self.inbound.state}

    async def run(self) -> None:
        """Hear of mail until cancelled."""
        await self.inbound.run()

    async def close(self) -> None:
        """Let go of every connection."""
        await self._api.close()
