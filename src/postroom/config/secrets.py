"""Secrets by reference: the config names where one is kept, and it is read where it is used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from postroom.errors import Invalid


def resolve_secret(reference: str, environ: Mapping[str, str] | None = None) -> str:
    """The value behind `env:NAME`, `file:PATH` or `keyring:NAME`; "" stays "". Raises `Invalid`, never echoing a value."""
    if not reference:
        return ""
    scheme, _, name = reference.partition(":")
    if scheme == "env" and name:
        value = (os.environ if environ is None else environ).get(name)
        if value is None:
            raise Invalid(f"the environment variable {name} is not set")
        return value
    if scheme == "file" and name:
        try:
            return Path(name).expanduser().read_text(encoding="utf-8").strip()
        except OSError as problem:
            raise Invalid(f"the secret file {name} cannot be read: {problem.strerror}") from None
        except UnicodeDecodeError:
            raise Invalid(f"the secret file {name} is not UTF-8 text") from None
    if scheme == "keyring" and name:
        import keyring

        value = keyring.get_password("postroom", name)
        if value is None:
            raise Invalid(f"the keyring holds no entry postroom/{name}")
        return value
    raise Invalid("a secret is given by reference", fix="write env:NAME, file:PATH or keyring:NAME")
