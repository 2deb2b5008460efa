"""Sixty honest HTML mails of our own: twenty layouts as senders write them, each in three manners of styling."""

from collections.abc import Iterator

_WORDS = "Your order number 4711 has left our warehouse and will arrive on Thursday between nine and noon"

LAYOUTS = {
    "a paragraph": f"<p {{s}}>{_WORDS}.</p>",
    "a table for layout": f'<table width="600" cellpadding="0"><tr><td {{s}}>{_WORDS}</td><td>Second column</td></tr></table>',
    "tables in tables": f"<table><tr><td><table><tr><td><table><tr><td {{s}}>{_WORDS}</td></tr></table></td></tr></table></td></tr></table>",
    "headings": f"<h1 {{s}}>Big news</h1><h2>Second</h2><h6>Small heading</h6><p>{_WORDS}</p>",
    "lists": f"<ul><li {{s}}>First point</li><li>Second point<ol><li>inner {_WORDS}</li></ol></li></ul>",
    "a definition list": f"<dl><dt {{s}}>Total</dt><dd>42 euros</dd><dt>Note</dt><dd>{_WORDS}</dd></dl>",
    "a quotation": f"<blockquote {{s}}>{_WORDS}</blockquote><p>I agree with the above</p>",
    "preformatted": f"<pre {{s}}>  item   price\n  book      12\n{_WORDS}</pre>",
    "a button": f'<a href="https://shop.example/" {{s}}>Track your parcel</a><p>{_WORDS}</p>',
    "inline marks": f"<p {{s}}>H<sub>2</sub>O and E=mc<sup>2</sup>, <b>bold</b>, <i>it</i>, <s>struck</s> <mark>marked</mark> {_WORDS}</p>",
    "line breaks": "Dear Ada,<br><br>one<br/>two<br>three<div {s}>four</div>",
    "small print": f'<p>{_WORDS}</p><p style="font-size:9px" {{s}}>Terms apply, see the back of this letter</p>',
    "light on dark": f'<div style="background:#111"><p style="color:#eee" {{s2}}>{_WORDS}</p></div>',
    "white on a coloured cell": f'<table><tr><td bgcolor="#0044cc"><font color="#ffffff" {{s2}}>{_WORDS}</font></td></tr></table>',
    "Arabic": "<p dir=rtl {s}>مرحبا بكم في متجرنا الجديد في وسط المدينة</p>",
    "Chinese and Japanese": "<p {s}>您的订单已发货</p><p>ご注文ありがとうございます</p>",
    "entities": "<p {s}>Fish &amp; chips &lt;now&gt; &eacute;t&eacute; &#8364;5 &copy; 2026 &nbsp; caf&#xE9;</p>",
    "an open fold": f"<details open><summary {{s}}>Details of the parcel</summary><p>{_WORDS}</p></details>",
    "a figure": f'<figure><img src="cid:x" width=10 height=10 alt=""><figcaption {{s}}>{_WORDS}</figcaption></figure>',
    "columns that float": f'<div style="float:left;width:200px" {{s2}}>{_WORDS}</div><div style="margin-left:220px">The right side</div>',
}
_STYLES = {
    "inline": ('style="font-family:Arial,sans-serif;font-size:14px;line-height:1.4;color:#333;margin:0 0 12px"', ""),
    "sheet": ('class="t"', 'class="u"'),
    "legacy": ('align="left"', 'align="left"'),
}
_SHEET = """<style>body{margin:0;padding:0;background:#fff} .t{font:15px/1.5 Georgia,serif;color:#222;padding:4px 8px}
.u{letter-spacing:.5px} @media (max-width:480px){.t{font-size:18px}} a:hover{color:red} @font-face{font-family:X;src:url(x.woff)}</style>"""


def html_mails() -> Iterator[tuple[str, str]]:
    """Each with its name."""
    for layout, body in LAYOUTS.items():
        for manner, (style, other) in _STYLES.items():
            filled = body.replace("{s}", style).replace("{s2}", other)
            head = _SHEET if manner == "sheet" else '<meta http-equiv="Content-Type" content="text/html; charset=utf-8">'
            yield (
                f"ours: {layout}, {manner}",
                f"<!DOCTYPE html><html><head>{head}<title>Mail</title></head><body>{filled}</body></html>",
            )
