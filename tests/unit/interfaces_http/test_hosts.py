"""Host and Origin: exact lists (security: DNS rebinding)."""

import pytest

from postroom.errors import Forbidden, Invalid
from postroom.interfaces.http.hosts import Names


def judged(names: Names, *headers: tuple[str, str], arrived_at: tuple[str, int] = ("127.0.0.1", 4470)) -> str:
    try:
        names.check([(name.encode(), value.encode("latin-1")) for name, value in headers], arrived_at)
    except (Invalid, Forbidden) as refused:
        return refused.code
    return "ok"


@pytest.mark.parametrize(
    ("host", "verdict"),
    [
        ("127.0.0.1:4470", "ok"),
        ("localhost:4470", "ok"),
        ("LocalHost:4470", "ok"),
        ("[::1]:4470", "ok"),
        ("::1:4470", "invalid_host"),
        ("[::1]", "invalid_host"),
        ("[::1]:4471", "invalid_host"),
        ("[::1%25lo]:4470", "invalid_host"),
        ("[0:0:0:0:0:0:0:1]:4470", "invalid_host"),
        ("127.0.0.1", "invalid_host"),
        ("127.0.0.1:80", "invalid_host"),
        ("127.0.0.1:4470 ", "invalid_host"),
        ("127.0.0.1:04470", "invalid_host"),
        ("127.1:4470", "invalid_host"),
        ("localhost.:4470", "invalid_host"),
        ("localhost.evil.example:4470", "invalid_host"),
        ("evil.example:4470", "invalid_host"),
        ("127.0.0.1.nip.example:4470", "invalid_host"),
        ("owner@localhost:4470", "invalid_host"),
        ("localhost:4470@evil.example", "invalid_host"),
        ("localhost:4470,evil.example", "invalid_host"),
        ("http://localhost:4470", "invalid_host"),
        ("", "invalid_host"),
    ],
)
def test_only_the_services_own_names_are_answered(host: str, verdict: str):
    assert judged(Names("127.0.0.1", 4470), ("host", host)) == verdict


def test_there_is_exactly_one_host_header():
    names = Names("127.0.0.1", 4470)
    assert judged(names) == "invalid_host"
    assert judged(names, ("host", "localhost:4470"), ("host", "localhost:4470")) == "invalid_host"


@pytest.mark.parametrize(
    ("origin", "verdict"),
    [
        ("http://127.0.0.1:4470", "ok"),
        ("http://localhost:4470", "ok"),
        ("http://[::1]:4470", "ok"),
        ("https://127.0.0.1:4470", "forbidden_origin"),
        ("http://127.0.0.1", "forbidden_origin"),
        ("http://127.0.0.1:4471", "forbidden_origin"),
        ("http://127.0.0.1:4470/", "forbidden_origin"),
        ("http://evil.example", "forbidden_origin"),
        ("http://localhost.evil.example:4470", "forbidden_origin"),
        ("http://owner@localhost:4470", "forbidden_origin"),
        ("null", "forbidden_origin"),
        ("", "forbidden_origin"),
    ],
)
def test_an_origin_is_ours_or_refused(origin: str, verdict: str):
    assert judged(Names("127.0.0.1", 4470), ("host", "127.0.0.1:4470"), ("origin", origin)) == verdict


def test_the_address_listened_on_is_a_name_and_port_80_may_be_left_out():
    assert judged(Names("mail.example", 80), ("host", "mail.example")) == "ok"
    assert judged(Names("mail.example", 80), ("host", "mail.example:80"), ("origin", "http://mail.example")) == "ok"
    assert judged(Names("fd00::1", 4470), ("host", "[fd00::1]:4470")) == "ok"


def test_listening_everywhere_answers_to_the_literal_address_a_request_came_to():
    names = Names("0.0.0.0", 4470)
    here = ("192.0.2.7", 4470)
    assert judged(names, ("host", "192.0.2.7:4470"), ("origin", "http://192.0.2.7:4470"), arrived_at=here) == "ok"
    assert judged(names, ("host", "192.0.2.8:4470"), arrived_at=here) == "invalid_host"
    assert judged(names, ("host", "0.0.0.0:4470"), arrived_at=here) == "invalid_host"
    assert judged(Names("127.0.0.1", 4470), ("host", "192.0.2.7:4470"), arrived_at=here) == "invalid_host"
