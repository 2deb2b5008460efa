"""Secrets are found in every form we know, wherever they stand, and ordinary mail is left alone."""

import base64
import random
import re
from email import message_from_bytes
from email.message import Message as Mime
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.safety.redact import OWN, Redactor, Span
from postroom.safety.secret_rules import RULES
from secret_formats import CONTEXTS, FORMATS

OWN_VALUE = "correct-horse-battery-9"


def _leaks(secret: str, redacted: str) -> bool:
    """Is any third of the secret's last two thirds still there?"""
    tail = secret.split("-----\n")[1] if secret.startswith("-----") else secret
    size = len(tail) // 3
    return any(tail[at : at + size] in redacted for at in range(size, len(tail) - size + 1))


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_redacted_in_each_context(name: str, context: str) -> None:
    text, secret = FORMATS[name]()
    mail = CONTEXTS[context].format(text)
    redacted, count = Redactor().redact(mail)
    assert count >= 1
    assert not _leaks(secret, redacted)
    first_line = mail.split("{")[0].split("\n")[0][:7]
    assert redacted.startswith(first_line)


def test_there_are_at_least_sixty_four_formats() -> None:
    assert len(FORMATS) >= 64


@pytest.mark.parametrize("name", ["github personal", "aws key id", "hugging face", "npm", "google api key"])
@pytest.mark.parametrize("split", [" ", "\n", "\u00a0", "\u200b", "\u2060", "\U000e0041"])
def test_a_token_of_fixed_length_split_by_blanks_is_found(name: str, split: str) -> None:
    _, secret = FORMATS[name]()
    broken = secret[:9] + split + secret[9:15] + split + secret[15:]
    redacted, count = Redactor().redact(f"use {broken} today")
    assert count == 1
    assert redacted.startswith("use [redacted:")
    assert redacted.endswith("] today")


def test_full_width_letters_hide_nothing() -> None:
    _, secret = FORMATS["github personal"]()
    wide = "".join(chr(ord(char) + 0xFEE0) for char in secret)
    redacted, count = Redactor().redact(f"日本 {wide} です")
    assert count == 1
    assert redacted.startswith("日本 [redacted:github-token#")
    assert redacted.endswith("] です")


# What the reference mailbox hides at ingest (B14), at the least length it says, and what people write.
SHAPES = [
    ("sk-", "abcdefghijklmnop"),
    ("Bearer ", "abcdefghijklmnop"),
    ("bearer ", "ABCDEFGH12345678"),
    ("api_key=", "abcdefgh"),
    ("api-key: ", "abcdefgh1"),
    ('"access_token":"', "abcd1234"),
    ("X-Api-Key: ", "abcd1234efgh"),
    ("token: ", "supersecretvalue"),
    ("secret=", "correcthorse"),
    ("password=", "hunterhunter"),
    ("Password : ", "Hunter-22"),
    ("authorization: ", "abcdefgh12345678"),
    ("AWS_SECRET_ACCESS_KEY=", "Ab1/" * 10),
    ("https://example.com/?x=1&api_key=", "abcd1234efgh"),
    ("Server=db;Password=", "S3cret!pw"),
    ("The **password**: `", "Tr0ub4dor&3"),
    ("Your new password is: ", "Hunter-22"),
    ("eyJ", "hbGciOiJIUzI1NiIsInR5"),
]


@pytest.mark.parametrize(("label", "value"), SHAPES)
def test_a_value_said_to_be_secret_is_redacted_and_its_label_stays(label: str, value: str) -> None:
    redacted, count = Redactor().redact(f"see {label}{value}\nbye")
    assert count == 1
    assert value not in redacted
    kept = "" if label in ("sk-", "eyJ") else label
    assert redacted.startswith(f"see {kept}[redacted:")
    assert redacted.endswith("\nbye")


NO_SECRETS = [
    "The password is required to log in. Your password has expired, please reset it.",
    "Passwords are changed every month; the secret: patience.",
    "password: ********",
    "Password: (leave empty)",
    "token = $GITHUB_TOKEN and secret: ${{ secrets.NPM }}",
    "api_key = <your key here>",
    "https://user@example.com/path and ssh://git@example.com:22/repo.git",
    "Message-ID: <CAF0123456789abcdefABCDEF+xyz_1234567890@mail.example.com>",
    "id 01890a5d-ac96-774b-bcce-b302099a8057, sha256 " + "0a1b2c3d" * 8,
    "integrity sha512-" + base64.b64encode(bytes(range(64))).decode(),
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----",
    "DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=s1; bh=" + base64.b64encode(bytes(32)).decode() + "; b=abc",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "Ab1" * 14 + " bob@box",
    "The task-risk-assessment-for-everyone and sk-learn-from-all-the-examples",
    "He was the bearer of surprisingly-good-news-for-everybody-there.",
    "basic authorization is described in chapter two",
    "am_i_the_only_one_who_thinks_this_is_too_long_a_name",
    "The CIO and the npm_package re_export AC unit key-value pairs",
    "Confirm: https://example.com/confirm?token=abcdef123456&login_token=x1y2z3a4b5c6&amp;token=q1w2e3r4t5",
    "Your token: 482913. Your password is 482913. Passcode: 48 29 13",
    "What is the secret? Token: none. Password:\n\nSincerely",
]


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_only_looks_secret_stays(text: str) -> None:
    assert Redactor().redact(text) == (text, 0)


def _texts_of(folder: Path) -> list[tuple[str, str]]:
    texts = []
    for path in sorted(folder.glob("*/*")):
        parts = message_from_bytes(path.read_bytes()).walk()
        texts += [(path.name, _decoded(part)) for part in parts if part.get_content_maintype() == "text"]
    return texts


def _decoded(part: Mime) -> str:
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    try:
        return data.decode(part.get_content_charset() or "utf-8", "replace")
    except LookupError:
        return data.decode("latin-1")


def test_no_false_alarm_on_real_mail(cases: Path) -> None:
    texts = _texts_of(cases / "mail")
    assert len(texts) > 400
    redactor = Redactor()
    assert [(name, span, text[span.start : span.end]) for name, text in texts for span in redactor.find(text)] == []


def test_our_own_secret_is_found_as_it_is_and_percent_encoded() -> None:
    redactor = Redactor([OWN_VALUE])
    whole = "".join(f"%{byte:02x}" for byte in OWN_VALUE.encode())
    for spelled in (OWN_VALUE, quote(OWN_VALUE.replace("-", "%2D"), safe="%"), whole, whole.upper(), "%63" + OWN_VALUE[1:]):
        assert redactor.find(f"x{spelled}y") == [Span(1, 1 + len(spelled), OWN)]


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:"])
@pytest.mark.parametrize("after", ["", "z", "yz"])
def test_our_own_secret_is_found_inside_base64_at_any_place(before: str, after: str) -> None:
    coded = base64.b64encode((before + OWN_VALUE + after).encode()).decode()
    assert [span.kind for span in Redactor([OWN_VALUE]).find(f"header {coded} end")] == [OWN]


def test_our_own_secret_split_by_blanks_is_found() -> None:
    redacted, count = Redactor([OWN_VALUE]).redact("a correct-\n horse-bat\u200btery-9 z")
    assert count == 1
    assert re.fullmatch(r"a \[redacted:own-secret#[0-9a-f]{6}\] z", redacted)


def test_a_secret_may_hold_letters_beyond_ascii() -> None:
    redacted, count = Redactor(["pässwörd-ü-1"]).redact("das ist pässwörd-ü-1 für dich 😀 pässwörd-ü-1.")
    assert count == 2
    assert redacted.endswith("].")


def test_short_values_are_not_taken_as_secrets() -> None:
    assert Redactor(["abc"]).redact("abc") == ("abc", 0)


def test_two_mentions_share_a_tag_and_another_house_has_another() -> None:
    text = f"{OWN_VALUE} then {OWN_VALUE}"
    first = Redactor([OWN_VALUE]).redact(text)[0].split(" then ")
    assert first[0] == first[1]
    assert Redactor([OWN_VALUE], key=b"1").redact(text)[0] != Redactor([OWN_VALUE], key=b"2").redact(text)[0]


def test_redacting_twice_changes_nothing_more() -> None:
    for make in FORMATS.values():
        once, _ = Redactor().redact(f"see {make()[0]} here")
        assert Redactor().redact(once) == (once, 0)


def test_spans_are_counted_in_characters_of_the_text() -> None:
    _, secret = FORMATS["github personal"]()
    text = f"😀é日 {secret} \ud800"
    assert [text[span.start : span.end] for span in Redactor().find(text)] == [secret]


_PIECES = st.sampled_from(
    ["password: ", "token=", "ghp_", "a1B2" * 9, " ", "\u200b", "é", "日", "😀", "\ud800", "sk-", "x" * 20, '"', "://a:bcd1@e"]
)


@given(st.lists(st.one_of(_PIECES, st.text(max_size=8)), max_size=20).map("".join))
def test_for_any_text_spans_are_in_order_apart_and_inside_it(text: str) -> None:
    redactor = Redactor(["correct-horse"])
    spans = redactor.find(text)
    edges = [edge for span in spans for edge in (span.start, span.end)]
    assert edges == sorted(edges)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    redacted, count = redactor.redact(text)
    assert count == len(spans)
    assert redacted.count("[redacted:") >= count


HOSTILE = {
    "one letter": "a" * 1_000_000,
    "prefixes": "sk-" * 333_000,
    "open urls": "://:" * 250_000,
    "key headers": ("-----BEGIN RSA PRIVATE " + "KEY-----\n") * 30_000,
    "assignments": "password = " * 90_000,
    "dots": "eyJ" + "a." * 500_000,
    "blanks": "ghp_ " + " \n" * 500_000,
    "noise": base64.b64encode(random.Random(7).randbytes(750_000)).decode(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_read_to_the_end(name: str) -> None:
    text = HOSTILE[name]
    spans = Redactor().find(f"{text} ghp_" + "a1B2" * 9)
    assert spans[-1].end == len(text) + 41


def test_rules_have_unique_patterns_and_plain_names() -> None:
    assert len({rule.pattern for rule in RULES}) == len(RULES)
    assert all(re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", rule.kind) for rule in RULES)


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        (b"", ()),
        (b"nothing here", ()),
        (OWN_VALUE.encode(), (OWN,)),
        (b"\x89PNG\0" + OWN_VALUE.encode(), (OWN,)),
        (b"\xff\xd8 " + base64.b64encode(OWN_VALUE.encode()), (OWN,)),
        (OWN_VALUE.encode("utf-16"), (OWN,)),
        (OWN_VALUE.encode("utf-8-sig"), (OWN,)),
        ("\ufeff".encode("utf-16-be") + OWN_VALUE.encode("utf-16-be"), (OWN,)),
        (b"correct-\r\n horse-battery-9", (OWN,)),
        (b"AKIA" + b"QX2TZ7NLW4KM3PVB", ("aws-key-id",)),
    ],
)
def test_a_file_is_read_as_text_where_it_is_text_else_as_bytes(content: bytes, kinds: tuple[str, ...]) -> None:
    assert Redactor([OWN_VALUE]).kinds_in(content) == kinds
