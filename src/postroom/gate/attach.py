"""Attachments given by URL: fetched once, when a mail is submitted or a draft written, and frozen there.

What a person is shown, and what leaves, are the bytes that were read then, whatever stands at the
address later. How far a caller's addresses may reach is `policy.fetching`'s; how one exchange goes is
the fetch port's. Nothing is fetched for a mail that is refused anyway: the gate asks here last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from postroom.config import Gate as GateConfig
from postroom.errors import Invalid, Refused
from postroom.gate.readlog import StoredReadLog
from postroom.limits import ATTACHMENT_URLS, MAIL_BYTES
from postroom.mime.filename import safe_filename
from postroom.model.mail import AttachmentData
from postroom.model.ports import Fetch
from postroom.model.principal import Principal
from postroom.policy.fetching import Reach, reach
from postroom.safety.redact import Redactor


class Attaching:
    """Fills in what attachments only name."""

    def __init__(self, fetch: Fetch | None, config: GateConfig, *, redactor: Redactor, read_log: StoredReadLog) -> None:
        self._fetch = fetch
        self._config = config
        self._redactor = redactor
        self._read_log = read_log

    async def attach(self, principal: Principal, entries: Sequence[AttachmentData]) -> tuple[AttachmentData, ...]:
        """`entries` with all bytes in place. Raises `Invalid` (the URL) or `Refused` (not for this caller, or not to be had)."""
        linked = [entry for entry in entries if entry.url is not None]
        if not linked:
            return tuple(entries)
        within = self._reach(principal)
        self._check(linked)
        fetch = self._fetch
        if fetch is None or within == "none":
            raise Refused("attachments by url are not fetched here", fix="send the bytes as base64 in content")
        left = MAIL_BYTES - sum(len(entry.content) for entry in entries)
        whole = list(entries)
        for place, entry in enumerate(entries):
            if entry.url is not None:
                got = await fetch.fetch(entry, most_bytes=left, listed_only=within == "listed")
                left -= len(got.content)
                whole[place] = dataclasses.replace(got, filename=safe_filename(got.filename))
        return tuple(whole)

    async def close(self) -> None:
        """Let go of connections."""
        if self._fetch is not None:
            await self._fetch.close()

    def _reach(self, principal: Principal) -> Reach:
        return reach(
            is_owner=principal.is_owner,
            profile=principal.profile,
            read_only=self._config.read_only,
            read_outside=0 if principal.agent_id is None else self._read_log.count(principal.agent_id),
        )

    def _check(self, linked: Sequence[AttachmentData]) -> None:
        if len(linked) > ATTACHMENT_URLS:
            raise Invalid(f"at most {ATTACHMENT_URLS} attachments of a mail are given by url", code="too_many_urls")
        if any(self._redactor.find(entry.url or "") for entry in linked):
            raise Refused("the address of an attachment holds a secret; it was not fetched", fix="take it out and send again")
