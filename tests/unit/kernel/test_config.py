"""The config is a promise: its defaults, its errors, and the sample file that documents it."""

import dataclasses
from pathlib import Path

import pytest

from postroom import config
from postroom.config.checks import INBOUND_EVENTS
from postroom.errors import Invalid
from postroom.model import event as kinds

ROOT = Path(__file__).resolve().parents[3]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "postroom.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_sample_file_loads_and_spells_out_the_defaults():
    loaded = config.load(ROOT / "config.sample.toml", {})
    assert loaded == config.Config()


def test_the_sample_file_names_every_key():
    text = (ROOT / "config.sample.toml").read_text(encoding="utf-8")
    for section in dataclasses.fields(config.Config):
        kind = config.Agent if section.name == "agents" else type(getattr(config.Config(), section.name))
        for key in dataclasses.fields(kind):
            if (section.name, key.name) == ("reader", "accounts"):
                assert "[[reader.accounts]]" in text
                continue
            assert f"\n{key.name} = " in text or f"\n# {key.name} = " in text, f"{section.name}.{key.name}"


def test_the_promised_defaults_hold():
    loaded = config.load(None, {})
    assert dataclasses.asdict(loaded.gate) == {
        "read_only": False,
        "approval": "always",
        "limit": (),
        "trusted": (),
        "blocked": (),
        "expires_h": 24,
        "harness_approvals": "auto",
        "bcc": False,
        "max_sends_per_day": 500,
        "max_new_recipients_per_day": 100,
    }
    assert (loaded.inbound.authserv_id, loaded.inbound.dns) == ("", "off")
    assert loaded.office.domains == ("postroom.localhost",)
    assert loaded.inbound.wake_idle_agent is False
    assert (loaded.sessions.prefix, loaded.sessions.fallback_session) == ("agentmail-", "agentmail-inbox")
    assert (loaded.reader.accounts, loaded.reader.max_result_chars) == ((), 60000)
    assert loaded.view.max_body_chars == 8000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[gate]\naproval = 'risk'", "unknown config key gate.aproval; did you mean approval?"),
        ("[gates]\n", "unknown config key gates; did you mean gate?"),
        ("[gate]\napproval = 'never'", "gate.approval must be one of always, risk"),
        ("[inbound]\ndns = 'ns.example'", 'inbound.dns must be "off", "system" or the address of a name server'),
        (
            "[inbound]\nevent_types = ['message.recieved']",
            f"inbound.event_types: 'message.recieved' is none of {', '.join(INBOUND_EVENTS)}",
        ),
        ("[gate]\nlimit = 'a@b.example'", "gate.limit must be a list"),
        ("[relay]\nport = '25'", "relay.port must be a whole number"),
        ("[relay]\nport = -1", "relay.port must not be negative"),
        ("[gate]\nread_only = 1", "gate.read_only must be true or false"),
        ("[relay]\nhost = 'mx.example.org'\ntls = 'off'", 'relay.tls = "off" is allowed to a loopback relay only'),
        ("[office]\ndomains = []", "office.domains must name at least one domain"),
        ('[office]\ndomains = ["a.org", "b c"]', "office.domains: 'b c' is not a domain"),
        *(
            (
                f'[office]\nurl = "{url}"\nkey = "env:K"',
                "office.url is https://HOST or https://HOST:PORT and no more; http:// is for loopback",
            )
            for url in ("http://api.agentmail.to", "https://a.example/x", "https://u@a.example", "https://a.example?x", "ftp://a")
        ),
        ('[office]\nurl = "https://api.agentmail.to"', "office.key is given by reference"),
        ('[office]\nurl = "https://api.agentmail.to"\nkey = "am_secret"', "office.key is given by reference"),
        ('[office]\ndomains = ["-a.org"]', "office.domains: '-a.org' is not a domain"),
        ("[relay]\nport = 99999", "relay.port must be between 1 and 65535"),
        ("[gate]\nexpires_h = nan", "gate.expires_h must be a number below 9007199254740992"),
        ("[gate]\nexpires_h = inf", "gate.expires_h must be a number below 9007199254740992"),
        ("[view]\nmax_body_chars = 0", "view.max_body_chars must be more than 0"),
        ("[inbound]\npoll_interval_s = 0", "inbound.poll_interval_s must be more than 0"),
        ("[gate]\nexpires_h = 90000", "gate.expires_h must be at most 87600, ten years"),
        ("[store]\nurl = 'mysql://x'", "store.url must be empty or start with postgresql://"),
        ("[[reader.accounts]]\nid = 'a'\nprovider = 'pop3'", "reader.accounts[0].provider must be one of gmail, outlook, imap"),
        ("[[reader.accounts]]\nprovider = 'imap'", "reader.accounts[0].id is required"),
        ("[agents.scout]\nwakes = true", "unknown config key agents.scout.wakes; did you mean wake?"),
        ("[agents.scout]\nturn_s = 0", "agents.scout.turn_s must be more than 0"),
        ("[agents.scout]\nhost = 'acp'", "agents.scout.command is required: what to start"),
        ("gate = 3", "gate must be a table"),
    ],
)
def test_a_wrong_key_or_value_is_named(tmp_path: Path, text: str, message: str):
    with pytest.raises(Invalid) as caught:
        config.load(written(tmp_path, text), {})
    assert caught.value.message == message


def test_every_kind_of_event_that_brings_mail_or_tells_of_a_failure_may_be_named():
    assert set(INBOUND_EVENTS) == kinds.INBOUND | set(kinds.FAILURES)


def test_a_config_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(Invalid, match="is not valid TOML"):
        config.load(written(tmp_path, "[gate"), {})
    with pytest.raises(Invalid, match="there is no config file at"):
        config.load(tmp_path / "absent.toml", {})
    with pytest.raises(Invalid, match="cannot be read: Is a directory"):
        config.load(tmp_path, {})


def test_the_environment_sets_any_key_with_its_type(tmp_path: Path):
    loaded = config.load(
        written(tmp_path, "[gate]\nexpires_h = 1"),
        {
            "POSTROOM_GATE__EXPIRES_H": "2.5",
            "POSTROOM_GATE__LIMIT": '["a@b.example"]',
            "POSTROOM_RELAY__PORT": "2525",
            "POSTROOM_RELAY__HOST": "127.0.0.1",
            "POSTROOM_INBOUND__WAKE_IDLE_AGENT": "true",
            "POSTROOM_AGENTS__SCOUT__HOST": "command",
            "POSTROOM_AGENTS__SCOUT__WAKE": "false",
            "POSTROOM_URL": "http://127.0.0.1:1",
        },
    )
    assert (loaded.gate.expires_h, loaded.gate.limit) == (2.5, ("a@b.example",))
    assert (loaded.relay.port, loaded.relay.host) == (2525, "127.0.0.1")
    assert loaded.inbound.wake_idle_agent is True
    assert loaded.agents["scout"] == config.Agent(host="command", wake=False)


def test_the_environment_cannot_name_an_unknown_section():
    with pytest.raises(Invalid, match=r"POSTROOM_GAET__LIMIT names no section of the config; did you mean gate\?"):
        config.load(None, {"POSTROOM_GAET__LIMIT": "[]"})


def test_secrets_are_references_and_never_echoed(tmp_path: Path):
    held = tmp_path / "secret"
    held.write_text("from-file\n", encoding="utf-8")
    assert config.resolve_secret("env:RELAY", {"RELAY": "from-env"}) == "from-env"
    assert config.resolve_secret(f"file:{held}") == "from-file"
    assert config.resolve_secret("") == ""
    held.write_bytes(b"\xff\xfe")
    with pytest.raises(Invalid, match="is not UTF-8 text"):
        config.resolve_secret(f"file:{held}")
    with pytest.raises(Invalid) as caught:
        config.resolve_secret("hunter2")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(Invalid, match="the environment variable RELAY is not set"):
        config.resolve_secret("env:RELAY", {})
