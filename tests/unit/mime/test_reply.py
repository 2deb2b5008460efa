"""The new text of replies, in many languages and from many programs; never empty, never slow."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace import within
from postroom.mime.reply import forward_block, new_text, quote

NEW = "Thanks, that works."
ATTRIBUTIONS = {
    "english": "On Mon, Jun 1, 2026 at 9:00 AM Ann Other <ann@example.org> wrote:",
    "english wrapped": "On Mon, Jun 1, 2026 at 9:00 AM Ann Other <\nann@example.org> wrote:",
    "german": "Am Mo., 1. Juni 2026 um 09:00 Uhr schrieb Ann Other <ann@example.org>:",
    "german wrapped": "Am 01.06.26 um 09:00 schrieb Ann Other\n<ann@example.org>:",
    "french": "Le lun. 1 juin 2026 à 09:00, Ann Other <ann@example.org> a écrit :",
    "spanish": "El lun, 1 jun 2026 a las 9:00, Ann Other (<ann@example.org>) escribió:",
    "catalan": "El dl., 1 de juny 2026, 9:00, Ann Other <ann@example.org> va escriure:",
    "italian": "Il giorno lun 1 giu 2026 alle ore 09:00 Ann Other <ann@example.org> ha scritto:",
    "portuguese": "Em seg., 1 de jun. de 2026 às 09:00, Ann Other <ann@example.org> escreveu:",
    "dutch": "Op ma 1 jun 2026 om 09:00 schreef Ann Other <ann@example.org>:",
    "danish": "Den man. 1. jun. 2026 kl. 09.00 skrev Ann Other <ann@example.org>:",
    "norwegian": "man. 1. juni 2026 kl. 09:00 skrev Ann Other <ann@example.org>:",
    "swedish": "Den mån 1 juni 2026 kl 09:00 skrev Ann Other <ann@example.org>:",
    "finnish": "ma 1. kesäk. 2026 klo 9.00 Ann Other (ann@example.org) kirjoitti:",
    "polish": "pon., 1 cze 2026 o 09:00 Ann Other <ann@example.org> napisał(a):",
    "czech": "po 1. 6. 2026 v 9:00 odesílatel Ann Other <ann@example.org> napsal:",
    "slovak": "po 1. 6. 2026 o 9:00 Ann Other <ann@example.org> napísal(a):",
    "hungarian": "Ann Other <ann@example.org> ezt írta (időpont: 2026. jún. 1., H, 9:00):",
    "romanian": "lun., 1 iun. 2026 la 09:00 Ann Other <ann@example.org> a scris:",
    "russian": "пн, 1 июн. 2026 г. в 09:00, Ann Other <ann@example.org>:",
    "russian with a verb": "01.06.2026 9:00, Ann Other пишет:",
    "ukrainian": "пн, 1 черв. 2026 р. о 09:00 Ann Other <ann@example.org> пише:",
    "bulgarian": "На пн, 1.06.2026 г. в 9:00 Ann Other <ann@example.org> написа:",
    "greek": "Στις Δευ 1 Ιουν 2026 στις 9:00 π.μ., ο χρήστης Ann Other <ann@example.org> έγραψε:",
    "turkish": "Ann Other <ann@example.org>, 1 Haz 2026 Pzt, 09:00 tarihinde şunu yazdı:",
    "arabic": "في الاثنين، 1 يونيو 2026 في 9:00 ص تمت كتابة ما يلي بواسطة Ann Other <ann@example.org>:",
    "hebrew": "\u202bבתאריך יום ב׳, 1 ביוני 2026 ב-9:00 מאת \u202aAnn Other\u202c\u200f <\u202aann@example.org\u202c\u200f>:\u202c",
    "chinese": "Ann Other <ann@example.org> 于2026年6月1日周一 09:00写道：",
    "chinese, traditional": "Ann Other <ann@example.org> 於 2026年6月1日 週一 上午9:00寫道：",
    "japanese": "2026年6月1日(月) 9:00 Ann Other <ann@example.org>:",
    "korean": "2026년 6월 1일 (월) 오전 9:00, Ann Other <ann@example.org>님이 작성:",
    "vietnamese": "Vào Th 2, 1 thg 6, 2026 vào lúc 09:00 Ann Other <ann@example.org> đã viết:",
    "indonesian": "Pada tanggal Sen, 1 Jun 2026 09.00, Ann Other <ann@example.org> menulis:",
    "thunderbird": "On 6/1/26 09:00, Ann Other wrote:",
    "mutt": "On Mon, Jun 01, 2026 at 09:00:00AM +0200, Ann Other wrote:",
    "zoho": "---- On Mon, 01 Jun 2026 09:00:00 +0200 Ann Other <ann@example.org> wrote ----",
}  # fmt: skip
BLOCKS = {
    "outlook": "From: Ann Other <ann@example.org>\nSent: Monday, June 1, 2026 9:00 AM\nTo: Me\nSubject: Re: lunch",
    "outlook with a rule": "________________________________\nFrom: Ann Other <ann@example.org>\nSent: Monday, June 1, 2026\nSubject: x",
    "outlook bold": "*From:* Ann Other <ann@example.org>\n*Sent:* Monday, June 1, 2026 9:00 AM\n*To:* Me",
    "outlook old": "-----Original Message-----\nFrom: Ann\nSent: Monday",
    "german outlook": "Von: Ann Other <ann@example.org>\nGesendet: Montag, 1. Juni 2026 09:00\nAn: Mich\nBetreff: AW: x",
    "german old outlook": "-----Ursprüngliche Nachricht-----\nVon: Ann",
    "french outlook": "De : Ann Other <ann@example.org>\nEnvoyé : lundi 1 juin 2026 09:00\nÀ : moi\nObjet : RE: x",
    "spanish outlook": "De: Ann Other <ann@example.org>\nEnviado: lunes, 1 de junio de 2026 9:00\nPara: mí\nAsunto: RE: x",
    "dutch outlook": "Van: Ann Other <ann@example.org>\nVerzonden: maandag 1 juni 2026 09:00\nAan: mij\nOnderwerp: RE: x",
    "polish outlook": "Od: Ann Other <ann@example.org>\nWysłano: poniedziałek, 1 czerwca 2026 09:00\nDo: ja\nTemat: RE: x",
    "russian outlook": "От: Ann Other <ann@example.org>\nОтправлено: 1 июня 2026 г. 9:00\nКому: я\nТема: RE: x",
    "chinese foxmail": "发件人： Ann Other\n发送时间： 2026-06-01 09:00\n收件人： me\n主题： x",
    "japanese outlook": "差出人: Ann Other <ann@example.org>\n送信日時: 2026年6月1日 9:00\n宛先: me\n件名: RE: x",
    "exchange": "Sent: Monday\n> quoted\n> more",
}  # fmt: skip


@pytest.mark.parametrize("attribution", ATTRIBUTIONS.values(), ids=ATTRIBUTIONS.keys())
def test_what_stands_below_an_attribution_is_quoted(attribution: str) -> None:
    for quoted in ("> old words\n> more", "old words", ""):
        assert new_text(f"{NEW}\n\n{attribution}\n\n{quoted}\n") == NEW
    assert new_text(f"{NEW}\n{attribution}\n> old words") == NEW


@pytest.mark.parametrize("attribution", ATTRIBUTIONS.values(), ids=ATTRIBUTIONS.keys())
def test_an_answer_below_the_quote_is_found(attribution: str) -> None:
    assert new_text(f"{attribution}\n> old words\n> more\n\n{NEW}\n") == NEW


@pytest.mark.parametrize("block", [block for name, block in BLOCKS.items() if name != "exchange"])
def test_what_stands_below_a_header_block_is_quoted(block: str) -> None:
    assert new_text(f"{NEW}\n\n{block}\n\nold words\n") == NEW


@pytest.mark.parametrize(
    "text",
    [
        "On Monday we ship.\nOn Tuesday we rest.",
        "She said: come at 9:00.\nHe wrote: no.",
        "From: my point of view it works.",
        "Steps:\n1. Sent: the letter\n2. To: the bank",
        "Please write to ann@example.org:\nshe knows.",
        "Agenda for 12.05.2026:\n- 9:00 start\n- 10:00 end",
        "a > b\nc > d",
        "Yes\n\n> one line of mine\n\nNo",
        "Notes:\n-----\nall fine",
        "Le chat a écrit un livre.",
        "x = a\n>>> print(x)\n1",
        "Fwd: see below\n\nOn Mon, Jun 1, 2026 Ann <ann@example.org> wrote:\n> x\n> y",
        "FYI\n\n---------- Weitergeleitete Nachricht ----------\nVon: Ann <ann@example.org>\nGesendet: Montag",
        "> only\n> quotes",
        "On Mon, Jun 1, 2026 at 9:00 AM Ann <ann@example.org> wrote:\n> all\n> of it",
        "Your message to x@example.org couldn't be delivered.\n\nFrom: a@b.example\nTo: c@d.example",
        "Sent from my iPhone",
        "Q1?\n\n> first point\n> goes on\n\nMy first answer.\n\n> second point\n> goes on\n\nMy second answer.",
    ],
)
def test_a_text_that_quotes_nobody_or_answers_point_by_point_stays_whole(text: str) -> None:
    assert new_text(text) == text


@pytest.mark.parametrize(
    "noise", ["Sent from my iPhone", "Von meinem iPad gesendet", "Get Outlook for iOS", "Envoyé de mon iPhone", "发自我的iPhone"]
)
def test_the_signature_of_a_device_goes(noise: str) -> None:
    assert new_text(f"{NEW}\n\n{noise}\n") == NEW


def test_the_shared_replies_are_cut_as_expected(cases: Path) -> None:
    rows = [json.loads(line) for line in (cases / "reply-text.jsonl").read_text("utf-8").splitlines()]
    wrong = [row["name"] for row in rows if _folded(new_text(row["text"])) != _folded(row["want"])]
    print(f"{len(rows) - len(wrong)} of {len(rows)} replies exact")
    assert len(wrong) <= len(rows) * 0.05, wrong
    assert all(new_text(row["text"]) for row in rows if row["text"].strip())


def _folded(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["> ", "x", "\n", "\n\n", "On 1.1.2026 a@b.cc wrote:", "-- \n", "From: a@b.cc\nSent: 1\n", "Fwd: ", "\r\n", " "]
        )
    ).map("".join)
)
def test_there_is_an_answer_wherever_there_is_text(text: str) -> None:
    assert bool(new_text(text)) is bool(text.strip())


@pytest.mark.parametrize(
    "unit",
    ["\n", " ", ">", "> \n", "On ", "On 1.1.2026 x\n", "On 1.1.2026 wrote ", "wrote:\n", "Am 1 " + "schrieb " * 80 + ":\n", "From: a@b.cc\n",
     "a@b.cc:\n", "-- \n", "x\n\n", "> a\n\nb\n\n", "___", "___\n", "Sent from my iPhone\n\n", "1.1.2026 12:00 a@b.cc\n", "Le " * 100 + ":\n",
     "في كتب " * 60 + ":\n", "<a@b.cc> 12:00:\nx\n", "*From:*", "confidential message is ", "On Mon, 1 <a@b.cc> wrote: x ", "\u3000", "1."]
)  # fmt: skip
def test_a_mebibyte_of_anything_is_read_in_a_second(unit: str) -> None:
    text = unit * ((1 << 20) // len(unit))
    within(1.0, lambda: new_text(text))


def test_a_quote_names_who_said_it_and_when() -> None:
    assert quote("Hello\n> before\n\nBye\n", "Ann <ann@example.org>", 1_780_300_800_000_000) == (
        "On Mon, 01 Jun 2026 at 08:00 UTC Ann <ann@example.org> wrote:\n\n> Hello\n>> before\n>\n> Bye\n"
    )


def test_a_quote_is_cut_off_again() -> None:
    answer = f"{NEW}\n\n" + quote("Hello", "Ann <ann@example.org>", 1_780_300_800_000_000)
    assert new_text(answer) == NEW


def test_a_forward_carries_the_text_unchanged() -> None:
    block = forward_block("Hello\n> x", author="Ann <a@b.cc>", at_us=0, subject="Lunch", to="b@b.cc")
    assert block == (
        "---------- Forwarded message ----------\nFrom: Ann <a@b.cc>\nDate: Thu, 01 Jan 1970 at 00:00 UTC\nSubject: Lunch\n"
        "To: b@b.cc\n\nHello\n> x"
    )
    assert new_text(f"FYI\n\n{block}") == f"FYI\n\n{block}"
