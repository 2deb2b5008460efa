"""The reader's way out, watched at the sockets: what is not on the list is not even looked up."""

import ast
import io
import socket
import sys
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import postroom
from httppeer import Request, Response, peer
from postroom.config import ReaderAccount
from postroom.errors import PostroomError
from postroom.reader.endpoints import OFFICIAL
from postroom.reader.oauth import Access
from postroom.reader.outlook import Outlook
from postroom.reader.remote import MailProvider
from postroom.reader.request import ReadRequest
from postroom.wires.pinned import HttpFailure, PinnedHttp, origin_of
from readerkit import GMAIL, OUTLOOK, OWNER, granted, kit

API = "https://graph.microsoft.com"
HOSTILE = [
    "https://evil.example/v1.0/me/messages",
    "http://graph.microsoft.com/v1.0/me/messages",
    "HTTPS://graph.microsoft.com.evil.example/v1.0/me",
    "https://graph.microsoft.com@evil.example/v1.0/me",
    "https://graph.microsoft.com:pw@evil.example/v1.0/me",
    "https://user@graph.microsoft.com/v1.0/me",
    "https://user:pw@graph.microsoft.com/v1.0/me",
    "https://@graph.microsoft.com/v1.0/me",
    "https://graph.microsoft.com./v1.0/me",
    "https://graph.microsoft.com:443/v1.0/me",
    "https://graph.microsoft.com:8443/v1.0/me",
    "https://graph.microsoft.com:/v1.0/me",
    "https://graph.microsoft.com:@evil.example/v1.0/me",
    "https://graph.microsoft.com\\@evil.example/v1.0/me",
    "https://graph.microsoft.com\\.evil.example/v1.0/me",
    "https://evil.example\\graph.microsoft.com/v1.0/me",
    "https://graph.microsoft.com#@evil.example/v1.0/me",
    "https://graph.microsoft.com?@evil.example/v1.0/me",
    "https://graph.microsoft.com",
    "https://GRAPH.microsoft.com/v1.0/me",
    "https://graph.micros\u043eft.com/v1.0/me",
    "https://graph\u3002microsoft.com/v1.0/me",
    "https://graph.microsoft.com\uff0fevil.example/v1.0/me",
    "https://xn--graph-microsoft.com/v1.0/me",
    "https://graphmicrosoft.com/v1.0/me",
    "https://graph-microsoft.com/v1.0/me",
    "https://evilgraph.microsoft.com/v1.0/me",
    "https://api.graph.microsoft.com/v1.0/me",
    "https://login.microsoftonline.com/common/oauth2/v2.0/token",
    "https://gmail.googleapis.com/gmail/v1/users/me/messages",
    "https://127.0.0.1/v1.0/me",
    "https://[::1]/v1.0/me",
    "https://[::ffff:169.254.169.254]/v1.0/me",
    "https://2130706433/v1.0/me",
    "https://0x7f.1/v1.0/me",
    "http://169.254.169.254/latest/meta-data/",
    "//graph.microsoft.com/v1.0/me",
    "/v1.0/me/messages",
    "https:/graph.microsoft.com/v1.0/me",
    "https:graph.microsoft.com/v1.0/me",
    "https:///graph.microsoft.com/v1.0/me",
    " https://graph.microsoft.com/v1.0/me",
    "https://graph.microsoft.com/v1.0/me\r\nHost: evil.example",
    "https://graph.microsoft.com\t.evil.example/v1.0/me",
    "https://graph.microsoft.com%2eevil.example/v1.0/me",
    "https://graph.microsoft.com%00.evil.example/v1.0/me",
    "ftp://graph.microsoft.com/v1.0/me",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "data:text/plain,x",
    "",
    "https://graph.microsoft.com/" + "x" * 20_000,
]


class Watch:
    """Every name looked up and every address connected to while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.on:
            return
        if event == "socket.getaddrinfo":
            host = arguments[0]
            self.seen.append(host.decode() if isinstance(host, bytes) else str(host))
        elif event in ("socket.connect", "socket.gethostbyname"):
            self.seen.append(str(arguments[1]))


WATCH = Watch()
sys.addaudithook(WATCH)  # cannot be taken away again; off, it costs a comparison


@contextmanager
def watched() -> Iterator[list[str]]:
    WATCH.seen.clear()
    WATCH.on = True
    try:
        yield WATCH.seen
    finally:
        WATCH.on = False


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name resolves: an attempt is seen, and ends there."""

    def refuse(host: object, *_: object, **__: object) -> None:
        WATCH("socket.getaddrinfo", (host,))
        raise socket.gaierror("no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def pinned() -> PinnedHttp:
    return PinnedHttp(OFFICIAL["outlook"].of_tenant("common").allowed, max_bytes=1000, timeout_s=5)


async def test_c03_a_hostile_url_causes_no_connection_attempt(nowhere: None):
    http = pinned()
    assert len(HOSTILE) >= 30
    with watched() as seen:
        for url in HOSTILE:
            with pytest.raises(HttpFailure) as caught:
                await http.get(url, bearer="secret-token")
            assert caught.value.reason == "forbidden", url
    assert seen == []
    await http.close()


async def test_c02_a_form_goes_to_the_oauth_urls_only(nowhere: None):
    http = pinned()
    with watched() as seen:
        for url in [*HOSTILE, f"{API}/v1.0/me/messages", f"{API}/v1.0/me/sendMail", OFFICIAL["outlook"].token]:
            if url == "https://login.microsoftonline.com/common/oauth2/v2.0/token":
                continue
            with pytest.raises(HttpFailure) as caught:
                await http.post_form(url, {"refresh_token": "secret"})
            assert caught.value.reason == "forbidden", url
    assert seen == []
    await http.close()


@pytest.mark.parametrize("url", [each for each in HOSTILE if each])
async def test_c03_a_next_link_that_leads_elsewhere_is_refused(url: str):
    outlook = Outlook(None, f"{API}/v1.0/me")
    if origin_of(url) == API:
        pytest.fail(f"{url} counts as the API")
    with pytest.raises(PostroomError) as caught:
        outlook._position(url)
    assert caught.value.code == "MAIL_ENDPOINT_FORBIDDEN"


def test_the_listed_urls_themselves_pass():
    assert origin_of(f"{API}/v1.0/me/messages?$skip=10&$top=5") == API
    assert origin_of("https://gmail.googleapis.com/gmail/v1/users/me/messages/1?format=full") == "https://gmail.googleapis.com"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_c03_a_redirect_is_not_followed_and_no_credential_travels(tmp_path: Path, status: int):
    async with peer(lambda request: Response(200, {})) as elsewhere:

        def redirect(request: Request) -> Response:
            if request.path.endswith("/token"):
                return Response(200, {"access_token": "access-token-1", "expires_in": 3600})
            return Response(status, {}, {"Location": f"{elsewhere.url}/steal"})

        async with peer(redirect) as running:
            made = kit(tmp_path, running.url, GMAIL)
            await granted(made)
            with pytest.raises(PostroomError) as caught:
                await made.reader.read(OWNER, ReadRequest())
            await made.reader.close()
    assert caught.value.code == "MAIL_ENDPOINT_FORBIDDEN"
    assert elsewhere.requests == []


async def test_with_every_provider_configured_nothing_is_looked_up_but_the_listed_hosts(tmp_path: Path, nowhere: None):
    imap = ReaderAccount(id="work", provider="imap", host="imap.example.org", user="me", password="env:PASSWORD")
    made = kit(tmp_path, "http://unused.example", GMAIL, OUTLOOK, imap)
    made.reader._endpoints = OFFICIAL
    hosts: dict[str, set[str]] = {}
    with watched() as seen:
        for account in (GMAIL, OUTLOOK, imap):
            seen.clear()
            await granted(made, account)
            await everything(made, account)
            hosts[account.id] = set(seen)
    await made.reader.close()
    assert hosts == {
        "personal-gmail": {"oauth2.googleapis.com", "gmail.googleapis.com"},
        "work-outlook": {"login.microsoftonline.com", "graph.microsoft.com"},
        "work": {"imap.example.org"},
    }


async def everything(made, account: ReaderAccount) -> None:
    """Every request an account can cause: refresh, exchange, device, list, read."""
    reader = made.reader
    asked = [
        ReadRequest(account=account.id),
        ReadRequest(account=account.id, message_id="m1" if account.provider != "imap" else "1-1-SU5CT1g"),
    ]
    for opened in (False, True):
        for request in asked:
            with pytest.raises(PostroomError):
                await reader.read(OWNER, request)
        tokens = reader._open[account.id].tokens
        if tokens is not None and not opened:  # the second time as if a token were at hand
            tokens._access = Access(token="t", expires_at=2**60)
    flow = reader._open[account.id].flow
    if flow is not None:
        with pytest.raises(PostroomError):
            await flow._oauth.exchange("code", "verifier", "http://127.0.0.1:1")
        if flow._oauth.has_device_flow:
            with pytest.raises(PostroomError):
                await flow._oauth.start_device()


async def test_no_proxy_or_credential_of_the_environment_plays_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with peer(lambda request: Response(200, {})) as proxy, peer(lambda request: Response(404, {})) as running:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        http = PinnedHttp(kit(tmp_path, running.url).reader._endpoints["gmail"].allowed, max_bytes=1000, timeout_s=5)
        assert (await http.get(f"{running.url}/x", bearer="t")).status == 404
        await http.close()
    assert proxy.requests == []


SOURCE = Path(postroom.__file__).parent
ROOM = [
    *(SOURCE / "reader").glob("*.py"),
    SOURCE / "wires" / "pinned.py",
    SOURCE / "wires" / "imap.py",
    SOURCE / "tools" / "reader.py",
]


def strings_and_names(path: Path) -> Iterator[str]:
    """Every string (docstrings aside) and name in a module's code: what it could say or call."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    docs = {
        node.body[0].value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and isinstance(node.body[0].value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and node.value not in docs:
            yield node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.string


@pytest.mark.parametrize("path", ROOM, ids=lambda path: path.name)
def test_c01_no_write_is_written_down_anywhere(path: Path):
    words = list(strings_and_names(path))
    methods = {"PUT", "PATCH", "DELETE", "POST", "patch", "put"}
    posts = {"POST"} if path.name == "pinned.py" else set()
    assert methods & set(words) == posts
    endpoints = (
        "batchModify",
        "sendMail",
        "createReply",
        "createForward",
        "trash/",
        "/modify",
        "/send",
        "$value",
        "format=raw",
        "gmail.modify",
        "mail.google.com",
        "ReadWrite",
        "Mail.Send",
    )
    assert [word for word in words for each in endpoints if each in word] == []
    verbs = {"STORE", "APPEND", "EXPUNGE", "COPY", "MOVE", "append_message", "add_flags", "set_flags", "remove_flags"}
    assert verbs & set(words) == set()
    calls = {"copy", "move", "expunge", "delete_messages", "create_folder", "rename_folder", "delete_folder", "set_gmail_labels"}
    assert calls & set(words) == set()
    assert [word for word in words if word.startswith("BODY[") and path.name != "imap.py"] == []


def test_c01_a_provider_has_exactly_two_verbs():
    assert [name for name in vars(MailProvider) if not name.startswith("_")] == ["list", "read"]


def test_every_imap_fetch_peeks():
    text = (SOURCE / "reader" / "imap.py").read_text(encoding="utf-8")
    assert text.count("BODY.PEEK[") == 2
    assert "readonly=True" in text
    assert "readonly=False" not in text
