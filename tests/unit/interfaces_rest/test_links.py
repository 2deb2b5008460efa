"""Links in the document: what one answer names, other operations take."""

import pytest

from unit.interfaces_rest.conftest import application


@pytest.fixture(scope="module")
def document():
    return application().openapi()


def links(document, method: str, path: str) -> dict[str, dict[str, str]]:
    ids = {
        operation["operationId"]: f"{verb} {target}"
        for target, methods in document["paths"].items()
        for verb, operation in methods.items()
    }
    found = document["paths"][path][method]["responses"]["200"].get("links", {})
    return {ids[link["operationId"]]: link["parameters"] for link in found.values()}


def test_a_new_inbox_leads_to_everything_in_it(document) -> None:
    found = links(document, "post", "/inboxes")
    assert found["get /inboxes/{inbox_id}"] == {"inbox_id": "$response.body#/inbox_id"}
    assert found["post /inboxes/{inbox_id}/messages/send"] == {"inbox_id": "$response.body#/inbox_id"}


def test_a_sent_message_is_found_in_the_inbox_it_was_sent_from(document) -> None:
    found = links(document, "post", "/inboxes/{inbox_id}/messages/send")
    assert found["post /inboxes/{inbox_id}/messages/{message_id}/reply"] == {
        "inbox_id": "$request.path.inbox_id",
        "message_id": "$response.body#/message_id",
    }
    assert found["get /threads/{thread_id}"] == {"thread_id": "$response.body#/thread_id"}


def test_a_list_leads_to_its_first_row(document) -> None:
    found = links(document, "get", "/drafts")
    assert found["get /inboxes/{inbox_id}/drafts/{draft_id}"] == {
        "inbox_id": "$response.body#/drafts/0/inbox_id",
        "draft_id": "$response.body#/drafts/0/draft_id",
    }


def test_every_link_names_an_operation_and_all_of_its_path(document) -> None:
    wanted = {
        operation["operationId"]: {row["name"] for row in operation.get("parameters", ()) if row["in"] == "path"}
        for methods in document["paths"].values()
        for operation in methods.values()
    }
    for methods in document["paths"].values():
        for operation in methods.values():
            for link in operation["responses"].get("200", {}).get("links", {}).values():
                assert set(link["parameters"]) == wanted[link["operationId"]]
