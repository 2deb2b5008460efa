"""One TOML file and the environment become one frozen `Config`.

Any key can be set as `POSTROOM_SECTION__KEY` (lists and tables as JSON). An unknown key is an
error naming the nearest known one. Secrets are references (`env:NAME`, `file:PATH`,
`keyring:NAME`), resolved where they are used and never echoed. Defaults are a promise (a test).
"""

from postroom.config.reading import load
from postroom.config.secrets import resolve_secret
from postroom.config.shapes import (
    Agent,
    Config,
    Gate,
    Inbound,
    Mailbox,
    Office,
    Reader,
    ReaderAccount,
    Relay,
    Sessions,
    Storage,
    View,
)

__all__ = [
    "Agent",
    "Config",
    "Gate",
    "Inbound",
    "Mailbox",
    "Office",
    "Reader",
    "ReaderAccount",
    "Relay",
    "Sessions",
    "Storage",
    "View",
    "load",
    "resolve_secret",
]
