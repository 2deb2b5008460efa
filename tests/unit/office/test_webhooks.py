"""Webhooks over a real store: what is owed, how often it is tried, what is said of it, whose they are."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import pytest
from sqlalchemy import func, select

from postroom.config import Config
from postroom.errors import Forbidden, Invalid, NotFound, TransportFailure
from postroom.model.event import Event
from postroom.model.paging import PageRequest
from postroom.model.webhook import NewWebhook, Webhook, WebhookChanges, WebhookDelivery
from postroom.office import tables as t
from postroom.office.deliveries import RETRIES_S, Deliveries
from postroom.store.statement import sql

from .conftest import FIRST, OWNER, House, agent, letter

URL = "https://hooks.example/in"
NEW = NewWebhook(url=URL, event_types=("message.received",))


class Post:
    """Answers posts as told and keeps them."""

    def __init__(self) -> None:
        self.answers: list[int | Exception] = []
        self.taken: list[tuple[str, bytes, Mapping[str, str]]] = []

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        self.taken.append((url, body, headers))
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, Exception):
            raise answer
        return answer


async def render(event: Event) -> bytes | None:
    return event.event_id.encode()


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
async def work(house: House, post: Post) -> Deliveries:
    return worker(house, post)


def worker(house: House, post: Post) -> Deliveries:
    made = Deliveries(house.store, post)
    made.rendered_by(render)
    return made


async def hook(house: House, **fields: object) -> Webhook:
    return await house.mail.create_webhook(OWNER, None, replace(NEW, **fields))  # type: ignore[arg-type]  # fields of NewWebhook


async def deliveries(house: House, made: Webhook) -> list[WebhookDelivery]:
    return list((await house.mail.list_deliveries(OWNER, made.webhook_id, FIRST)).items)


async def test_an_event_is_posted_once_to_who_hears_of_it(house: House, post: Post, work: Deliveries) -> None:
    await house.inbox()
    await house.inbox("eve")
    everything = await hook(house)
    eves = await hook(house, inbox_ids=("EVE@postroom.localhost",), url=f"{URL}/eve")
    other = await hook(house, event_types=("message.sent",), url=f"{URL}/sent")
    own = await house.mail.create_webhook(OWNER, "ada@postroom.localhost", replace(NEW, url=f"{URL}/ada"))
    await house.arrive(letter())
    await work.step()
    await work.step()
    assert sorted(url for url, _, _ in post.taken) == [URL, f"{URL}/ada"]
    assert [(row.state, row.attempts, row.status) for row in await deliveries(house, everything)] == [("delivered", 1, 200)]
    assert (await deliveries(house, eves), await deliveries(house, other)) == ([], [])
    assert (own.inbox_id, own.inbox_ids) == ("ada@postroom.localhost", ())


async def test_what_happened_before_a_webhook_was_made_is_not_its(house: House, post: Post, work: Deliveries) -> None:
    await house.inbox()
    await house.arrive(letter())
    await hook(house)
    await work.step()
    assert post.taken == []


async def test_a_failing_endpoint_is_tried_on_its_schedule_with_one_id(house: House, post: Post, work: Deliveries) -> None:
    await house.inbox()
    made = await hook(house)
    post.answers = [500, TransportFailure("cannot connect", kind="temporary"), 301, 404, 503, 500, 500, 500]
    await house.arrive(letter())
    await work.step()
    for pause in RETRIES_S:
        assert await work.step() == 0
        house.clock.forward(pause)
        assert await work.step() == 1
    house.clock.forward(10 * 86400)
    assert await work.step() == 0
    (row,) = await deliveries(house, made)
    assert (row.state, row.attempts, row.status, row.next_at) == ("failed", 8, 500, None)
    assert {headers["svix-id"] for _, _, headers in post.taken} == {row.delivery_id}
    assert len({headers["svix-timestamp"] for _, _, headers in post.taken}) == 8


async def test_the_last_error_is_seen_and_a_later_success_settles_it(house: House, post: Post, work: Deliveries) -> None:
    await house.inbox()
    made = await hook(house)
    post.answers = [TransportFailure("cannot connect", kind="temporary"), 204]
    await house.arrive(letter())
    await work.step()
    (row,) = await deliveries(house, made)
    assert (row.state, row.attempts, row.error, row.next_at is not None) == ("queued", 1, "cannot connect", True)
    house.clock.forward(RETRIES_S[0])
    await work.step()
    (row,) = await deliveries(house, made)
    assert (row.state, row.attempts, row.status, row.error) == ("delivered", 2, 204, None)


async def test_what_was_owed_at_a_crash_is_posted_after_it_and_nothing_twice(house: House, post: Post, work: Deliveries) -> None:
    await house.inbox()
    made = await hook(house)
    await house.arrive(letter())
    await work.step()
    await house.arrive(letter(message_id="<two@example.com>"))
    await work.owe()
    await house.arrive(letter(message_id="<three@example.com>"))
    await worker(house, post).step()  # a new process: one row was written down, one event was not yet seen
    assert len(post.taken) == 3
    assert len({body for _, body, _ in post.taken}) == 3
    assert [row.state for row in await deliveries(house, made)] == ["delivered"] * 3


async def test_an_attempt_that_never_ended_is_made_again(house: House, post: Post) -> None:
    await house.inbox()
    made = await hook(house)
    await house.arrive(letter())

    class Killed(BaseException):
        """The process dies here."""

    async def dies(event: Event) -> bytes | None:
        raise Killed

    first = Deliveries(house.store, post)
    first.rendered_by(dies)
    with pytest.raises(Killed):
        await first.step()
    assert await worker(house, post).step() == 1
    assert [(row.state, row.attempts) for row in await deliveries(house, made)] == [("delivered", 1)]


async def test_an_endpoint_that_only_fails_for_five_days_is_disabled_and_may_come_back(
    house: House, post: Post, work: Deliveries
) -> None:
    await house.inbox()
    made = await hook(house)
    for number in range(7):
        post.answers = [500] * 9
        await house.arrive(letter(message_id=f"<{number}@example.com>"))
        await work.step()
        house.clock.forward(86400)
    found = await house.mail.get_webhook(OWNER, None, made.webhook_id)
    assert (found.enabled, found.reason) == (False, "every delivery failed for five days")
    post.taken.clear()
    await house.arrive(letter(message_id="<while@example.com>"))
    assert (await work.step(), post.taken) == (0, [])
    post.answers = []
    found = await house.mail.update_webhook(OWNER, None, made.webhook_id, WebhookChanges(enabled=True))
    await house.arrive(letter(message_id="<after@example.com>"))
    while await work.step():
        pass
    assert (found.enabled, found.reason) == (True, None)
    assert "while" not in str(post.taken)
    assert {row.state for row in await deliveries(house, made)} == {"delivered"}


async def test_one_success_in_between_keeps_an_endpoint(house: House, post: Post, work: Deliveries) -> None:
    await house.inbox()
    made = await hook(house)
    for number in range(12):
        post.answers = [500] * 9 if number != 4 else [200] * 9
        await house.arrive(letter(message_id=f"<{number}@example.com>"))
        await work.step()
        house.clock.forward(43000)
    assert (await house.mail.get_webhook(OWNER, None, made.webhook_id)).enabled is True


def counting() -> Callable[[Event], Awaitable[bytes | None]]:
    """Renders each event differently every time."""
    times = itertools.count(1)

    async def changing(event: Event) -> bytes | None:
        return f"{event.event_id} as of {next(times)}".encode()

    return changing


def bodies(house: House) -> int:
    return int(house.store.read_now(lambda reader: reader.scalar(sql(select(func.count()).select_from(t.webhook_body)))))


async def test_a_body_is_frozen_when_it_happens_and_every_attempt_posts_it(house: House, post: Post) -> None:
    await house.inbox()
    await hook(house)
    await hook(house, url=f"{URL}/other")
    work = Deliveries(house.store, post)
    work.rendered_by(counting())
    post.answers = [500, 200, 503]
    await house.arrive(letter())
    await work.step()
    assert bodies(house) == 1
    for pause in RETRIES_S[:2]:
        house.clock.forward(pause)
        await worker(house, post).step()  # also after a restart, with another renderer
    assert len(post.taken) == 4
    assert len({body for _, body, _ in post.taken}) == 1
    await work.tidy()
    assert bodies(house) == 0


async def test_a_deleted_messages_body_is_erased_at_once_and_never_posted(house: House, post: Post) -> None:
    await house.inbox()
    made = await hook(house)
    work = Deliveries(house.store, post)
    work.rendered_by(render)
    post.answers = [500]
    await house.arrive(letter())
    await work.step()
    assert bodies(house) == 1
    await house.mail.delete_message(OWNER, "ada@postroom.localhost", "<one@example.com>")
    assert bodies(house) == 0

    async def nothing(event: Event) -> bytes | None:
        return None  # as the interfaces answer for a message that is gone

    work.rendered_by(nothing)
    house.clock.forward(RETRIES_S[0])
    await work.step()
    assert (len(post.taken), [row.state for row in await deliveries(house, made)]) == (1, ["gone"])


async def test_a_message_deleted_meanwhile_is_not_posted(house: House, post: Post) -> None:
    await house.inbox()
    made = await hook(house)
    await house.arrive(letter())
    gone = Deliveries(house.store, post)

    async def nothing(event: Event) -> bytes | None:
        return None

    gone.rendered_by(nothing)
    await gone.step()
    assert (post.taken, [row.state for row in await deliveries(house, made)]) == ([], ["gone"])


async def test_the_earlier_secret_signs_for_a_day_after_rotation(house: House, post: Post, work: Deliveries) -> None:
    await house.inbox()
    made = await hook(house)
    rotated = await house.mail.rotate_webhook(OWNER, made.webhook_id)
    await house.arrive(letter())
    await work.step()
    house.clock.forward(86401)
    await house.arrive(letter(message_id="<two@example.com>"))
    await work.step()
    assert rotated.secret != made.secret
    assert [len(headers["webhook-signature"].split()) for _, _, headers in post.taken] == [2, 1]


async def test_headers_go_out_and_never_come_back(house: House, post: Post, work: Deliveries) -> None:
    await house.inbox()
    made = await hook(house, headers={"X-Api-Key": "hidden", "X-Old": "1"})
    await house.mail.update_webhook_headers(OWNER, None, made.webhook_id, {"x-new": "2"}, ["x-old"])
    found = await house.mail.get_webhook(OWNER, None, made.webhook_id)
    await house.arrive(letter())
    await work.step()
    assert (found.header_names, "hidden" in repr(found)) == (("X-Api-Key", "x-new"), False)
    headers = post.taken[0][2]
    assert (headers["X-Api-Key"], headers["x-new"], headers["Content-Type"]) == ("hidden", "2", "application/json")


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "https://10.0.0.1/"},
        {"url": "http://hooks.example/"},
        {"event_types": ()},
        {"event_types": ("thread.created",)},
        {"pod_ids": ("elsewhere",)},
        {"client_id": "a@b"},
        {"headers": {"Host": "evil"}},
        {"headers": {"svix-id": "x"}},
        {"headers": {"Webhook-Signature": "x"}},
        {"headers": {"X": "a\r\nY: b"}},
        {"headers": {"X Y": "a"}},
        {"headers": {"X": "a", "x": "b"}},
        {"headers": {f"X-{number}": "a" for number in range(51)}},
    ],
)
async def test_a_wrong_webhook_is_not_made(house: House, fields: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        await hook(house, **fields)
    assert (await house.mail.list_webhooks(OWNER, None, FIRST)).items == ()


async def test_a_repeat_with_the_same_client_id_is_the_same_webhook(house: House) -> None:
    one = await hook(house, client_id="mine")
    assert await hook(house, client_id="mine", url="https://other.example/") == one


async def test_caps_are_kept(house: House) -> None:
    for number in range(11):
        await house.inbox(f"box{number}", None)
    names = tuple(f"box{number}@postroom.localhost" for number in range(11))
    with pytest.raises(Invalid, match="at most 10"):
        await hook(house, inbox_ids=names)
    for _ in range(50):
        await hook(house)
    with pytest.raises(Forbidden) as caught:
        await hook(house)
    assert caught.value.code == "limit_exceeded"


async def test_scopes_are_edited_but_never_widened_by_losing_the_last(house: House) -> None:
    await house.inbox()
    await house.inbox("eve")
    made = await hook(house, inbox_ids=("ada@postroom.localhost",))
    changes = WebhookChanges(add_inbox_ids=("eve@postroom.localhost",), remove_inbox_ids=("ada@postroom.localhost",))
    assert (await house.mail.update_webhook(OWNER, None, made.webhook_id, changes)).inbox_ids == ("eve@postroom.localhost",)
    with pytest.raises(Invalid, match="last one"):
        await house.mail.update_webhook(
            OWNER, None, made.webhook_id, WebhookChanges(remove_inbox_ids=("eve@postroom.localhost",))
        )
    with pytest.raises(NotFound):
        await house.mail.update_webhook(
            OWNER, None, made.webhook_id, WebhookChanges(add_inbox_ids=("nobody@postroom.localhost",))
        )
    for empty in (WebhookChanges(), WebhookChanges(event_types=())):
        with pytest.raises(Invalid):
            await house.mail.update_webhook(OWNER, None, made.webhook_id, empty)


async def test_pages_of_webhooks_are_newest_first_and_whole(house: House) -> None:
    made = [(await hook(house)).webhook_id for _ in range(5)]
    first = await house.mail.list_webhooks(OWNER, None, PageRequest(limit=3))
    rest = await house.mail.list_webhooks(OWNER, None, PageRequest(limit=3, page_token=first.next_page_token))
    assert [row.webhook_id for row in (*first.items, *rest.items)] == made[::-1]
    assert rest.next_page_token is None
    upward = await house.mail.list_webhooks(OWNER, None, PageRequest(ascending=True))
    assert [row.webhook_id for row in upward.items] == made


async def test_webhooks_are_the_owners_and_an_inboxs_are_its_own(house: House) -> None:
    await house.inbox()
    await house.inbox("eve")
    made = await house.mail.create_webhook(OWNER, "ada@postroom.localhost", NEW)
    with pytest.raises(Forbidden):
        await house.mail.list_webhooks(agent(1), None, FIRST)
    with pytest.raises(Forbidden):
        await house.mail.create_webhook(agent(1), "ada@postroom.localhost", NEW)
    with pytest.raises(NotFound):
        await house.mail.get_webhook(OWNER, "eve@postroom.localhost", made.webhook_id)
    assert (await house.mail.get_webhook(OWNER, None, made.webhook_id)) == made
    await house.mail.delete_webhook(OWNER, "ada@postroom.localhost", made.webhook_id)
    with pytest.raises(NotFound):
        await house.mail.get_webhook(OWNER, None, made.webhook_id)


async def test_an_inboxs_webhooks_go_with_it(house: House) -> None:
    await house.inbox()
    made = await house.mail.create_webhook(OWNER, "ada@postroom.localhost", NEW)
    await house.mail.delete_inbox(OWNER, "ada@postroom.localhost")
    with pytest.raises(NotFound):
        await house.mail.get_webhook(OWNER, None, made.webhook_id)


async def test_settled_deliveries_are_forgotten_after_a_month(house: House, post: Post, work: Deliveries) -> None:
    await house.inbox()
    made = await hook(house)
    await house.arrive(letter())
    await work.step()
    house.clock.forward(31 * 86400)
    await work.tidy()
    assert await deliveries(house, made) == []


def test_the_default_reaches_no_private_host() -> None:
    assert Config().office.webhook_hosts == ()
