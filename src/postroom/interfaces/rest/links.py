"""Links in the OpenAPI document: an id in one answer is what another operation's path takes.

They are worked out from the document itself. An answer that makes or lists something names it
(`inbox_id`, `draft_id`, …); every operation whose last path parameter has that name can follow, if the
rest of its path is known from the same answer or from the request before. Programs and generated tests
walk the API along them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_PARAMETER: Final = re.compile(r"{(\w+)}")
_SOURCES: Final = ("get", "post")
_PLACES: Final = ("inbox_id", "pod_id")  # where a thing is, which is news only from what makes or lists places


def add_links(document: dict[str, Any]) -> dict[str, Any]:
    """The document, its answers linked to what can follow them."""
    operations = list(_operations(document))
    for path, method, operation in operations:
        answer = operation["responses"].get("200")
        if answer is None or method not in _SOURCES:
            continue
        asked = {name: f"$request.path.{name}" for name in _PARAMETER.findall(path)}
        known = _named(document, answer) | asked
        news = known.keys() - asked.keys() - {name for name in _PLACES if f"{path}/{{{name}}}" not in document["paths"]}
        links = {
            target["operationId"]: {"operationId": target["operationId"], "parameters": {name: known[name] for name in wanted}}
            for onward, _, target in operations
            if (wanted := _PARAMETER.findall(onward)) and wanted[-1] in news and known.keys() >= set(wanted)
        }
        if links:
            answer["links"] = links
    return document


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _named(document: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, str]:
    """What the answer names, and where in it: its own ids, or those of the first row of a list."""
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    properties = _properties(document, schema)
    found = {name: f"$response.body#/{name}" for name in properties}
    for name, field in properties.items():
        if field.get("type") == "array":
            found |= {inner: f"$response.body#/{name}/0/{inner}" for inner in _properties(document, field["items"])}
    return found


def _properties(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = document["components"]["schemas"][name].get("properties", {}) if name else {}
    return found
