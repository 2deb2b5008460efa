"""`postroom doctor` names what an agent's sessions lack before a mail does."""

import sys

import pytest

from postroom import config
from postroom.cli import hosts

HERE = (sys.executable, "agent.py")


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (config.Agent(), []),
        (config.Agent(host="acp", command=HERE), []),
        (config.Agent(host="command", command=("sh", "-c", "true")), []),
        (
            config.Agent(host="acp", command=("no-such-agent", "acp")),
            ["its host is acp, and the program no-such-agent is not here; install it, or correct the command"],
        ),
        (config.Agent(host="command"), ["its host is command, and no command is set"]),
        (config.Agent(host="acp", command=HERE, cwd="/no/such"), ["its host is acp, and its cwd /no/such is no folder"]),
        (config.Agent(host="apc", command=HERE), ["its host is apc, which does not exist; there are acp, command and dsh"]),
    ],
)
def test_what_an_agents_host_lacks_is_said(agent: config.Agent, said: list[str]):
    assert [reason for _, reason in hosts.missing({"scout": agent})] == said


def test_a_program_named_by_a_path_is_looked_for_where_the_agent_works(tmp_path):
    (tmp_path / "agent").write_text("#!/bin/sh\n", encoding="utf-8")
    agent = config.Agent(host="acp", command=("./agent",), cwd=str(tmp_path))
    assert len(list(hosts.missing({"scout": agent}))) == 1
    (tmp_path / "agent").chmod(0o700)
    assert list(hosts.missing({"scout": agent})) == []


def test_without_its_library_acp_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("postroom.cli.hosts.find_spec", lambda name: None)
    agent = config.Agent(host="acp", command=HERE)
    ((name, reason),) = hosts.missing({"scout": agent})
    assert (name, reason) == ("scout", "its host is acp, whose library is not here; run: pip install 'postroom[acp]'")
