"""Our tools in an ACP agent's session: how they are reached, and which calls of them are allowed unasked.

Nobody sits here who could be shown an agent's question whether it may call a tool. Allowed, once, is a call of a tool
of ours that only reads: what the agent may read is decided by its token anyway. Everything else is refused: it is not
postroom's to allow, and our writing tools are better allowed by whoever configures the agent, knowing it. Which tool
is meant stands only in the title the agent gives the call, so the title must be exactly a name of ours, and the kind
none that changes something.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

SERVER: Final = "postroom"  # what our MCP server is called in a session
# How agents name the tool of a server.
_FORMS: Final = ("mcp__{server}__{tool}", "mcp_{server}_{tool}", "{server}_{tool}", "{tool} ({server} MCP Server)")
_CHANGING: Final = frozenset({"edit", "delete", "move", "execute", "switch_mode"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Where one session's tools are: at the daemon, by HTTP or by `postroom mcp`, which forwards. `inbox` is the session's."""

    daemon: str
    token: str
    inbox: str | None

    @property
    def url(self) -> str:
        """By HTTP, with the token as bearer."""
        return f"{self.daemon}/mcp" + (f"?inbox={quote(self.inbox)}" if self.inbox else "")

    @property
    def command(self) -> Sequence[str]:
        """By a program that speaks on stdin and stdout."""
        return (sys.executable, "-m", "postroom.cli.main", "mcp", *(("--inbox", self.inbox) if self.inbox else ()))

    @property
    def environment(self) -> Mapping[str, str]:
        """What that program is given."""
        return {"POSTROOM_URL": self.daemon, "POSTROOM_TOKEN": self.token}


def titles(tools: Iterable[str]) -> frozenset[str]:
    """What calls of these tools of ours are titled."""
    return frozenset(form.format(server=SERVER, tool=tool) for tool in tools for form in _FORMS)


def allows(title: str | None, kind: str | None, readable: Collection[str]) -> bool:
    """Whether the call may be made."""
    return title in readable and kind not in _CHANGING


def choice(options: Iterable[tuple[str, str]], *, allowed: bool) -> str | None:
    """The option to answer with, of (kind, id) pairs: once, never for good. None: there is none, so the question is cancelled."""
    wanted = "allow_once" if allowed else "reject_once"
    return next((option_id for kind, option_id in options if kind == wanted), None)
