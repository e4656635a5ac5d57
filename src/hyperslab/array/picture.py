"""The chunk grid as a picture: an SVG of boxes, cut where the array is cut. Pure: shape and chunks in, text out.

Three dimensions make a box seen from above its left edge, two a sheet, one a bar; more than three are drawn as several
pictures side by side, the last three dimensions together. Colours are CSS variables that the page defines.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod

from hyperslab.model.spec import Chunks

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
    """An ``<svg>`` of the grid, at most :data:`LINES` cuts per axis; empty for arrays without cells or dimensions."""
    if not shape or prod(shape) == 0:
        return ""
    sides = _sides(shape)
    cuts = [_cuts(length, cut, side) for length, cut, side in zip(shape, chunks, sides, strict=True)]
    left, boxes, height = 0.0, [], 0.0
    for axes in _groups(len(shape))[-PICTURES:]:
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
    """Positions inside ``length`` where one chunk ends and the next begins; of many, ``most`` evenly chosen."""
    if isinstance(cut, int):
        count = -(-length // cut) - 1
        inner: range | list[int] = range(cut, cut * count + 1, cut)
    else:
        inner = [edge for edge in accumulate(cut) if edge < length]
        count = len(inner)
    if count <= most:
        return list(inner)
    return [inner[(2 * i + 1) * count // (2 * most)] for i in range(most)]


def _groups(ndim: int) -> list[range]:
    """The axes of each box: threes from the end, the rest in the first."""
    first = ndim % 3 or 3
    return [range(max(stop - 3, 0), stop) for stop in range(first, ndim + 1, 3)]


def _sides(shape: tuple[int, ...]) -> list[float]:
    """Lengths on paper: long axes are longer, but a ratio of a thousand stays drawable."""
    longest = max(shape)
    return [SHORTEST + (LONGEST - SHORTEST) * float(length / longest) ** 0.5 for length in shape]


def _cuts(length: int, cut: int | tuple[int, ...], side: float) -> list[float]:
    return [side * edge / length for edge in edges(length, cut)]


def _box(sides: list[float], cuts: list[list[float]], labels: list[str]) -> tuple[str, float, float]:
    """One box of up to three axes (depth, rows, columns) with its width and height."""
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
    """A parallelogram with lines at ``columns`` (along ``across``) and ``rows`` (along ``down``)."""
    corners = [at, _add(at, across), _add(_add(at, across), down), _add(at, down)]
    outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    lines = [_line(_add(at, _along(across, cut)), down) for cut in columns]
    lines += [_line(_add(at, _along(down, cut)), across) for cut in rows]
    cuts = f'<path class="hs-cut" d="{"".join(lines)}"/>' if lines else ""
    return f'<polygon class="{kind}" points="{outline}"/>{cuts}'


def _along(direction: Point, distance: float) -> Point:
    """The step that covers ``distance`` of the longer of both coordinates."""
    part = distance / max(direction)
    return direction[0] * part, direction[1] * part


def _add(a: Point, b: Point) -> Point:
    return a[0] + b[0], a[1] + b[1]


def _line(start: Point, step: Point) -> str:
    return f"M{start[0]:.1f} {start[1]:.1f}l{step[0]:.1f} {step[1]:.1f}"


def _text(x: float, y: float, label: str, turn: int = 0) -> str:
    turned = f' transform="rotate({turn},{x:.1f},{y:.1f})"' if turn else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{turned}>{label}</text>'
