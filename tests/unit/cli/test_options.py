"""What `serve` takes, and the line it prints."""

from pathlib import Path

import pytest

from postroom.cli.options import read_address, ready_line, serve_options
from postroom.client import data_folder
from postroom.errors import Invalid


def options(tmp_path: Path, environ: dict[str, str] | None = None, **given):
    asked = {"config": None, "data": tmp_path, "http": "127.0.0.1:4470", "smtp": "127.0.0.1:2525"}
    return serve_options(**(asked | given), environ=environ or {})


def test_the_defaults(tmp_path: Path):
    found = options(tmp_path)
    assert (found.config_path, found.data, found.http, found.smtp) == (None, tmp_path, ("127.0.0.1", 4470), ("127.0.0.1", 2525))


def test_the_config_file_is_the_given_then_the_environments_then_the_folders(tmp_path: Path):
    (tmp_path / "postroom.toml").touch()
    assert options(tmp_path).config_path == tmp_path / "postroom.toml"
    assert options(tmp_path, {"POSTROOM_CONFIG": "/b.toml"}).config_path == Path("/b.toml")
    assert options(tmp_path, {"POSTROOM_CONFIG": "/b.toml"}, config=Path("/a.toml")).config_path == Path("/a.toml")


def test_smtp_may_be_off(tmp_path: Path):
    assert options(tmp_path, smtp="off").smtp is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("localhost:65535", ("localhost", 65535)),
        ("[::1]:4470", ("::1", 4470)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]):
    assert read_address(text, "--http") == address


@pytest.mark.parametrize(
    "text", ["", "4470", ":4470", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "::1:4470", "a:65536", "a:-1", "a:٣", "off", "[]:1"]
)
def test_what_is_no_address_names_the_option(text: str):
    with pytest.raises(Invalid, match="--smtp takes HOST:PORT"):
        read_address(text, "--smtp")


def test_the_ready_line():
    assert ready_line(("127.0.0.1", 4470), ("127.0.0.1", 2525)) == "postroom ready http://127.0.0.1:4470 smtp://127.0.0.1:2525"
    assert ready_line(("::1", 1), None) == "postroom ready http://[::1]:1 smtp://off"


def test_the_data_folder_is_the_given_then_the_environments_then_the_platforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    environ = {"POSTROOM_DATA": "/data", "XDG_DATA_HOME": str(tmp_path)}
    assert data_folder(Path("/given"), environ) == Path("/given")
    assert data_folder(None, environ) == Path("/data")
    monkeypatch.setattr("sys.platform", "linux")
    assert data_folder(None, {"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "postroom"
    assert data_folder(None, {}) == Path.home() / ".local/share/postroom"
    monkeypatch.setattr("sys.platform", "darwin")
    assert data_folder(None, {}) == Path.home() / "Library/Application Support/postroom"
