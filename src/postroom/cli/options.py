"""What `postroom serve` was asked to do, checked; and the one line it says when it is ready."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from postroom.client import data_folder
from postroom.errors import Invalid

Address: TypeAlias = tuple[str, int]

HTTP: Final = "127.0.0.1:4470"
SMTP: Final = "127.0.0.1:2525"
_PORTS: Final = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """`smtp` None: no SMTP door. `config_path` None: no file, defaults and environment only."""

    config_path: Path | None
    data: Path
    http: Address
    smtp: Address | None


def serve_options(
    *, config: Path | None, data: Path | None, http: str, smtp: str, environ: Mapping[str, str] = os.environ
) -> ServeOptions:
    """The options from the command line, with the environment's and the folder's config file."""
    folder = data_folder(data, environ)
    path = config or (Path(environ["POSTROOM_CONFIG"]) if environ.get("POSTROOM_CONFIG") else None)
    if path is None and (folder / "postroom.toml").exists():
        path = folder / "postroom.toml"
    return ServeOptions(
        config_path=path,
        data=folder,
        http=read_address(http, "--http"),
        smtp=None if smtp == "off" else read_address(smtp, "--smtp"),
    )


def read_address(text: str, option: str) -> Address:
    """`HOST:PORT` or `[IPv6]:PORT`. Raises `Invalid` naming the option."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    sound = colon and port.isascii() and port.isdigit() and int(port[:6]) < _PORTS and host.strip("[]")
    if not sound or (":" in host and not bracketed):
        raise Invalid(f"{option} takes HOST:PORT", fix=f"for example {option} 127.0.0.1:0 (port 0 picks a free one)")
    return host.strip("[]"), int(port)


def ready_line(http: Address, smtp: Address | None) -> str:
    """What `serve` prints, once, when everything listens."""
    return f"postroom ready http://{_written(http)} smtp://{_written(smtp) if smtp else 'off'}"


def _written(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
