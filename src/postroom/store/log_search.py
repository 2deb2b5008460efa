"""Full-text search over the mailbox's log, newest first: the mail index's terms, on an index of its own.

The index holds no text. Taking a document out needs the words it went in with; the caller, whose log
keeps every text, hands them over again. A document carries the names it is visible to as opaque
tokens, so a search never walks what its caller may not see.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import text

from postroom.store.statement import Statement, sql
from postroom.store.terms import bigrams, folded, inbox_token, match_expression, spaced
from postroom.store.terms import words as split
from postroom.store.transaction import Reader, Tx
from postroom.store.tsvector import Tsvector

_NEWEST: Final = (1 << 63) - 1
_GATHERED: Final = "mailbox_search"  # where a transaction keeps the rows to add
_VECTORS: Final = Tsvector("mailbox_search")
_COLUMNS = "rowid, scope, text, cjk"
_VALUES = ":id, :scope, :text, :cjk"
_ELEMENTS: Final = ", ".join(f"json_extract(value, '$[{at}]')" for at in range(4))
_ADD = sql(text(f"INSERT INTO mailbox_search({_COLUMNS}) SELECT {_ELEMENTS} FROM json_each(:rows)"))  # noqa: S608 - constants
_TAKE_OUT = sql(text(f"INSERT INTO mailbox_search(mailbox_search, {_COLUMNS}) VALUES ('delete', {_VALUES})"))  # noqa: S608 - constants
_FIND = sql(
    text(
        "SELECT rowid FROM mailbox_search WHERE mailbox_search MATCH :query AND rowid < :before ORDER BY rowid DESC LIMIT :count"
    )
)


class LogSearch:
    """The index over the log. A document's id is its record's number: larger is newer."""

    def add(self, tx: Tx, doc_id: int, words: str, readers: Sequence[str]) -> None:
        """Make a document findable by `words` for `readers`."""
        row = _columns(words, readers)
        if tx.engine == "postgresql":
            _VECTORS.put(tx, doc_id, row["scope"].split(), [("D", split(row["text"])), ("D", split(row["cjk"]))])
        else:
            _gathered(tx).append((doc_id, *row.values()))

    def remove(self, tx: Tx, doc_id: int, words: str, readers: Sequence[str]) -> None:
        """Take it out; `words` and `readers` as they went in."""
        if tx.engine == "postgresql":
            _VECTORS.remove(tx, doc_id)
        else:
            row = _columns(words, readers)
            tx.shared.pop(_GATHERED, None)  # what is added from now on comes after this
            tx.at_end(lambda end: _run(end, _TAKE_OUT, id=doc_id, **row))

    def find(
        self, reader: Reader, query: str, *, readers: Sequence[str] | None, limit: int, before: int | None = None
    ) -> list[int]:
        """Ids of documents visible to any of `readers` (None: all) that hold every word, newest first. Never raises on odd queries."""
        terms = match_expression(query)
        if not terms:
            return []
        newest = _NEWEST if before is None else before
        if reader.engine == "postgresql":
            scopes = None if readers is None else list(map(inbox_token, readers))
            return _VECTORS.find(reader, query, scopes, before=newest, limit=limit)
        if readers is not None:
            tokens = " OR ".join(f'"{inbox_token(name)}"' for name in readers)
            terms = f"scope : ({tokens}) AND {terms}"
        rows = reader.all(_FIND, query=terms, before=newest, count=limit)
        return [row[0] for row in rows]


def _gathered(tx: Tx) -> list[tuple[Any, ...]]:
    """Rows that this transaction will add in one statement at its end."""
    rows: list[tuple[Any, ...]] | None = tx.shared.get(_GATHERED)
    if rows is None:
        added = tx.shared[_GATHERED] = rows = []
        tx.at_end(lambda end: _run(end, _ADD, rows=json.dumps(added)))
    return rows


def _run(tx: Tx, stmt: Statement, **params: Any) -> None:
    tx.run(stmt, **params)


def _columns(words: str, readers: Sequence[str]) -> dict[str, str]:
    plain = folded(words)
    return {"scope": " ".join(map(inbox_token, dict.fromkeys(readers))), "text": spaced(plain), "cjk": bigrams(plain)}
