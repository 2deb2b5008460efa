"""Who is asking, and what that alone allows.

`access` makes a `Principal` from a credential; the checks here are pure. A foreign id is answered
as if it did not exist (`NotFound`), a forbidden verb as `Forbidden`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from postroom.errors import Forbidden, NotFound
from postroom.model.mail import Inbox

DEFAULT_POD = "00000000-0000-4000-8000-000000000001"


class Kind(StrEnum):
    """What kind of credential stands behind a call."""

    OWNER = "owner"
    AGENT = "agent"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller. `agent_id` (`agt_…`) and `name` are set for agents only.

    `session_id` is set when the credential was issued to one session, or the client names one; `profile` is the agent's.
    `inbox_scope` narrows a key to one inbox (AgentMail's inbox-scoped keys). `peer_uid` is the
    operating-system user at the other end of a loopback socket, where that is known. `bridge` is true
    for the key of the plugin in a person's harness: an agent's in all but that it may report the person's click.
    """

    kind: Kind
    pod_id: str = DEFAULT_POD
    agent_id: str | None = None
    name: str | None = None
    key_id: str | None = None
    profile: str = "correspondent"
    session_id: str | None = None
    inbox_scope: str | None = None
    peer_uid: int | None = None
    bridge: bool = False

    @property
    def is_owner(self) -> bool:
        """True for the owner's key and for postroom's own work."""
        return self.kind is not Kind.AGENT

    @property
    def label(self) -> str:
        """A short name for audit rows: `owner`, `system` or the agent's name."""
        return self.name or self.kind.value


SYSTEM = Principal(kind=Kind.SYSTEM)


def may_use_inbox(principal: Principal, inbox: Inbox) -> bool:
    """An owner uses every inbox of the pod, an agent those it owns."""
    if principal.pod_id != inbox.pod_id:
        return False
    if principal.inbox_scope is not None and principal.inbox_scope != inbox.inbox_id:
        return False
    return principal.is_owner or (principal.agent_id is not None and inbox.owner_agent == principal.agent_id)


def require_inbox(principal: Principal, inbox: Inbox | None) -> Inbox:
    """The inbox if the caller may use it; else `NotFound`, whether or not it exists."""
    if inbox is None or not may_use_inbox(principal, inbox):
        raise NotFound("Inbox not found", fix="list inboxes to see the ones this key can use")
    return inbox


def require_owner(principal: Principal, verb: str) -> None:
    """Deletes, lists, webhooks, keys, pods and inbox creation are the owner's."""
    if not principal.is_owner:
        raise Forbidden(f"an agent's token does not allow to {verb}", fix="use the owner's key")
