"""Our OpenAPI against the list of the clients' routes kept beside the checkout: a missing route fails."""

import json
import re
from pathlib import Path

import pytest

from postroom.interfaces.rest.app import v0_app

LIST = Path(__file__).resolve().parents[4] / "shared" / "spec" / "agentmail_routes.json"
BESIDES = ("domains", "metrics", "inboxes.metrics")  # resources offered beyond the two tiers


def shape(path: str) -> str:
    """A path without the names of its parameters."""
    return re.sub(r"\{[^}]*\}", "{}", path.removeprefix("/v0"))


def test_every_essential_and_recommended_route_is_in_our_openapi():
    if not LIST.is_file():
        pytest.skip("cases absent: the clients' list of routes is not beside this checkout")
    nothing = object()
    app = v0_app(mail=nothing, gate=nothing, access=nothing, signer=nothing, clock=nothing, domains=("postroom.localhost",))
    offered = {(method.upper(), shape(path)) for path, item in app.openapi()["paths"].items() for method in item}
    wanted = {
        (route["http_method"], shape(route["path"])): route["sdk_method"]
        for route in json.loads(LIST.read_text(encoding="utf-8"))
        if route["http_method"] in ("GET", "POST", "PATCH", "PUT", "DELETE")
        and shape(route["path"]) not in ("", "/")  # the WebSocket
        and (route["tier"] in ("essential", "recommended") or route["resource"] in BESIDES)
    }
    assert {route for route in wanted if route not in offered} == set()
