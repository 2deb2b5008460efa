"""What a config that was read again says that is new."""

from postroom.config import Agent, Config, Gate, Inbound
from postroom.config.changes import changed, is_live


def test_the_keys_that_differ_are_named_as_the_file_writes_them():
    before = Config(agents={"scout": Agent(host="dsh"), "gone": Agent(wake=True)})
    after = Config(
        gate=Gate(limit=("@a.example",)),
        inbound=Inbound(wake_idle_agent=True),
        agents={"scout": Agent(host="dsh", wake=True), "new": Agent(host="command", wake=False)},
    )
    found = changed(before, after)
    assert set(found) == {
        "gate.limit", "inbound.wake_idle_agent", "agents.scout.wake", "agents.gone.wake", "agents.new.host", "agents.new.wake",
    }  # fmt: skip
    assert changed(after, after) == ()
    assert [key for key in found if not is_live(key)] == ["gate.limit", "agents.new.host"]
