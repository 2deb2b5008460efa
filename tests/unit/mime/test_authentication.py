"""What proofs mean, what a trusted server said, what a domain asks for: RFC 7489, 8601."""

import pytest

from postroom.mime.authentication import (
    Claim,
    Policy,
    Proof,
    as_results,
    authserv_of,
    believe,
    judge,
    organisation,
    read_policy,
    read_results,
)
from postroom.model.mail import Authentication

REJECT = Policy(request="reject", subdomains="reject")
STRICT = Policy(request="quarantine", subdomains="none", strict_spf=True, strict_dkim=True)


def proof(method, result, domain):
    return Proof(method=method, result=result, domain=domain)


@pytest.mark.parametrize(
    ("author", "proofs", "policy", "expected"),
    [
        ("a.example", [proof("dkim", "pass", "a.example")], None, (True, "none")),
        ("a.example", [proof("dkim", "pass", "a.example")], REJECT, (True, "pass")),
        ("mail.a.example", [proof("dkim", "pass", "a.example")], REJECT, (True, "pass")),
        ("mail.a.example", [proof("dkim", "pass", "a.example")], Policy(strict_dkim=True), (False, "fail")),
        ("mail.a.example", [proof("spf", "pass", "a.example")], Policy(strict_spf=True), (False, "fail")),
        ("a.example", [proof("spf", "pass", "bounces.a.example")], REJECT, (True, "pass")),
        ("a.example", [proof("dkim", "pass", "b.example"), proof("spf", "pass", "b.example")], REJECT, (False, "fail")),
        ("a.example", [proof("dkim", "fail", "a.example"), proof("dkim", "pass", "a.example")], REJECT, (True, "pass")),
        ("a.example", [proof("dkim", "policy", "a.example")], REJECT, (False, "fail")),
        ("a.example", [proof("dkim", "temperror", "a.example")], REJECT, (False, "temperror")),
        ("a.co.uk", [proof("spf", "pass", "b.co.uk")], REJECT, (False, "fail")),
        ("a.example", [], None, (False, "none")),
        ("", [proof("dkim", "pass", "a.example")], None, (False, "fail")),
    ],
)
def test_a_proof_counts_when_its_domain_stands_for_the_author(author, proofs, policy, expected):
    found = judge(author, proofs, policy)
    assert (found.aligned, found.dmarc) == expected
    assert found.passed is (expected[0] and expected[1] != "fail")


def test_only_a_domain_that_asks_for_it_has_its_forgeries_kept_away():
    for request, kept_away in (("none", False), ("quarantine", True), ("reject", True)):
        found = judge("a.example", [], Policy(request=request, subdomains="none"))
        assert (found.dmarc, found.failed) == ("fail", kept_away)
        assert judge("sub.a.example", [], Policy(request=request, subdomains="none"), inherited=True).failed is False


@pytest.mark.parametrize(
    ("records", "policy"),
    [
        (["v=DMARC1; p=reject"], Policy(request="reject", subdomains="reject")),
        (["v=DMARC1;p=quarantine; sp=none; adkim=s; aspf=s"], STRICT),
        (["v=DMARC1; p=none", "other"], Policy()),
        (["v=DMARC1; p=reject", "v=DMARC1; p=none"], None),
        (["p=reject; v=DMARC1"], None),
        (["v=DMARC1; p=nonsense"], None),
        (["v=DMARC1; p=nonsense; rua=mailto:a@a.example"], Policy()),
        (["v=spf1 -all"], None),
        ([], None),
    ],
)
def test_a_policy_is_read_where_there_is_exactly_one(records, policy):

    assert read_policy(records) == policy


RESULTS = (
    "mx.house.example 1 (a (nested) comment); spf=pass smtp.mailfrom=ada@a.example; dkim=pass (2048-bit key; "
    'unprotected) header.d=a.example header.i="@a.example"; dmarc=pass (p=REJECT) header.from=a.example; made-up=nonsense'
)


def test_results_of_the_trusted_server_are_read_and_of_no_other():
    claims = read_results([RESULTS, RESULTS.replace("mx.house.example", "mx.other.example")], "MX.house.example")
    assert [(claim.method, claim.result) for claim in claims] == [("spf", "pass"), ("dkim", "pass"), ("dmarc", "pass")]
    assert claims[1].properties == {"header.d": "a.example", "header.i": "@a.example"}
    found = believe("a.example", claims, "mx.house.example")
    assert (found.passed, found.by, found.spf, found.dkim) == (True, "mx.house.example", "pass", "pass")


def test_what_the_server_said_of_another_domain_does_not_count():
    claims = read_results([RESULTS], "mx.house.example")
    assert believe("b.example", claims, "mx.house.example").passed is False
    assert believe("", claims, "mx.house.example").passed is False


def test_without_a_word_on_dmarc_alignment_is_ours_to_see():
    claims = [Claim(method="dkim", result="pass", properties={"header.i": "@mail.a.example"})]
    assert believe("a.example", claims, "mx").passed is True
    assert believe("b.example", claims, "mx").passed is False


@pytest.mark.parametrize(
    "value", ["", ";", "mx.house.example", "mx.house.example; none", '"; spf=pass', "(" * 5000, ';="' * 5000]
)
def test_odd_results_say_nothing(value):
    assert read_results([value], "mx.house.example") == ()


def test_our_own_results_are_read_back():
    written = as_results(Authentication(spf="pass", dkim="fail", dmarc="pass", arc="none"), "house.example")
    assert authserv_of(written) == "house.example"
    assert {claim.method: claim.result for claim in read_results([written], "house.example")} == {
        "spf": "pass",
        "dkim": "fail",
        "dmarc": "pass",
        "arc": "none",
    }


def test_the_organisation_is_one_label_below_a_public_suffix():
    assert [organisation(name) for name in ("a.b.co.uk", "mail.a.example", "a.example", "localhost")] == [
        "b.co.uk",
        "a.example",
        "a.example",
        "localhost",
    ]
