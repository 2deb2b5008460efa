"""The newest 20 of 100,000 mails: p95 per kind of query through the store's own search, beside notmuch where it is installed.

The mails are made here from a fixed seed: words drawn as in natural text (few very common, many
rare), three in a hundred with a Chinese or Japanese sentence, spread over inboxes of uneven size.
`POSTROOM_BENCH_MAILS` sets another number. notmuch needs minutes to index, so it is asked over a fifth
of the mails, which favours it, and over all its mails at once: it has no inboxes to stay inside.
"""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
import itertools
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from postroom.store.engine import Store

MAILS = int(os.environ.get("POSTROOM_BENCH_MAILS", "100000"))
INBOXES = [f"agent{number}@bench.example" for number in range(20)]
WORDS_EACH = 180
PAGE = 20
QUERIES = 40
ANCHOR_MAILS = MAILS // 5
COMMIT = 100  # mails per write, as a busy ingest has them

Mail = tuple[str, str, str, str]  # inbox, sender, subject, text


class Language:
    """A vocabulary with natural frequencies, from one seed: the commonest words are the shortest."""

    def __init__(self) -> None:
        self.random = random.Random(7)
        syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "ai", "en", "or")]
        self.words = sorted({"".join(self.random.choices(syllables, k=self.random.randint(3, 4))) for _ in range(60_000)})
        self.random.shuffle(self.words)
        self.words = sorted({a + b for a, b in itertools.product("aeiou", "bcdfghklmnprstvw")} | {"the"}) + self.words
        self._weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(self.words))))
        self.han = [chr(0x4E00 + self.random.randrange(3000)) for _ in range(1500)]
        self.kana = [chr(code) for code in range(0x3042, 0x3094)]

    def text(self, count: int) -> str:
        return " ".join(self.random.choices(self.words, cum_weights=self._weights, k=count))

    def cjk(self, count: int) -> str:
        return "".join(self.random.choice(self.han if self.random.random() < 0.7 else self.kana) for _ in range(count))


def mails(language: Language) -> Iterator[Mail]:
    """`MAILS` mails, half of them in the first inbox."""
    rng = language.random
    for number in range(MAILS):
        body = language.text(rng.randrange(WORDS_EACH // 2, WORDS_EACH * 3 // 2)) + f" ticket{number % 20_000:05d}"
        if rng.random() < 0.03:
            body += "\n" + language.cjk(rng.randrange(12, 60))
        inbox = INBOXES[0] if rng.random() < 0.5 else rng.choice(INBOXES)
        yield inbox, f"{rng.choice(language.words)}@{rng.choice(language.words)}.example", language.text(6), body


def queries(language: Language, sample: list[Mail]) -> dict[str, list[str]]:
    """Per kind, queries that some mail answers."""
    rng = language.random

    def words(count: int) -> list[str]:
        return rng.sample([word for word in rng.choice(sample)[3].split("\n")[0].split() if 5 <= len(word) <= 11], count)

    def run_of(count: int) -> str:
        run = rng.choice([mail[3].split("\n")[1] for mail in sample if "\n" in mail[3]])
        at = rng.randrange(len(run) - count)
        return run[at : at + count]

    def phrase() -> str:
        while True:
            body = rng.choice(sample)[3].split("\n")[0].split()
            at = rng.randrange(len(body) - 3)
            if min(map(len, body[at : at + 3])) >= 3:
                return '"' + " ".join(body[at : at + 3]) + '"'

    return {
        "rare word": [f"ticket{rng.randrange(min(MAILS, 20_000)):05d}" for _ in range(QUERIES)],
        "common word": [language.words[100 + rank] for rank in range(QUERIES)],
        "two words": [" ".join(words(2)) for _ in range(QUERIES)],
        "phrase": [phrase() for _ in range(QUERIES)],
        "prefix": [words(1)[0][:4] + "*" for _ in range(QUERIES)],
        "CJK, 3 characters": [run_of(3) for _ in range(QUERIES)],
        "CJK, 1 character": [run_of(1) for _ in range(QUERIES)],
    }


Find = Callable[[str], list[Any]]


def measure(find: Find, asked: list[str]) -> tuple[float, int]:
    """p95 in ms (each query three times, its median kept) and how many found something."""
    times, answered = [], 0
    for query in asked:
        rounds = []
        for _ in range(3):
            begin = time.perf_counter()
            found = find(query)
            rounds.append((time.perf_counter() - begin) * 1000)
        answered += bool(found)
        times.append(sorted(rounds)[1])
    return sorted(times)[int(len(times) * 0.95)], answered


async def index(store: Store, made: Iterator[Mail]) -> None:
    """Into the store as ingest does it: many mails per commit."""
    numbered = enumerate(made, 1)
    while batch := list(itertools.islice(numbered, COMMIT)):

        def add(tx: Any, batch: list[tuple[int, Mail]] = batch) -> None:
            for number, (inbox, sender, subject, text) in batch:
                fields = {"from_": sender, "recipients": inbox, "subject": subject, "text": text}
                store.search.index(tx, number, pod="bench", inbox=inbox, fields=fields)

        await store.write(add)


class Notmuch:
    """The anchor, by its own library: a query's cost is measured without starting a program."""

    NEWEST_FIRST = 1

    def __init__(self, folder: Path) -> None:
        self._lib = ctypes.CDLL(ctypes.util.find_library("notmuch"))
        pointer = ctypes.c_void_p
        signatures = {
            "query_create": ([pointer, ctypes.c_char_p], pointer),
            "query_set_sort": ([pointer, ctypes.c_int], None),
            "query_search_messages": ([pointer, ctypes.POINTER(pointer)], ctypes.c_int),
            "query_destroy": ([pointer], None),
            "messages_valid": ([pointer], ctypes.c_int),
            "messages_get": ([pointer], pointer),
            "messages_move_to_next": ([pointer], None),
            "message_get_message_id": ([pointer], ctypes.c_char_p),
        }
        for name, (arguments, result) in signatures.items():
            function = getattr(self._lib, f"notmuch_{name}")
            function.argtypes, function.restype = arguments, result
        self._database = pointer()
        config = str(folder / "config").encode()
        status = self._lib.notmuch_database_open_with_config(None, 0, config, None, ctypes.byref(self._database), None)
        if status:
            raise OSError(f"notmuch cannot open its database ({status})")

    def find(self, query: str) -> list[Any]:
        made = self._lib.notmuch_query_create(self._database, query.encode())
        self._lib.notmuch_query_set_sort(made, self.NEWEST_FIRST)
        messages, found = ctypes.c_void_p(), []
        self._lib.notmuch_query_search_messages(made, ctypes.byref(messages))
        while len(found) < PAGE and self._lib.notmuch_messages_valid(messages):
            found.append(self._lib.notmuch_message_get_message_id(self._lib.notmuch_messages_get(messages)))
            self._lib.notmuch_messages_move_to_next(messages)
        self._lib.notmuch_query_destroy(made)
        return found


def notmuch_index(folder: Path, made: Iterator[Mail]) -> Notmuch:
    """The same mails as a maildir, indexed by `notmuch new`."""
    for name in ("cur", "new", "tmp"):
        (folder / "mail" / name).mkdir(parents=True)
    for number, (inbox, sender, subject, text) in enumerate(itertools.islice(made, ANCHOR_MAILS), 1):
        date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(1_700_000_000 + number))
        head = f"From: {sender}\nTo: {inbox}\nSubject: {subject}\nDate: {date}\nMessage-ID: <{number}@bench.example>\n"
        kind = "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n"
        (folder / "mail" / "cur" / f"{number}:2,S").write_text(f"{head}{kind}\n{text}\n", encoding="utf-8")
    config = f"[database]\npath={folder}/mail\n[user]\nname=bench\nprimary_email={INBOXES[0]}\n[new]\ntags=inbox\n"
    (folder / "config").write_text(config, encoding="utf-8")
    subprocess.run(["notmuch", "--config", str(folder / "config"), "new", "--quiet"], check=True, capture_output=True)
    return Notmuch(folder)


async def ours(folder: Path) -> dict[str, dict[str, tuple[float, int]]]:
    """Our figures: kind of query → where it looks → (p95, answered)."""
    language = Language()
    store = await Store.open(folder)
    try:
        await index(store, mails(language))
        asked = queries(language, list(itertools.islice(mails(Language()), 3000)))
        places = {"all 20 inboxes": INBOXES, "a large inbox": INBOXES[:1], "a small inbox": INBOXES[1:2]}

        def finder(inboxes: list[str]) -> Find:
            return lambda query: store.read_now(lambda reader: store.search.find(reader, query, inboxes=inboxes, limit=PAGE))

        return {
            kind: {place: measure(finder(inboxes), each) for place, inboxes in places.items()} for kind, each in asked.items()
        }
    finally:
        await store.close()


def theirs(folder: Path) -> dict[str, tuple[float, int]]:
    """notmuch's figures, or nothing where it is not installed."""
    if not (shutil.which("notmuch") and ctypes.util.find_library("notmuch")):
        return {}
    language = Language()
    made = mails(language)
    notmuch = notmuch_index(folder, made)
    for _ in made:  # the same questions as ours: the seed has given out as much
        pass
    asked = queries(language, list(itertools.islice(mails(Language()), 3000)))
    return {kind: measure(notmuch.find, each) for kind, each in asked.items()}


def in_memory() -> str | None:
    """A place for both databases that costs no disk syncs while they are built, where there is room for one."""
    place = "/dev/shm"
    return place if Path(place).is_dir() and shutil.disk_usage(place).free > 8 << 30 else None


def rows() -> list[dict[str, Any]]:
    """One row per kind of query (the slowest of the three places), and how many CJK queries were answered."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        figures = asyncio.run(ours(Path(folder) / "postroom"))
        anchor = theirs(Path(folder) / "notmuch")
    reference = f"notmuch, {ANCHOR_MAILS:,} mails" if anchor else "notmuch: p95 5.8 ms, 0 of 40 CJK (quoted; it is not installed)"
    out: list[dict[str, Any]] = []
    for kind, places in figures.items():
        slowest = max(places, key=lambda place, places=places: places[place][0])
        p95, beside = places[slowest][0], anchor.get(kind, (None, None))
        theirs_ms = beside[0] if beside[1] else None  # how fast it finds nothing is no reference
        about = {"reference": reference, "reference_value": theirs_ms, "ratio": p95 / theirs_ms if theirs_ms else None}
        out.append({"name": f"search, newest {PAGE} of {MAILS:,}, p95: {kind} in {slowest}", "value": p95, "unit": "ms", **about})
        if kind.startswith("CJK"):
            about = {"reference": reference, "reference_value": beside[1], "ratio": None}
            answered = places["all 20 inboxes"][1]
            out.append({"name": f"search, answered of {QUERIES}: {kind}", "value": answered, "unit": "queries", **about})
    return out
