"""Outbound HTTP to addresses callers name: one GET, its bytes, for an attachment given by URL.

Goes only where `destination` lets it, as `outward` says. What a peer may cost is bounded: bytes are
counted as they come and the exchange ends at the first too many, one deadline covers name, connection
and body, and only so many go on at once. Anything but a plain 200 is a refusal that says so: a redirect
is not followed (its target would be a second address nobody looked at), a compressed body is not opened.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from postroom.errors import Refused, TransportFailure
from postroom.limits import ATTACHMENT_FETCH_S, ATTACHMENT_FETCHES
from postroom.model.mail import AttachmentData
from postroom.wires.destination import ATTACHMENT_HOSTS, Target
from postroom.wires.outward import Outward, Resolver, broken, resolve

if TYPE_CHECKING:
    import httpx

_TOKEN: Final = r"[A-Za-z0-9!#$&^_.+-]{1,127}"
_TYPE: Final = re.compile(rf"({_TOKEN}/{_TOKEN})(?:\s*;\s*charset=\"?({_TOKEN})\"?)?\s*(?:;|$)")


class Fetcher:
    """`exceptions` are `host:port` that may be private; `trust` replaces the certificate store."""

    def __init__(
        self,
        *,
        exceptions: Collection[str] = (),
        timeout_s: float = ATTACHMENT_FETCH_S,
        resolver: Resolver = resolve,
        trust: Any = True,
    ) -> None:
        self._timeout_s = timeout_s
        self._free = asyncio.Semaphore(ATTACHMENT_FETCHES)
        self._outward = Outward(
            exceptions=exceptions, setting=ATTACHMENT_HOSTS, resolver=resolver, trust=trust, timeout_s=timeout_s
        )

    async def fetch(self, entry: AttachmentData, *, most_bytes: int, listed_only: bool = False) -> AttachmentData:
        """`entry` with the bytes behind its URL and without the URL; its type and name, where it has none, are the answer's.

        `listed_only`: of the hosts among `exceptions`. Raises `Invalid` for the URL, `Refused` for the rest.
        """
        target = self._outward.target(entry.url or "")
        if listed_only and not target.excepted:
            raise Refused(
                f"the attachment at {target.host} is not fetched for this agent",
                fix=f"send the bytes as base64 in content, or have the owner name the host in {ATTACHMENT_HOSTS}",
            )
        try:
            async with asyncio.timeout(self._timeout_s), self._free:
                content, declared = await self._read(target, most_bytes)
        except TimeoutError:
            raise _refused(target, f"it did not come within {self._timeout_s:g} s") from None
        except TransportFailure as problem:
            raise _refused(target, problem.message, problem.fix) from None
        name = unquote(target.path.partition("?")[0].rpartition("/")[2], errors="replace")
        return dataclasses.replace(
            entry,
            content=content,
            url=None,
            content_type=entry.content_type or declared,
            filename=entry.filename or name or None,
        )

    async def close(self) -> None:
        """Let go of what was opened on first use."""
        await self._outward.close()

    async def _read(self, target: Target, most_bytes: int) -> tuple[bytes, str | None]:
        import httpx

        response = await self._outward.open("GET", target, {})
        try:
            _check_head(response, most_bytes)
            return await _body(response, most_bytes), _content_type(response)
        except (httpx.HTTPError, ValueError) as problem:
            raise broken(problem) from None
        finally:
            await response.aclose()


def _check_head(response: httpx.Response, most_bytes: int) -> None:
    status = response.status_code
    if 300 <= status < 400:
        raise _ended(f"the answer is a redirect ({status}), which is not followed", "give the address it leads to")
    if status != 200:
        raise _ended(f"the answer has status {status}")
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise _ended("the answer is compressed, which was not asked for")
    length = response.headers.get("Content-Length", "")
    if length.isdecimal() and int(length[:20]) > most_bytes:
        raise _too_large(most_bytes)


async def _body(response: httpx.Response, most_bytes: int) -> bytes:
    held = bytearray()
    async for chunk in response.aiter_raw():
        held += chunk
        if len(held) > most_bytes:
            raise _too_large(most_bytes)
    return bytes(held)


def _content_type(response: httpx.Response) -> str | None:
    found = _TYPE.match(response.headers.get("Content-Type", "").strip())
    if found is None:
        return None
    return found[1] if found[2] is None else f"{found[1]}; charset={found[2]}"


def _too_large(most_bytes: int) -> TransportFailure:
    return _ended(f"it is over the {most_bytes} bytes that are left for attachments")


def _ended(message: str, fix: str | None = None) -> TransportFailure:
    return TransportFailure(message, kind="permanent", fix=fix)


def _refused(target: Target, why: str, fix: str | None = None) -> Refused:
    return Refused(
        f"the attachment at {target.host} could not be fetched: {why}", fix=fix or "send the bytes as base64 in content"
    )
