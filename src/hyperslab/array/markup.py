"""The parts that notebook pages are made of: escaped text, foldable sections, rows, and the one style sheet.

Names and attribute values come from files that anyone may have written: every text goes through :func:`text`. There is
no script; what folds is ``<details>``. The ink is the page's own (Jupyter's and VS Code's by name) and every other
shade is mixed from it, so that a page is readable on whatever it lies, light or dark. Rules with more classes than they
need are those that would lose to JupyterLab's rules for tables, lists and code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

LONGEST_TEXT = 500
MOST_ATTRIBUTES = 200
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

STYLE = """<style>
.hs-page{--hs-front:#f0b169;--hs-top:#f7d4a5;--hs-side:#d8934a;--hs-line:#6b4312;max-width:900px;
color:var(--jp-content-font-color0,var(--vscode-editor-foreground,inherit));font:13px/1.5 system-ui,sans-serif}
.hs-page header{padding:4px 0 6px;border-bottom:1px solid #8886;margin-bottom:4px}
.hs-page .hs-soft,.hs-page .hs-kind,.hs-page.hs-page dt,.hs-page.hs-page th{
color:#767676;color:color-mix(in srgb,currentColor 68%,transparent);font-weight:400}
.hs-page .hs-bad{color:#d0453c;color:color-mix(in srgb,#e5342b 72%,currentColor)}
.hs-page .hs-name,.hs-page .hs-dims b{font-weight:600}
.hs-page :is(code,.hs-name,.hs-soft,.hs-bad,.hs-row>span,td,dd){unicode-bidi:isolate;overflow-wrap:anywhere}
.hs-page.hs-page code{font:12px/1.5 ui-monospace,monospace;background:none;color:inherit;padding:0}
.hs-page details{margin:0}
.hs-page details>:not(summary){margin-left:18px}
.hs-page summary{cursor:pointer;padding:2px 0}
.hs-page .hs-row{display:grid;gap:0 12px;padding:2px 6px;
grid-template-columns:minmax(min(215px,34%),1.6fr) minmax(0,2.4fr) 72px minmax(0,2.2fr)}
.hs-page div.hs-row{grid-template-columns:minmax(min(215px,34%),1.6fr) minmax(0,7fr)}
.hs-page summary.hs-row::marker{content:""}
.hs-page .hs-row>.hs-name{position:relative;padding-left:14px}
.hs-page summary.hs-row>.hs-name::before{position:absolute;left:0;content:"▸";font-weight:400;opacity:.68}
.hs-page details[open]>summary.hs-row>.hs-name::before{content:"▾"}
.hs-page .hs-array:nth-of-type(odd)>summary{background:#8881}
.hs-page .hs-row u{text-decoration:none}
.hs-page .hs-index u{text-decoration:underline 1px;text-underline-offset:3px}
.hs-page .hs-dims{display:flex;flex-wrap:wrap;gap:0 18px;padding:0 6px}
.hs-page dl{display:grid;grid-template-columns:minmax(90px,max-content) minmax(0,1fr);gap:0 14px;margin:2px 0 6px;
padding:0 6px}
.hs-page.hs-page dt{float:none;width:auto;max-width:260px;overflow-wrap:anywhere}
.hs-page.hs-page dd{margin:0;padding:0;white-space:pre-wrap}
.hs-page .hs-cells{display:flex;flex-wrap:wrap;gap:8px 32px;align-items:flex-start;padding:4px 6px}
.hs-page.hs-page table{border-collapse:collapse;margin:4px 0;font-size:12px;background:none;color:inherit}
.hs-page.hs-page .hs-cells tr{background:none}
.hs-page.hs-page .hs-cells :is(th,td){text-align:left;padding:2px 10px 2px 0;border:0;background:none;max-width:360px;
white-space:normal;vertical-align:top}
.hs-grid{overflow:visible;max-width:100%}
.hs-grid polygon{stroke:var(--hs-line);stroke-width:1.4;stroke-linejoin:round}
.hs-grid .hs-front{fill:var(--hs-front)}.hs-grid .hs-top{fill:var(--hs-top)}.hs-grid .hs-side{fill:var(--hs-side)}
.hs-grid .hs-cut{stroke:var(--hs-line);stroke-width:.6;fill:none;opacity:.75}
.hs-grid text{fill:currentColor;font:11px system-ui,sans-serif;text-anchor:middle}
</style>"""


def text(value: object, longest: int = LONGEST_TEXT) -> str:
    """``value`` as HTML text, also safe inside a quoted attribute; long ones are cut.

    Control characters, lone surrogates and marks that turn the direction of writing become the replacement character.
    """
    plain = str(value)
    if len(plain) > longest:
        plain = f"{plain[:longest]}…"
    return escape(_CONTROL.sub("\ufffd", plain), quote=True)


def value_text(value: Any) -> str:
    """An attribute value as HTML text: numbers as numbers, the first of many, text as it is."""
    if isinstance(value, np.ndarray) and value.size > 20:
        shown = ", ".join(str(cell) for cell in value.ravel()[:20].tolist())
        return text(f"[{shown}, … {value.size:,} in all]")
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple) and len(value) > 20:
        return text(f"{list(value[:20])!r:.{LONGEST_TEXT - 40}}, … {len(value):,} in all")
    return text(value)


def page(header: str, *sections: str) -> str:
    """A whole page: style sheet, header, sections."""
    return f'{STYLE}<div class="hs-page"><header>{header}</header>{"".join(sections)}</div>'


def section(title: str, body: str, *, opened: bool) -> str:
    """A foldable section; nothing when ``body`` is empty."""
    return f"<details{' open' if opened else ''}><summary>{text(title)}</summary>{body}</details>" if body else ""


def definitions(pairs: Mapping[str, str]) -> str:
    """Names beside values; the values are HTML already."""
    rows = "".join(f"<dt>{text(name)}</dt><dd>{value}</dd>" for name, value in pairs.items())
    return f"<dl>{rows}</dl>" if rows else ""


def attributes(attrs: Mapping[str, Any]) -> str:
    """The section of a node's attributes."""
    shown = {name: value_text(value) for name, value in list(attrs.items())[:MOST_ATTRIBUTES]}
    if len(attrs) > MOST_ATTRIBUTES:
        shown["…"] = f"{len(attrs) - MOST_ATTRIBUTES:,} more"
    return section(f"Attributes ({len(attrs):,})", definitions(shown), opened=len(attrs) <= 10)


def dims_text(dims: tuple[str | None, ...], shape: tuple[int, ...]) -> str:
    """``(time: 240, lat: 37)`` as HTML."""
    sizes = zip(dims, shape, strict=True)
    return f"({', '.join(f'{text(dim)}: {size:,}' if dim is not None else f'{size:,}' for dim, size in sizes)})"
