"""An application whose library is loaded by its first request, or after the house is ready.

FastAPI costs more time than the rest of the start together; nobody should wait for it who only
speaks SMTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Receive, Scope, Send


class Lazy:
    """Makes its application with `make`, in a thread, once."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._making: asyncio.Task[Any] | None = None

    async def app(self) -> Any:
        """The application; made now if nobody asked before."""
        if self._making is None:
            self._making = asyncio.create_task(asyncio.to_thread(self._make))
        return await asyncio.shield(self._making)

    async def close(self) -> None:
        """Close the application, if it was made and can be closed."""
        if self._making is not None:
            await (await self._making).close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self.app())(scope, receive, send)
