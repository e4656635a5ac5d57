// Lines: cells along one dimension, on the page and in files drawn by the same pen.

import { Projection, boxOf, drawFrame, drawGaps, drawX, drawY } from "./drawing.js";
import { niceTicks } from "./scale.js";

/**
 * The cells of a line: as they are, or the least, the mean and the greatest of each block. Its window is in places along
 * the axis: numbers of the coordinate, or positions where it has none.
 */
export class LineDrawing {
  /**
   * @param {object} what
   * @param {import("./picture.js").Picture} what.picture
   * @param {[number, number]|null} what.limits of the vertical axis
   * @param {import("./drawing.js").Window} what.window in positions
   */
  constructor({ picture, limits, window }) {
    Object.assign(this, { picture, limits });
    const { numbers } = picture.x;
    this.hasNumbers = numbers !== null && numbers.length > 1;
    this.isTurned = this.hasNumbers && numbers[numbers.length - 1] < numbers[0];
    const placesOf = (range) => range.map((position) => this.placeOf(position)).sort((a, b) => a - b);
    this.window = { x: placesOf(window.x), y: null };
    this.bounds = { x: placesOf([0, picture.x.facts.size]), y: null };
    this.least = Math.abs(this.placeOf(picture.x.start + 1) - this.placeOf(picture.x.start));
    /** A drag chooses a range of a line, and moves other drawings. */
    this.choosesRange = true;
  }

  /** Return where a position stands along the axis. */
  placeOf(position) {
    return this.hasNumbers ? this.picture.x.numberAt(position) : position;
  }

  /** Return the position at a place along the axis. */
  positionOf(place) {
    return this.hasNumbers ? this.picture.x.positionOf(place) : place;
  }

  /** Return the positions in a range of places, the lower one first. */
  positionsIn(range) {
    return range.map((place) => this.positionOf(place)).sort((a, b) => a - b);
  }

  /** Return the ends of the vertical axis. */
  heights() {
    if (this.limits) return this.limits;
    const { head } = this.picture;
    if (head.minimum === null) return [0, 1];
    const room = (head.maximum - head.minimum) * 0.06 || Math.abs(head.minimum) * 0.1 || 1;
    return [head.minimum - room, head.maximum + room];
  }

  title() {
    const { path, units } = this.picture.head;
    const name = path.slice(path.lastIndexOf("/") + 1);
    return units && units !== "1" ? `${name} (${units})` : name;
  }

  /** Draw everything; returns how places and numbers lie on the screen. */
  paint(pen, size, theme) {
    const { picture, window } = this;
    const [low, high] = this.heights();
    const heights = niceTicks(low, high, Math.max(Math.floor((size.height - 60) / 45), 2));
    const box = boxOf(pen, size, heights);
    const projection = this.projectionIn(box);
    pen.rect(box.left, box.top, box.width, box.height, { fill: theme.panel });
    for (const { at } of heights) {
      pen.path([box.left, projection.y(at), box.left + box.width, projection.y(at)], { stroke: theme.line });
    }
    this.paintLine(pen, projection, theme);
    drawFrame(pen, theme, box);
    const most = Math.max(Math.floor(box.width / (picture.x.isTime ? 90 : 70)), 2);
    const columns = picture.x.ticks(...this.positionsIn(window.x), most);
    drawX(pen, theme, box, columns.map(({ at, text }) => ({ at: projection.x(this.placeOf(at)), text })), picture.x.title);
    drawY(pen, theme, box, heights.map(({ at, text }) => ({ at: projection.y(at), text })), this.title());
    return projection;
  }

  /** Return how places and numbers lie in a box. @param {import("./drawing.js").Box} box */
  projectionIn(box) {
    return new Projection(box, { x: this.window.x, y: this.heights() }, { isUpward: true });
  }

  /** Draw the line, what lies between its least and its greatest cells, and its gaps. */
  paintLine(pen, projection, theme) {
    const { picture } = this;
    const { box } = projection;
    const xs = Array.from({ length: picture.columns }, (_, cell) => projection.x(this.placeOf(picture.x.middleOf(cell))));
    const ys = (name) => Array.from(picture.layer(name), (cell) => projection.y(cell + picture.offset));
    pen.clip(box.left, box.top, box.width, box.height);
    if (picture.layer("minimum")) {
      // With an outline: the band around a single spike is half a pixel wide, which nobody would see.
      const style = { fill: theme.accent, stroke: theme.accent, width: 1, opacity: 0.25 };
      for (const part of bands(xs, ys("minimum"), ys("maximum"))) pen.path(part, style);
    }
    const means = ys(null);
    pen.path(xs.flatMap((x, cell) => [x, means[cell]]), { stroke: theme.accent, width: 1.5 });
    for (const cell of lonely(means)) pen.rect(xs[cell] - 1.5, means[cell] - 1.5, 3, 3, { fill: theme.accent });
    pen.unclip();
    const x = (position) => projection.x(this.placeOf(position));
    drawGaps(pen, theme, { box, window: this.window, x }, picture.head.gaps);
  }

  /** Return the position at a point, whole numbers; null beside the cells. */
  positionAt({ x }) {
    const position = Math.floor(this.positionOf(x));
    return position >= 0 && position < this.picture.x.facts.size ? { x: position, y: 0 } : null;
  }

  /** Return where a position lies: on the line where a cell is drawn, else at half of the height. */
  pointOf({ x }) {
    const cell = this.picture.x.cellOf(x);
    const [low, high] = this.heights();
    const value = cell < 0 ? NaN : this.picture.valueAt(cell);
    const isSeen = value >= low && value <= high;
    return { x: this.placeOf(x + 0.5), y: isSeen ? value : (low + high) / 2 };
  }
}

/** Return the outlines of what lies between two rows of heights. */
function bands(xs, least, greatest) {
  const found = [];
  let [upper, lower] = [[], []];
  for (let i = 0; i <= xs.length; i++) {
    if (i < xs.length && !Number.isNaN(least[i])) {
      upper.push(xs[i], greatest[i]);
      lower.unshift(xs[i], least[i]);
    } else if (upper.length) {
      found.push([...upper, ...lower]);
      [upper, lower] = [[], []];
    }
  }
  return found;
}

/** Return the cells between missing ones: no line leads to them. */
function lonely(heights) {
  const isMissing = (cell) => !(cell >= 0 && cell < heights.length) || Number.isNaN(heights[cell]);
  return [...heights.keys()].filter((cell) => !isMissing(cell) && isMissing(cell - 1) && isMissing(cell + 1));
}
