"""Full-text search on PostgreSQL: the terms of the SQLite index as a `tsvector` that we write ourselves.

The server's own parser would take texts apart in its own way (hosts, hyphens, no CJK), so words and
bigrams come from `terms`, and both engines find the same mail. A document's scopes are lexemes among
its words. A `tsvector` counts positions up to 16,383: a longer text says so with a lexeme of its own,
and a phrase is then held to be in it when all its words are.

Matches are collected before they are ordered (MATERIALIZED): asked for the newest 20 of a rare word,
the planner otherwise walks the whole table by its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import text

from postroom.store.statement import list_parameter, sql
from postroom.store.terms import query_terms, words
from postroom.store.transaction import Reader, Tx

POSITIONS: Final = 16_383  # of a tsvector
PLACES: Final = 256  # of one lexeme
VECTOR_BYTES: Final = 1_000_000  # a little under what a tsvector may have; words beyond are not found
_LONG: Final = "\ue000long"
_INBOXES: Final = "SELECT json_array_elements_text(CAST(:inboxes AS json))"
_GAP: Final = 2  # between two fields: no phrase goes across


class Tsvector:
    """The index `table`: document number and words."""

    def __init__(self, table: str) -> None:
        matches = f"WITH hit AS MATERIALIZED (SELECT id FROM {table} WHERE words @@ CAST(:query AS tsquery))"  # noqa: S608 - a constant
        newest = "SELECT id FROM hit WHERE id < :before ORDER BY id DESC LIMIT"
        inside = f"SELECT hit.id FROM hit JOIN search_document AS d ON d.id = hit.id WHERE d.inbox IN ({_INBOXES})"  # noqa: S608 - constants
        rank = f"ts_rank('{{0.17, 0.33, 0.67, 1}}', {table}.words, CAST(:query AS tsquery))"
        self._put = sql(
            text(
                f"INSERT INTO {table} (id, words) VALUES (:id, CAST(:words AS tsvector)) "  # noqa: S608 - a constant
                "ON CONFLICT (id) DO UPDATE SET words = excluded.words"
            )
        )
        self._drop = sql(text(f"DELETE FROM {table} WHERE id = :id"))  # noqa: S608 - a constant
        self._find = sql(text(f"{matches} {newest} :count"))
        many = text(f"{matches} {inside} AND hit.id < :before ORDER BY hit.id DESC LIMIT :count")
        self._find_inside = sql(many.bindparams(list_parameter("inboxes")))
        best = f"SELECT {table}.id FROM newest JOIN {table} USING (id) ORDER BY {rank} DESC, {table}.id DESC LIMIT :count"  # noqa: S608 - a constant
        self._rank = sql(text(f"{matches}, newest AS ({newest} :newest) {best}"))

    def put(self, tx: Tx, doc_id: int, scopes: Sequence[str], fields: Sequence[tuple[str, list[str]]]) -> None:
        """Make a document findable by the words of `fields` (weight A to D, words in order)."""
        tx.run(self._put, id=doc_id, words=vector(scopes, fields))

    def remove(self, tx: Tx, doc_id: int) -> None:
        tx.run(self._drop, id=doc_id)

    def find(self, reader: Reader, query: str, scopes: Sequence[str] | None, *, before: int, limit: int) -> list[int]:
        """Documents with every term of `query` and any of `scopes` (None: whatever they have), newest first."""
        wanted = expression(query, scopes)
        return _ids(reader.all(self._find, query=wanted, before=before, count=limit)) if wanted else []

    def find_inside(self, reader: Reader, query: str, inboxes: Sequence[str], *, before: int, limit: int) -> list[int]:
        """The same inside many inboxes, by their names."""
        wanted = expression(query, None)
        return _ids(reader.all(self._find_inside, query=wanted, inboxes=inboxes, before=before, count=limit)) if wanted else []

    def ranked(self, reader: Reader, query: str, scopes: Sequence[str], *, before: int, limit: int, newest: int) -> list[int]:
        """The best of the `newest` matches, best first."""
        wanted = expression(query, scopes)
        return _ids(reader.all(self._rank, query=wanted, before=before, newest=newest, count=limit)) if wanted else []


def vector(scopes: Sequence[str], fields: Sequence[tuple[str, list[str]]]) -> str:
    """The words of `fields` with their places, as PostgreSQL reads a tsvector."""
    places: dict[str, list[str]] = {scope: [] for scope in scopes}
    room, at = VECTOR_BYTES - sum(map(_size, places)), 0
    for weight, found in fields:
        for at, word in enumerate(found, at + _GAP):  # noqa: B020 - a field goes on counting where the last one stopped
            known = places.get(word)
            room -= 2 if known is not None else _size(word)
            if room < 0:
                break
            if known is None:
                known = places[word] = []
            if at < POSITIONS and len(known) < PLACES:
                known.append(f"{at}{weight}")
    if room < 0 or at >= POSITIONS:
        places[_LONG] = []
    return " ".join(f"'{word}':{','.join(found)}" if found else f"'{word}'" for word, found in places.items())


def expression(query: str, scopes: Sequence[str] | None) -> str:
    """`query` as a tsquery; "" when it holds no term."""
    terms = [asked for term in query_terms(query) if (asked := _term(term.text, prefix=term.prefix))]
    if not terms:
        return ""
    inside = [] if scopes is None else [f"({' | '.join(map(_quoted, scopes))})"]
    return " & ".join([*inside, *terms])


def _term(phrase: str, *, prefix: bool) -> str:
    found = [_quoted(word) for word in words(phrase)]
    if not found:
        return ""
    if prefix:
        found[-1] += ":*"
    if len(found) == 1:
        return found[0]
    return f"({' <-> '.join(found)} | ({_quoted(_LONG)} & {' & '.join(found)}))"


def _quoted(word: str) -> str:
    return f"'{word}'"  # a word holds letters and digits only


def _size(word: str) -> int:
    return len(word.encode()) + 8


def _ids(rows: Sequence[tuple[Any, ...]]) -> list[int]:
    return [row[0] for row in rows]
