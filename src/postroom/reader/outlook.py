"""Outlook and Microsoft 365 over Graph: a list of metadata, then each message; attachments by name, type and size.

Graph refuses `$search` beside `$filter`, so with a query the dates and the read state become part of the
query (KQL), widened to whole days, and are then held exactly on what comes back. A link Graph gives for
the next page is checked and only its position is used: the next request is built here like the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from postroom.clock import from_iso
from postroom.errors import PostroomError
from postroom.mime.filename import safe_filename
from postroom.reader import faults
from postroom.reader.exchange import Exchange
from postroom.reader.parallel import in_parallel
from postroom.reader.parts import named_address
from postroom.reader.remote import Listing, RemoteAttachment, RemoteMessage, Search
from postroom.reader.request import grouped
from postroom.wires.pinned import origin_of

_PARALLEL: Final = 4  # Graph lets one app have four requests at a time in one mailbox
_SELECT: Final = "id,conversationId,from,toRecipients,subject,receivedDateTime,hasAttachments,isRead"
_EXPAND: Final = "attachments($select=name,contentType,size)"
_PREFER: Final = {"Prefer": 'IdType="ImmutableId", outlook.body-content-type="html"'}
_ID: Final = re.compile(r"[A-Za-z0-9_=+-]{1,512}")
_THREAD_ID: Final = re.compile(r"[A-Za-z0-9_=+/-]{1,512}")  # never part of a path
_POSITIONS: Final = ("$skiptoken", "$skip")
_POSITION: Final = re.compile(r"[^\x00-\x20\x7f]{1,2000}")
_ALWAYS: Final = "receivedDateTime ge 1900-01-01T00:00:00Z"


class Outlook:
    """One Outlook account. `base` is the API's root, to which links of the API must lead as well."""

    def __init__(self, exchange: Exchange, base: str) -> None:
        self._exchange = exchange
        self._origin = origin_of(f"{base}/")

    async def list(self, search: Search, cursor: str) -> Listing:
        """Metadata first, then each message that matches."""
        if search.folder and not _ID.fullmatch(search.folder):
            raise faults.argument("folder", "an Outlook folder is a well-known name such as inbox or archive, or a folder's id")
        path = ("mailFolders", search.folder, "messages") if search.folder else ("messages",)
        found = await self._exchange.get(path, list_params(search, cursor), "list", _PREFER)
        try:
            rows = [row for row in found["value"] if _matches(row, search)]
            ids = [str(row["id"]) for row in rows]
        except (KeyError, TypeError, ValueError):
            raise faults.response_invalid("outlook", "list") from None
        next_cursor = self._position(found.get("@odata.nextLink"))
        headed = dict(zip(ids, rows, strict=True))

        async def read(message_id: str) -> RemoteMessage | None:
            return await self._listed(message_id, headed[message_id])

        messages = await in_parallel(read, filter(_ID.fullmatch, ids), most=_PARALLEL)
        return Listing(messages=tuple(message for message in messages if message is not None), next_cursor=next_cursor)

    async def read(self, message_id: str) -> RemoteMessage:
        """One message with its text."""
        if not _ID.fullmatch(message_id):
            raise faults.argument("messageId", "messageId is not an id of an Outlook message", "use an id from a list")
        params = {"$select": f"{_SELECT},body", "$expand": _EXPAND}
        try:
            return _message(await self._exchange.get(("messages", message_id), params, "read", _PREFER))
        except PostroomError as problem:
            if problem.code == "MAIL_RESPONSE_TOO_LARGE":
                raise faults.message_too_large("outlook") from None
            raise

    async def _listed(self, message_id: str, row: Mapping[str, Any]) -> RemoteMessage | None:
        try:
            return await self.read(message_id)
        except PostroomError as problem:
            if problem.code == "MAIL_NOT_FOUND":
                return None
            if problem.code != "MAIL_MESSAGE_TOO_LARGE":
                raise
        return _message(row, omitted=True)

    def _position(self, link: Any) -> str | None:
        """Where the next page begins, out of a link that leads to this API; None without a link."""
        if link is None:
            return None
        if not isinstance(link, str) or self._origin is None or origin_of(link) != self._origin:
            raise faults.endpoint_forbidden("outlook", "list")
        query = parse_qs(urlsplit(link).query)
        for name in _POSITIONS:
            if query.get(name):
                return f"{name}={query[name][0]}"
        raise faults.response_invalid("outlook", "list")


def list_params(search: Search, cursor: str) -> dict[str, str | list[str]]:
    """The query string of a list: with a query `$search` alone decides, else `$filter` and `$orderby`."""
    params: dict[str, str | list[str]] = {"$top": str(search.limit), "$select": _SELECT}
    if search.query:
        quoted = _kql(search).replace("\\", "\\\\").replace('"', '\\"')
        params["$search"] = f'"{quoted}"'
    else:
        params["$orderby"] = "receivedDateTime desc"
        if conditions := _filter(search):
            params["$filter"] = conditions
    name, _, value = cursor.partition("=")
    if cursor:
        if name not in _POSITIONS or not _POSITION.fullmatch(value):
            raise faults.argument("pageToken", "this page token is not valid", "start again without pageToken")
        params[name] = value
    return params


def _filter(search: Search) -> str:
    conditions = []
    if search.after is not None:
        conditions.append(f"receivedDateTime ge {_moment(search.after)}")
    if search.before is not None:
        conditions.append(f"receivedDateTime lt {_moment(search.before)}")
    if search.unread:
        # What `$orderby` sorts by must come first in `$filter`.
        conditions = [*(conditions or [_ALWAYS]), "isRead eq false"]
    return " and ".join(conditions)


def _kql(search: Search) -> str:
    more = []
    if search.after is not None:
        more.append(f"received>={_day(search.after, -1)}")
    if search.before is not None:
        more.append(f"received<={_day(search.before, 1)}")
    if search.unread:
        more.append("isread:false")
    return " AND ".join([grouped(search.query), *more]) if more else search.query


def _moment(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _day(at: int, days: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC) + timedelta(days=days):%Y-%m-%d}"


def _matches(row: Mapping[str, Any], search: Search) -> bool:
    """The conditions KQL holds only roughly."""
    received = from_iso(str(row["receivedDateTime"])) // 1_000_000
    if search.after is not None and received < search.after:
        return False
    if search.before is not None and received >= search.before:
        return False
    return not (search.unread and row.get("isRead") is True)


def _message(row: Mapping[str, Any], *, omitted: bool = False) -> RemoteMessage:
    try:
        body = row.get("body") or {}
        files = tuple(_attachment(each) for each in row.get("attachments") or ())
        message = RemoteMessage(
            id=str(row["id"]),
            thread_id=str(row["conversationId"]),
            received=from_iso(str(row["receivedDateTime"])),
            from_=_person(row.get("from")),
            to=tuple(_person(each) for each in row.get("toRecipients") or ()),
            subject=str(row.get("subject") or ""),
            text=None if omitted else str(body.get("content") or ""),
            is_html=str(body.get("contentType") or "").lower() == "html",
            omitted=omitted,
            has_attachments=bool(files) or row.get("hasAttachments") is True,
            attachments=files,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise faults.response_invalid("outlook", "read") from None
    if not (_ID.fullmatch(message.id) and _THREAD_ID.fullmatch(message.thread_id)):
        raise faults.response_invalid("outlook", "read")
    return message


def _person(entry: Any) -> str:
    address = (entry or {}).get("emailAddress") or {}
    return named_address(str(address.get("name") or ""), str(address.get("address") or ""))


def _attachment(entry: Mapping[str, Any]) -> RemoteAttachment:
    size = entry.get("size")
    return RemoteAttachment(
        filename=safe_filename(str(entry.get("name") or "")) or "",
        content_type=str(entry.get("contentType") or ""),
        size=size if type(size) is int and size >= 0 else 0,
    )
