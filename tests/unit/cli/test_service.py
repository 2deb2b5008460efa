"""The units say who the daemon runs as, because that decides whether the gate is a wall."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pace import PATIENCE_S
from postroom.cli.service import unit
from postroom.errors import Invalid

COMMAND = [sys.executable, "-m", "postroom.cli.main", "service", "install"]
PYTHON = Path("/usr/bin/python3")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)


def test_a_system_service_has_a_user_and_a_folder_of_its_own() -> None:
    lines = unit(PYTHON, system=True).splitlines()
    assert "ExecStart=/usr/bin/python3 -m postroom.cli.main serve --data /var/lib/postroom" in lines
    for line in ("DynamicUser=yes", "StateDirectory=postroom", "StateDirectoryMode=0700", "UMask=0077", "NoNewPrivileges=yes"):
        assert line in lines
    assert lines[-1] == "WantedBy=multi-user.target"


def test_a_service_of_ones_own_runs_as_oneself() -> None:
    text = unit(PYTHON, system=False)
    assert "User=" not in text
    assert text.endswith("WantedBy=default.target\n")


@pytest.mark.parametrize("python", ["/home/ada/.venv/bin/python", "/root/venv/bin/python"])
def test_an_installation_in_somebodys_home_is_no_system_service(python: str) -> None:
    with pytest.raises(Invalid, match="only its owner can read"):
        unit(Path(python), system=True)


@pytest.mark.parametrize("python", ["/opt/my tools/python", "/opt/100%/python"])
def test_a_path_a_unit_cannot_hold_is_refused(python: str) -> None:
    with pytest.raises(Invalid, match="a unit cannot hold"):
        unit(Path(python), system=False)


def test_installing_twice_changes_nothing_and_a_unit_somebody_changed_is_kept(tmp_path: Path) -> None:
    first = json.loads(run("--to", str(tmp_path), "--json").stdout)
    assert first == {
        "unit": str(tmp_path / "postroom.service"),
        "written": True,
        "next": ["systemctl --user daemon-reload", "systemctl --user enable --now postroom"],
        "boundary": "rule",
    }
    assert json.loads(run("--to", str(tmp_path), "--json").stdout)["written"] is False
    (tmp_path / "postroom.service").write_text("[Service]\nExecStart=/bin/true\n")
    refused = run("--to", str(tmp_path))
    assert (refused.returncode, "--force" in refused.stderr) == (1, True)
    assert "/bin/true" in (tmp_path / "postroom.service").read_text()
    assert run("--to", str(tmp_path), "--force").returncode == 0
    assert "/bin/true" not in (tmp_path / "postroom.service").read_text()


@pytest.mark.parametrize("system", [True, False])
def test_systemd_reads_the_unit_without_complaint(tmp_path: Path, system: bool) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        return  # nothing here to ask; its words are checked above
    path = tmp_path / "postroom.service"
    path.write_text(unit(PYTHON, system=system))
    done = subprocess.run([verify, "verify", str(path)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert "Unknown" not in done.stderr
