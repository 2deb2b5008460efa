"""format=flowed unwrapped (RFC 3676): soft line breaks removed, paragraphs and quote depth kept. Linear."""

from __future__ import annotations


def unflow(text: str, *, delete_space: bool) -> str:
    """The text with each flowed paragraph on one line; `delete_space` is the parameter DelSp=yes."""
    paragraphs: list[tuple[int, list[str]]] = []
    flowing = False
    for line in text.split("\n"):
        content = line.lstrip(">")
        depth = len(line) - len(content)
        content = content.removeprefix(" ")
        flowed = content.endswith(" ") and content != "-- "
        if not (flowing and depth == paragraphs[-1][0] and content != "-- "):
            paragraphs.append((depth, []))
        paragraphs[-1][1].append(content[:-1] if flowed and delete_space else content)
        flowing = flowed
    return "\n".join((">" * depth + " " if depth else "") + "".join(pieces) for depth, pieces in paragraphs)
