"""A parser of plain commands whose wrong usage is an error like any other: one line, or JSON where that was asked for."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from postroom.errors import Invalid


class Parser(argparse.ArgumentParser):
    """Of the commands that do not load typer. No abbreviated options: a later one would change what a script means."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **given})

    def error(self, message: str) -> NoReturn:
        """Raise `Invalid` instead of ending the process."""
        raise Invalid(message, code="usage", fix=f"see {self.prog} --help")
