"""Full-text search over mail, newest first: FTS5 (unicode61, diacritics folded) with a bigram column for CJK.

The index holds no text (contentless); `search_document` keeps each document's indexed words,
compressed, because FTS5 before 3.43 can only take out what it is shown again. Each document carries
its inbox as one opaque token, so a search inside an inbox walks that inbox's documents only; before
that the newest matches of the whole house are looked through, which mostly is enough.
Ranking is asked for, and looks at the newest matches only: scoring every match of a common word
costs a hundred times the newest page.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import bindparam, delete, insert, select, text

from postroom.store import schema
from postroom.store.statement import sql
from postroom.store.terms import bigrams, folded, inbox_token, match_expression, spaced, words
from postroom.store.transaction import Reader, Tx
from postroom.store.tsvector import Tsvector

RANKED: Final = 2000  # newest matches that a ranked search puts in order
FEW_INBOXES: Final = 3  # up to here their tokens are cheap to search by
HOUSE: Final = 200  # newest matches of the whole house looked through for many inboxes
LOOK: Final = 3  # pages of newest matches looked through for few: enough in a large inbox, cheap in a small one
FIELD_CHARS: Final = 512 * 1024  # of one field; what lies beyond is stored and shown but not found

FIELDS: Final = ("from_", "recipients", "subject", "text")
_NEWEST: Final = (1 << 63) - 1

_COLUMNS = "scope, from_, recipients, subject, text, cjk"
_VALUES = ":scope, :from_, :recipients, :subject, :text, :cjk"
_ADD = sql(text(f"INSERT INTO mail_search(rowid, {_COLUMNS}) VALUES (:id, {_VALUES})"))  # noqa: S608 - constants
_TAKE_OUT = sql(text(f"INSERT INTO mail_search(mail_search, rowid, {_COLUMNS}) VALUES ('delete', :id, {_VALUES})"))  # noqa: S608 - constants
_MATCHES = "FROM mail_search WHERE mail_search MATCH :query AND rowid < :before ORDER BY rowid DESC LIMIT"
_FIND = sql(text(f"SELECT rowid {_MATCHES} :count"))
_FIND_IN_HOUSE = sql(
    text(
        f"SELECT found.id, d.inbox FROM (SELECT rowid AS id {_MATCHES} :count) AS found "  # noqa: S608 - constants
        "JOIN search_document AS d ON d.id = found.id ORDER BY found.id DESC"
    )
)
_RANK = sql(
    text(
        f"SELECT id FROM (SELECT rowid AS id, bm25(mail_search, 0.0, 4.0, 2.0, 6.0, 1.0, 1.0) AS score {_MATCHES} :newest) "  # noqa: S608 - constants
        "ORDER BY score, id DESC LIMIT :count"
    )
)
_VECTORS: Final = Tsvector("mail_search")
_WEIGHTS: Final = (("subject", "A"), ("from_", "B"), ("recipients", "C"), ("text", "D"), ("cjk", "D"))
_document = schema.search_document.c
_KEEP = sql(insert(schema.search_document).values({name: bindparam(name) for name in ("id", "pod", "inbox", "indexed")}))
_KEPT = sql(select(_document.indexed).where(_document.id == bindparam("id")))
_FORGET = sql(delete(schema.search_document).where(_document.id == bindparam("id")))


class SearchIndex:
    """The index over an office's mail. A document's id is its message's integer key: larger is newer."""

    def index(self, tx: Tx, doc_id: int, *, pod: str, inbox: str, fields: Mapping[str, str]) -> None:
        """Make a document findable, or findable by its new text. `fields`: any of `FIELDS`."""
        self.remove(tx, doc_id)
        texts = [folded(fields.get(name, "")[:FIELD_CHARS]) for name in FIELDS]
        row = dict(zip(FIELDS, map(spaced, texts), strict=True))
        row |= {"scope": inbox_token(inbox), "cjk": " ".join(filter(None, map(bigrams, texts)))}
        if tx.engine == "postgresql":
            _VECTORS.put(tx, doc_id, [row["scope"]], [(weight, words(row[name])) for name, weight in _WEIGHTS])
            tx.run(_KEEP, id=doc_id, pod=pod, inbox=inbox, indexed=b"")
            return
        tx.run(_ADD, id=doc_id, **row)
        tx.run(_KEEP, id=doc_id, pod=pod, inbox=inbox, indexed=zlib.compress(json.dumps(row).encode(), 1))

    def remove(self, tx: Tx, doc_id: int) -> None:
        """Take a document and its words out; nothing happens when it is not in."""
        kept = tx.scalar(_KEPT, id=doc_id)
        if kept is None:
            return
        if tx.engine == "postgresql":
            _VECTORS.remove(tx, doc_id)
        else:
            tx.run(_TAKE_OUT, id=doc_id, **json.loads(zlib.decompress(kept)))
        tx.run(_FORGET, id=doc_id)

    def find(
        self,
        reader: Reader,
        query: str,
        *,
        inboxes: Sequence[str],
        limit: int,
        before_id: int | None = None,
        ranked: bool = False,
    ) -> list[int]:
        """Ids of documents of `inboxes` that hold every word of `query`, newest first (or best first).

        Words are and-ed, `"a phrase"` is one, a trailing `*` asks for a prefix; anything else is just text.
        """
        terms = match_expression(query)
        if not terms or not inboxes:
            return []
        before = _NEWEST if before_id is None else before_id
        if reader.engine == "postgresql":
            return _find_vectors(reader, query, inboxes, before=before, limit=limit, ranked=ranked)
        page = None if ranked else self._in_house(reader, terms, before, set(inboxes), limit)
        if page is not None:
            return page
        tokens = " OR ".join(f'"{inbox_token(inbox)}"' for inbox in inboxes)
        params = {"query": f"({tokens}) AND {terms}", "before": before, "count": limit}
        found = reader.all(_RANK, newest=RANKED, **params) if ranked else reader.all(_FIND, **params)
        return [row[0] for row in found]

    def _in_house(self, reader: Reader, terms: str, before: int, inboxes: set[str], limit: int) -> list[int] | None:
        """The page out of the newest matches anywhere; None when these are too few to tell.

        Inside few inboxes only a look is taken, and none for a prefix, which costs the same again.
        """
        many = len(inboxes) > FEW_INBOXES
        if not many and "*" in terms:
            return None
        count = max(HOUSE, 2 * limit) if many else LOOK * limit
        found = reader.all(_FIND_IN_HOUSE, query=terms, before=before, count=count)
        page = [doc_id for doc_id, inbox in found if inbox in inboxes][:limit]
        return page if len(page) == limit or len(found) < count else None


def _find_vectors(reader: Reader, query: str, inboxes: Sequence[str], *, before: int, limit: int, ranked: bool) -> list[int]:
    if len(inboxes) > FEW_INBOXES and not ranked:
        return _VECTORS.find_inside(reader, query, inboxes, before=before, limit=limit)
    scopes = list(map(inbox_token, inboxes))
    if ranked:
        return _VECTORS.ranked(reader, query, scopes, before=before, limit=limit, newest=RANKED)
    return _VECTORS.find(reader, query, scopes, before=before, limit=limit)
