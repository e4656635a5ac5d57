"""The parts that notebook pages are made of: escaped text, foldable sections, rows, and the one style sheet.

Names and attribute values come from files that anyone may have written: every text goes through :func:`text`. There is
no script; what folds is ``<details>``. Colours are CSS variables that follow Jupyter's and VS Code's theme.
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

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

STYLE = """<style>
.hs-page{--hs-ink:var(--jp-content-font-color0,var(--vscode-editor-foreground,#1c1c1c));
--hs-soft:var(--jp-content-font-color2,var(--vscode-descriptionForeground,#666));
--hs-rule:var(--jp-border-color2,var(--vscode-panel-border,#d8d8d8));
--hs-row:var(--jp-layout-color2,var(--vscode-editorWidget-background,#f4f4f4));
--hs-front:#f2b872;--hs-top:#f8d7a8;--hs-side:#dd9b4e;--hs-line:#6b4312;--hs-bad:#b3261e;
color:var(--hs-ink);font:13px/1.5 system-ui,sans-serif;max-width:900px}
html[theme=dark] .hs-page,html[data-theme=dark] .hs-page,body[data-theme=dark] .hs-page,
body[data-jp-theme-light=false] .hs-page,body.vscode-dark .hs-page{
--hs-ink:var(--jp-content-font-color0,var(--vscode-editor-foreground,#eee));
--hs-soft:var(--jp-content-font-color2,var(--vscode-descriptionForeground,#aaa));
--hs-rule:var(--jp-border-color2,var(--vscode-panel-border,#444));
--hs-row:var(--jp-layout-color2,var(--vscode-editorWidget-background,#262626));
--hs-front:#b97a2f;--hs-top:#d79c55;--hs-side:#8f5b1d;--hs-line:#241503;--hs-bad:#f2b8b5}
.hs-page header{padding:4px 0 6px;border-bottom:1px solid var(--hs-rule);margin-bottom:4px}
.hs-page .hs-kind,.hs-page .hs-soft{color:var(--hs-soft)}
.hs-page .hs-name{font-weight:600}
.hs-page code,.hs-page .hs-name,.hs-page td,.hs-page dd{unicode-bidi:isolate;overflow-wrap:anywhere}
.hs-page code{font:12px/1.5 ui-monospace,monospace;background:none;color:inherit;padding:0}
.hs-page details{margin:0}
.hs-page details>:not(summary){margin-left:18px}
.hs-page summary{cursor:pointer;padding:2px 0}
.hs-page summary.hs-row{display:grid;grid-template-columns:minmax(180px,2fr) minmax(130px,2fr) 80px 2.4fr;
gap:0 12px;padding:2px 6px}
.hs-page summary.hs-row::marker{content:""}
.hs-page summary.hs-row>.hs-name::before{display:inline-block;width:14px;text-indent:0;content:"▸";
color:var(--hs-soft);font-weight:400}
.hs-page summary.hs-row>.hs-name{padding-left:14px;text-indent:-14px}
.hs-page details[open]>summary.hs-row>.hs-name::before{content:"▾"}
.hs-page details.hs-array:nth-of-type(odd)>summary{background:var(--hs-row)}
.hs-page .hs-index>.hs-name>u{text-underline-offset:3px;text-decoration-thickness:1px}
.hs-page .hs-name>u{text-decoration:none}.hs-page .hs-index>.hs-name>u{text-decoration:underline}
.hs-page .hs-bad{color:var(--hs-bad)}
.hs-page dl{display:grid;grid-template-columns:minmax(90px,max-content) 1fr;gap:0 14px;margin:2px 0 6px}
.hs-page dt{color:var(--hs-soft);font-weight:400}
.hs-page dd{margin:0;white-space:pre-wrap}
.hs-page .hs-cells{display:flex;flex-wrap:wrap;gap:8px 32px;align-items:flex-start;padding:4px 0}
.hs-page table{border-collapse:collapse;margin:4px 0;font-size:12px;background:none;color:inherit}
.hs-page th,.hs-page td{text-align:left;padding:2px 10px 2px 0;border:0;background:none;vertical-align:top}
.hs-page thead th,.hs-page tbody th{color:var(--hs-soft);font-weight:400}
.hs-grid{overflow:visible;max-width:100%}
.hs-grid polygon{stroke:var(--hs-line);stroke-width:1.4;stroke-linejoin:round}
.hs-grid .hs-front{fill:var(--hs-front)}.hs-grid .hs-top{fill:var(--hs-top)}.hs-grid .hs-side{fill:var(--hs-side)}
.hs-grid .hs-cut{stroke:var(--hs-line);stroke-width:.6;fill:none;opacity:.75}
.hs-grid text{fill:var(--hs-ink);font:11px system-ui,sans-serif;text-anchor:middle}
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


def count_text(count: int, what: str) -> str:
    """``1 chunk``, ``2,000 chunks``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def bytes_text(count: int) -> str:
    """A number of bytes in binary units: ``1.50 MiB``; of absurd ones the power of two."""
    power = max(count.bit_length() - 1, 0) // 10
    if power >= len(_UNITS):
        return f"2^{count.bit_length() - 1} B"
    return f"{count / 1024**power:.2f} {_UNITS[power]}" if power else f"{count} B"
