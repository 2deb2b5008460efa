"""One house: every room, wired once. `Sender` exists here and goes to the gate alone.

Opening reads and migrates the data folder; `listen` opens the doors; `close` shuts them in the
opposite order, so that nothing acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import structlog

from postroom import config as settings
from postroom.access.access import Access
from postroom.app.duty import Duty
from postroom.app.frames import WebhookBodies
from postroom.app.reload import Reload
from postroom.app.ringing import Ringing
from postroom.clock import Clock, SystemClock
from postroom.config import Config
from postroom.errors import PostroomError
from postroom.gate.boundary import judge
from postroom.gate.checkpoints import FILE, Checkpoints
from postroom.gate.gate import Gate
from postroom.gate.readlog import Reading, StoredReadLog
from postroom.interfaces.http.download import SECRET, DownloadSigner
from postroom.interfaces.smtp.door import SmtpDoor
from postroom.interfaces.smtp.submission import SubmissionDesk
from postroom.mailbox.room import Mailbox, Options
from postroom.model.outgoing import Boundary
from postroom.model.principal import SYSTEM, Principal
from postroom.model.session import SessionHost
from postroom.office.mail import OfficeMail
from postroom.office.office import Office
from postroom.reader.reader import Reader
from postroom.safety.kingfisher import Kingfisher
from postroom.safety.redact import Redactor
from postroom.sessions.hosts.bridge import BridgeHost
from postroom.sessions.hosts.command import CommandHost
from postroom.sessions.room import Sessions
from postroom.sessions.waking import Waking
from postroom.store.engine import Store
from postroom.wires.fetch import Fetcher
from postroom.wires.smtp import Relay

if TYPE_CHECKING:
    from postroom.hosted.office import HostedOffice

# Names of secrets of the house: what keys the audit chain, what encrypts grants, what keys the
# mailbox's chain and what signs the heads of both chains.
AUDIT_SECRET, GRANTS_SECRET, MAILBOX_SECRET, CHECKPOINT_SECRET = "audit", "grants", "mailbox", "checkpoints"
log = structlog.get_logger("postroom.app")


@dataclass(slots=True, kw_only=True)
class Address:
    """Where the doors listen; filled in by `listen`."""

    http: str = ""
    smtp: str = "off"


class House:
    """Rooms of one data folder. With a `hosted` office our own rests. `mail` is the office's with what agents read written down: the one doors use."""

    def __init__(
        self,
        *,
        folder: Path,
        config: Config,
        store: Store,
        access: Access,
        office: Office,
        hosted: HostedOffice | None,
        gate: Gate,
        mail: OfficeMail,
        sessions: Sessions,
        waking: Waking,
        bridge: BridgeHost,
        mailbox: Mailbox,
        ringing: Ringing,
        reader: Reader,
        signer: DownloadSigner,
        redactor: Redactor,
        address: Address,
    ) -> None:
        self.folder = folder
        self.config = config
        self.store = store
        self.access = access
        self.office = office
        self.hosted = hosted
        self.gate = gate
        self.mail = mail
        self.sessions = sessions
        self.waking = waking
        self.reload: Reload | None = None  # set where there is a config to read again
        self.bridge = bridge
        self.mailbox = mailbox
        self.ringing = ringing
        self.reader = reader
        self.signer = signer
        self.redactor = redactor
        self.address = address
        self.smtp: SmtpDoor | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._failed = asyncio.Event()

    @classmethod
    async def open(cls, folder: Path, config: Config, *, clock: Clock | None = None) -> Self:
        """Wire the rooms over `folder`. Raises `InUse` when another process owns it."""
        clock = clock or SystemClock()
        store = await Store.open(folder, clock=clock, url=config.store.url)
        try:
            return await cls._wire(folder, config, store, clock)
        except BaseException:
            await store.close()
            raise

    @classmethod
    async def _wire(cls, folder: Path, config: Config, store: Store, clock: Clock) -> Self:
        access = Access(store)
        await access.ensure_owner_key(folder)
        redactor = redactor_of(folder, config)
        office = await own_office(store, config, clock)
        hosted = hosted_office(store, config, access)
        backend = office if hosted is None else hosted
        address = Address()
        read_log = StoredReadLog(store, clock)
        mail = cast("OfficeMail", Reading(backend.mail, read_log))
        gate = Gate(
            store,
            backend.mail,
            backend.sender,
            config,
            clock=clock,
            redactor=redactor,
            boundary=lambda principal: boundary_of(folder, principal),
            author=access.principal_of,
            audit_key=await access.house_secret(AUDIT_SECRET),
            read_log=read_log,
            checkpoints=Checkpoints(store, clock, folder / FILE, await access.house_secret(CHECKPOINT_SECRET)),
            fetch=Fetcher(exceptions=config.office.attachment_hosts),
        )
        backend.mail.attached_by(gate.attaching)
        bridge = BridgeHost(config.sessions)
        hosts = session_hosts(folder, config, access, address)
        mailbox = await mailbox_of(folder, store, access, config, redactor)
        directory = access.principal_of
        waking = Waking(config)
        sessions = Sessions(
            store, mail, config, redactor=redactor, directory=directory, hosts=hosts, visitor=bridge, waking=waking
        )
        reader = Reader(
            config.reader,
            folder=folder / "reader",
            key=await access.house_secret(GRANTS_SECRET),
            permissions=access,
            read_log=read_log,
            redactor=redactor,
            clock=clock,
        )
        return cls(
            folder=folder,
            config=config,
            store=store,
            access=access,
            office=office,
            hosted=hosted,
            gate=gate,
            mail=mail,
            sessions=sessions,
            waking=waking,
            bridge=bridge,
            mailbox=mailbox,
            ringing=Ringing(store, mailbox, config, waking=waking, hosts=hosts, names=partial(agent_ids, access)),
            reader=reader,
            signer=DownloadSigner(await access.house_secret(SECRET), clock),
            redactor=redactor,
            address=address,
        )

    async def work(self) -> None:
        """Start what runs by itself: ingest, outbox, gate, sessions, the mailbox's doorbell and retention.

        Of several nodes one at a time does the work of the office, the gate and the sessions; each looks after its own side of the mailbox.
        """
        backend = self.hosted or self.office
        rooms = {"office": backend.run, "gate": self.gate.run, "sessions": self.sessions.run, "ringing": self.ringing.run}
        duty = Duty(self.store, rooms)
        self.store.on_others(self.access.forget)
        self.store.on_others(backend.wake)
        for name, room in (("duty", duty.run()), ("mailbox", self.mailbox.run()), ("blobs", self.store.blobs.run())):
            task = asyncio.create_task(room, name=name)
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    async def failed(self) -> None:
        """Returns when one of the rooms stopped by itself; the process should end."""
        await self._failed.wait()

    async def listen_smtp(self, host: str, port: int) -> None:
        """Open the SMTP door; with a hosted office there is none, for mail arrives there and leaves from there."""
        if self.hosted is not None:
            log.info("no_smtp_door", office=self.hosted.url)
            return
        desk = SubmissionDesk(self.access, self.office.mail, self.gate)
        door = SmtpDoor(self.office.intake, hostname=self.config.office.domains[0], domains=self.office.domains, submission=desk)
        bound = await door.start(host, port)
        self.smtp = door
        self.address.smtp = f"{bound[0]}:{bound[1]}"

    async def close(self) -> None:
        """Shut the doors, stop the rooms, let go of the folder."""
        if self.smtp is not None:
            await self.smtp.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.sessions.close()
        await self.mailbox.close()
        await self.reader.close()
        if self.hosted is not None:
            await self.hosted.close()
        with contextlib.suppress(PostroomError):
            await self.gate.close()
        await self.store.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("room_failed", room=task.get_name(), exc_info=problem)
            self._failed.set()


async def mailbox_of(folder: Path, store: Store, access: Access, config: Config, redactor: Redactor) -> Mailbox:
    """The mailbox over this house's store; its agents are those `access` knows."""

    async def agents() -> list[str]:
        return [agent.name for agent in await access.list_agents(SYSTEM)]

    given = config.mailbox
    options = Options(
        domains=config.office.domains,
        notify_command=given.notify_command,
        max_records=given.max_records,
        max_age_days=given.max_age_days,
        max_bytes=given.max_bytes,
        sends_per_minute=given.max_sends_per_minute,
    )
    return Mailbox(
        store,
        options,
        redactor=redactor,
        key=await access.house_secret(MAILBOX_SECRET),
        signing_key=await access.house_secret(CHECKPOINT_SECRET),
        folder=folder,
        directory=agents,
    )


def redactor_of(folder: Path, config: Config) -> Redactor:
    """What finds secrets here: the house's own by value, others by their form."""
    engines = [Kingfisher(folder / "cache" / "kingfisher")] if config.view.kingfisher else []
    return Redactor(own_secrets=own_secrets(folder, config), engines=engines)


async def own_office(store: Store, config: Config, clock: Clock) -> Office:
    """The house's own office, with the way out the config names."""
    relay = Relay(config.relay, config.office.domains[0]) if config.relay.host else None
    office = await Office.open(store, config, relay, clock=clock)
    office.deliveries.rendered_by(WebhookBodies(office.mail))
    return office


def hosted_office(store: Store, config: Config, access: Access) -> HostedOffice | None:
    """The office elsewhere, if the config names one; loaded then only."""
    if not config.office.url:
        return None
    from postroom.hosted.office import HostedOffice

    return HostedOffice(store, config, access.principal_of)


async def agent_ids(access: Access) -> dict[str, str]:
    """The agents of the house by name."""
    return {agent.name: agent.agent_id for agent in await access.list_agents(SYSTEM)}


def session_hosts(folder: Path, config: Config, access: Access, address: Address) -> dict[str, SessionHost]:
    """What can run sessions here: a command always, DSH and ACP where they are installed and some agent asks for them."""
    hosts: dict[str, SessionHost] = {"command": CommandHost(config.agents, access, lambda: address.http)}
    if any(agent.host == "dsh" for agent in config.agents.values()):
        from postroom.sessions.hosts import dsh

        if command := dsh.installed():
            hosts["dsh"] = dsh.DshHost(
                command, config.agents, access, lambda: address.http, folder=folder / "dsh", sessions=config.sessions
            )
    if any(agent.host == "acp" for agent in config.agents.values()):
        from postroom.sessions.hosts import acp
        from postroom.tools.mailbox_schemas import MAILBOX_TOOLS
        from postroom.tools.reader import EMAIL_READ
        from postroom.tools.schemas import EMAIL_TOOLS

        if acp.installed():
            reading = [tool.name for tool in (*EMAIL_TOOLS, *MAILBOX_TOOLS, EMAIL_READ) if tool.reads]
            hosts["acp"] = acp.AcpHost(
                config.agents, access, lambda: address.http,
                folder=folder / "acp", sessions=config.sessions, reading=reading,
            )  # fmt: skip
    return hosts


def boundary_of(folder: Path, principal: Principal) -> tuple[Boundary, str]:
    """Wall or rule, for this caller."""
    return judge(principal.peer_uid, os.getuid(), stat.S_IMODE(folder.stat().st_mode))


def own_secrets(folder: Path, config: Config) -> list[str]:
    """Secrets postroom itself holds, so that no view, log or mail carries them."""
    owner = (folder / "owner.key").read_text(encoding="utf-8").strip()
    references = (config.relay.password, config.office.key)
    return [owner, *(settings.resolve_secret(reference) for reference in references if reference)]
