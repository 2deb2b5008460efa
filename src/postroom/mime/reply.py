"""The new text of a reply: what its author wrote, without what was quoted below it.

Line-based and linear, in every language of `reply_signals`. Losing new text is the worse error: answers
written between the quotes, forwards and delivery reports stay whole, an author's signature stays, and
where a rule would leave nothing the text is kept. Also the two blocks that quote a mail in an answer
or a forward.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from postroom.clock import MICROS
from postroom.mime import reply_signals as signals

_LINES: Final = 5_000  # how far a quote is looked for
_WINDOW_CHARS: Final = 400
_WRAPPED: Final = 3  # lines an attribution may be wrapped over
_BLOCK: Final = 6  # lines of a header block looked at
_DIRECTION: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_QUOTE: Final = re.compile(r"\s*>")
_QUOTES: Final = re.compile(r"(?:\s*>)+\s?")
_SENTENCE_END: Final = re.compile(r"(?<![ap]\.m)[.!?。！？]\s*$")


def new_text(text: str) -> str:
    """What is new in `text`; never empty where `text` is not."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    whole = text.strip()
    if _is_report(lines) or _is_forward(lines):
        return whole
    cut = _cut(lines)
    if cut is None:
        return _without_noise(_before_glued(lines) if " wrote:" in whole else lines) or whole
    if _has_answers_between(lines[cut:]):
        return whole
    kept = "\n".join(lines[:cut]).strip()
    if not kept:
        return _below(lines[cut:]) or whole
    signature = _signature_below(lines[cut:])
    return f"{_without_noise(kept.split(chr(10)))}\n\n{signature}" if signature else _without_noise(kept.split("\n"))


def _first_words(lines: Sequence[str], count: int) -> Iterator[str]:
    shown = (line for line in lines[:200] if line.strip())
    return (line for line, _ in zip(shown, range(count), strict=False))


def _is_report(lines: Sequence[str]) -> bool:
    """A delivery report, which holds header lines but quotes nobody."""
    for line in _first_words(lines, 5):
        if _QUOTE.match(line) or _is_attribution(line):
            return False
        if signals.BOUNCE.search(line[:_WINDOW_CHARS].lower()):
            return True
    return False


def _is_forward(lines: Sequence[str]) -> bool:
    """The mail itself is a forward: its subject stands first, or a divider comes before any quote."""
    first = next(_first_words(lines, 1), "")
    return signals.FORWARD_SUBJECT.match(first[:100]) is not None


def _cut(lines: Sequence[str]) -> int | None:
    """The first line of what is quoted; None when nothing is, or when a forward begins before."""
    for index in _suspects(lines):
        if signals.FORWARD.match(lines[index][:200]):
            return None
        if _begins_quote(lines, index):
            return index
    return None


def _suspects(lines: Sequence[str]) -> Iterator[int]:
    """Where a quote or a forward may begin: at a mark, or with a colon in reach. Most lines need no closer look."""
    colons = [":" in line or "：" in line for line in lines[: _LINES + _WRAPPED]]
    for index, line in enumerate(lines[:_LINES]):
        start = line.lstrip()[:1]
        if start and (start in signals.MARKS or True in colons[index : index + _WRAPPED]):
            yield index


def _begins_quote(lines: Sequence[str], index: int) -> bool:
    line = lines[index]
    if _QUOTE.match(line):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        return _QUOTE.match(following) is not None or _is_attribution(_QUOTES.sub("", line, count=1))
    if signals.SEPARATOR.match(line[:200]):
        return True
    if signals.RULE.match(line[:250]):
        after = next((place for place in range(index + 1, min(index + 4, len(lines))) if lines[place].strip()), None)
        return after is not None and (_is_header_block(lines, after) or _attribution_lines(lines, after) > 0)
    return _is_header_block(lines, index) or _attribution_lines(lines, index) > 0


def _is_header_block(lines: Sequence[str], index: int) -> bool:
    """`From: …` followed by fields of a mail. Short words (de, da, van, …) need an address as well."""
    line = lines[index][:_WINDOW_CHARS]
    if ":" not in line and "：" not in line:
        return False
    strong = signals.FROM_STRONG.match(line) is not None
    if not strong and not signals.FROM_SHORT.match(line):
        return False
    block = [line]
    for following in lines[index + 1 : index + _BLOCK]:
        if not signals.OTHER_FIELD.match(following[:100]):
            break
        block.append(following[:_WINDOW_CHARS])
    if len(block) == 1:
        return signals.EMAIL.search(line) is not None and signals.FIELD_IN_LINE.search(line) is not None
    return strong or any(signals.EMAIL.search(part) for part in block)


def _attribution_lines(lines: Sequence[str], index: int) -> int:
    """Over how many lines the attribution that begins at `index` is wrapped; 0 when none does."""
    if signals.DASHED.match(lines[index][:_WINDOW_CHARS]):
        return 1
    window = ""
    for count, line in enumerate(lines[index : index + _WRAPPED], 1):
        part = line.strip()
        if not part or _QUOTE.match(part) or len(window) + len(part) > _WINDOW_CHARS:
            return 0
        window = f"{window} {part}".strip()
        if _is_attribution(window):
            later = " ".join(piece.strip() for piece in lines[index + 1 : index + count])
            return 0 if count > 1 and _is_complete(later) else count
        if count == 1 and (_SENTENCE_END.search(part) or not _has_evidence(part)):
            return 0
    return 0


def _has_evidence(text: str) -> bool:
    return signals.DATE.search(text) is not None or "@" in text


def _is_attribution(text: str) -> bool:
    """`On <date>, <name> wrote:` in some language, or `<date> <name> <address>:`."""
    text = _DIRECTION.sub("", text[: _WINDOW_CHARS + 100]).strip()
    if text[-4:].rstrip("*_ >")[-1:] not in {":", "："}:
        return False
    if signals.LEAD.match(text):
        return True
    if signals.VERB_LAST.search(text[-200:]):
        return signals.EMAIL.search(text) is not None or signals.DATE.search(text) is not None
    return signals.NAME_LAST.search(text[-300:]) is not None and signals.DATE.search(text) is not None


def _is_complete(text: str) -> bool:
    """An attribution that needs no line before it."""
    return bool(text) and (
        signals.LEAD.match(text) is not None or (_is_attribution(text) and signals.DATE.search(text) is not None)
    )


def _before_glued(lines: Sequence[str]) -> list[str]:
    """The lines up to an attribution that a program glued behind the new text on one line."""
    kept: list[str] = []
    for line in lines[:_LINES]:
        found = signals.GLUED.search(line) if " wrote:" in line else None
        if found:
            return [*kept, line[: found.start()]]
        kept.append(line)
    return list(lines)


def _has_answers_between(lines: Sequence[str]) -> bool:
    """Paragraphs between blocks of `>` lines: the author answers point by point."""
    quoted = [place for place, line in enumerate(lines) if _QUOTE.match(line)]
    if len(quoted) < 2:
        return False
    return any(
        upper + 2 < lower and any(_is_paragraph(lines, place) for place in range(upper + 1, lower))
        for upper, lower in itertools.pairwise(quoted)
    )


def _is_paragraph(lines: Sequence[str], place: int) -> bool:
    """A line that begins a paragraph of its own, not the wrapped end of a quoted line."""
    return bool(lines[place].strip()) and not lines[place - 1].strip() and not signals.SIGNATURE.match(lines[place])


def _below(lines: Sequence[str]) -> str:
    """The new text of a mail that quotes first and answers below."""
    kept: list[str] = []
    place = 0
    suspects = set(_suspects(lines))
    while place < len(lines):
        wrapped = _attribution_lines(lines, place) if place in suspects else 0
        if not wrapped and not _QUOTE.match(lines[place]):
            kept.append(lines[place])
        place += wrapped or 1
    return _without_noise(kept) if len(kept) < len(lines) else ""


def _signature_below(lines: Sequence[str]) -> str:
    """The author's signature when the program put the quote above it."""
    last = next((place for place in range(len(lines) - 1, -1, -1) if signals.SIGNATURE.match(lines[place])), None)
    if last is None or any(_QUOTE.match(line) for line in lines[last:]):
        return ""
    between = [line for line in lines[1:last] if line.strip()]
    quoted = sum(_QUOTE.match(line) is not None for line in between)
    return "\n".join(lines[last:]).strip() if quoted and quoted * 2 >= len(between) else ""


def _without_noise(lines: Sequence[str]) -> str:
    """Without device signatures and disclaimers at the end, as long as something stays."""
    paragraphs = re.split(r"\n[ \t]*\n", "\n".join(lines).strip())
    while len(paragraphs) > 1:
        last = paragraphs[-1].strip()
        if last and not signals.DEVICE.match(last[:200]) and not signals.DISCLAIMER.search(last[:2000]):
            break
        paragraphs.pop()
    return "\n\n".join(paragraphs).strip()


def quote(text: str, author: str, at_us: int) -> str:
    """`text` as an answer quotes it: an attribution line, then every line behind `> `."""
    lines = text.rstrip("\n").split("\n")
    quoted = "\n".join(">" + line if line.startswith(">") else f"> {line}".rstrip() for line in lines)
    return f"On {_moment(at_us)} {author} wrote:\n\n{quoted}\n"


def forward_block(text: str, *, author: str, at_us: int, subject: str, to: str) -> str:
    """`text` as a forward carries it: a header of four lines, then the text unchanged."""
    head = f"From: {author}\nDate: {_moment(at_us)}\nSubject: {subject}\nTo: {to}"
    return f"---------- Forwarded message ----------\n{head}\n\n{text}"


def _moment(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us // MICROS, UTC):%a, %d %b %Y at %H:%M UTC}"
