"""A program's terminal interface, in a tmux of its own."""

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pace import PATIENCE_S
from served import eventually


class Terminal:
    """Runs the program until closed. What is typed and shown goes through tmux."""

    def __init__(self, folder: Path, command: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("no tmux here")
        self._socket = folder / "tmux"
        given = [f"{name}={value}" for name, value in environment.items()]
        line = shlex.join(["env", "-i", *given, *command])
        self._tmux("new-session", "-d", "-s", "one", "-x", "150", "-y", "45", "-c", str(cwd), line)

    def shows(self, text: str) -> None:
        """Wait until the screen holds this text."""
        eventually(lambda: text in self.screen())

    def screen(self) -> str:
        """What can be seen."""
        return self._tmux("capture-pane", "-p", "-t", "one")

    def type(self, text: str) -> None:
        """Type a line, wait until it stands there, and send it off."""
        self._tmux("send-keys", "-t", "one", "-l", text)
        self.shows(text)
        self._tmux("send-keys", "-t", "one", "Enter")

    def close(self) -> None:
        """End the program and its terminal."""
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(["tmux", "-S", str(self._socket), *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
        return done.stdout
