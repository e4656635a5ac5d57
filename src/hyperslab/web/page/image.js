// Images: cells as coloured pixels, with axes, gaps, coastlines and a legend.

import { Legend, paintCells } from "./colors.js";
import { PlaneDrawing, Projection, boxOf, drawFrame, drawGaps, drawX, drawY } from "./drawing.js";
import { drawCoast } from "./map.js";
import { hatch } from "./pen.js";
import { boundedAspect } from "./settings.js";

/** A picture drawn in positions, one cell beside the other. */
export class ImageDrawing extends PlaneDrawing {
  /**
   * @param {object} what
   * @param {import("./picture.js").Picture} what.picture
   * @param {string} what.colors
   * @param {[number, number]} what.limits
   * @param {boolean} what.isLog colours by the logarithms of cells
   * @param {import("./drawing.js").Window} what.window
   * @param {number[][]|null} what.coast
   */
  constructor({ picture, colors, limits, isLog = false, window, coast = null }) {
    super();
    Object.assign(this, { picture, colors, limits, isLog, window, coast });
    const { x, y } = picture;
    this.bounds = { x: [0, x.facts.size], y: [0, y.facts.size] };
    this.least = 1;
    this.isTurned = x.numbers !== null && falls(x.numbers);
    this.isUpward = y.numbers !== null && falls(y.numbers) !== y.isUpward;
    this.image = null;
  }

  /** Draw everything; returns how positions lie on the screen. */
  paint(pen, size, theme) {
    const { picture, window } = this;
    const { x, y, head } = picture;
    const rows = y.ticks(...window.y, Math.max(Math.floor((size.height - 90) / 32), 2));
    const legend = new Legend(pen, size.width, { name: this.colors, limits: this.limits, isLog: this.isLog, head });
    const box = boxOf(pen, size, rows, { below: legend.height, aspect: this.aspect() });
    const projection = new Projection(box, window, this);
    pen.rect(box.left, box.top, box.width, box.height, { fill: theme.panel });
    pen.clip(box.left, box.top, box.width, box.height);
    const [left, right] = sorted(projection.x(x.start), projection.x(x.stop));
    const [top, bottom] = sorted(projection.y(y.start), projection.y(y.stop));
    hatchVisible(pen, box, left, top, right, bottom, theme.gap);
    pen.clip(left, top, right - left, bottom - top);
    const [first, last] = sorted(projection.x(x.start), projection.x(x.start + x.count * x.span));
    const [highest, lowest] = sorted(projection.y(y.start), projection.y(y.start + y.count * y.span));
    pen.image(this.cellImage(), first, highest, last - first, lowest - highest);
    pen.unclip();
    if (this.coast) {
      const [east, north] = [(lon) => projection.x(x.positionOf(lon)), (lat) => projection.y(y.positionOf(lat))];
      drawCoast(pen, this.coast, east, north, ends(x, window.x));
    }
    pen.unclip();
    drawGaps(pen, theme, projection, head.gaps);
    drawFrame(pen, theme, box);
    const columns = x.ticks(...window.x, Math.max(Math.floor(box.width / (x.isTime ? 90 : 60)), 2));
    drawX(pen, theme, box, columns.map(({ at, text }) => ({ at: projection.x(at), text })), x.title);
    drawY(pen, theme, box, rows.map(({ at, text }) => ({ at: projection.y(at), text })), y.title);
    legend.paint(pen, theme, box);
    return projection;
  }

  /** Return width by height that do not distort: of maps, and of cells without labels; null where any will do. */
  aspect() {
    const { window } = this;
    const { x, y } = this.picture;
    let found = (window.x[1] - window.x[0]) / (window.y[1] - window.y[0]);
    if (x.numbers && y.numbers && x.numbers.length > 1 && y.numbers.length > 1) {
      const isPlane = (x.role === "longitude" && y.role === "latitude") || (x.role === "x" && y.role === "y");
      if (!isPlane) return null;
      found = length(ends(x, window.x)) / length(ends(y, window.y));
    } else if (x.labels || y.labels) return null;
    return boundedAspect(found);
  }

  /** Return the cells as a canvas, a pixel for each, turned as they are drawn. */
  cellImage() {
    if (this.image) return this.image;
    const { columns, rows, offset } = this.picture;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [columns, rows];
    const context = canvas.getContext("2d");
    const data = context.createImageData(columns, rows);
    const pixels = new Uint32Array(data.data.buffer);
    paintCells(this.picture.layer(), offset, this.limits, this.colors, this.isLog, pixels);
    if (this.isUpward) turnRows(pixels, columns, rows);
    if (this.isTurned) for (let row = 0; row < rows; row++) pixels.subarray(row * columns, (row + 1) * columns).reverse();
    context.putImageData(data, 0, 0);
    this.image = canvas;
    return canvas;
  }
}

/** Draw the ground of missing cells: two colours that no map has. */
export function hatchVisible(pen, box, left, top, right, bottom, color) {
  const [x0, y0] = [Math.max(left, box.left), Math.max(top, box.top)];
  const [x1, y1] = [Math.min(right, box.left + box.width), Math.min(bottom, box.top + box.height)];
  hatch(pen, x0, y0, x1 - x0, y1 - y0, color, { opacity: 0.45 });
}

function turnRows(pixels, columns, rows) {
  for (let row = 0; row < rows >> 1; row++) {
    const [upper, lower] = [row * columns, (rows - 1 - row) * columns];
    const kept = pixels.slice(upper, upper + columns);
    pixels.copyWithin(upper, lower, lower + columns);
    pixels.set(kept, lower);
  }
}

function falls(numbers) {
  return numbers.length > 1 && numbers[numbers.length - 1] < numbers[0];
}

function ends(scale, [from, to]) {
  return sorted(scale.numberAt(from), scale.numberAt(to));
}

function length([low, high]) {
  return high - low;
}

function sorted(a, b) {
  return a < b ? [a, b] : [b, a];
}
