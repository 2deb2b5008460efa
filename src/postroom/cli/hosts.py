"""What postroom starts for an agent must be here: the program, its folder, and the extra that speaks to it. For `postroom doctor`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from postroom import config


def missing(agents: Mapping[str, config.Agent]) -> Iterator[tuple[str, str]]:
    """Agents whose sessions cannot be run, and why."""
    for name, agent in agents.items():
        if reason := _missing(agent):
            yield name, f"its host is {agent.host}, {reason}"


def _missing(agent: config.Agent) -> str:
    if agent.host == "dsh":
        there = find_spec("deepseek_harness_runtime") is not None or shutil.which("dsh") is not None
        return "" if there else "which is not here; run: pip install 'postroom[dsh]'"
    if agent.host == "acp" and find_spec("acp") is None:
        return "whose library is not here; run: pip install 'postroom[acp]'"
    if agent.host in ("acp", "command"):
        return _unstartable(agent)
    return "which does not exist; there are acp, command and dsh" if agent.host else ""


def _unstartable(agent: config.Agent) -> str:
    """Why its command cannot be started, as far as that can be seen."""
    if agent.cwd and not Path(agent.cwd).is_dir():
        return f"and its cwd {agent.cwd} is no folder"
    if not agent.command:
        return "and no command is set"
    program = agent.command[0]
    if "/" in program:
        program = str(Path(agent.cwd) / program)
    return "" if shutil.which(program) else f"and the program {agent.command[0]} is not here; install it, or correct the command"
