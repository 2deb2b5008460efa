"""Where an outbound request may go: hostile URLs, hostile names, and names that change their answer."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import pytest

from postroom.errors import Invalid, TransportFailure
from postroom.wires.destination import check_addresses, is_public, read_url
from postroom.wires.post import Poster

HOSTILE_URLS = [
    "http://example.com/",
    "http://127.0.0.1/",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://127.0.0.1./",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://017700000001/",
    "https://0177.0.0.1/",
    "https://0/",
    "https://0.0.0.0/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[2001:0:7f00:1::]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fc00::1]/",
    "https://[ff02::1]/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://198.18.0.1/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://localhost/",
    "https://LOCALHOST/",
    "https://localhost./",
    "https://metadata.localhost/",
    "https://user:secret@example.com/",
    "https://example.com@127.0.0.1/",
    "https://127.0.0.1\\@example.com/",
    "https://example.com\\.evil/",
    "https://exa mple.com/",
    "https://example.com/\r\nHost: evil",
    "https://example.com:0/",
    "https://example.com:99999/",
    "https://example.com:port/",
    "https://",
    "https:///path",
    "//example.com/",
    "example.com",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "https://-example.com/",
    "https://exa_mple..com/",
    "https://ex%61mple.com/",
    "https://bücher.example/",
    "https://１２７.0.0.1/",
    "https://example.com/" + "a" * 2048,
    "",
]


@pytest.mark.parametrize("url", HOSTILE_URLS)
def test_a_hostile_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_url(url)
    assert url == "" or url not in caught.value.message


@pytest.mark.parametrize(
    ("url", "authority", "at"),
    [
        ("https://example.com", "example.com", "https://1.1.1.1:443/"),
        ("https://EXAMPLE.com:8443/a?b=c", "example.com:8443", "https://1.1.1.1:8443/a?b=c"),
        ("https://example.com./hook#part", "example.com.", "https://1.1.1.1:443/hook"),
        ("https://a_b.example.com/", "a_b.example.com", "https://1.1.1.1:443/"),
        ("https://[2606:4700:4700::1111]/", "[2606:4700:4700::1111]", "https://1.1.1.1:443/"),
    ],
)
def test_an_ordinary_url_keeps_its_name_and_goes_to_the_checked_address(url: str, authority: str, at: str) -> None:
    target = read_url(url)
    assert (target.authority, target.at("1.1.1.1")) == (authority, at)
    assert target.tls_name == target.host.rstrip(".")


PRIVATE = ["127.0.0.1", "::1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fe80::1", "fd00::1", "0.0.0.0"]
PRIVATE += [
    "100.100.100.200",
    "64:ff9b::a00:1",
    "2002:a00:1::",
    "2001::1",
    "::ffff:0:127.0.0.1",
    "ff0e::1",
    "240.0.0.1",
    "192.0.0.8",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_may_not_lead_to_a_private_address(address: str) -> None:
    assert is_public(ipaddress.ip_address(address)) is False
    with pytest.raises(TransportFailure, match="not public"):
        check_addresses(read_url("https://example.com/"), ["93.184.216.34", address])


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_a_public_address_is_one(address: str) -> None:
    assert is_public(ipaddress.ip_address(address)) is True


def test_a_name_without_an_address_or_with_nonsense_is_a_failure() -> None:
    for addresses in ([], ["not an address"]):
        with pytest.raises(TransportFailure):
            check_addresses(read_url("https://example.com/"), addresses)


def test_the_owner_may_name_a_private_host_and_http_on_loopback() -> None:
    hosts = ("127.0.0.1:3000", "[::1]:3000", "app.internal:443", "app.internal:80")
    assert check_addresses(read_url("http://127.0.0.1:3000/", hosts), ["127.0.0.1"]) == ("127.0.0.1",)
    assert check_addresses(read_url("http://[::1]:3000/", hosts), ["::1"]) == ("::1",)
    assert check_addresses(read_url("https://app.internal/", hosts), ["10.0.0.7"]) == ("10.0.0.7",)
    with pytest.raises(TransportFailure, match="loopback"):
        check_addresses(read_url("http://app.internal/", hosts), ["10.0.0.7"])
    for other in ("http://127.0.0.1:3001/", "http://localhost:3000/", "https://app.internal:8443/", "http://127.1:3000/"):
        with pytest.raises((Invalid, TransportFailure)):
            check_addresses(read_url(other, hosts), ["127.0.0.1"])


async def test_a_name_is_resolved_once_and_the_checked_address_is_used() -> None:
    """A name that answers differently the second time (rebinding) is never asked a second time."""
    asked: list[str] = []

    async def resolver(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["192.0.2.1"] if len(asked) == 1 else ["127.0.0.1"]

    poster = Poster(timeout_s=1, resolver=resolver)
    with pytest.raises(TransportFailure, match="not public"):
        await poster.post("https://rebound.example/", b"", {})
    assert asked == ["rebound.example"]
