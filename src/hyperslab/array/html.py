"""An array's page in a notebook: shape, type, chunks with their picture, size, codecs, attributes. No cell is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.auto import longest_chunk
from hyperslab.chunks.grid import Grid
from hyperslab.model.amounts import counted, size_text
from hyperslab.model.attrs import equal
from hyperslab.model.dtypes import describe, is_fixed
from hyperslab.model.spec import ArraySpec, Chunks

# -- Parts of notebook pages -------------------------------------------------------------------------------------------
# Escaped text, foldable sections, rows, and the one style sheet; groups and collections make their pages of these too.
# Names and attribute values come from files that anyone may have written: every text goes through text(). There is no
# script; what folds is <details>. The ink is the page's own (Jupyter's and VS Code's by name) and every other shade is
# mixed from it, so that a page is readable on whatever it lies, light or dark. Rules with more classes than they need
# are those that would lose to JupyterLab's rules for tables, lists and code.


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
    """Return ``value`` as HTML text, also safe inside a quoted attribute; long ones are cut.

    Control characters, lone surrogates and marks that turn the direction of writing become the replacement character.
    """
    plain = str(value)
    if len(plain) > longest:
        plain = f"{plain[:longest]}…"
    return escape(_CONTROL.sub("\ufffd", plain), quote=True)


def value_text(value: object) -> str:
    """Return an attribute value as HTML text: numbers as numbers, the first of many, text as it is."""
    match value:
        case np.ndarray() if value.size > 20:
            shown = ", ".join(str(cell) for cell in value.ravel()[:20].tolist())
            return text(f"[{shown}, … {value.size:,} in all]")
        case np.ndarray() | np.generic():
            value = value.tolist()
    if isinstance(value, list | tuple) and len(value) > 20:
        return text(f"{list(value[:20])!r:.{LONGEST_TEXT - 40}}, … {len(value):,} in all")
    return text(value)


def page(header: str, *sections: str) -> str:
    """Return a whole page: style sheet, header, sections."""
    return f'{STYLE}<div class="hs-page"><header>{header}</header>{"".join(sections)}</div>'


def section(title: str, body: str, *, opened: bool) -> str:
    """Return a foldable section; nothing when ``body`` is empty."""
    return f"<details{' open' if opened else ''}><summary>{text(title)}</summary>{body}</details>" if body else ""


def definitions(pairs: Mapping[str, str]) -> str:
    """Return names beside values; the values are HTML already."""
    rows = "".join(f"<dt>{text(name)}</dt><dd>{value}</dd>" for name, value in pairs.items())
    return f"<dl>{rows}</dl>" if rows else ""


def attributes(attrs: Mapping[str, Any]) -> str:
    """Return the section of a node's attributes."""
    shown = {name: value_text(value) for name, value in list(attrs.items())[:MOST_ATTRIBUTES]}
    if len(attrs) > MOST_ATTRIBUTES:
        shown["…"] = f"{len(attrs) - MOST_ATTRIBUTES:,} more"
    return section(f"Attributes ({len(attrs):,})", definitions(shown), opened=len(attrs) <= 10)


def dims_text(dims: tuple[str | None, ...], shape: tuple[int, ...]) -> str:
    """Return ``(time: 240, lat: 37)`` as HTML."""
    sizes = zip(dims, shape, strict=True)
    return f"({', '.join(f'{text(dim)}: {size:,}' if dim is not None else f'{size:,}' for dim, size in sizes)})"


# -- Picture of the chunk grid -----------------------------------------------------------------------------------------
# An SVG of boxes, cut where the array is cut. Pure: shape and chunks in, text out. Three dimensions make a box seen
# from above its left edge, two a sheet, one a bar; more than three are drawn as several pictures side by side, the last
# three dimensions together. Colours are CSS variables that the page defines.


LINES = 20
"""The most cuts drawn along one axis; of more, evenly spaced ones are drawn."""
PICTURES = 4
"""The most boxes side by side; of more, the last ones are drawn."""
LONGEST = 120.0
SHORTEST = 16.0
BAR = 28.0
SLANT = 0.45
MARGIN = 12.0
LABELS = 22.0

Point = tuple[float, float]


def picture(shape: tuple[int, ...], chunks: Chunks) -> str:
    """Return an ``<svg>`` of the grid, at most :data:`LINES` cuts per axis; empty for arrays without cells or
    dimensions."""
    if not shape or prod(shape) == 0:
        return ""
    # Lengths on paper: long axes are longer, but a ratio of a thousand stays drawable.
    longest = max(shape)
    sides = [SHORTEST + (LONGEST - SHORTEST) * float(length / longest) ** 0.5 for length in shape]
    scales = zip(shape, chunks, sides, strict=True)
    cuts = [[side * edge / length for edge in edges(length, cut)] for length, cut, side in scales]
    left, boxes, height = 0.0, [], 0.0
    ndim = len(shape)
    groups = [range(max(stop - 3, 0), stop) for stop in range(ndim % 3 or 3, ndim + 1, 3)]
    for axes in groups[-PICTURES:]:
        drawing, box_width, box_height = _box(
            [sides[i] for i in axes], [cuts[i] for i in axes], [f"{shape[i]:,}" for i in axes]
        )
        boxes.append(f'<g transform="translate({left:.1f},0)">{drawing}</g>')
        left, height = left + box_width, max(height, box_height)
    return (
        f'<svg class="hs-grid" role="img" aria-label="chunk grid" width="{left:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {left:.1f} {height:.1f}" xmlns="http://www.w3.org/2000/svg">{"".join(boxes)}</svg>'
    )


def edges(length: int, cut: int | tuple[int, ...], most: int = LINES) -> list[int]:
    """Return positions inside ``length`` where one chunk ends and the next begins; of many, ``most`` evenly chosen."""
    if isinstance(cut, int):
        count = -(-length // cut) - 1
        inner: range | list[int] = range(cut, cut * count + 1, cut)
    else:
        inner = [edge for edge in accumulate(cut) if edge < length]
        count = len(inner)
    if count <= most:
        return list(inner)
    return [inner[(2 * i + 1) * count // (2 * most)] for i in range(most)]


def _box(sides: list[float], cuts: list[list[float]], labels: list[str]) -> tuple[str, float, float]:
    """Return one box of up to three axes (depth, rows, columns) with its width and height."""
    depth = sides[0] * SLANT if len(sides) == 3 else 0.0
    rows, columns = (BAR, sides[0]) if len(sides) == 1 else (sides[-2], sides[-1])
    row_cuts = [] if len(sides) == 1 else cuts[-2]
    front = _sheet((depth, depth), (columns, 0.0), (0.0, rows), cuts[-1], row_cuts, "hs-front")
    parts = []
    if depth:
        slanted = [cut * SLANT for cut in cuts[0]]
        parts.append(_sheet((0.0, 0.0), (columns, 0.0), (depth, depth), cuts[-1], slanted, "hs-top"))
        parts.append(_sheet((0.0, 0.0), (depth, depth), (0.0, rows), slanted, cuts[-2], "hs-side"))
    texts = [_text(depth + columns / 2, depth + rows + 14, labels[-1])]
    if len(sides) > 1:
        texts.append(_text(depth + columns + 12, depth + rows / 2, labels[-2], turn=-90))
    if depth:
        texts.append(_text(depth / 2 - 6, rows + depth / 2 + 10, labels[0], turn=45))
    body = f'<g transform="translate({MARGIN},{MARGIN})">{"".join([*parts, front, *texts])}</g>'
    return body, depth + columns + 2 * MARGIN + LABELS, depth + rows + 2 * MARGIN + LABELS


def _sheet(at: Point, across: Point, down: Point, columns: list[float], rows: list[float], kind: str) -> str:
    """Return a parallelogram with lines at ``columns`` (along ``across``) and ``rows`` (along ``down``)."""
    corners = [at, _add(at, across), _add(_add(at, across), down), _add(at, down)]
    outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    lines = [_line(_add(at, _along(across, cut)), down) for cut in columns]
    lines += [_line(_add(at, _along(down, cut)), across) for cut in rows]
    cuts = f'<path class="hs-cut" d="{"".join(lines)}"/>' if lines else ""
    return f'<polygon class="{kind}" points="{outline}"/>{cuts}'


def _along(direction: Point, distance: float) -> Point:
    """Return the step that covers ``distance`` of the longer of both coordinates."""
    part = distance / max(direction)
    return direction[0] * part, direction[1] * part


def _add(a: Point, b: Point) -> Point:
    return a[0] + b[0], a[1] + b[1]


def _line(start: Point, step: Point) -> str:
    return f"M{start[0]:.1f} {start[1]:.1f}l{step[0]:.1f} {step[1]:.1f}"


def _text(x: float, y: float, label: str, turn: int = 0) -> str:
    turned = f' transform="rotate({turn},{x:.1f},{y:.1f})"' if turn else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{turned}>{label}</text>'


MOST_LISTED = 1000
"""Stored chunks that are looked at, at most, to tell the stored size."""


def array_html(path: str, spec: ArraySpec, stored: int | None) -> str:
    """Return the page of one array. ``stored``: bytes that it takes, where that is known."""
    header = (
        f'<span class="hs-kind">hyperslab.Array</span> <span class="hs-name">/{text(path)}</span> '
        f"{dims_text(spec.dims, spec.shape)} <code>{text(describe(spec.dtype))}</code>"
    )
    return page(header, cells_html(spec, stored), attributes(spec.attrs))


def cells_html(spec: ArraySpec, stored: int | None = None) -> str:
    """Return how the cells are stored, as a table beside a picture of the chunk grid."""
    chunks = spec.inner_chunks or spec.chunks
    rows = {
        "": ("Array", "Chunk"),
        "Bytes": (_raw_bytes(spec, spec.shape), _raw_bytes(spec, longest_chunk(chunks))),
        "Shape": (text(spec.shape), text(_chunks_text(chunks))),
        "Count": (counted(len(spec.shape), "dimension"), counted(Grid.of(spec.shape, chunks).size, "chunk")),
    }
    body = "".join(f"<tr><th>{name}</th><td>{a}</td><td>{b}</td></tr>" for name, (a, b) in rows.items())
    more = "".join(
        f'<tr><th>{name}</th><td colspan="2">{value}</td></tr>' for name, value in _more(spec, stored).items()
    )
    problem = f'<div class="hs-bad">{text(spec.problem)}</div>' if spec.problem else ""
    return f'{problem}<div class="hs-cells"><table>{body}{more}</table>{picture(spec.shape, chunks)}</div>'


def _more(spec: ArraySpec, stored: int | None) -> Mapping[str, str]:
    rows = {"Type": f"<code>{text(describe(spec.dtype))}</code>"}
    if spec.sparse:
        rows["Sparse"] = f"{text(spec.sparse)}: the cells that are not the fill value"
    if spec.inner_chunks:
        rows["Shards"] = f"{text(_chunks_text(spec.chunks))}, {Grid.of(spec.shape, spec.chunks).size:,} in all"
    if stored is not None:
        rows["Stored"] = size_text(stored)
    if spec.codecs:
        rows["Codecs"] = " → ".join(f"<code>{text(codec.name)}</code>" for codec in spec.codecs)
    if spec.fill_value is not None and not equal(spec.fill_value, ""):
        rows["Fill value"] = f"<code>{text(spec.fill_value, 60)}</code>"
    return rows


def _raw_bytes(spec: ArraySpec, shape: tuple[int, ...]) -> str:
    if not is_fixed(spec.dtype):
        return "varying"
    return size_text(prod(shape) * spec.numpy_dtype.itemsize)


def _chunks_text(chunks: Chunks) -> str:
    """Return chunk lengths; of an axis whose sizes vary, the smallest and the largest."""
    cuts = [str(cut) if isinstance(cut, int) else f"{min(cut, default=0)}…{max(cut, default=0)}" for cut in chunks]
    return f"({', '.join(cuts)}{',' if len(cuts) == 1 else ''})"


def is_quickly_sized(url: str, spec: ArraySpec) -> bool:
    """Return True if the stored size of an array of a dataset is told without network and by few listings."""
    remote = "://" in url and not url.startswith(("file://", "memory://", "zip://"))
    return not remote and not spec.problem and Grid.of(spec.shape, spec.chunks).size <= MOST_LISTED
