"""The decision table, for every combination of facts, against a second statement of the rules."""

from dataclasses import fields, replace
from itertools import combinations_with_replacement, product

import pytest

from postroom.policy.decision import Facts, RecipientFacts, decide

ADDRESS = "someone@example.com"
RECIPIENT_FLAGS = [field.name for field in fields(RecipientFacts) if field.name != "address"]


def every_recipient() -> list[RecipientFacts]:
    flags = product([False, True], repeat=len(RECIPIENT_FLAGS))
    return [RecipientFacts(address=ADDRESS, **dict(zip(RECIPIENT_FLAGS, values, strict=True))) for values in flags]


def every_situation() -> list[Facts]:
    axes = product(
        ["observer", "correspondent", "clerk"],
        [False, True],
        [False, True],
        ["always", "risk"],
        [(), ("jwt",)],
        [(), (ADDRESS,)],
        [None, "cap"],
        [{}, {ADDRESS: "why"}],
        [0, 3],
    )
    return [
        Facts(
            principal_is_owner=owner,
            recipients=(),
            profile=profile,
            read_only=read_only,
            approval=approval,  # type: ignore[arg-type]  # the axis holds the two literals
            secrets_found=secret,
            hidden=hidden,
            over_cap=cap,
            unreachable=nowhere,
            read_outside=read,
        )
        for profile, owner, read_only, approval, secret, hidden, cap, nowhere, read in axes
    ]


def expected(facts: Facts, recipient: RecipientFacts) -> tuple[str, str]:
    """The rules said again, as one ladder, for a mail to one recipient."""
    ladder = [
        (facts.read_only, "read_only"),
        (not facts.principal_is_owner and facts.profile == "observer", "profile"),
        (not facts.principal_is_owner and facts.profile == "clerk" and not recipient.is_local, "profile"),
        (recipient.blocked, "blocked"),
        (recipient.suppressed, "suppressed"),
        (recipient.limit_set and not recipient.in_limit, "outside_limit"),
        (bool(facts.hidden), "hidden_recipients"),
        (bool(facts.unreachable), "unreachable"),
        (bool(facts.secrets_found), "secret"),
        (facts.over_cap is not None, "over_cap"),
    ]
    for applies, code in ladder:
        if applies:
            return "refuse", code
    if facts.principal_is_owner:
        return "send", "owner"
    if facts.approval == "risk" and recipient.trusted and recipient.authenticated and facts.read_outside == 0:
        return "send", "trusted"
    return "hold", "approval"


def test_every_combination_for_one_recipient() -> None:
    recipients = every_recipient()
    for facts in every_situation():
        for recipient in recipients:
            answer = decide(replace(facts, recipients=(recipient,)))
            assert (answer.outcome, answer.code) == expected(facts, recipient), (facts, recipient)
            assert answer.reasons
            assert set(answer.refused) <= {ADDRESS}


STRICTNESS = {"refuse": 0, "hold": 1, "send": 2}


def test_several_recipients_get_the_strictest_answer_of_each_alone() -> None:
    kinds = [
        RecipientFacts(address="blocked@example.com", blocked=True),
        RecipientFacts(address="suppressed@example.com", suppressed=True),
        RecipientFacts(address="outside@example.com", limit_set=True),
        RecipientFacts(address="inside@example.com", limit_set=True, in_limit=True),
        RecipientFacts(address="trusted@example.com", trusted=True, authenticated=True),
        RecipientFacts(address="claimed@example.com", trusted=True),
        RecipientFacts(address="local@postroom.localhost", is_local=True, authenticated=True),
        RecipientFacts(address="stranger@example.com"),
    ]
    for facts in every_situation():
        for pair in combinations_with_replacement(kinds, 2):
            alone = [decide(replace(facts, recipients=(one,))).outcome for one in pair]
            assert decide(replace(facts, recipients=pair)).outcome == min(alone, key=STRICTNESS.__getitem__), (facts, pair)


@pytest.mark.parametrize(
    ("facts", "code", "refused"),
    [
        ({"profile": "clerk"}, "profile", ("b@x.example", "c@x.example", "d@x.example")),
        ({}, "blocked", ("b@x.example",)),
        ({"profile": "observer"}, "profile", ()),
        ({"read_only": True}, "read_only", ()),
    ],
)
def test_a_refusal_names_the_addresses_it_is_about(facts: dict[str, object], code: str, refused: tuple[str, ...]) -> None:
    recipients = (
        RecipientFacts(address="a@postroom.localhost", is_local=True),
        RecipientFacts(address="b@x.example", blocked=True),
        RecipientFacts(address="c@x.example", suppressed=True),
        RecipientFacts(address="d@x.example", limit_set=True),
    )
    answer = decide(replace(Facts(principal_is_owner=False, recipients=recipients), **facts))  # type: ignore[arg-type]  # a table
    assert (answer.code, answer.refused) == (code, refused)


def test_a_mail_to_nobody_is_refused() -> None:
    assert decide(Facts(principal_is_owner=True, recipients=())).code == "no_recipients"


def test_an_unreachable_recipient_is_told_why() -> None:
    facts = Facts(
        principal_is_owner=False, recipients=(RecipientFacts(address=ADDRESS),), unreachable={ADDRESS: "no relay is configured"}
    )
    answer = decide(facts)
    assert (answer.reasons, answer.refused) == (("no relay is configured",), (ADDRESS,))


def test_kinds_of_secrets_are_named_once_and_values_never() -> None:
    facts = Facts(
        principal_is_owner=False, recipients=(RecipientFacts(address=ADDRESS),), secrets_found=("jwt", "aws-key-id", "jwt")
    )
    assert decide(facts).reasons == ("the mail holds a secret (jwt, aws-key-id); take it out and send again",)


@pytest.mark.parametrize(
    ("recipient", "read", "reasons"),
    [
        ({}, 0, ("a recipient is not trusted",)),
        ({"trusted": True}, 0, ("a trusted recipient is not authenticated",)),
        ({"trusted": True, "authenticated": True}, 2, ("the agent has read mail from outside (2)",)),
    ],
)
def test_under_risk_a_question_says_why_it_is_asked(recipient: dict[str, bool], read: int, reasons: tuple[str, ...]) -> None:
    known = RecipientFacts(address=ADDRESS, **recipient)
    assert decide(Facts(principal_is_owner=False, approval="risk", recipients=(known,), read_outside=read)).reasons == reasons
