"""A mailbox behind Microsoft Graph's messages API and its identity platform, as Microsoft documents them.

Written from the published reference ("List messages", "Get message", "Use the $search query parameter",
"Use the $filter query parameter", "Paging", "Throttling", "OAuth 2.0 authorization code flow", "Device
authorization grant"), apart from and without a look at the code it tests. Known limits: only the
properties and operators a reader needs; KQL knows words, phrases, from, to, subject, received and isread.
"""

import base64
import email
import email.errors
import email.header
import email.utils
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from httppeer import Request, Response

FOLDERS = ("inbox", "archive", "sentitems", "drafts", "deleteditems", "junkemail")
DEFAULT_TOP, MOST_TOP = 10, 1000
ALWAYS = ("id",)


@dataclass
class Mailbox:
    """The peer. Hand `handle` to an HTTP server; set `url` to its address. `throttle` answers 429 that many times."""

    url: str = ""
    tenant: str = "common"
    client_id: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    access: set[str] = field(default_factory=set)
    refresh: set[str] = field(default_factory=set)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    devices: dict[str, bool] = field(default_factory=dict)
    throttle: int = 0
    retry_after: str = "1"
    foreign_link: str = ""

    def handle(self, request: Request) -> Response:
        path = request.path
        if request.method == "POST" and path.startswith(f"/{self.tenant}/oauth2/v2.0/"):
            return self._oauth(path.rpartition("/")[2], request.form)
        if request.method != "GET":
            return error(405, "Request_BadRequest", "Method not allowed")
        if request.bearer not in self.access:
            return error(401, "InvalidAuthenticationToken", "Access token is empty or unknown.")
        if self.throttle:
            self.throttle -= 1
            return Response(429, {"error": {"code": "TooManyRequests"}}, {"Retry-After": self.retry_after})
        return self._graph(path, request.query)

    # --- Graph -------------------------------------------------------------------------------

    def _graph(self, path: str, query: dict[str, str]) -> Response:
        listed = re.fullmatch(r"/v1\.0/me(?:/mailFolders/([^/]+))?/messages", path)
        if listed:
            folder = listed[1]
            if folder is not None and folder.lower() not in FOLDERS:
                return error(404, "ErrorItemNotFound", "The specified folder could not be found.")
            rows = [row for row in self.messages if folder is None or row["_folder"] == folder.lower()]
            return self._list(path, rows, query)
        one = re.fullmatch(r"/v1\.0/me/messages/([^/]+)", path)
        if one:
            found = next((row for row in self.messages if row["id"] == one[1]), None)
            if found is None:
                return error(404, "ErrorItemNotFound", "The specified object was not found in the store.")
            return Response(200, shaped(found, query))
        return error(400, "BadRequest", f"Resource not found for the segment {path!r}.")

    def _list(self, path: str, rows: list[dict[str, Any]], query: dict[str, str]) -> Response:
        if "$search" in query and "$filter" in query:
            return error(400, "SearchWithFilter", "The query parameter '$filter' is not supported with '$search'.")
        if "$search" in query and "$orderby" in query:
            return error(400, "SearchWithOrderBy", "The query parameter '$orderby' is not supported with '$search'.")
        if "$search" in query:
            sought = re.fullmatch(r'"((?:[^"\\]|\\.)*)"', query["$search"])
            if sought is None:
                return error(400, "BadRequest", "Syntax error in $search: it must be in double quotes.")
            holds = Kql(re.sub(r"\\(.)", r"\1", sought[1])).parse()
            rows = [row for row in rows if holds(row)]
        if "$filter" in query:
            first = query["$filter"].split(" ")[0]
            if "$orderby" in query and query["$orderby"].split(" ")[0] != first:
                return error(400, "InefficientFilter", "The restriction or sort order is too complex for this operation.")
            holds = odata(query["$filter"])
            rows = [row for row in rows if holds(row)]
        rows = sorted(rows, key=lambda row: row["receivedDateTime"], reverse=True)
        top = min(int(query.get("$top", DEFAULT_TOP)), MOST_TOP)
        position = "$skiptoken" if "$search" in query else "$skip"
        at = int(query.get(position, "0"))
        page = {"@odata.context": f"{self.url}/v1.0/$metadata", "value": [shaped(row, query) for row in rows[at : at + top]]}
        if at + top < len(rows):
            following = urlencode({**query, position: str(at + top)})
            page["@odata.nextLink"] = self.foreign_link or f"{self.url}{path}?{following}"
        return Response(200, page)

    # --- identity platform -------------------------------------------------------------------

    def approve(self, url: str) -> str:
        """What the sign-in page does when the person agrees: the address the browser is sent to."""
        parts = urlsplit(url)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert parts.path == f"/{self.tenant}/oauth2/v2.0/authorize"
        assert asked["client_id"] == self.client_id
        assert re.fullmatch(r"http://localhost:\d+", asked["redirect_uri"])  # registered as http://localhost
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(20)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}/?{urlencode({'code': code, 'state': asked['state']})}"

    def _oauth(self, what: str, form: dict[str, str]) -> Response:
        if form.get("client_id") != self.client_id:
            return Response(400, {"error": "unauthorized_client", "error_description": "AADSTS700016"})
        if what == "devicecode":
            code = secrets.token_urlsafe(20)
            self.devices[code] = False
            body = {"device_code": code, "user_code": "ABCD-1234", "verification_uri": "https://microsoft.com/devicelogin"}
            return Response(200, {**body, "expires_in": 900, "interval": 0.01, "message": "…"})
        return self._token(form)

    def _token(self, form: dict[str, str]) -> Response:
        match form.get("grant_type"):
            case "authorization_code":
                asked = self.codes.pop(form.get("code", ""), None)
                challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
                if asked is None or asked["redirect_uri"] != form.get("redirect_uri"):
                    return Response(400, {"error": "invalid_grant"})
                if challenge.decode().rstrip("=") != asked["code_challenge"]:
                    return Response(400, {"error": "invalid_grant"})
            case "refresh_token":
                if form.get("refresh_token") not in self.refresh:
                    return Response(400, {"error": "invalid_grant", "error_description": "AADSTS70000"})
            case "urn:ietf:params:oauth:grant-type:device_code":
                if not self.devices.get(form.get("device_code", "")):
                    return Response(400, {"error": "authorization_pending"})
            case _:
                return Response(400, {"error": "unsupported_grant_type"})
        return self._issue()

    def _issue(self) -> Response:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.access.add(access)
        self.refresh = {refresh}  # it rotates: the one before is good no more
        body = {"token_type": "Bearer", "scope": "https://graph.microsoft.com/Mail.Read", "expires_in": 3599}
        return Response(200, {**body, "access_token": access, "refresh_token": refresh})

    # --- content -----------------------------------------------------------------------------

    def put(self, raw: bytes, *, received: datetime, folder: str = "inbox", read: bool = False) -> str:
        """Deliver a mail; its id."""
        mail = email.message_from_bytes(raw)
        html, text = content(mail, "text/html"), content(mail, "text/plain")
        number = f"AAMkAG{len(self.messages):06d}-_="
        row = {
            "id": number,
            "conversationId": f"AAQkAG{len(self.messages):06d}=",
            "receivedDateTime": f"{received.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "subject": words(mail.get("Subject")),
            "from": person(mail.get("From")),
            "toRecipients": [each for each in (person(part) for part in str(mail.get("To", "")).split(",")) if each],
            "isRead": read,
            "body": {"contentType": "html" if html is not None else "text", "content": html if html is not None else text or ""},
            "attachments": list(attached(mail)),
            "_folder": folder,
        }
        row["hasAttachments"] = bool(row["attachments"])
        self.messages.append(row)
        return number


def error(status: int, code: str, message: str) -> Response:
    return Response(status, {"error": {"code": code, "message": message, "innerError": {"request-id": "0"}}})


def shaped(row: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    """`$select` and `$expand`. Without `$expand` there are no attachments; contentBytes only when not deselected."""
    chosen = [name for name in query.get("$select", "").split(",") if name]
    shape = {name: value for name, value in row.items() if not name.startswith("_") and name != "attachments"}
    if chosen:
        shape = {name: value for name, value in shape.items() if name in chosen or name in ALWAYS}
    expanded = re.fullmatch(r"attachments(?:\(\$select=([\w,]+)\))?", query.get("$expand", ""))
    if expanded:
        names = expanded[1].split(",") if expanded[1] else None
        shape["attachments"] = [
            {name: value for name, value in each.items() if names is None or name in names} for each in row["attachments"]
        ]
    return shape


def odata(text: str) -> Callable[[dict[str, Any]], bool]:
    """`name op value and …`."""
    conditions = [clause.split(" ") for clause in text.split(" and ")]
    compare: dict[str, Callable[[Any, Any], bool]] = {
        "ge": lambda a, b: a >= b,
        "lt": lambda a, b: a < b,
        "eq": lambda a, b: a == b,
    }

    def holds(row: dict[str, Any]) -> bool:
        values = {"true": True, "false": False}
        return all(compare[operator](row[name], values.get(value, value)) for name, operator, value in conditions)

    return holds


class Kql:
    """Keyword query language: terms side by side or joined by AND, OR, parentheses."""

    def __init__(self, text: str) -> None:
        self.tokens = re.findall(r'\(|\)|[^\s()":]*(?::|<=|>=)"[^"]*"|"[^"]*"|[^\s()]+', text)

    def parse(self) -> Callable[[dict[str, Any]], bool]:
        either = [self._all()]
        while self.tokens and self.tokens[0] == "OR":
            self.tokens.pop(0)
            either.append(self._all())
        return lambda row: any(holds(row) for holds in either)

    def _all(self) -> Callable[[dict[str, Any]], bool]:
        every = []
        while self.tokens and self.tokens[0] not in (")", "OR"):
            token = self.tokens.pop(0)
            if token == "(":
                every.append(self.parse())
                if self.tokens:
                    self.tokens.pop(0)
            elif token != "AND":
                every.append(term(token))
        return lambda row: all(holds(row) for holds in every)


def term(token: str) -> Callable[[dict[str, Any]], bool]:
    found = re.fullmatch(r"(from|to|subject|received|isread)(:|>=|<=)(.*)", token, re.IGNORECASE)
    if found is None:
        sought = token.strip('"').lower()
        return lambda row: sought in everything(row)
    name, operator, value = found[1].lower(), found[2], found[3].strip('"').lower()
    if name == "received":
        return lambda row: row["receivedDateTime"][:10] >= value if operator == ">=" else row["receivedDateTime"][:10] <= value
    if name == "isread":
        return lambda row: str(row["isRead"]).lower() == value
    key = {"from": "from", "to": "toRecipients", "subject": "subject"}[name]
    return lambda row: value in str(row[key]).lower()


def everything(row: dict[str, Any]) -> str:
    return f"{row['subject']} {row['from']} {row['toRecipients']} {row['body']['content']}".lower()


def content(mail: Message, kind: str) -> str | None:
    for part in mail.walk():
        if part.get_content_type() == kind and not part.get_filename():
            return part.get_payload(decode=True).decode("utf-8", "replace")
    return None


def attached(mail: Message) -> Iterator[dict[str, Any]]:
    for part in mail.walk():
        if part.get_filename():
            payload = part.get_payload(decode=True) or b""
            yield {
                "@odata.type": "#microsoft.graph.fileAttachment",
                "name": words(part.get_filename()),
                "contentType": part.get_content_type(),
                "size": len(payload),
                "contentBytes": base64.b64encode(payload).decode(),
            }


def words(value: Any) -> str:
    try:
        return str(email.header.make_header(email.header.decode_header(str(value or "")))).replace("\n", " ").replace("\r", "")
    except (LookupError, ValueError, UnicodeError, email.errors.MessageError):
        return str(value)


def person(value: Any) -> dict[str, Any] | None:
    name, address = email.utils.parseaddr(str(value or ""))
    return {"emailAddress": {"name": words(name) or address, "address": address}} if address else None


def load(mailbox: Mailbox, raws: Iterable[bytes], start: datetime) -> int:
    """Deliver what the standard library can read; how many."""
    taken = 0
    for number, raw in enumerate(raws):
        try:
            mailbox.put(raw, received=datetime.fromtimestamp(start.timestamp() + number, UTC), read=number % 3 == 0)
        except (LookupError, ValueError, AttributeError, TypeError, IndexError):
            continue
        taken += 1
    return taken
