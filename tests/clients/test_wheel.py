"""A wheel of this tree, installed where nothing else of ours is: what is not a Python module is in it, too."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from pace import PATIENCE_S
from served import clean_environment

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path = ROOT, **environ: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=cwd,
        env={**clean_environment(), **environ},
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; its dependencies are lent by this one, so that nothing is downloaded."""
    place = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place / "dist")
    (wheel,) = (place / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", place / "venv")
    python = place / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet")
    run(*pip, "install", "--no-deps", "--no-index", wheel)
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return place / "venv"


def test_the_bridge_and_every_other_file_of_the_package_are_in_the_wheel(installed):
    found = Path(run(installed / "bin" / "python", "-c", "import postroom; print(postroom.__file__)").strip()).parent
    assert found.is_relative_to(installed)
    source = ROOT / "src" / "postroom"
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert Path("bridge/bridge.mjs") in files
    assert Path("bridge/package.json") in files
    assert sorted(str(path) for path in files if not (found / path).is_file()) == []


def test_connect_dsh_prints_a_block_that_names_the_bridge_in_the_wheel(installed, tmp_path):
    told = run(
        installed / "bin" / "postroom",
        *("connect", "dsh", "--profile", "web", "--print"),
        cwd=tmp_path,
        POSTROOM_DATA=str(tmp_path / "none"),
        DSH_HOME=str(tmp_path / "dsh"),
        PATH=os.environ["PATH"],
    )
    (line,) = [line for line in told.splitlines() if line.startswith("- insert: ")]
    (row,) = json.loads(line.removeprefix("- insert: "))
    bridge = Path(row["name"])
    assert bridge.is_relative_to(installed)
    assert bridge.is_file()
    assert json.loads(bridge.with_name("package.json").read_text(encoding="utf-8"))["main"] == bridge.name
