"""What a tool call comes to, and how an error is told to a model: what happened and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from postroom.errors import NotFound, PostroomError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """`text` is complete in itself (some clients show only it); `structured` holds our own values,
    and whatever a sender controls only as the same fenced text, under `content`.
    """

    text: str
    structured: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False


def failed(problem: PostroomError) -> ToolResult:
    """An error as a result: a model can act on it, a protocol error it would not see."""
    told = f"{problem.message}. {problem.fix[:1].upper()}{problem.fix[1:]}." if problem.fix else problem.message
    structured: dict[str, Any] = {"error": problem.code, "message": problem.message}
    if problem.fix:
        structured["fix"] = problem.fix
    return ToolResult(text=f"Error: {told}", structured=structured, is_error=True)


def unknown(name: str) -> NotFound:
    """There is no such tool, for this caller at least."""
    return NotFound(f"Unknown tool: {name[:80]!r}", code="unknown_tool", fix="list the tools there are")
