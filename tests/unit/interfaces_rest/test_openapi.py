"""Our OpenAPI document offers every operation the official clients' essential and recommended methods call."""

import pytest

from unit.interfaces_rest.conftest import application
from unit.interfaces_rest.routes import OPERATIONS


@pytest.fixture(scope="module")
def document():
    return application().openapi()


def test_every_operation_is_offered_and_no_other(document) -> None:
    offered = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert offered == {(operation.method, operation.path) for operation in OPERATIONS}


def test_every_error_has_the_one_shape(document) -> None:
    shapes = {
        answer["content"]["application/json"]["schema"]["$ref"]
        for methods in document["paths"].values()
        for operation in methods.values()
        for status, answer in operation["responses"].items()
        if int(status) >= 400
    }
    assert shapes == {"#/components/schemas/Problem"}


def test_every_path_parameter_is_declared(document) -> None:
    for path, methods in document["paths"].items():
        named = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        for operation in methods.values():
            declared = {row["name"] for row in operation.get("parameters", ()) if row["in"] == "path"}
            assert declared == named, path
