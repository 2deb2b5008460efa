"""The official destinations: the whole list of what a Gmail or Outlook account may reach.

No key of the config and no argument moves a request; only test code makes another table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from postroom.wires.pinned import Allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """One provider's URLs. `authorize` is opened by the person's browser, never by us; `device` may be empty."""

    authorize: str
    token: str
    device: str
    api: str

    @property
    def allowed(self) -> Allowed:
        """GET from the API's origin; a form to the OAuth URLs."""
        parts = urlsplit(self.api)
        return Allowed(origins=frozenset({f"{parts.scheme}://{parts.netloc}"}), posts=frozenset({self.token, self.device} - {""}))

    def of_tenant(self, tenant: str) -> Endpoints:
        """The URLs with a Microsoft tenant filled in; the config has checked its form."""
        return replace(
            self,
            authorize=self.authorize.replace("{tenant}", tenant),
            token=self.token.replace("{tenant}", tenant),
            device=self.device.replace("{tenant}", tenant),
        )


OFFICIAL: Final[Mapping[str, Endpoints]] = {
    "gmail": Endpoints(
        authorize="https://accounts.google.com/o/oauth2/v2/auth",
        token="https://oauth2.googleapis.com/token",
        device="",  # Google's device flow does not grant the scope to read mail
        api="https://gmail.googleapis.com/gmail/v1/users/me",
    ),
    "outlook": Endpoints(
        authorize="https://login.microsoftonline.com/{tenant}/oauth2/v2.0/authorize",
        token="https://login.microsoftonline.com/{tenant}/oauth2/v2.0/token",
        device="https://login.microsoftonline.com/{tenant}/oauth2/v2.0/devicecode",
        api="https://graph.microsoft.com/v1.0/me",
    ),
}
