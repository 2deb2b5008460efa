"""`/api/reader`: a person's mail accounts. Reading is for whoever may read; the rest is the owner's.

Nothing secret goes out: an authorization shows the address a browser is to open, its end says done or why not.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.errors import Invalid
from postroom.interfaces.api.rooms import Agents
from postroom.interfaces.api.wire import answer, body_as, caller, integer
from postroom.reader import faults
from postroom.reader.reader import AccountInfo, Reader
from postroom.tools.reader import ReaderTools, request_of

_ONE = "/api/reader/accounts/{account}"
_WAIT_S = 25
_TRUTH = {"true": True, "false": False}


class NewAuthorization(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`device`: by a code typed on another device, where there is no browser."""

    device: bool = False


def routes(tools: ReaderTools, access: Agents) -> list[Route]:
    """The routes on accounts, their authorization, and who may read them."""
    return [*_reading(tools, access), *_authorizing(tools.reader), *_allowing(tools.reader, access)]


def _reading(tools: ReaderTools, access: Agents) -> list[Route]:
    reader = tools.reader

    async def listing(request: Request) -> Response:
        principal = caller(request)
        readers = await access.readers(principal) if principal.is_owner else None
        rows = [_shape(info) for info in reader.accounts(principal)]
        return answer({"accounts": rows if readers is None else [row | {"agents": readers.get(row["id"], [])} for row in rows]})

    async def mail(request: Request) -> Response:
        wanted = request_of(_arguments(request))
        result = await tools.read(caller(request), wanted, canonical=True)
        rendered = {"rendered": result.text} if request.query_params.get("rendered") == "true" else {}
        return answer({**result.structured, **rendered})

    async def check(request: Request) -> Response:
        return answer(_shape(await reader.check(caller(request), _account(request))))

    return [
        Route("/api/reader/accounts", listing, methods=["GET"]),
        Route("/api/reader/mail", mail, methods=["GET"]),
        Route(f"{_ONE}/check", check, methods=["POST"]),
    ]


def _authorizing(reader: Reader) -> list[Route]:
    async def begin(request: Request) -> Response:
        device = (await body_as(request, NewAuthorization)).device
        prompt = await reader.authorize(caller(request), _account(request), device=device)
        if prompt is None:
            return answer({"account": _account(request), "state": "authorized"})
        return answer({"account": _account(request), "state": "pending", "url": prompt.url, "user_code": prompt.user_code}, 201)

    async def follow(request: Request) -> Response:
        wait_s = min(integer(request, "wait_s") or 0, _WAIT_S)
        state = await reader.authorization(caller(request), _account(request), wait_s)
        return answer({"account": _account(request), "state": state})

    async def stop(request: Request) -> Response:
        await reader.stop(caller(request), _account(request))
        return answer({"account": _account(request), "stopped": True})

    async def revoke(request: Request) -> Response:
        return answer({"account": _account(request), "revoked": await reader.revoke(caller(request), _account(request))})

    return [
        Route(f"{_ONE}/authorization", begin, methods=["POST"]),
        Route(f"{_ONE}/authorization", follow, methods=["GET"]),
        Route(f"{_ONE}/authorization", stop, methods=["DELETE"]),
        Route(f"{_ONE}/grant", revoke, methods=["DELETE"]),
    ]


def _allowing(reader: Reader, access: Agents) -> list[Route]:
    async def allow(request: Request) -> Response:
        if not reader.exists(_account(request)):
            raise faults.account_unknown()
        name = request.path_params["name"]
        return answer({"name": name, "accounts": await access.allow_account(caller(request), name, _account(request))})

    async def deny(request: Request) -> Response:
        name = request.path_params["name"]
        return answer({"name": name, "accounts": await access.deny_account(caller(request), name, _account(request))})

    return [
        Route("/api/agents/{name}/accounts/{account}", allow, methods=["PUT"]),
        Route("/api/agents/{name}/accounts/{account}", deny, methods=["DELETE"]),
    ]


def _account(request: Request) -> str:
    account: str = request.path_params["account"]
    return account


def _shape(info: AccountInfo) -> dict[str, Any]:
    return {"id": info.id, "provider": info.provider, "address": info.address, "state": info.state}


def _arguments(request: Request) -> dict[str, Any]:
    """The tool's arguments out of a query string."""
    given: dict[str, Any] = {name: value for name, value in request.query_params.items() if name != "rendered"}
    if "limit" in given:
        given["limit"] = integer(request, "limit")
    if "unreadOnly" in given:
        if given["unreadOnly"] not in _TRUTH:
            message = "unreadOnly must be true or false"
            raise Invalid(message, errors=[{"path": ["unreadOnly"], "message": message, "code": "invalid"}])
        given["unreadOnly"] = _TRUTH[given["unreadOnly"]]
    return given
