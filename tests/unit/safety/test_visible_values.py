"""CSS values, media and selectors as the filter understands them."""

import pytest

from postroom.safety.css import RELEVANT, StyleTooLarge, declarations, rules
from postroom.safety.css_values import background, colour, contrast, length, media_holds, over
from postroom.safety.html_bounds import bounded
from postroom.safety.selectors import Element, read_selectors


@pytest.mark.parametrize(
    ("value", "pixels"),
    [
        ("12px", 12), ("1.5em", 24), ("2rem", 32), ("-9999px", -9999), ("75%", 12), (".5in", 48), ("1e3px", 1000), ("0", 0), ("12", 12),
        ("calc(10px + 2em)", 42), ("calc(-1 * 3px)", -3), ("min(1px, 2em)", 1), ("max(1px,2px)", 2), ("clamp(1px,5px,3px)", 3),
        ("calc(1px / 0)", None), ("calc(x)", None), ("calc(9**9)", None), ("calc(" + "1+" * 200 + "1)", None), ("auto", None), ("1foo", None),
    ],
)  # fmt: skip
def test_lengths(value: str, pixels: float | None) -> None:
    assert length(value) == pytest.approx(pixels) if pixels is not None else length(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("#fff", (1, 1, 1, 1)), ("rgba(255,0,0,.5)", (1, 0, 0, 0.5)), ("white", (1, 1, 1, 1)), ("transparent", (0, 0, 0, 0)),
        ("lab(100% 0 0)", (1, 1, 1, 1)), ("oklab(0 0 0)", (0, 0, 0, 1)), ("hsl(0 0% 100%)", (1, 1, 1, 1)),
        ("inherit", None), ("currentcolor", None), ("nonsense", None), ("x" * 500, None),
    ],
)  # fmt: skip
def test_colours(value: str, expected: tuple[float, ...] | None) -> None:
    assert colour(value) == (pytest.approx(expected) if expected else None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("#fff url(x.png) no-repeat", (1, 1, 1, 1)), ("url(x.png)", False), ("none", None), ("linear-gradient(90deg,#000,#fff)", (0, 0, 0, 1)),
        ("transparent", None), ("repeat-x center #000", (0, 0, 0, 1)),
    ],
)  # fmt: skip
def test_backgrounds(value: str, expected: object) -> None:
    assert background(value) == expected


def test_contrast_is_that_of_the_standard() -> None:
    white, black = (1.0, 1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 1.0)
    assert contrast(white, black) == pytest.approx(21)
    assert contrast(white, white) == 1
    assert over((0.0, 0.0, 0.0, 0.25), white) == (0.75, 0.75, 0.75, 1.0)


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("", True), ("screen", True), ("all", True), ("print", False), ("not print", True), ("not screen", False), ("only screen", True),
        ("screen and (max-width: 600px)", False), ("screen and (max-width: 90em)", True), ("(min-width: 2000px)", False),
        ("print, screen", True), ("(orientation: landscape)", True), ("(orientation: portrait)", False), ("(hover)", True),
        ("(hover: hover)", True), ("(-webkit-min-device-pixel-ratio: 0)", True), ("(prefers-color-scheme: dark)", False),
        ("(moon: full)", False), ("speech", False), ("(min-width)", False),
    ],
)  # fmt: skip
def test_media(query: str, holds: bool) -> None:
    assert media_holds(query) is holds


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("color:RED;padding:1px", (("color", "red", False),)),
        ("color:red!important;", (("color", "red", True),)),
        ("--x: Y", (("--x", "y", False),)),
        ("background:url(data:a;b,c);color:red", (("background-color", "url(data:a;b,c)", False), ("color", "red", False))),
        (r"c\6flor:red", (("color", "red", False),)),
        ("color:red;}display:none", (("color", "red", False),)),
        ("/* display:none */color:red /* unclosed", (("color", "red", False),)),
    ],
)
def test_declarations(style: str, expected: object) -> None:
    found = declarations(style)
    assert [(name, value.replace('"', ""), important) for name, value, important in found] == list(expected)  # type: ignore[call-overload]  # a tuple


def test_rules_keep_their_order_and_what_they_hold_under() -> None:
    sheet = "a{color:red} @media print{a{color:blue}} @supports (x:y){b{color:red}} @page{margin:0} i{padding:0} @media screen{i{color:red}}"
    assert [(rule.selector, rule.certain) for rule in rules(sheet)] == [("a", True), ("b", False), ("i", True)]
    slow = sheet + r" \63{color:red}"
    assert [(rule.selector, rule.certain) for rule in rules(slow)] == [("a", True), ("b", False), ("i", True), ("c", True)]


@pytest.mark.parametrize(
    "sheet", ["a{color:red", "a}b{color:red}", "@media screen{a{color:red}", "a{b{color:red}}", "{color:red}"]
)
def test_broken_sheets_are_read_as_a_browser_would(sheet: str) -> None:
    assert all(rule.declarations == (("color", "red", False),) for rule in rules(sheet))


def test_a_nested_medium_belongs_to_its_rule() -> None:
    found = rules("p{@media screen{display:none}}")
    assert [(rule.selector, rule.declarations) for rule in found] == [("p", (("display", "none", False),))]


@pytest.mark.parametrize("css", ["a{" + "\\" * 200_000 + "}", "a{" * 2000 + "\\"])
def test_css_that_cannot_be_judged_says_so(css: str) -> None:
    with pytest.raises(StyleTooLarge):
        rules(css)


def fits(selector: str, tag: str, index: int = 1, **attributes: str) -> bool:
    rows = read_selectors(selector)
    return any(len(row) == 1 and row[0].fits(Element(tag, attributes, index)) for row in rows)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("p", True), ("P.a", True), (".a.b", True), (".a.c", False), ("#q", True), ("#r", False), ("[title]", True), ("[title~=two]", True),
        ("[title~=tw]", False), ("[lang|=en]", True), ("[title$='two' i]", True), ("[title*=ne]", True), ("[title^=on]", True),
        ("[title=one]", False), ("[none]", False), ("*", True), (":not(.a)", False), (":not(.z)", True), (":is(i,.b)", True), (":is(i)", False),
        (":where(p)", True), ("p:hover", False), ("p::before", False), ("p:before", False), ("p:nth-child(3)", True), ("p:nth-child(odd)", True),
        ("p:nth-child(even)", False), ("p:nth-child(n+4)", False), ("p:nth-child(-n+3)", True), ("p:first-child", False), (":root", False),
        (":link", False), ("p:has(b)", True), ("%%", False), ("p!", False), (r"\70", True), ("[title", False),
    ],
)  # fmt: skip
def test_selectors(selector: str, expected: bool) -> None:
    assert fits(selector, "p", 3, **{"class": "b a", "id": "Q", "title": "One Two", "lang": "en-GB"}) is expected


def test_what_is_not_judged_is_uncertain() -> None:
    assert [read_selectors(text)[0][0].certain for text in ("p", "p:has(b)", "p:is(a b)", "p:last-child")] == [
        True,
        False,
        False,
        False,
    ]


def test_the_relevant_properties_are_those_the_judge_reads() -> None:
    assert {"display", "color", "font-size", "opacity", "visibility", "clip-path"} <= RELEVANT
    assert "padding" not in RELEVANT


@pytest.mark.parametrize(
    ("html", "kept"),
    [
        ("<p>x</p>" * 3000, None),
        ("<div>" * 1200, "<div>" * 500),
        ("<div></div>" * 2000, None),
        ("<div>" * 499 + "<!-- <div> -->" + "<style><div></style>" + "<p title='<div>'>" + "<br>" * 1000, None),
        ("<p>" + "<p " + "a=1 " * 5000 + ">y", "<p>"),
        ("<p " + "a=1 " * 900 + ">y", None),
    ],
)  # fmt: skip
def test_html_is_cut_where_it_leaves_the_bounds(html: str, kept: str | None) -> None:
    assert bounded(html) == ((html, False) if kept is None else (kept, True))


def test_elements_with_rules_of_their_own_are_renamed() -> None:
    html = "<SCRIPT src=x>a</Script><svg/><select><option>a</select><scripture>"
    assert bounded(html)[0] == "<style type=x src=x>a</style><x-svg/><x-select><x-option>a</x-select><scripture>"


def test_of_equal_rules_the_last_stands_for_all() -> None:
    sheet = ".a{color:red} .b{color:blue} .a{color:red} .a{color:blue} @supports (x){.a{color:red}}"
    assert [(rule.selector, rule.declarations[0][1], rule.certain) for rule in rules(sheet)] == [
        (".b", "blue", True),
        (".a", "red", True),
        (".a", "blue", True),
        (".a", "red", False),
    ]
    assert len(rules("*{color:red}" * 30_000)) == 1
