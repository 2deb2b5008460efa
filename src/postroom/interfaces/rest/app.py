"""The `/v0` application, put together. The HTTP surface mounts it at `/v0` behind its own guards."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer

from postroom.access.access import Access
from postroom.clock import Clock
from postroom.interfaces.rest import (
    account,
    domains,
    drafts,
    errors,
    events,
    inboxes,
    keys,
    lists,
    messages,
    metrics,
    threads,
    webhooks,
)
from postroom.interfaces.rest.door import Door, Gate, Signer
from postroom.interfaces.rest.links import add_links
from postroom.interfaces.rest.paths import RawSegments
from postroom.interfaces.rest.routing import PROBLEMS
from postroom.interfaces.rest.scopes import IN_INBOX, IN_POD, INBOX, POD
from postroom.model.ports import Mail

# For the document: who checks the key is the surface in front.
_BEARER = HTTPBearer(scheme_name="key", bearerFormat="am_…", auto_error=False)


class _V0(FastAPI):
    """FastAPI, with links in its document."""

    def openapi(self) -> dict[str, Any]:
        """The document, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = add_links(super().openapi())
        return self.openapi_schema


def v0_app(*, mail: Mail, gate: Gate, access: Access, signer: Signer, clock: Clock, domains: tuple[str, ...]) -> FastAPI:
    """The AgentMail API over these rooms. Expects `request.scope["state"]["principal"]`."""
    app = _V0(
        title="postroom: the AgentMail API",
        servers=[{"url": "/v0"}],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=False,
        responses=PROBLEMS,
        dependencies=[Depends(_BEARER)],
    )
    app.state.door = Door(mail=mail, gate=gate, access=access, signer=signer, clock=clock, domains=domains)
    app.add_middleware(RawSegments)
    errors.install(app)
    _routes(app)
    return app


def _routes(app: FastAPI) -> None:
    app.include_router(account.routes)
    app.include_router(keys.routes, prefix="/api-keys")
    app.include_router(keys.reading)
    app.include_router(keys.routes, prefix=f"{INBOX}/api-keys", dependencies=IN_INBOX)
    app.include_router(inboxes.routes)
    app.include_router(messages.routes)
    app.include_router(inboxes.routes, prefix=POD, dependencies=IN_POD)
    app.include_router(threads.routes, prefix=f"{INBOX}/threads", dependencies=IN_INBOX)
    app.include_router(threads.routes, prefix=f"{POD}/threads", dependencies=IN_POD)
    app.include_router(threads.routes, prefix="/threads")
    app.include_router(drafts.reading, prefix=f"{INBOX}/drafts", dependencies=IN_INBOX)
    app.include_router(drafts.reading, prefix="/drafts")
    app.include_router(drafts.writing)
    app.include_router(lists.routes, prefix=f"{INBOX}/lists", dependencies=IN_INBOX)
    app.include_router(lists.routes, prefix="/lists")
    app.include_router(events.routes)
    app.include_router(webhooks.routes, prefix=f"{INBOX}/webhooks", dependencies=IN_INBOX)
    app.include_router(webhooks.routes, prefix=f"{POD}/webhooks", dependencies=IN_POD)
    app.include_router(webhooks.routes, prefix="/webhooks")
    app.include_router(metrics.routes, prefix=INBOX, dependencies=IN_INBOX)
    app.include_router(metrics.routes, prefix=POD, dependencies=IN_POD)
    app.include_router(metrics.routes)
    app.include_router(domains.routes, prefix=POD, dependencies=IN_POD)
    app.include_router(domains.routes)
    app.include_router(domains.setup)
