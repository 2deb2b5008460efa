"""One tool call from its name and arguments to a result, whatever happens on the way."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog

from postroom.errors import PostroomError
from postroom.tools.result import ToolResult, failed, unknown
from postroom.tools.schemas import ToolSpec, check_arguments

log = structlog.get_logger(__name__)


async def run(
    specs: Sequence[ToolSpec],
    name: str,
    arguments: Mapping[str, Any],
    act: Callable[[Mapping[str, Any]], Awaitable[ToolResult]],
) -> ToolResult:
    """Check the arguments of one of these tools and act on them.

    Never raises: what goes wrong is a result with `is_error` that says what to do.
    """
    spec = next((spec for spec in specs if spec.name == name), None)
    try:
        if spec is None:
            raise unknown(name)
        return await act(check_arguments(spec, arguments))
    except PostroomError as problem:
        return failed(problem)
    except Exception:  # noqa: BLE001 - whatever it is, a model is not shown our insides
        log.error("tool_failed", tool=spec.name if spec else "", traceback=traceback.format_exc())  # noqa: TRY400 - without local variables
        return failed(PostroomError("something went wrong inside postroom", fix="try again; the owner finds it in the log"))
