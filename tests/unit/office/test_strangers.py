"""What an arriving mail's sender is to the house: unknown, known, or somebody who looks like one it knows."""

import pytest

from postroom.office.correspondents import note_written
from postroom.office.intake import Envelope

from .conftest import OWNER, House, letter

ADA = "ada@postroom.localhost"


async def codes(house: House, message_id: str, inbox: str = ADA) -> list[str]:
    return [finding.code for finding in (await house.mail.get_message(OWNER, inbox, message_id)).findings]


async def wrote(house: House, *addresses: str) -> None:
    await house.store.write(lambda tx: note_written(tx, OWNER.pod_id, addresses, at=1))


async def test_an_address_is_new_once_to_the_whole_house(house: House) -> None:
    await house.inbox("ada")
    await house.inbox("eve")
    both = Envelope(mail_from="bob@example.com", rcpt_to=(ADA, "eve@postroom.localhost"))
    await house.intake.accept(both, letter(message_id="<one@example.com>"))
    await house.settle()
    await house.arrive(letter(message_id="<two@example.com>", sender="Bob <BOB@Example.com>"))
    assert await codes(house, "<one@example.com>") == ["first_contact"]
    assert await codes(house, "<one@example.com>", "eve@postroom.localhost") == ["first_contact"]
    assert await codes(house, "<two@example.com>") == []


async def test_an_answer_from_somebody_we_wrote_to_is_no_first_contact(house: House) -> None:
    await house.inbox()
    await wrote(house, "bob@example.com")
    await house.arrive(letter())
    assert await codes(house, "<one@example.com>") == []


@pytest.mark.parametrize(
    ("domain", "found"),
    [
        ("paypa1.com", ["lookalike"]),
        ("PAYPAI.com", ["lookalike"]),
        ("xn--80aa0cbo65f.com", ["lookalike"]),  # in Cyrillic letters
        ("paypal.com", []),
        ("paypal.org", []),
        ("mail.paypal.com", []),
    ],
)
async def test_a_domain_that_looks_like_one_we_wrote_to_is_told_every_time(house: House, domain: str, found: list[str]) -> None:
    await house.inbox()
    await wrote(house, "service@paypal.com")
    for number in range(2):
        await house.arrive(letter(message_id=f"<{number}@example.com>", sender=f"Service <help@{domain}>"))
        assert await codes(house, f"<{number}@example.com>") == [*found, *(["first_contact"] if number == 0 else [])]


async def test_a_domain_that_looks_like_our_own_is_told(house: House) -> None:
    await house.inbox()
    await house.arrive(letter(sender="Eve <eve@postr00m.localhost>"))
    assert await codes(house, "<one@example.com>") == ["lookalike", "first_contact"]


async def test_who_only_wrote_to_us_is_nobody_to_be_taken_for(house: House) -> None:
    await house.inbox()
    await house.arrive(letter(sender="Eve <eve@paypa1.com>"))
    await house.arrive(letter(message_id="<two@example.com>", sender="Service <service@paypal.com>"))
    assert await codes(house, "<two@example.com>") == ["first_contact"]
