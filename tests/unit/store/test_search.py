"""Search finds words, phrases, prefixes and CJK of any length, inside the inboxes asked for, newest first."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postroom.store.engine import Store
from postroom.store.search import FIELDS, SearchIndex
from postroom.store.terms import inbox_token, match_expression

MAILS = {
    1: (
        "a@x",
        {"from_": "Zoë Müller <zoe@example.org>", "subject": "Réunion lundi", "text": "The quick brown-fox jumps, ticket42."},
    ),
    2: ("a@x", {"subject": "会議の予定", "text": "明日の会議は中止。添付file参照 ﾃｽﾄ"}),
    3: ("a@x", {"subject": "Budget", "text": "quick fox brown; naïve café"}),
    4: ("b@x", {"subject": "quick brown fox", "text": "한국어 문서 검색"}),
    5: ("b@x", {"recipients": "team@example.org", "text": "𠮷野家 ＦＵＬＬ ﬁnance"}),
}


@pytest.fixture
async def full(store: Store) -> Store:
    for doc_id, (inbox, fields) in MAILS.items():
        await store.write(
            lambda tx, doc_id=doc_id, inbox=inbox, fields=fields: store.search.index(
                tx, doc_id, pod="p", inbox=inbox, fields=fields
            )
        )
    return store


def find(store: Store, query: str, *inboxes: str, **more: object) -> list[int]:
    where = inboxes or ("a@x", "b@x")
    return store.read_now(lambda reader: store.search.find(reader, query, inboxes=where, **{"limit": 10, **more}))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("quick", [4, 3, 1]),
        ("QUICK Fox", [4, 3, 1]),
        ('"quick brown"', [4, 1]),
        ('"quick brown', [4, 1]),
        ("brown-fox", [4, 1]),
        ("qui*", [4, 3, 1]),
        ('"quick bro"*', [4, 1]),
        ("qui", []),
        ("reunion", [1]),
        ("RÉUNION", [1]),
        ("muller", [1]),
        ("zoe@example.org", [1]),
        ("example.org", [5, 1]),
        ("cafe naive", [3]),
        ("ticket42", [1]),
        ("会議", [2]),
        ("の予定", [2]),
        ("予", [2]),
        ("定", [2]),
        ("会予", []),
        ("会議 予定", [2]),
        ("明日の会議は中止", [2]),
        ("file", [2]),
        ("添付file", [2]),
        ("テスト", [2]),
        ("한국", [4]),
        ("어", [4]),
        ("검색 quick", [4]),
        ("𠮷野", [5]),
        ("full", [5]),
        ("finance", [5]),
        ("from_ : quick", []),
        ("quick OR budget", []),
    ],
)
async def test_a_query_finds_what_a_person_means(full: Store, query: str, expected: list[int]) -> None:
    assert find(full, query) == expected
    assert sorted(find(full, query, ranked=True), reverse=True) == expected


async def test_a_search_stays_inside_the_inboxes_asked_for(full: Store) -> None:
    assert find(full, "quick", "a@x") == [3, 1]
    assert find(full, "quick", "b@x") == [4]
    assert find(full, "quick", "c@x") == []
    assert find(full, "a x") == []
    assert full.read_now(lambda reader: full.search.find(reader, "quick", inboxes=[], limit=10)) == []


async def test_a_search_over_many_inboxes_finds_the_same(full: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    many = ("a@x", "c@x", "d@x", "e@x")
    assert find(full, "quick", *many) == [3, 1]
    assert find(full, "quick", *many, limit=1) == [3]
    assert find(full, "quick", "b@x", *many, before_id=4) == [3, 1]
    monkeypatch.setattr("postroom.store.search.HOUSE", 1)  # the newest match of the house is another inbox's
    assert find(full, "fox brown", *many, limit=1) == [3]
    assert find(full, "quick", *many, limit=0) == []


async def test_no_text_and_no_query_reaches_into_another_inbox(full: Store) -> None:
    token = inbox_token("a@x")
    await full.write(lambda tx: full.search.index(tx, 6, pod="p", inbox="b@x", fields={"text": f"quick {token} {token[1:]}"}))

    assert find(full, "quick", "a@x") == [3, 1]
    assert find(full, token, "b@x") == find(full, token[1:], "b@x") == [6]
    assert find(full, token[0] + "*") == []
    assert find(full, token) == [6]


async def test_pages_are_newest_first_and_ranked_ones_best_first(full: Store) -> None:
    assert find(full, "quick", limit=2) == [4, 3]
    assert find(full, "quick", limit=2, before_id=3) == [1]
    assert find(full, "fox", ranked=True)[0] == 4  # in its subject


async def test_a_document_indexed_again_is_found_by_its_new_words_only(full: Store) -> None:
    await full.write(lambda tx: full.search.index(tx, 2, pod="p", inbox="b@x", fields={"text": "nothing 新聞"}))

    assert find(full, "会議") == []
    assert find(full, "新") == [2]
    assert find(full, "nothing", "a@x") == []


async def test_a_removed_document_is_found_no_more(full: Store) -> None:
    for _ in range(2):
        await full.write(lambda tx: full.search.remove(tx, 1))

    assert find(full, "quick") == [4, 3]
    if full.alone:
        full._writer._connection.execute("INSERT INTO mail_search(mail_search) VALUES ('integrity-check')")


@pytest.mark.parametrize(
    "junk",
    [
        "",
        " ",
        '"',
        '""',
        "*",
        "-",
        "AND",
        "NOT (",
        "a:b^c",
        "NEAR(",
        "\0",
        "\ud800",
        "''; DROP TABLE event",
        "\\",
        "x" * 5000,
        "a " * 500,
    ],
)
async def test_no_query_is_an_error(full: Store, junk: str) -> None:
    assert find(full, junk) == []


async def test_texts_of_any_kind_can_be_indexed_and_taken_out(store: Store) -> None:
    odd = "\0 \ud800 \U0010ffff \u202e " + "長" * 1000

    await store.write(lambda tx: store.search.index(tx, 9, pod="p", inbox="a@x", fields=dict.fromkeys(FIELDS, odd)))
    assert find(store, "長長長", "a@x") == [9]
    await store.write(lambda tx: store.search.remove(tx, 9))
    assert find(store, "長", "\ud800") == []
    assert find(store, "長") == []


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=40) | st.text(alphabet='"*:()^-+{}会議ab AND', max_size=30))
def test_any_text_is_a_query(query: str, shared_index: object) -> None:
    expression = match_expression(query)
    if expression:
        shared_index.execute(
            "SELECT rowid FROM f WHERE f MATCH ? ORDER BY rowid DESC LIMIT 1", (f'"x" AND {expression}',)
        ).fetchall()


@pytest.fixture(scope="module")
def shared_index() -> object:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE f USING fts5(scope, from_, text, cjk, content='', tokenize='unicode61 remove_diacritics 2')"
    )
    yield connection
    connection.close()


def test_a_search_index_is_stateless() -> None:
    assert vars(SearchIndex()) == {}
