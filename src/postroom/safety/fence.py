"""The fence: where text that someone else wrote begins and ends. One implementation for email, mailbox and reader.

    <email-content untrusted="true" nonce="8f…">
    …
    </email-content nonce="8f…">

The nonce has 128 random bits and is new for every response, so a sender cannot know it: the real
closing tag is the one that carries the nonce of the opening tag, and there is exactly one. As depth,
anything in the body that looks like the start of a fence tag of ours (any of the names, in any case,
spacing, width or script, opening or closing, entity-encoded) has its `<` replaced by `[`, the body is
cleaned of invisible characters, and the nonce itself cannot occur in it. Nothing else is altered.

A fence lowers the odds that a model obeys a mail. It is not the boundary; the gate is.
"""

from __future__ import annotations

import re
import secrets

from postroom.safety.confusables import fold
from postroom.safety.unicode import clean

TAGS = ("email-content", "untrusted_email", "mailbox-message")

_NAMES = tuple(re.sub("[^a-z]", "", tag) for tag in TAGS)
_ESCAPES = r"[lL][tT];?|#0{0,6}60;?|#[xX]0{0,6}3[cC];?"
_BRACKETS = re.compile(  # one class first, because that is what `re` searches fast for
    r"[<&%\\\u02c2\u1438\u16b2\u2039\u227a\u2329\u276e\u2770\u27e8\u29fc\u3008\ufe64\uff1c\U0001d236]"
    rf"(?:(?<![&%\\])|(?<=&)(?:{_ESCAPES})|(?<=%)3[cC]|(?<=\\)(?:u003[cC]|x3[cC]))"
)
_ATTRIBUTE = re.compile(r"[^A-Za-z0-9._@+=/:, -]")


class Fence:
    """The fences of one response; all its blocks share one nonce. Pass `nonce` in tests only."""

    def __init__(self, nonce: str | None = None) -> None:
        self.nonce = nonce or secrets.token_hex(16)

    def block(self, tag: str, body: str, **attributes: str) -> str:
        """`body` inside a fence named `tag` (one of `TAGS`). `attributes` are ours; odd characters in them become `?`."""
        if tag not in TAGS:
            raise ValueError(f"no such fence: {tag}")
        extra = "".join(f' {name.replace("_", "-")}="{_ATTRIBUTE.sub("?", value)}"' for name, value in attributes.items())
        inside = self.harmless(body)
        return f'<{tag} untrusted="true" nonce="{self.nonce}"{extra}>\n{inside}\n</{tag} nonce="{self.nonce}">'

    def harmless(self, body: str) -> str:
        """`body` as it may stand inside a fence: cleaned, forged tags broken, without the nonce."""
        text, _ = break_forged(clean(body)[0])
        if self.nonce not in text.lower():
            return text
        return re.sub(re.escape(self.nonce), "[nonce]", text, flags=re.IGNORECASE)


def break_forged(text: str) -> tuple[str, int]:
    """`text` with every forged fence tag broken (its bracket becomes `[`), and how many there were."""
    forged: list[tuple[int, int]] = []
    end, carried = len(text), ""
    for bracket in reversed(list(_BRACKETS.finditer(text))):
        letters = _letters(text, bracket.end(), end, carried)
        is_forged = letters.startswith(_NAMES)
        if is_forged:
            forged.append(bracket.span())
        end, carried = bracket.start(), letters if is_forged else ""  # a broken bracket no longer ends what is before it
    pieces, at = [], 0
    for start, stop in reversed(forged):
        pieces += [text[at:start], "["]
        at = stop
    return ("".join([*pieces, text[at:]]) if forged else text), len(forged)


def _letters(text: str, start: int, end: int, carried: str) -> str:
    """The letters from `start` on, folded, as far as a fence's name could still come of them; then `carried`.

    Separators count for nothing, so each character is looked at once whatever a name is written with.
    """
    letters = ""
    for at in range(start, end):
        letters += "".join(part for part in fold(text[at]) if "a" <= part <= "z")
        if letters.startswith(_NAMES) or not any(name.startswith(letters) for name in _NAMES):
            return letters
    return letters + carried
