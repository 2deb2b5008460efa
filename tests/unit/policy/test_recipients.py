"""When a list entry means an address. The bypasses of the reference (A40) are refused here."""

import pytest

from postroom.errors import Invalid
from postroom.policy.recipients import canonical_address, canonical_domain, check_entry, matches


@pytest.mark.parametrize(
    ("entry", "address", "covered"),
    [
        ("ok@acme.com", "ok@acme.com", True),
        ("OK@Acme.COM", "ok@acme.com", True),
        ("ok@acme.com", "OK@ACME.com", True),
        (" ok@acme.com ", "ok@acme.com", True),
        ("acme.com", "anyone@acme.com", True),
        ("@acme.com", "anyone@acme.com", True),
        ("@ACME.com.", "anyone@acme.com", True),
        ("acme.com", "anyone@mail.acme.com", False),
        ("@acme.com", "anyone@notacme.com", False),
        ("acme.com", "acme.com@evil.com", False),
        ("ok@acme.com", "ok+tag@acme.com", False),
        ("ok@acme.com", '"ok"@acme.com', True),
        ("bücher.example", "a@xn--bcher-kva.example", True),
        ("xn--bcher-kva.example", "a@BÜCHER.example", True),
        ("acme.com", "a@ａｃｍｅ.com", True),
        ("acme.com", "a@acme。com", True),
        ("fass.de", "a@faß.de", False),
        ("acme.com", "a@аcme.com", False),
        ("k@acme.com", "\u212a@acme.com", False),
        ("", "a@acme.com", False),
        ("   ", "a@acme.com", False),
        ("@", "a@acme.com", False),
        ("*", "a@acme.com", False),
        (".com", "a@acme.com", False),
        ("acme.com", "attacker@evil.com, ok@acme.com", False),
        ("acme.com", "<ok@acme.com>, attacker@evil.com", False),
        ("acme.com", '"<ok@acme.com>" <attacker@evil.com>', False),
        ("acme.com", "group: a@acme.com;", False),
        ("acme.com", "a@acme.com\r\nBcc: x@evil.com", False),
        ("acme.com", "a@evil.com\u200b@acme.com", False),
        ("acme.com", "a@acme.com\u200b", False),
        ("acme.com", "Name <a@acme.com>", False),
        ("acme.com", "a b@acme.com", False),
        ("acme.com", "@acme.com", False),
        ("acme.com", "", False),
    ],
)
def test_an_entry_covers_exactly_what_it_says(entry: str, address: str, covered: bool) -> None:
    assert matches(entry, address) is covered


@pytest.mark.parametrize(
    ("domain", "canonical"),
    [
        ("Example.COM.", "example.com"),
        ("пример.рф", "xn--e1afmkfd.xn--p1ai"),
        ("faß.de", "xn--fa-hia.de"),
        ("a..b", None),
        ("-a.example", None),
        ("a_b.example", "a_b.example"),
        ("a b", None),
        ("☃.example", None),
        ("a" * 64 + ".example", None),
        (".".join(["a" * 60] * 5), None),
        ("", None),
    ],
)
def test_domains_have_one_ascii_form(domain: str, canonical: str | None) -> None:
    assert canonical_domain(domain) == canonical


def test_only_ascii_letters_of_the_local_part_are_folded() -> None:
    assert canonical_address("Straße@Example.com") == "straße@example.com"
    assert canonical_address("ÄB@example.com") == "Äb@example.com"


@pytest.mark.parametrize(
    ("entry", "canonical"), [("@Acme.com", "acme.com"), (" Bob@Acme.com ", "bob@acme.com"), ("acme.com", "acme.com")]
)
def test_entries_are_stored_in_one_form(entry: str, canonical: str) -> None:
    assert check_entry(entry) == canonical


@pytest.mark.parametrize("entry", ["", "@", "a b", "a@b, c@d", "*", "bob@", "Bob <bob@acme.com>"])
def test_an_entry_that_could_never_match_is_invalid(entry: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_entry(entry)
    assert refused.value.details["errors"][0]["code"] == "invalid_entry"
