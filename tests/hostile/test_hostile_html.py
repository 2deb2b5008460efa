"""HTML made to exhaust a reader: what a tree builder, a style sheet or a selector can be made to do is bounded."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace import within
from postroom.safety.visible import visible_text

BOUND_S = 2.0
CHAIN = "".join(f".a{number}{{color:red}} " for number in range(20)) + " .a " * 8 + "p{display:none}"
HOSTILE = {
    "deep nesting": "<div>" * 20_000 + "deep",
    "end tags that close nothing": "<div></x>" * 200_000,
    "end tags in comments": "<div><!--</div>-->" * 100_000,
    "a hundred thousand attributes": "<p " + " ".join(f"a{number}=1" for number in range(100_000)) + ">x</p>",
    "attributes with ends of tags in them": "<p " + " ".join(f"a{number}='>'" for number in range(100_000)) + ">x</p>",
    "formatting left open": "<p>" + "".join(f"<b x={number}>" for number in range(3000)) + "</p>" + "<p>x</p>" * 50_000,
    "endless options": "<select>" + "<option>" * 100_000,
    "tags inside a style inside svg": "<svg>" * 50_000 + '<style><p a="</style>' + "<div>" * 50_000,
    "a script that pretends to end": '<script><!--<script></script><p a="</script>' + "<div>" * 100_000,
    "tables in tables": "<table><tr><td>" * 50_000,
    "end tags out of scope": "<span><table></span>" * 50_000,
    "descendants of descendants": f"<style>{CHAIN}</style>" + "<div class=a>" * 400 + "<p>x</p>",
    "later siblings": "<style>.z ~ p{display:none}</style>" + "<p>x</p>" * 20_000,
    "rules for everything": "<style>" + "*{color:red}" * 20_000 + "</style>" + "<p>x</p>" * 20_000,
    "sixty thousand rules": "<style>" + ".a{color:red}" * 60_000 + "</style><p class=a>x</p>",
    "open media": "<style>" + "@media screen{" * 5000 + "</style><p>x</p>",
    "nothing but escapes": "<style>" + "\\" * 1_000_000 + "</style><p>x</p>",
    "open brackets in a style": "<p style='" + "a(" * 500_000 + "'>x</p>",
    "quotes in quotes": "<blockquote>" * 20_000 + "x",
    "links in links": "<a href=http://x.example>" * 20_000 + "x",
    "a title of junk": "<title>" + "junk " * 400_000 + "</title><p>x</p>",
    "invisible padding": "<p>" + "\u200b\u202e" * 500_000 + "</p>",
    "open comments": "<!--" * 300_000,
    "nots in nots": "<style>:not(" + ":not(" * 5000 + ")" * 5001 + "{color:red}</style><p>x</p>",
    "a class of classes": "<p class='" + "a " * 500_000 + "'>x</p>" * 3,
}  # fmt: skip


@pytest.mark.parametrize("html", HOSTILE.values(), ids=HOSTILE.keys())
def test_html_made_to_take_long_does_not(html: str) -> None:
    within(BOUND_S, lambda: visible_text(html))


@settings(max_examples=200, deadline=None)
@given(html=st.one_of(st.text(max_size=300), st.lists(st.sampled_from(
    ["<p>", "</p>", "<style>", "</style>", ".a{", "}", "display:none", "<div style='", "'>", "@media", "(", ")", "{", "[x=", "]", "\\", ":is(",
     "text", "<blockquote>", "</blockquote>", "<a href='http://[", "<table>", "<!--", "-->", ";", ":", "!important", "var(--x)", "calc(1/0)",
     "font-size:1em", "color:", "oklch(1 0 0)", "#ff", "\x0e", "\ud800", "&#14;", "<template>", ",", ">", "+", "~", "*", "#", ".", '"']), max_size=40).map("".join)))  # fmt: skip
def test_any_html_is_read_into_plain_text(html: str) -> None:
    seen = visible_text(html)
    json.dumps([seen.text, seen.links, seen.removed], ensure_ascii=False).encode()
