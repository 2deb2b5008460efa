"""May an address be fetched for this caller? An attachment given by URL makes postroom itself reach out.

The address alone can carry words out of the house, before any person was asked. So a caller that may
not send has nothing fetched, and one that could have been told what to ask for by mail from outside
(or may write inside the house only) gets no further than hosts the owner named.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Reach: TypeAlias = Literal["none", "listed", "public"]


def reach(*, is_owner: bool, profile: str, read_only: bool, read_outside: int) -> Reach:
    """Which hosts: none, those the owner listed, or every public one as well."""
    if read_only or (profile == "observer" and not is_owner):
        return "none"
    if is_owner:
        return "public"
    return "listed" if profile == "clerk" or read_outside else "public"
