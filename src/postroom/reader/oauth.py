"""OAuth 2 for native apps: code with PKCE (RFC 7636, RFC 8252), device code (RFC 8628), refresh.

Requests and answers only; who waits for what is `authorization`'s and `tokens`'. Client id and secret are
resolved from their references for each request. What a token endpoint says in words is not repeated.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from postroom.clock import MICROS, Clock
from postroom.config import ReaderAccount
from postroom.errors import Invalid
from postroom.reader import faults
from postroom.reader.endpoints import Endpoints
from postroom.reader.grants import Grant, client_tag
from postroom.wires.pinned import Answer, HttpFailure, PinnedHttp

SCOPES: Final[Mapping[str, str]] = {
    "gmail": "https://www.googleapis.com/auth/gmail.readonly",
    "outlook": "https://graph.microsoft.com/Mail.Read offline_access",
}
_MORE: Final[Mapping[str, Mapping[str, str]]] = {
    "gmail": {"access_type": "offline", "prompt": "consent"},
    "outlook": {"response_mode": "query", "prompt": "select_account"},
}
_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_OK: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A token that opens the API, and when it stops (microseconds)."""

    token: str
    expires_at: int

    def __repr__(self) -> str:
        return "Access(…)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pkce:
    """A verifier only we know and the challenge made of it."""

    verifier: str
    challenge: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device authorization: what the person types where, and what we ask with meanwhile."""

    device_code: str
    user_code: str
    verification_uri: str
    interval_s: float
    expires_s: float

    def __repr__(self) -> str:
        return "Device(…)"


def new_pkce() -> Pkce:
    """A fresh verifier of 64 characters, S256."""
    verifier = secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    return Pkce(verifier=verifier, challenge=base64.urlsafe_b64encode(digest).decode().rstrip("="))


class OAuth:
    """One account's conversation with its authorization server."""

    def __init__(
        self,
        account: ReaderAccount,
        endpoints: Endpoints,
        http: PinnedHttp,
        *,
        secret: Callable[[str], str],
        clock: Clock,
        default_ttl_s: float,
    ) -> None:
        self._account = account
        self._endpoints = endpoints
        self._http = http
        self._secret = secret
        self._clock = clock
        self._default_ttl_s = default_ttl_s

    @property
    def has_device_flow(self) -> bool:
        """Whether the provider lets a device without a browser read mail."""
        return bool(self._endpoints.device)

    def accepts(self, grant: Grant) -> bool:
        """Whether the grant was made for this provider and client."""
        return grant.provider == self._account.provider and grant.client == self._client_tag()

    def authorize_url(self, redirect_uri: str, state: str, challenge: str) -> str:
        """What the person's browser opens."""
        account = self._account
        query = {
            "response_type": "code",
            "client_id": self._resolve("client_id"),
            "redirect_uri": redirect_uri,
            "scope": SCOPES[account.provider],
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **_MORE[account.provider],
        }
        if account.address:
            query["login_hint"] = account.address
        return f"{self._endpoints.authorize}?{urlencode(query)}"

    async def exchange(self, code: str, verifier: str, redirect_uri: str) -> tuple[Grant, Access]:
        """A code for a grant and a first token."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
        return self._granted(await self._token("authorization code", form))

    async def refresh(self, grant: Grant) -> tuple[Grant, Access]:
        """A new token; the grant changes when the provider gave a new refresh token, else it is kept."""
        answer = await self._token("refresh", {"grant_type": "refresh_token", "refresh_token": grant.refresh_token})
        rotated = answer.get("refresh_token")
        if isinstance(rotated, str) and rotated and rotated != grant.refresh_token:
            grant = replace(grant, refresh_token=rotated)
        return grant, self._access(answer, "refresh")

    async def start_device(self) -> Device:
        """Begin a device authorization."""
        form = {"client_id": self._resolve("client_id"), "scope": SCOPES[self._account.provider]}
        answer = await self._post("device authorization", self._endpoints.device, form)
        body = self._read(answer, "device authorization")
        if answer.status != _OK:
            raise self._refused("device authorization", answer.status)
        try:
            return Device(
                device_code=str(body["device_code"]),
                user_code=str(body["user_code"]),
                verification_uri=str(body.get("verification_uri") or body["verification_url"]),
                interval_s=float(body.get("interval") or 5),
                expires_s=float(body["expires_in"]),
            )
        except (KeyError, TypeError, ValueError):
            raise faults.response_invalid(self._account.provider, "device authorization") from None

    async def poll_device(self, device: Device) -> tuple[Grant, Access] | str:
        """The grant, or why there is none yet: `authorization_pending` or `slow_down`."""
        form = self._with_client({"grant_type": _DEVICE_GRANT, "device_code": device.device_code})
        answer = await self._post("device code", self._endpoints.token, form)
        body = self._read(answer, "device code")
        if answer.status == _OK:
            return self._granted(body)
        if body.get("error") in ("authorization_pending", "slow_down"):
            return str(body["error"])
        raise self._refused("device code", answer.status)

    def _client_tag(self) -> str:
        return client_tag(self._resolve("client_id"), self._account.tenant)

    def _resolve(self, key: str) -> str:
        try:
            return self._secret(getattr(self._account, key))
        except Invalid:
            raise faults.credential_missing(self._account.id, key) from None

    def _with_client(self, form: Mapping[str, str]) -> dict[str, str]:
        whole = {**form, "client_id": self._resolve("client_id")}
        client_secret = self._resolve("client_secret")  # a public client has none, and sends none
        return whole | ({"client_secret": client_secret} if client_secret else {})

    async def _token(self, operation: str, form: Mapping[str, str]) -> Mapping[str, Any]:
        answer = await self._post(operation, self._endpoints.token, self._with_client(form))
        if answer.status != _OK:
            raise self._refused(operation, answer.status)
        return self._read(answer, operation)

    async def _post(self, operation: str, url: str, form: Mapping[str, str]) -> Answer:
        try:
            return await self._http.post_form(url, form)
        except HttpFailure as failure:
            raise faults.of_http(failure, self._account.provider, operation) from None

    def _read(self, answer: Answer, operation: str) -> Mapping[str, Any]:
        try:
            body: Mapping[str, Any] = msgspec.json.decode(answer.body, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            if answer.status != _OK:
                return {}
            raise faults.response_invalid(self._account.provider, operation) from None
        return body

    def _refused(self, operation: str, status: int) -> Exception:
        return faults.oauth_failed(self._account.provider, operation, status, account=self._account.id)

    def _granted(self, answer: Mapping[str, Any]) -> tuple[Grant, Access]:
        refresh_token = answer.get("refresh_token")
        if not isinstance(refresh_token, str) or not refresh_token:
            raise faults.response_invalid(self._account.provider, "authorization")
        grant = Grant(
            provider=self._account.provider,
            client=self._client_tag(),
            refresh_token=refresh_token,
            scope=str(answer.get("scope") or ""),
            granted_at=self._clock.now_us(),
        )
        return grant, self._access(answer, "authorization")

    def _access(self, answer: Mapping[str, Any], operation: str) -> Access:
        token, life = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
            raise faults.response_invalid(self._account.provider, operation)
        try:
            life_s = float(life) if life is not None and not isinstance(life, bool) else self._default_ttl_s
        except (TypeError, ValueError):
            life_s = self._default_ttl_s
        return Access(token=token, expires_at=self._clock.now_us() + int(max(life_s, 0) * MICROS))
