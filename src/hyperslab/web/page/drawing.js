// What all drawings share: room for axes, ticks, gaps, colours of the page.

import { hatch } from "./pen.js";

/** @typedef {{left: number, top: number, width: number, height: number}} Box */
/** @typedef {{x: number[], y: number[]|null}} Window */

// The colours of drawings, and how the page calls them.
const COLORS = {
  fg: "--fg",
  muted: "--muted",
  line: "--line",
  panel: "--panel",
  bg: "--bg",
  gap: "--muted",
  accent: "--accent",
  error: "--problem",
};
const TICK = 11;

/** Return the colours of the page as they are now. @param {Element} element of the page @returns {Record<string, string>} */
export function themeOf(element) {
  const style = getComputedStyle(element);
  return Object.fromEntries(Object.entries(COLORS).map(([name, property]) => [name, style.getPropertyValue(property).trim()]));
}

/** Drawings of cells in rows and columns, whose window is one of positions. */
export class PlaneDrawing {
  /** Return the position of a point of the drawing, whole numbers; null beside the cells. */
  positionAt(point) {
    const { x, y } = this.picture;
    const [column, row] = [Math.floor(point.x), Math.floor(point.y)];
    return column >= 0 && row >= 0 && column < x.facts.size && row < y.facts.size ? { x: column, y: row } : null;
  }

  /** Return the middle of a position on the screen. */
  pointOf({ x, y }) {
    return { x: x + 0.5, y: y + 0.5 };
  }

  /** Return the next cell of the picture as it lies on the screen; null beside the cells. */
  neighbour(from, right, down) {
    const { picture, bounds, isTurned, isUpward } = this;
    const x = from.x + right * (isTurned ? -1 : 1) * picture.x.span;
    const y = bounds.y ? from.y + down * (isUpward ? -1 : 1) * picture.y.span : from.y;
    const isInside = (place, range) => !range || (place >= range[0] && place < range[1]);
    return isInside(x, bounds.x) && isInside(y, bounds.y) ? { x, y } : null;
  }
}

/** Return the box that is left for the cells: `ticks` of the vertical axis need room, and `below` pixels. */
export function boxOf(pen, size, ticks, { below = 0, aspect = null, hasTitle = true } = {}) {
  const widest = Math.max(0, ...ticks.map(({ text }) => pen.measure(text, TICK)));
  const left = Math.ceil(widest) + (hasTitle ? 28 : 12);
  const top = 10;
  let width = Math.max(size.width - left - 18, 20);
  let height = Math.max(size.height - top - 36 - below, 20);
  if (aspect) {
    if (width / height > aspect) width = Math.max(Math.round(height * aspect), 20);
    else height = Math.max(Math.round(width / aspect), 20);
  }
  return { left, top, width, height };
}

/** Maps positions of a window to pixels of a box and back. */
export class Projection {
  /** @param {Box} box @param {Window} window */
  constructor(box, window, { isTurned = false, isUpward = false } = {}) {
    Object.assign(this, { box, window, isTurned, isUpward });
    [this.a, this.b] = isTurned ? [window.x[1], window.x[0]] : window.x;
    const y = window.y ?? [0, 1];
    [this.c, this.d] = isUpward ? [y[1], y[0]] : y;
  }

  x(position) {
    return this.box.left + ((position - this.a) / (this.b - this.a)) * this.box.width;
  }

  y(position) {
    return this.box.top + ((position - this.c) / (this.d - this.c)) * this.box.height;
  }

  /** Return the position under a pixel; null outside of the box. */
  back(x, y) {
    const { left, top, width, height } = this.box;
    if (!(x >= left && y >= top && x < left + width && y < top + height)) return null;
    return { x: this.a + ((x - left) / width) * (this.b - this.a), y: this.c + ((y - top) / height) * (this.d - this.c) };
  }
}

/** Draw ticks and title of the horizontal axis. `ticks` are in pixels. */
export function drawX(pen, theme, box, ticks, title) {
  const bottom = box.top + box.height;
  let free = -Infinity;
  for (const { at, text } of ticks) {
    pen.path([at, bottom, at, bottom + 4], { stroke: theme.muted });
    const half = pen.measure(text, TICK) / 2;
    const middle = Math.max(at, half + 2);
    if (middle - half < free) continue;
    free = middle + half + 8;
    pen.text(middle, bottom + 6, text, { anchor: "center", baseline: "top", size: TICK, color: theme.fg });
  }
  const style = { anchor: "center", baseline: "top", size: 12, color: theme.fg };
  pen.text(box.left + box.width / 2, bottom + 20, fitText(pen, title, box.width, 12), style);
}

/** Draw ticks and title of the vertical axis. */
export function drawY(pen, theme, box, ticks, title) {
  let free = Infinity;
  for (const { at, text } of [...ticks].sort((a, b) => b.at - a.at)) {
    pen.path([box.left - 4, at, box.left, at], { stroke: theme.muted });
    if (at > free) continue;
    free = at - TICK - 3;
    pen.text(box.left - 7, at, text, { anchor: "right", baseline: "middle", size: TICK, color: theme.fg });
  }
  const style = { anchor: "center", baseline: "top", size: 12, color: theme.fg, turn: true };
  if (title) pen.text(2, box.top + box.height / 2, fitText(pen, title, box.height, 12), style);
}

/** Draw the frame around the cells. */
export function drawFrame(pen, theme, box) {
  pen.rect(box.left, box.top, box.width, box.height, { stroke: theme.line });
}

/** Draw what could not be read: hatched, with a border. */
export function drawGaps(pen, theme, projection, gaps) {
  const { box, window } = projection;
  pen.clip(box.left, box.top, box.width, box.height);
  for (const gap of gaps) {
    const [x0, x1] = [projection.x(gap.x[0]), projection.x(gap.x[1])].sort((a, b) => a - b);
    const rows = window.y && gap.y ? [projection.y(gap.y[0]), projection.y(gap.y[1])].sort((a, b) => a - b) : null;
    const [y0, y1] = rows ?? [box.top, box.top + box.height];
    const [left, right] = [Math.max(x0, box.left), Math.min(x1, box.left + box.width)];
    const [top, bottom] = [Math.max(y0, box.top), Math.min(y1, box.top + box.height)];
    if (right <= left || bottom <= top) continue;
    pen.rect(left, top, right - left, bottom - top, { fill: theme.panel });
    hatch(pen, left, top, right - left, bottom - top, theme.error, { gap: 7, thickness: 1.5 });
    pen.rect(left, top, right - left, bottom - top, { stroke: theme.error });
  }
  pen.unclip();
}

/** Return a text, or the beginning of one that is too wide. */
export function fitText(pen, text, width, size) {
  if (pen.measure(text, size) <= width) return text;
  let letters = text.length - 1;
  while (letters > 1 && pen.measure(`${text.slice(0, letters)}…`, size) > width) letters--;
  return `${text.slice(0, letters)}…`;
}

/** Return a window moved and cut so that it lies within bounds. */
export function fitRange([from, to], [low, high], least) {
  const length = Math.min(Math.max(to - from, least), high - low);
  const middle = (from + to) / 2;
  const start = Math.min(Math.max(middle - length / 2, low), high - length);
  return [start, start + length];
}
