"""Both engines find the same mail in the same order, whatever is asked; ranked, the same mail in an order of their own."""

import random
from pathlib import Path

from engines import url_of
from postroom.store.engine import Store

WORDS = [
    "quick",
    "brown",
    "fox",
    "Müller",
    "café",
    "naïve",
    "foo_bar",
    "a@b.example",
    "x-ray",
    "2026-01-02",
    "ΣΑΣ",
    "σας",
    "привет",
    "Ёлка",
    "й",
    "東京都庁",
    "会議の予定",
    "한국어",
    "ﬁn",
    "ＦＵＬＬ",
    "don't",
    "C++",
    "e.g.",
    "O’Neil",
    "İstanbul",
    "straße",
    "ไทย",
    "हिन्दी",
    "عربى",
    "1,234.5",
    "😀",
    "Zażółć",
]


async def test_both_engines_answer_the_same_queries_alike(tmp_path: Path) -> None:
    pick = random.Random(7)
    with url_of("postgresql") as url:
        stores = await Store.open(tmp_path / "one"), await Store.open(tmp_path / "two", url=url)
        for number in range(1, 151):
            fields = {"subject": " ".join(pick.choices(WORDS, k=2)), "text": " ".join(pick.choices(WORDS, k=pick.randint(1, 12)))}
            inbox = pick.choice("abcdef")
            for store in stores:
                await store.write(
                    lambda tx, store=store, number=number, inbox=inbox, fields=fields: store.search.index(
                        tx, number, pod="p", inbox=inbox, fields=fields
                    )
                )
        for _ in range(500):
            word, other = pick.choices(WORDS, k=2)
            query = pick.choice([word, f"{word} {other}", f'"{word} {other}"', f"{word[: max(1, len(word) - 1)]}*", word[:2]])
            inboxes = pick.sample("abcdef", pick.choice([1, 3, 6]))
            found = [
                store.read_now(
                    lambda reader, store=store, query=query, inboxes=inboxes: store.search.find(
                        reader, query, inboxes=inboxes, limit=20
                    )
                )
                for store in stores
            ]
            assert found[0] == found[1], query
            ranked = [
                store.read_now(
                    lambda reader, store=store, query=query, inboxes=inboxes: store.search.find(
                        reader, query, inboxes=inboxes, limit=150, ranked=True
                    )
                )
                for store in stores
            ]
            assert set(ranked[0]) == set(ranked[1]), query
            assert set(ranked[0]) >= set(found[0]), query
        for store in stores:
            await store.close()


async def test_a_text_longer_than_a_tsvector_counts_is_found_by_word_and_phrase(tmp_path: Path) -> None:
    text = " ".join(f"word{number}" for number in range(40_000)) + " the very last words 東京都庁"
    with url_of("postgresql") as url:
        store = await Store.open(tmp_path, url=url)
        await store.write(lambda tx: store.search.index(tx, 1, pod="p", inbox="a", fields={"text": text}))
        for query, expected in {
            "word39999": [1],
            '"very last words"': [1],
            "都庁": [1],
            '"word1 word2"': [1],
            '"word1 missing"': [],
        }.items():
            assert (
                store.read_now(lambda reader, query=query: store.search.find(reader, query, inboxes=["a"], limit=5)) == expected
            )
        await store.close()
