"""No image is left to load, every link says where it leads."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.safety.links import host_of, hosts, inert

IMAGES = {
    "inline": "![logo](https://evil.example/a.png?d=secret)",
    "inline with a title": '![logo](https://evil.example/a.png "Title")',
    "target in angle brackets": "![logo](<https://evil.example/a b.png>)",
    "target on the next line": "![logo](\n https://evil.example/a.png\n)",
    "brackets in the text": "![lo[g]o](https://evil.example/a.png)",
    "parentheses in the target": "![logo](https://evil.example/a_(1).png)",
    "reference": "![logo][1]\n\n[1]: https://evil.example/a.png",
    "collapsed reference": "![logo][]\n\n[logo]: <https://evil.example/a.png>",
    "short reference": "![logo]\n\n[logo]:\n  https://evil.example/a.png 'T'",
    "reference in a quote": "> ![logo][x]\n>\n> [x]: //evil.example/a.png",
    "inside a link": "[![logo](https://evil.example/a.png)](https://evil.example/)",
    "html": '<img src="https://evil.example/a.png">',
    "html, odd spelling": "<IMG\n/SRC=https://evil.example/a.png",
    "html with a background": '<svg><image href="https://evil.example/a.svg"/></svg>',
    "html frame": "<iframe src='https://evil.example/'></iframe>",
    "unclosed target": "![logo](https://evil.example/a.png",
}


@pytest.mark.parametrize("name", IMAGES)
def test_no_image_is_left(name: str) -> None:
    text, count = inert(f"Dear Bob,\n{IMAGES[name]}\nYours")
    assert_inert(text)
    assert count >= 1
    assert text.startswith("Dear Bob,\n")
    assert text.endswith("\nYours")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[click](https://evil.example/x)", "click (link to evil.example: https://evil.example/x)"),
        ("[https://bank.example](https://evil.example/)", "https://bank.example (link to evil.example: https://evil.example/)"),
        ("[mail me](mailto:bob@example.com)", "mail me (link: mailto:bob@example.com)"),
        ("[x](javascript:alert(1))", "x (link: javascript:alert(1))"),
        ("[nowhere]()", "nowhere"),
        ("![cat](https://a.example/c.png)", "(image cat from a.example removed)"),
        ("![][1]", "(image removed)"),
        ("wow!!![x", "wow[x"),
        ("[1]: https://evil.example/", "[1] : https://evil.example/"),
        (
            "https://bank.example@evil.example/",
            "https://bank.example@evil.example/ (real host: evil.example)".replace("/ (", " (") + "/",
        ),
        (r"https://user:pw@evil.example", "https://user:pw@evil.example (real host: evil.example)"),
    ],
)
def test_links_are_spelled_out(text: str, expected: str) -> None:
    assert inert(text) == (expected, 0 if text.startswith("[1]") else 1)


@pytest.mark.parametrize(
    "text",
    [
        "plain text, https://example.com/a?b=c and bob@example.com",
        "array[0] = call(x) [sic] (really)",
        "Bob <bob@example.com> wrote: a < b",
        "- [ ] task\n- [x] done",
        "wow! [1] see below",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert inert(text) == (text, 0)


def test_the_host_is_the_one_a_browser_would_go_to() -> None:
    assert host_of(r"https://evil.example\@bank.example/") == "evil.example"
    assert host_of("//EVIL.example/x") == "evil.example"
    assert host_of("https://[::1") == ""
    assert hosts("see https://a.example/x, http://B.example and https://a.example/y") == ("a.example", "b.example")


@given(
    st.lists(
        st.sampled_from(["!", "[", "]", "(", ")", ":", "<img ", "<", ">", "a", "https://e.example", "\n", " ", '"']), max_size=40
    )
)
def test_for_any_mixture_nothing_live_is_left(pieces: list[str]) -> None:
    assert_inert(inert("".join(pieces))[0])


def assert_inert(text: str) -> None:
    assert "](" not in text
    assert "]:" not in text
    assert "![" not in text
    assert not re.search(r"<\s*(?:img|image|svg|iframe)\b", text, re.IGNORECASE)
