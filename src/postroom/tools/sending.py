"""What submitting a mail came to, told to a model: sent, held, refused, or the same as before; and what a person is asked."""

from __future__ import annotations

from typing import Any, Final

from postroom.clock import to_iso
from postroom.model.outgoing import Outgoing, State, Submission
from postroom.safety.unicode import one_line
from postroom.safety.view import address_line
from postroom.tools.result import ToolResult

_ASKED_CHARS: Final = 300  # of a subject and a text, in a question; its whole is one command away
_LINE_CHARS: Final = 1000
_LEFT = (State.SENDING, State.SENT)
_OVER = {
    State.REFUSED: "The mail was refused and was not sent",
    State.EXPIRED: "Nobody approved the mail in time; it was not sent",
    State.FAILED: "The mail could not be delivered",
    State.UNCERTAIN: "It is not known whether the mail was sent; the owner decides, do not send it again",
}


def told(submission: Submission, *, canonical: bool) -> ToolResult:
    """The result of a tool that sends. `canonical` adds the reference's field names for programs."""
    if submission.state in _LEFT:
        return _sent(submission, canonical=canonical)
    if submission.state in (State.HELD, State.APPROVED):
        return _held(submission)
    return _refused(submission)


def _sent(submission: Submission, *, canonical: bool) -> ToolResult:
    lead = "Already sent a moment ago; not sent again" if submission.repeated else "Sent"
    structured: dict[str, Any] = {"message_id": submission.message_id, "thread_id": submission.thread_id}
    if canonical:
        structured |= {"messageId": submission.message_id, "threadId": submission.thread_id}
    if submission.repeated:
        structured["duplicate"] = True
    text = f"{lead}. message_id {submission.message_id}, thread_id {submission.thread_id}"
    return ToolResult(text=text, structured=structured)


def _held(submission: Submission) -> ToolResult:
    how = f"the owner runs: postroom held approve {submission.outgoing_id} (or uses the console)"
    structured: dict[str, Any] = {"status": "held", "approval_id": submission.outgoing_id, "digest": submission.digest}
    lead = "Held, not sent: it waits for the owner's approval"
    if submission.state is State.APPROVED:
        structured["status"], how = "approved", "it leaves as soon as it can be delivered"
        lead = "Approved, not sent yet"
    if submission.expires_at is not None:
        structured["expires_at"] = to_iso(submission.expires_at)
    if submission.repeated:
        structured["duplicate"] = True
        lead = f"The same mail was submitted a moment ago. {lead}"
    structured |= {"how": how, "reasons": list(submission.reasons)}
    until = f", expires {structured['expires_at']}" if submission.expires_at is not None else ""
    why = f" Why: {'; '.join(submission.reasons)}." if submission.reasons else ""
    text = f"{lead}. approval_id {submission.outgoing_id}{until}. To approve, {how}.{why} Do not send it again."
    if submission.state is State.APPROVED:
        text = f"{lead}: {how}. approval_id {submission.outgoing_id}.{why} Do not send it again."
    return ToolResult(text=text, structured=structured)


def _refused(submission: Submission) -> ToolResult:
    lead = _OVER.get(submission.state, f"The mail is {submission.state}")
    addresses = f" Recipients: {', '.join(submission.refused)}." if submission.refused else ""
    why = f" Why: {'; '.join(submission.reasons)}." if submission.reasons else ""
    structured = {
        "status": submission.state.value,
        "approval_id": submission.outgoing_id,
        "refused": list(submission.refused),
        "reasons": list(submission.reasons),
    }
    return ToolResult(text=f"{lead}.{addresses}{why}", structured=structured, is_error=True)


def question(mail: Outgoing) -> str:
    """What a person in their harness's dialog is asked: who gets it, hidden recipients first, about what, and why they are asked."""
    rows = [
        (name, ", ".join(map(address_line, people))) for name, people in (("bcc", mail.bcc), ("to", mail.to), ("cc", mail.cc))
    ]
    rows += [("subject", one_line(mail.subject, _ASKED_CHARS)), ("attached", ", ".join(name for name, _ in mail.attachments))]
    rows += [("says", one_line(mail.text, _ASKED_CHARS)), ("why asked", "; ".join(mail.reasons))]
    rows += [("noticed", f"{finding.code}: {finding.detail}") for finding in mail.findings]
    rows += [("agent has read", f"{len(mail.read)} mails from outside" if mail.read else "")]
    rows += [(mail.boundary, mail.boundary_reason), ("whole", f"postroom held show {mail.outgoing_id}")]
    return "\n".join(["Send this mail?", *(f"{name}: {one_line(value, _LINE_CHARS)}" for name, value in rows if value)])
