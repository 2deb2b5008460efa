"""Errors and exit statuses: one table, total; every ending is a number, none a stack trace."""

import inspect
import json
import os
import sys

import pytest

from postroom import errors
from postroom.cli.exits import BY_CLASS, ending, status_of, tell
from postroom.cli.main import run

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.PostroomError)]
MORE = {errors.TransportFailure: {"kind": "permanent"}}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_has_its_own_row(kind: type[errors.PostroomError]):
    assert kind in {row[0] for row in BY_CLASS} or kind is errors.TooLarge
    assert status_of(kind("m", **MORE.get(kind, {}))) in (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.PostroomError("m"), 1),
        (errors.Conflict("m"), 1),
        (errors.InUse("m"), 1),
        (errors.Forbidden("m", code="already_exists"), 1),
        (errors.Invalid("m"), 2),
        (errors.TooLarge("m"), 2),
        (errors.Refused("m"), 3),
        (errors.Forbidden("m"), 3),
        (errors.Unauthorized("m"), 3),
        (errors.NotFound("m"), 4),
        (errors.Busy("m"), 5),
        (errors.StorageFailure("m"), 5),
        (errors.TransportFailure("m", kind="temporary"), 5),
        (errors.TransportFailure("m", kind="permanent"), 1),
        (errors.TransportFailure("m", kind="uncertain"), 1),
    ],
)
def test_the_exit_statuses_scripts_rely_on(error: errors.PostroomError, status: int):
    assert status_of(error) == status


def test_an_error_is_told_on_stderr_with_what_to_do_next(capsys: pytest.CaptureFixture[str]):
    assert tell(errors.NotFound("no such agent", fix="list them"), as_json=False) == 4
    assert capsys.readouterr() == ("", "postroom: no such agent\n  list them\n")
    tell(errors.Refused("no", details={"addresses": ["a@x"]}), as_json=True)
    assert json.loads(capsys.readouterr().err) == {"code": "message_rejected", "message": "no", "fix": None, "addresses": ["a@x"]}


def raising(problem: BaseException):
    def run() -> int:
        raise problem

    return run


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (lambda: 0, 0),
        (lambda: 3, 3),
        (raising(SystemExit(2)), 2),
        (raising(SystemExit(None)), 0),
        (raising(SystemExit("words")), 1),
        (raising(KeyboardInterrupt()), 130),
        (raising(errors.Invalid("m")), 2),
        (raising(ZeroDivisionError("secret")), 1),
        (raising(FileExistsError(17, "File exists", "/house")), 1),
    ],
)
def test_every_way_to_end_is_a_status(run, status: int, capsys: pytest.CaptureFixture[str]):
    assert ending(run, as_json=False) == status
    assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (FileExistsError(17, "File exists", "/house"), "/house: File exists"),
        (IsADirectoryError(21, "Is a directory", 24), "Is a directory"),
        (OSError("odd"), "OSError"),
        (ZeroDivisionError("secret"), "something went wrong (ZeroDivisionError)"),
    ],
)
def test_whatever_went_wrong_is_one_document_for_programs(problem: Exception, message: str, capsys: pytest.CaptureFixture[str]):
    ending(raising(problem), as_json=True)
    assert json.loads(capsys.readouterr().err)["message"] == message


def test_a_fault_shows_its_trace_only_when_asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("POSTROOM_DEBUG", "1")
    ending(raising(ZeroDivisionError("details")), as_json=False)
    assert "ZeroDivisionError: details" in capsys.readouterr().err


def test_a_reader_that_has_had_enough_is_no_failure(monkeypatch: pytest.MonkeyPatch):
    read, write = os.pipe()
    with os.fdopen(write, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert ending(raising(BrokenPipeError()), as_json=False) == 0
    os.close(read)


@pytest.mark.parametrize(
    ("command", "message", "fix"),
    [
        ("held list --nope", "No such option: --nope", "add --help to see what the command takes"),
        ("frob", "No such command 'frob'.", "add --help to see what the command takes"),
        ("mailbox send", "the following arguments are required: to", "see postroom mailbox send --help"),
        ("mailbox send bob --thr x", "unrecognized arguments: --thr x", "see postroom mailbox --help"),
        ("wait --mail --nope", "unrecognized arguments: --nope", "see postroom wait --help"),
    ],
)
def test_wrong_usage_is_an_error_like_any_other(command: str, message: str, fix: str, capsys: pytest.CaptureFixture[str]):
    assert ending(lambda: run([*command.split(), "--json"]), as_json=True) == 2
    assert json.loads(capsys.readouterr().err) == {"code": "usage", "message": message, "fix": fix, "errors": []}
