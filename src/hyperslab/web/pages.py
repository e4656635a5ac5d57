"""The plain HTML pages under ``/zarr/``: lists of names with links, every text escaped, no script and no style."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote

_CONTROL = dict.fromkeys((*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")
"""Characters that are not shown in a stranger's text: control characters, and those that turn the reading direction."""
HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}
"""Headers of each page: the browser loads nothing, and tells nobody the address."""


def link_to(*parts: str) -> str:
    """Return the path of a URL whose segments are ``parts``, whatever stands in them."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def render_list(title: str, links: Iterable[tuple[str, str]], remarks: Sequence[str] = ()) -> str:
    """Return a page with a list of links, each a text and the path that it leads to."""
    rows = "".join(f'<li><a href="{escape(path)}">{_text(text)}</a></li>\n' for text, path in links)
    return _render(title, f"<ul>\n{rows}</ul>", remarks)


def render_texts(title: str, texts: Sequence[str]) -> str:
    """Return a page of some texts."""
    return _render(title, "", texts)


def _render(title: str, more: str, remarks: Sequence[str]) -> str:
    notes = "".join(f"<p>{_text(remark)}</p>\n" for remark in remarks)
    name = _text(title)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{name}</title>'
    body = f"<h1>{name}</h1>\n{notes}{more}"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def _text(text: str) -> str:
    """Return a stranger's text as HTML: neither tags nor what turns the reading direction around."""
    printable = text.translate(_CONTROL).encode("utf-8", "replace").decode()
    return escape(printable)
