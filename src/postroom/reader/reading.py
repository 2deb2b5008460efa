"""What one read came to, and the page tokens that lead on: a provider's cursor and how much of its page was shown."""

from __future__ import annotations

from dataclasses import dataclass

from postroom.errors import Invalid
from postroom.model.paging import make_token, read_token
from postroom.reader import faults
from postroom.reader.body import ReadMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a read came to. `asked` is the limit given, `limit` the one that held. `more` leads on from after the last."""

    account: str
    limit: int
    asked: int | None
    messages: tuple[ReadMessage, ...]
    scope: str = ""
    cursor: str = ""
    offset: int = 0
    next_cursor: str | None = None

    def page_token(self, shown: int) -> str | None:
        """A token that goes on after the first `shown` messages; None when they were the last."""
        if shown < len(self.messages):
            return make_token(self.scope, [self.cursor, self.offset + shown]) if self.scope else None
        return make_token(self.scope, [self.next_cursor, 0]) if self.next_cursor is not None else None


def position(scope: str, page_token: str) -> tuple[str, int]:
    """The provider's cursor and how many of its page were shown already."""
    try:
        cursor, offset = read_token(scope, page_token or None, str, int) or ("", 0)
    except Invalid:
        raise faults.argument("pageToken", "this page token is not of this list", "start again without pageToken") from None
    return cursor, max(offset, 0)
