// Profiles: a line along a vertical axis stands upright. Heights grow upwards, depths and pressures downwards.

import { Projection, boxOf, drawFrame, drawGaps, drawX, drawY } from "./drawing.js";
import { LineDrawing, outlines } from "./line.js";
import { niceTicks } from "./scale.js";

/** Maps numbers to the right, and positions to where their labels stand on the vertical axis. */
class ProfileProjection extends Projection {
  /** @param {import("./drawing.js").Box} box @param {ProfileDrawing} drawing */
  constructor(box, drawing) {
    super(box, { x: drawing.heights(), y: drawing.window.y }, drawing);
    this.drawing = drawing;
    [this.first, this.last] = drawing.ends();
  }

  /** Return where a label, or a position without labels, stands. */
  yOf(place) {
    return this.box.top + ((place - this.first) / (this.last - this.first)) * this.box.height;
  }

  y(position) {
    return this.yOf(this.drawing.placeOf(position));
  }

  back(x, y) {
    const point = super.back(x, y);
    if (!point) return null;
    const place = this.first + ((y - this.box.top) / this.box.height) * (this.last - this.first);
    return { x: point.x, y: this.drawing.positionOf(place) };
  }
}

/** The cells of a line along a vertical axis, in a window of its positions. */
export class ProfileDrawing extends LineDrawing {
  constructor(options) {
    super(options);
    this.window = { x: null, y: options.window.x };
    this.bounds = { x: null, y: this.bounds.x };
    // Positions that grow upwards on the screen: of numbers that rise where these stand higher, or fall where they do not.
    this.isUpward = this.hasNumbers && this.picture.x.isUpward !== this.falls;
  }

  get seen() {
    return this.window.y;
  }

  /** Return the ends of the vertical axis, the upper one first. */
  ends() {
    const [low, high] = this.range();
    return this.hasNumbers && this.picture.x.isUpward ? [high, low] : [low, high];
  }

  positionAt(point) {
    const x = Math.floor(point.y);
    return x >= this.bounds.y[0] && x < this.bounds.y[1] ? { x, y: 0 } : null;
  }

  /** Return the number of a position, and its middle. */
  pointOf({ x }) {
    const { picture } = this;
    return { x: picture.valueAt(Math.max(picture.x.cellOf(x), 0), 0), y: x + 0.5 };
  }

  neighbour(from, right, down) {
    const x = from.x + down * (this.isUpward ? -1 : 1) * this.picture.x.span;
    return down && x >= this.bounds.y[0] && x < this.bounds.y[1] ? { x, y: 0 } : null;
  }

  paint(pen, size, theme) {
    const rows = this.picture.x.ticks(...this.seen, Math.max(Math.floor((size.height - 60) / 32), 2));
    const box = boxOf(pen, size, rows);
    const projection = new ProfileProjection(box, this);
    const numbers = niceTicks(...this.heights(), Math.max(Math.floor(box.width / 70), 2));
    pen.rect(box.left, box.top, box.width, box.height, { fill: theme.panel });
    for (const { at } of numbers) {
      pen.path([projection.x(at), box.top, projection.x(at), box.top + box.height], { stroke: theme.line });
    }
    this.paintLine(pen, projection, theme);
    drawFrame(pen, theme, box);
    drawX(pen, theme, box, numbers.map(({ at, text }) => ({ at: projection.x(at), text })), this.title());
    drawY(pen, theme, box, rows.map(({ at, text }) => ({ at: projection.y(at), text })), this.picture.x.title);
    return projection;
  }

  paintLine(pen, projection, theme) {
    const { box } = projection;
    const [places, mean, least, greatest] = this.data();
    const point = (place, value) => [value === null ? NaN : projection.x(value), projection.yOf(place)];
    const points = (row) => row.flatMap((value, i) => point(places[i], value));
    pen.clip(box.left, box.top, box.width, box.height);
    for (const area of least ? outlines(places, least, greatest, point) : []) {
      pen.path(area, { fill: theme.accent, opacity: 0.25 });
    }
    for (const row of least ? [least, greatest] : []) pen.path(points(row), { stroke: theme.accent, opacity: 0.5 });
    pen.path(points(mean), { stroke: theme.accent, width: 1.5 });
    pen.unclip();
    const whole = { box, window: { x: [0, 1], y: this.seen }, x: (end) => box.left + end * box.width, y: (end) => projection.y(end) };
    drawGaps(pen, theme, whole, this.picture.head.gaps.map((gap) => ({ x: [0, 1], y: gap.x })));
  }
}
