"""Reports about mail we sent: what failed, what merely waits, and what somebody complained about."""

from postroom.mime.bounce import Bounce, Complaint, read_report
from postroom.mime.parse import parse

HEAD = b"From: MAILER-DAEMON@mx.example.net\r\nTo: ann@example.org\r\nSubject: Undelivered\r\nReturn-Path: <>\r\n"


def report(*parts: bytes) -> Bounce | Complaint | None:
    body = b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + b"--b--\r\n"
    return read_report(parse(HEAD + b'Content-Type: multipart/report; boundary="b"\r\n\r\n' + body))


def status(*groups: bytes) -> bytes:
    return b"Content-Type: message/delivery-status\r\n\r\n" + b"\r\n\r\n".join((b"Reporting-MTA: dns; mx", *groups)) + b"\r\n"


def test_each_recipient_has_its_own_fate() -> None:
    found = report(
        b"Content-Type: text/plain\r\n\r\nSorry",
        status(
            b"Final-Recipient: rfc822; a@example.net\r\nAction: failed\r\nStatus: 5.1.1\r\nDiagnostic-Code: smtp; 550\r\n  no such user",
            b"Final-Recipient: RFC822;b@example.net\r\nAction: delayed\r\nStatus: 4.4.7",
            b"Original-Recipient: rfc822;c@example.net\r\nAction: relayed",
            b"Final-Recipient: rfc822; d@example.net",
            b"Action: failed",
        ),
        b"Content-Type: text/rfc822-headers\r\n\r\nMessage-ID: <1@example.org>\r\nSubject: x",
    )
    assert isinstance(found, Bounce)
    assert [(item.address, item.action, item.status) for item in found.recipients] == [
        ("a@example.net", "failed", "5.1.1"), ("b@example.net", "delayed", "4.4.7"), ("c@example.net", "relayed", None),
    ]  # fmt: skip
    assert (found.failed, found.message_id, found.kind) == (("a@example.net",), "<1@example.org>", "bounce")
    assert found.recipients[0].diagnostic == "550 no such user"


def test_line_ends_and_encodings_of_a_report_do_not_matter() -> None:
    encoded = b"Content-Type: message/delivery-status\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
    found = report(encoded + b"Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822;=\n a@example.net\nAction: failed\n")
    assert isinstance(found, Bounce)
    assert found.failed == ("a@example.net",)


def test_a_complaint_names_the_mail_and_its_recipient() -> None:
    feedback = (
        b"Content-Type: message/feedback-report\r\n\r\nFeedback-Type: Abuse\r\nUser-Agent: x/1\r\n"
        b"Original-Rcpt-To: <a@example.net>\r\nOriginal-Message-ID: <2@example.org>\r\n"
    )
    found = report(b"Content-Type: text/plain\r\n\r\nHi", feedback)
    assert found == Complaint(feedback_type="abuse", recipients=("a@example.net",), message_id="<2@example.org>")
    found = report(feedback.replace(b"Abuse", b"Annoyance"), b"Content-Type: message/rfc822\r\n\r\nMessage-ID: <3@x>\r\n\r\nHi")
    assert found == Complaint(feedback_type="other", recipients=("a@example.net",), message_id="<3@x>")


def test_ordinary_mail_and_empty_reports_are_no_reports() -> None:
    assert read_report(parse(HEAD + b"\r\nYour mail failed for a@example.net\r\n")) is None
    assert report(status()) is None
    assert report(b"Content-Type: message/delivery-status\r\n\r\n") is None


def test_a_report_in_words_lists_its_failures_in_a_header() -> None:
    found = read_report(parse(HEAD + b"X-Failed-Recipients: a@example.net, b@example.net\r\n\r\nUnrouteable address\r\n"))
    assert isinstance(found, Bounce)
    assert found.failed == ("a@example.net", "b@example.net")
    forged = b"From: eve@example.com\r\nX-Failed-Recipients: a@example.net\r\n\r\nHi\r\n"
    assert read_report(parse(forged)) is None


def test_a_report_of_thousands_is_read_to_the_limit() -> None:
    found = report(status(*(b"Final-Recipient: rfc822; a%d@example.net\r\nAction: failed" % number for number in range(3000))))
    assert isinstance(found, Bounce)
    assert len(found.recipients) == 200
