"""May this mail go out? One pure function from facts to an answer.

Gate the action, not the text: nothing here reads the body. The facts come from tables the owner
controls and from what the gateway saw itself, never from the agent. The questions are asked in a
fixed order and the first that answers wins, so that a refusal never costs a person a question:

1. **read-only**: nothing leaves.
2. **profile**: an observer never sends; a clerk writes to addresses inside the house only.
3. **blocked or suppressed**: on the owner's block list, or bounced and complained before.
4. **outside the limit**: the limit has entries and this recipient is in none of them.
5. **hidden**: it names hidden recipients (Bcc), which agents may only where the owner switched that on.
6. **unreachable**: no relay could deliver it; said now, while nothing is lost.
7. **secret**: the mail holds what must not leave. Blocked, never altered: a changed mail is a lie.
8. **caps**: the day's number of mails or of new recipients is used up.
9. **the owner's own act**: sent with the owner's key, it needs no question; all but the profile, Bcc and caps held for it too.
10. **risk**: under `approval = "risk"`, every recipient trusted and authenticated, and the agent has
   read nothing from outside since the owner last cleared that ⇒ it goes.
11. **ask**: everything else is held for a person.

One refused recipient refuses the mail: sending to the rest would not be what was asked.
The docs' page of this table is made from this module (`policy.table`), so it cannot drift.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["send", "hold", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientFacts:
    """What the gateway knows of one recipient. `in_limit` matters where `limit_set`.

    `authenticated`: mail from this address has passed, and we wrote to it; an inbox of the house is.
    """

    address: str
    is_local: bool = False
    blocked: bool = False
    suppressed: bool = False
    in_limit: bool = False
    limit_set: bool = False
    trusted: bool = False
    authenticated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything the decision depends on. `unreachable` maps an address to why.

    `hidden`: recipients in Bcc, where the caller may not name any.
    `read_outside`: how many mails from outside the agent was shown since its owner last cleared that.
    """

    principal_is_owner: bool
    recipients: tuple[RecipientFacts, ...]
    profile: str = "correspondent"
    read_only: bool = False
    approval: Literal["always", "risk"] = "always"
    hidden: tuple[str, ...] = ()
    secrets_found: tuple[str, ...] = ()
    over_cap: str | None = None
    unreachable: Mapping[str, str] = field(default_factory=dict)
    read_outside: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer. `refused` names the addresses a refusal is about; `code` is stable, `reasons` are for people."""

    outcome: Outcome
    code: str
    reasons: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def decide(facts: Facts) -> Decision:
    """The first rule that has an answer."""
    for rule in RULES:
        answer = rule(facts)
        if answer is not None:
            return answer
    return _ask(facts)


def _no_recipients(facts: Facts) -> Decision | None:
    return None if facts.recipients else _refuse("no_recipients", "the mail has no recipient")


def _read_only(facts: Facts) -> Decision | None:
    return _refuse("read_only", "this house is read-only: nothing is sent") if facts.read_only else None


def _profile(facts: Facts) -> Decision | None:
    if facts.principal_is_owner:
        return None
    if facts.profile == "observer":
        return _refuse("profile", "the profile observer reads and never sends")
    outside = _addresses(facts, lambda recipient: facts.profile == "clerk" and not recipient.is_local)
    return _refuse("profile", "the profile clerk writes to addresses of this house only", outside) if outside else None


def _blocked(facts: Facts) -> Decision | None:
    blocked = _addresses(facts, lambda recipient: recipient.blocked)
    if blocked:
        return _refuse("blocked", "on the owner's block list", blocked)
    suppressed = _addresses(facts, lambda recipient: recipient.suppressed)
    return _refuse("suppressed", "mail to this address bounced or was complained about", suppressed) if suppressed else None


def _outside_limit(facts: Facts) -> Decision | None:
    outside = _addresses(facts, lambda recipient: recipient.limit_set and not recipient.in_limit)
    return _refuse("outside_limit", "outside the limit of addresses that may be written to", outside) if outside else None


def _hidden(facts: Facts) -> Decision | None:
    return (
        _refuse("hidden_recipients", "agents may not send Bcc here; name these in to or cc", facts.hidden)
        if facts.hidden
        else None
    )


def _unreachable(facts: Facts) -> Decision | None:
    nowhere = _addresses(facts, lambda recipient: recipient.address in facts.unreachable)
    reasons = dict.fromkeys(facts.unreachable[address] for address in nowhere)
    return Decision(outcome="refuse", code="unreachable", reasons=tuple(reasons), refused=nowhere) if nowhere else None


def _secret(facts: Facts) -> Decision | None:
    if not facts.secrets_found:
        return None
    kinds = ", ".join(dict.fromkeys(facts.secrets_found))
    return _refuse("secret", f"the mail holds a secret ({kinds}); take it out and send again")


def _over_cap(facts: Facts) -> Decision | None:
    return _refuse("over_cap", facts.over_cap) if facts.over_cap is not None else None


def _owner(facts: Facts) -> Decision | None:
    return Decision(outcome="send", code="owner", reasons=("sent with the owner's key",)) if facts.principal_is_owner else None


def _trusted(facts: Facts) -> Decision | None:
    known = all(recipient.trusted and recipient.authenticated for recipient in facts.recipients)
    if facts.approval != "risk" or not known or facts.read_outside:
        return None
    return Decision(outcome="send", code="trusted", reasons=("every recipient is trusted and authenticated",))


def _ask(facts: Facts) -> Decision:
    if facts.approval == "always":
        return Decision(outcome="hold", code="approval", reasons=("every mail is shown to the owner first",))
    reasons = []
    if not all(recipient.trusted for recipient in facts.recipients):
        reasons.append("a recipient is not trusted")
    if any(recipient.trusted and not recipient.authenticated for recipient in facts.recipients):
        reasons.append("a trusted recipient is not authenticated")
    if facts.read_outside:
        reasons.append(f"the agent has read mail from outside ({facts.read_outside})")
    return Decision(outcome="hold", code="approval", reasons=tuple(reasons))


RULES: tuple[Callable[[Facts], Decision | None], ...] = (
    _no_recipients,
    _read_only,
    _profile,
    _blocked,
    _outside_limit,
    _hidden,
    _unreachable,
    _secret,
    _over_cap,
    _owner,
    _trusted,
)


def _addresses(facts: Facts, condition: Callable[[RecipientFacts], bool]) -> tuple[str, ...]:
    return tuple(recipient.address for recipient in facts.recipients if condition(recipient))


def _refuse(code: str, reason: str, addresses: tuple[str, ...] = ()) -> Decision:
    return Decision(outcome="refuse", code=code, reasons=(reason,), refused=addresses)
