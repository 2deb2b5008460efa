"""Walks through `/v0` along the document's links: what one answer names, the next request uses. On both engines.

A walk makes an inbox, sends to it, answers, labels, deletes, and asks again for what it deleted. The
checks are those of the single requests (see `test_v0_requests`) and two that need a history:
`use_after_free` and `ensure_resource_availability`. Left out for the same rules of the contract as there:
`positive_data_acceptance` and `unsupported_method`.
"""

import contextlib
import http.client
import json
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, seed, settings
from hypothesis.errors import FlakyStrategyDefinition
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import ensure_resource_availability, use_after_free

from engines import ENGINES, url_of
from engines import settings as engine_settings
from hostile.test_v0_requests import CHECKS
from pace import PATIENCE_S
from postroom.model.principal import DEFAULT_POD
from served import Served, serving
from unit.interfaces_rest.routes import OPERATIONS, Operation

INBOX = "nora@postroom.localhost"
SENDS = ("/messages/send", "/reply", "/reply-all", "/forward", "/drafts")
WITH_HISTORY = [use_after_free, ensure_resource_availability]
FAMILIES = {
    "mail": r"^/inboxes(/\{inbox_id\}(/(messages|threads|drafts).*)?)?$",
    "rest": r"^/(pods|threads|drafts|lists|webhooks|domains|api-keys|metrics)|^/inboxes/\{inbox_id\}/(lists|webhooks|events|api-keys|metrics)",
}  # apart, so that a short walk gets far


@pytest.fixture(scope="module", params=ENGINES)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with url_of(request.param) as url, serving(tmp_path_factory.mktemp("house"), engine_settings(url)) as running:
        running.ok("POST", "/v0/inboxes", {"username": "nora"})
        for number in range(3):
            file = {"filename": "a.txt", "content": "YWJj"}
            body = {"to": INBOX, "subject": f"hi {number}", "text": "yes", "attachments": [file]}
            running.ok("POST", f"/v0/inboxes/{INBOX}/messages/send", body)
        yield running


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("family", FAMILIES)
def test_walks_along_the_documents_links_find_nothing(served: Served, family: str, long: bool) -> None:
    key = {"Authorization": f"Bearer {served.owner}"}
    document = schemathesis.openapi.from_url(f"{served.url}/openapi.json", headers=key)
    document.config.update(base_url=f"{served.url}/v0")
    document = document.include(path_regex=FAMILIES[family])
    reached: set[str] = set()
    findings: list[str] = []

    class Walk(document.as_state_machine()):  # type: ignore[misc]  # made for this document
        def before_call(self, case: schemathesis.Case) -> None:
            if case.meta is not None and case.meta.generation.mode is schemathesis.GenerationMode.POSITIVE:
                _make_sensible(case)

        def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, object]:
            return {"headers": key, "timeout": PATIENCE_S}

        def validate_response(self, response: schemathesis.Response, case: schemathesis.Case, **more: object) -> None:
            if response.status_code < 300:
                reached.add(f"{case.method} {case.path}")
            try:
                case.validate_response(response, checks=[*CHECKS, *WITH_HISTORY], headers=key)
            except FailureGroup as found:
                findings.append("\n".join(str(failure) for failure in found.exceptions))

    limits = settings(
        max_examples=4, stateful_step_count=12, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    for number in range(50 if long else 3):
        with contextlib.suppress(FlakyStrategyDefinition):  # the house remembers earlier walks: none repeats exactly
            seed(number)(Walk).run(settings=limits)
    assert findings == []
    assert len(reached) >= 3, sorted(reached)


def _make_sensible(case: schemathesis.Case) -> None:
    """Valid requests that name nothing we have end at the first door: name the house's inbox, and write to it."""
    named = case.path_parameters
    if "pod_id" in named:
        named["pod_id"] = DEFAULT_POD
    if "inbox_id" in named and not str(named["inbox_id"]).endswith("@postroom.localhost"):
        named["inbox_id"] = INBOX
    if case.path.endswith(SENDS) and isinstance(case.body, dict):
        case.body = {"to": [INBOX], "text": "on we go"}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}")
def test_without_a_token_an_operation_answers_401(served: Served, operation: Operation) -> None:
    path = operation.path.replace("{inbox_id}", INBOX).replace("{", "").replace("}", "")
    with contextlib.closing(http.client.HTTPConnection(served.host, served.port, timeout=PATIENCE_S)) as connection:
        for headers in ({}, {"Authorization": "Bearer am_0000000000000000_wrong"}, {"Authorization": f"Basic {served.owner}"}):
            connection.request(operation.method, f"/v0{path}", "{}", headers | {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = json.loads(answer.read())
            assert (answer.status, body["name"] != "", body["message"] != "") == (401, True, True)
