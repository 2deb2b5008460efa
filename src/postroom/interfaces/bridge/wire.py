"""What the plugin posts, verb by verb; names as JavaScript writes them."""

from __future__ import annotations

from typing import Any

import msgspec


class Body(msgspec.Struct, kw_only=True, rename="camel"):
    """A verb without arguments. Unknown fields are a newer plugin's, and left alone."""


class Hello(Body):
    """`commands`: which profile of the harness this is."""

    profile: str = ""


class Done(Body):
    """`done`: the answer to a command."""

    id: int
    branch: str | None = None
    read: bool | None = None
    disposed: bool | None = None
    error: str | None = None


class Ended(Body):
    """`ended`: a turn that held notices up to `seq` is over."""

    session_id: str
    seq: int
    read: bool


class Step(Body):
    """`pending`: a step of a turn is about to run; `again` at a turn's first, when what was said before may be said again."""

    session_id: str
    again: bool = False


class ToolCall(Body):
    """`tool`, `question`: the model calls a tool."""

    name: str
    call_id: str
    arguments: dict[str, Any] = {}
    session_id: str | None = None


class Frozen(Body):
    """`decided`, `outcome`: the mail a question was about."""

    outgoing_id: str
    digest: str = ""


class Answer(Frozen, kw_only=True):
    """`answer`: what the person clicked."""

    allowed: bool


class Typed(Body):
    """`command`: a person typed a command."""

    name: str
    input: str = ""
