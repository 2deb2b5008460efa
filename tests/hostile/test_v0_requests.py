"""Generated requests to every operation of `/v0`: none breaks the server or the document that describes it.

Checks left out, each beside the contract's rule it collides with:
- `positive_data_acceptance`: rules the document cannot say (a page token is opaque, a send needs a
  recipient, an attachment has content or url but not both) are the caller's 400.
- `unsupported_method`: a fixed word (`/messages/search`) may also be an id (`/messages/{message_id}`),
  and an id may hold slashes, so a path has the methods of both.
"""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from engines import ENGINES, url_of
from engines import settings as engine_settings
from pace import PATIENCE_S
from served import Served, serving
from unit.interfaces_rest.routes import OPERATIONS, Operation

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]


@pytest.fixture(scope="module", params=ENGINES)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with url_of(request.param) as url, serving(tmp_path_factory.mktemp("house"), engine_settings(url)) as running:
        running.ok("POST", "/v0/inboxes", {"username": "nora"})
        yield running


@pytest.fixture(scope="module")
def document(served: Served) -> schemathesis.BaseSchema:
    found = schemathesis.openapi.from_url(f"{served.url}/openapi.json", headers={"Authorization": f"Bearer {served.owner}"})
    found.config.update(base_url=f"{served.url}/v0")
    return found


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}")
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
def test_an_operation_stays_within_its_description(document, served: Served, operation: Operation, mode, long: bool) -> None:
    cases = document[operation.path][operation.method].as_strategy(generation_mode=mode)

    @settings(max_examples=100 if long else 4, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=cases)
    def run(case: schemathesis.Case) -> None:
        case.call_and_validate(timeout=PATIENCE_S, headers={"Authorization": f"Bearer {served.owner}"}, checks=CHECKS)

    run()
