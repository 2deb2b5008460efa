"""Does a connected profile of DSH reach the service? The plugin's key is tried, then the runtime itself.

The runtime is started with the profile as it is, but for the plugin's parts, which are left out: nothing can
start a turn. All the plugin does then is ask the daemon what it has to know, and write that down; here, into
a file of the probe's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from postroom.cli.connect.dsh import home_of, row_in
from postroom.client import Client
from postroom.errors import Forbidden, PostroomError, TransportFailure, Unauthorized

ONE_SHOT: Final = frozenset({"headless"})  # profiles that run with a task only
_WAIT_S: Final = 60.0
_STEP_S: Final = 0.1
_SAID_CHARS: Final = 300
_NOTHING: Final = {"prompt": "", "prefix": "", "tools": [], "asks": [], "commands": []}


def profiles(home: Path | None = None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The profiles that were connected, and what their plugin is told."""
    for patch in sorted((home_of(home) / "profiles").glob("*/cordis.patch.yml")):
        with contextlib.suppress(OSError, ValueError):
            if (row := row_in(patch.read_text(encoding="utf-8"))) is not None:
                yield patch.parent.name, row


def reached(profile: str, row: Mapping[str, Any], home: Path | None = None) -> str:
    """What was found. Raises `TransportFailure`, with what to do."""
    again = f"postroom connect dsh --profile {profile}"
    place, config = home_of(home), row["config"]
    if not Path(row["name"]).is_file():
        raise TransportFailure("its plugin is not where it was", kind="permanent", fix=f"connect it again: {again}")
    manifest = _asked(config, again)
    told = f"{len(manifest['tools'])} tools; its key is good at {config['url']}"
    if profile in ONE_SHOT:
        return f"{told}; it runs with a task only, so it was not started"
    if (program := shutil.which("dsh")) is None:
        raise TransportFailure("there is no dsh on the PATH to start it with", kind="permanent", fix="put it on the PATH")
    _start(program, profile, row, manifest=manifest, home=place)
    return f"{told}; started, and its plugin reached the daemon"


def _asked(config: Mapping[str, Any], again: str) -> Mapping[str, Any]:
    try:
        key = Path(config["token"]).read_text(encoding="ascii").strip()
        manifest: Mapping[str, Any] = Client(config["url"], key).post("/bridge/manifest", {})
    except (OSError, ValueError):
        raise TransportFailure("its key is gone", kind="permanent", fix=f"connect it again: {again}") from None
    except (Unauthorized, Forbidden):
        raise TransportFailure("its key is not good any more", kind="permanent", fix=f"connect it again: {again}") from None
    except TransportFailure:
        fix = f"start it there: postroom serve; or, if it listens elsewhere now: {again}"
        raise TransportFailure(f"nothing answers at {config['url']}", kind="temporary", fix=fix) from None
    except PostroomError as problem:
        raise TransportFailure(problem.message, kind="temporary", fix="look at the daemon first") from None
    return manifest


def _command(program: str, profile: str, patch: Path) -> Sequence[str]:
    """`web` has a command of its own; other profiles speak on their pipes, and nobody says anything."""
    if profile == "web":
        return [program, "web", "--patch", str(patch), "--no-open", "--port", "0"]
    return [program, "--profile", profile, "--patch", str(patch)]


def _start(program: str, profile: str, row: Mapping[str, Any], *, manifest: Mapping[str, Any], home: Path) -> None:
    """Start the runtime and wait until its plugin has written down what the daemon told it."""
    with tempfile.TemporaryDirectory(prefix="postroom-doctor-") as folder:
        heard, patch = Path(folder) / "heard.json", Path(folder) / "patch.yml"
        heard.write_text(json.dumps(_NOTHING), encoding="utf-8")
        config = {**row["config"], "manifest": str(heard), "parts": []}
        patch.write_text(f"- {json.dumps({'id': row['id'], 'config': config})}\n", encoding="utf-8")
        environment = {**os.environ, "DSH_HOME": str(home), "DSH_TELEMETRY_MODE": "DISABLED"}
        with (Path(folder) / "said").open("w+", encoding="utf-8", errors="replace") as said:
            child = subprocess.Popen(  # noqa: S603 - the person's own dsh
                _command(program, profile, patch),
                stdin=subprocess.PIPE, stdout=said, stderr=said, cwd=folder, env=environment, start_new_session=True,
            )  # fmt: skip
            try:
                problem = _listen(child, heard, manifest)
            finally:
                _end(child)
            said.seek(0)
            if problem:
                last = " ".join(said.read().split())[-_SAID_CHARS:] or "nothing"
                raise TransportFailure(problem, kind="permanent", fix=f"start it by hand and look; it said: {last}")


def _listen(child: subprocess.Popen[bytes], heard: Path, manifest: Mapping[str, Any]) -> str:
    """ "" once the plugin wrote down what the daemon told it, else what is wrong."""
    end = time.monotonic() + _WAIT_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            if json.loads(heard.read_text(encoding="utf-8")) == manifest:
                return ""
        if child.poll() is not None:
            return "dsh ended by itself"
        time.sleep(_STEP_S)
    return f"dsh started, but its plugin did not reach the daemon in {_WAIT_S:.0f} s"


def _end(child: subprocess.Popen[bytes]) -> None:
    """The runtime and all it started."""
    if child.stdin is not None:
        child.stdin.close()
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(5)
            return
