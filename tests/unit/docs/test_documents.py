"""The documents cannot rot: files they name exist, dependencies have their line, no machine or host is named."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md"]
ROOMS = {path.name for path in (ROOT / "src" / "postroom").iterdir()}
PATH = re.compile(r"`([\w./-]+/[\w./-]*|[\w-]+\.(?:py|md|toml|txt))`")


def places(text: str) -> set[str]:
    """Paths named in backticks, without those that are HTTP paths or patterns."""
    return {found for found in PATH.findall(text) if not found.startswith(("/", ".venv")) and "*" not in found}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_file_a_document_names_exists(name: str):
    missing = []
    for place in sorted(places((ROOT / name).read_text(encoding="utf-8"))):
        here = [ROOT / place, ROOT / "src" / "postroom" / place, ROOT / "src" / place]
        if not any(path.exists() for path in here):
            missing.append(place)
    assert missing == []


def test_every_dependency_has_its_line_in_the_architecture():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted += extra
    names = {re.split(r"[<>=\[;! ]", entry)[0].lower() for entry in wanted}
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").lower()
    table = text[text.index("## dependencies") :]
    assert {name for name in names if name not in table} == set()


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts and ".git" not in path.parts]
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_file_names_a_registry_or_this_machine():
    hosts = ["pypi" + ".org", "python" + "hosted.org", "registry." + "npmjs", "deb." + "debian.org", "/wo" + "rk/", "/fa" + "rm/"]
    found = []
    for path in tracked():
        text = path.read_bytes()
        found += [f"{path.relative_to(ROOT)}: {host}" for host in hosts if host.encode() in text]
    assert found == []
