"""Domains that pass for another are reported; honest ones in any script are not."""

import pytest

from postroom.safety.confusables import skeleton
from postroom.safety.lookalike import domain_findings, to_unicode


@pytest.mark.parametrize(
    "domain",
    ["аpple.com", "pаypal.example", "xn--pple-43d.com", "gооgle.com", "mail.micrоsoft.example", "αmazon.example"],
)
def test_mixed_scripts_in_one_label_are_reported(domain: str) -> None:
    assert [finding.code for finding in domain_findings(domain)] == ["lookalike"]


@pytest.mark.parametrize("domain", ["раураl.com", "аррӏе.com", "APPLE.com.", "ａｐｐｌｅ.com", "xn--80ak6aa92e.com"])
def test_a_domain_that_looks_like_a_known_one_is_reported(domain: str) -> None:
    found = domain_findings(domain, ["paypal.com", "apple.com"])
    assert [finding.code for finding in found] == ([] if domain == "APPLE.com." else ["lookalike"])


@pytest.mark.parametrize(
    "domain",
    [
        "example.com",
        "пример.рф",
        "яндекс.рф",
        "παράδειγμα.gr",
        "日本語テスト.jp",
        "한국kr.kr",
        "bücher.example",
        "faß.de",
        "a-1.example",
    ],
)
def test_honest_domains_are_not_reported(domain: str) -> None:
    assert domain_findings(domain, ["example.com", "other.example"]) == ()


def test_whose_domain_it_is_is_said() -> None:
    assert (
        domain_findings("аpple.com", whose="the host of a link")[0].detail
        == "the host of a link mixes letters of several scripts"
    )


def test_a_broken_a_label_is_shown_as_it_is() -> None:
    assert to_unicode("xn--\u00e4.example.") == "xn--\u00e4.example"


def test_skeletons_fold_width_accents_and_scripts() -> None:
    assert skeleton("ＰａуＰaⅼ") == "paypal"
    assert skeleton("e\u0301\u200bx") == "ex"
