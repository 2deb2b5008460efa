"""One set of handlers under several prefixes: an inbox, the one pod, the whole organisation.

A handler asks for `Within` and gets the inbox id, or None where its prefix names no inbox.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Request

from postroom.errors import NotFound
from postroom.interfaces.rest.door import Caller
from postroom.model.principal import DEFAULT_POD

INBOX: Final = "/inboxes/{inbox_id:segment}"
POD: Final = "/pods/{pod_id:segment}"


def _within(request: Request) -> str | None:
    inbox_id: str | None = request.path_params.get("inbox_id")
    return inbox_id


def in_inbox(inbox_id: str) -> None:
    """Declares the path parameter of a router included under `INBOX`."""


def in_pod(caller: Caller, pod_id: str) -> str:
    """Lets through the caller's pod, the one there is. Raises `NotFound` for any other."""
    if pod_id not in (caller.pod_id, DEFAULT_POD):
        raise NotFound("Pod not found", fix="list pods to see the one there is")
    return pod_id


Within = Annotated[str | None, Depends(_within)]
InPod = Annotated[str, Depends(in_pod)]
IN_INBOX: Final = [Depends(in_inbox)]
IN_POD: Final = [Depends(in_pod)]
