"""One form for a domain, as rules name it and as mail servers are told."""

import pytest

from postroom.mime.addresses import parse_address
from postroom.model.hostname import ascii_domain
from postroom.policy.recipients import canonical_address, canonical_domain, check_entry, matches


@pytest.mark.parametrize(
    ("domain", "ascii_form"),
    [
        ("Example.COM", "example.com"),
        ("stra\u00dfe.example", "xn--strae-oqa.example"),
        ("STRA\u1e9eE.example", "xn--strae-oqa.example"),
        ("strasse.example", "strasse.example"),
        ("xn--strae-oqa.EXAMPLE", "xn--strae-oqa.example"),
        ("\u0392\u039f\u039b\u039f\u03a3.gr", "xn--nxaslbu.gr"),  # capitals never mean a final sigma
        ("\u03b2\u03cc\u03bb\u03bf\u03c2.gr", "xn--nxasmm1c.gr"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("bu\u0308cher.example", "xn--bcher-kva.example"),
        ("\uff22\uff2f\uff22.example", "bob.example"),
        ("a\u3002b\uff61example", "a.b.example"),
        ("\u65e5\u672c\u30fb\u8a9e.jp", "xn--vek160nb2acz6g.jp"),
        ("paral\u00b7lel.cat", "xn--parallel-koa.cat"),
        ("a_b.example", "a_b.example"),
    ],
)
def test_a_domain_has_one_form_however_it_is_spelled(domain: str, ascii_form: str) -> None:
    assert ascii_domain(domain) == ascii_form
    assert canonical_domain(domain) == ascii_form
    assert parse_address(f"a@{domain}").canonical == f"a@{ascii_form}"


@pytest.mark.parametrize(
    "domain",
    [
        "",
        ".",
        "a..b",
        "-a.example",
        "a-.example",
        "a b",
        "a/b",
        "a@b",
        "a\x00b",
        "a\u00adb.example",
        "a\u200db.example",
        "a\u202eb.example",
        "a\ufe0fb.example",
        "\u2603.example",
        "a\u2100b.example",
        "a" * 64 + ".example",
        "\u00fc" * 64 + ".example",
        ".".join(["a" * 60] * 5),
    ],
)
def test_what_is_no_domain_is_none_everywhere(domain: str) -> None:
    assert ascii_domain(domain) is None
    assert canonical_address(f"a@{domain}") is None


FORMS = ["stra\u00dfe.example", "STRA\u00dfE.Example", "xn--strae-oqa.example", "XN--STRAE-OQA.example"]


@pytest.mark.parametrize("entry", FORMS)
@pytest.mark.parametrize("domain", FORMS)
def test_an_entry_in_either_form_covers_an_address_in_either_form(entry: str, domain: str) -> None:
    for rule in (entry, f"@{entry}", f"bob@{entry}"):
        assert matches(rule, f"bob@{domain}")
        assert matches(check_entry(rule), parse_address(f"bob@{domain}").canonical)
    assert not matches(entry, "bob@strasse.example")
    assert not matches("strasse.example", f"bob@{domain}")
