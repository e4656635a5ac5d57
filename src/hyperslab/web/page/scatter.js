// Cells at their own longitudes and latitudes: those of curved grids as quadrilaterals, those of no grid as squares.

import { Legend, paintCells } from "./colors.js";
import { Projection, boxOf, drawFrame, drawX, drawY } from "./drawing.js";
import { hatchVisible } from "./image.js";
import { drawCoast } from "./map.js";
import { niceTicks } from "./scale.js";

const DEGREES = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 45, 60, 90];

/** A picture drawn in degrees. */
export class MapDrawing {
  /**
   * @param {{picture: any, places: import("./map.js").Places, bounds: any, colors: string, limits: number[], window: any,
   *   coast: any}} what
   */
  constructor(what) {
    Object.assign(this, what);
    this.least = 0.02;
    this.isTurned = false;
    this.isUpward = true;
    this.raster = null;
  }

  paint(pen, size, theme) {
    const { window, picture } = this;
    const rows = niceTicks(...window.y, Math.max(Math.floor((size.height - 90) / 32), 2), DEGREES);
    const aspect = (window.x[1] - window.x[0]) / (window.y[1] - window.y[0]);
    const legend = new Legend(pen, size.width, { name: this.colors, limits: this.limits, isLog: this.isLog, head: picture.head });
    const box = boxOf(pen, size, rows, { below: legend.height, aspect: Math.min(Math.max(aspect, 0.4), 4) });
    const projection = new Projection(box, window, this);
    pen.rect(box.left, box.top, box.width, box.height, { fill: theme.panel });
    hatchVisible(pen, box, box.left, box.top, box.left + box.width, box.top + box.height, theme.gap);
    pen.clip(box.left, box.top, box.width, box.height);
    this.paintCells(pen, { box, x: (lon) => projection.x(lon), y: (lat) => projection.y(lat) });
    if (this.coast) drawCoast(pen, this.coast, (lon) => projection.x(lon), (lat) => projection.y(lat), window.x);
    pen.unclip();
    drawFrame(pen, theme, box);
    const columns = niceTicks(...window.x, Math.max(Math.floor(box.width / 60), 2), DEGREES);
    drawX(pen, theme, box, columns.map(({ at, text }) => ({ at: projection.x(at), text })), "longitude (°E)");
    drawY(pen, theme, box, rows.map(({ at, text }) => ({ at: projection.y(at), text })), "latitude (°N)");
    legend.paint(pen, theme, box);
    return projection;
  }

  /** Draw the cells; while the window moves those that were drawn before, where they would be then. */
  paintCells(pen, { box, x, y }) {
    const [width, height] = [Math.round(box.width), Math.round(box.height)];
    const isSame = this.raster?.width === width && this.raster.height === height;
    if (!isSame) this.raster = { width, height, window: this.window, ...this.colored(width, height) };
    const { canvas, window } = this.raster;
    const [left, right, top, bottom] = [x(window.x[0]), x(window.x[1]), y(window.y[1]), y(window.y[0])];
    pen.image(canvas, left, top, right - left, bottom - top);
  }

  /** Return the cells as an image, and which cell each of its pixels shows (-1 for none). */
  colored(width, height) {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    const data = context.createImageData(width, height);
    const { picture, places } = this;
    const colors = new Uint32Array(places.east.length);
    paintCells(picture.layer(), picture.offset, this.limits, this.colors, this.isLog, colors);
    const cells = cellsIn(places, this.window, width, height, colors);
    const pixels = new Uint32Array(data.data.buffer);
    for (let i = 0; i < pixels.length; i++) pixels[i] = cells[i] < 0 ? 0 : colors[cells[i]];
    context.putImageData(data, 0, 0);
    return { canvas, cells };
  }

  /** Return the position of the cell at a longitude and latitude. */
  positionAt({ x, y }) {
    const { width, height, window, cells } = this.raster;
    const column = Math.floor(((x - window.x[0]) / (window.x[1] - window.x[0])) * width);
    const row = Math.floor(((window.y[1] - y) / (window.y[1] - window.y[0])) * height);
    const cell = column >= 0 && column < width ? (cells[row * width + column] ?? -1) : -1;
    return cell < 0 ? null : this.positionOf(cell);
  }

  positionOf(cell) {
    const { x, y } = this.picture;
    const row = Math.floor(cell / this.places.columns);
    return { x: middleOf(x, cell % this.places.columns), y: y ? middleOf(y, row) : 0 };
  }

  cellOf({ x, y }) {
    const row = this.picture.y ? this.picture.y.cellOf(y) : 0;
    const column = this.picture.x.cellOf(x);
    return row < 0 || column < 0 ? -1 : row * this.places.columns + column;
  }

  /** Return the longitude and latitude of a position, within the window where it can be. */
  pointOf(position) {
    const cell = this.cellOf(position);
    if (cell < 0) return null;
    const longitude = this.places.east[cell];
    return { x: longitude + 360 * Math.ceil((this.window.x[0] - longitude) / 360), y: this.places.north[cell] };
  }

  /** Return the next cell of the array: right and down as the rows and columns of the array go. */
  neighbour({ x, y }, right, down) {
    const { picture } = this;
    const next = { x: x + right * picture.x.span, y: picture.y ? y - down * picture.y.span : 0 };
    return this.cellOf(next) < 0 ? null : next;
  }
}

/** Return the position in the middle of a cell of the picture: its place was taken there. */
function middleOf({ start, stop, span, facts }, cell) {
  return Math.min(start + cell * span + Math.floor(facts.block / 2) * facts.step, stop - 1);
}

/**
 * Return which cell each pixel of a window shows, -1 for none; a missing cell (of no colour) shows where no other lies: grids
 * of oceans have cells of land over those of a sea. The last answer is kept: what moves are mostly values, and no coasts.
 */
function cellsIn(places, window, width, height, colors) {
  const key = JSON.stringify([window, width, height]);
  const missing = Uint8Array.from(colors, (color) => Number(color === 0));
  const { seen } = places;
  if (seen?.key !== key || seen.missing.some((isMissing, cell) => isMissing !== missing[cell])) {
    const raster = { width, height, cells: new Int32Array(width * height).fill(-1) };
    const scale = { x: width / (window.x[1] - window.x[0]), y: height / (window.y[1] - window.y[0]) };
    for (const isMissing of [1, 0]) {
      const cells = [...missing.keys()].filter((cell) => missing[cell] === isMissing);
      if (places.isGrid) paintGrid(raster, places, cells, window, scale);
      else paintPoints(raster, places, cells, window, scale);
    }
    places.seen = { key, missing, cells: raster.cells };
  }
  return places.seen.cells;
}

function paintGrid(raster, places, cells, window, scale) {
  const { lons, lats } = places.corners();
  const [west, east] = window.x;
  const north = window.y[1];
  const wide = places.columns + 1;
  const [xs, ys, turns] = [new Float64Array(4), new Float64Array(4), new Float64Array(4)];
  for (const cell of cells) {
    const middle = places.east[cell];
    const first = Math.floor(cell / places.columns) * wide + (cell % places.columns);
    let reach = 0;
    for (let i = 0; i < 4; i++) {
      const corner = first + (i === 0 || i === 3 ? 0 : 1) + (i < 2 ? 0 : wide);
      turns[i] = wrap(lons[corner] - middle);
      reach = Math.max(reach, Math.abs(turns[i]));
      ys[i] = (north - lats[corner]) * scale.y;
    }
    if (!(reach <= 90)) continue; // a cell that is nowhere, or around a pole
    for (let turn = Math.ceil((west - middle - reach) / 360); middle + 360 * turn - reach <= east; turn++) {
      const at = middle + 360 * turn - west;
      for (let i = 0; i < 4; i++) xs[i] = (turns[i] + at) * scale.x;
      fillQuad(raster, cell, xs, ys);
    }
  }
}

function paintPoints(raster, places, cells, window, scale) {
  const [west, east] = window.x;
  const half = Math.min(Math.max(Math.sqrt((raster.width * raster.height) / places.east.length) * 0.4, 1), 6);
  for (const cell of cells) {
    const middle = places.east[cell];
    const y = (window.y[1] - places.north[cell]) * scale.y;
    if (Number.isNaN(middle + y)) continue;
    for (let turn = Math.ceil((west - middle) / 360); middle + 360 * turn <= east; turn++) {
      const x = (middle + 360 * turn - west) * scale.x;
      fillQuad(raster, cell, [x - half, x + half, x + half, x - half], [y - half, y - half, y + half, y + half]);
    }
  }
}

function wrap(degrees) {
  return degrees - 360 * Math.round(degrees / 360);
}

/** Give a cell the pixels whose middles lie in a quadrilateral, and the one in its middle, however small it is. */
function fillQuad({ width, height, cells }, cell, xs, ys) {
  const [top, bottom] = [Math.min(ys[0], ys[1], ys[2], ys[3]), Math.max(ys[0], ys[1], ys[2], ys[3])];
  const last = Math.min(Math.floor(bottom - 0.5), height - 1);
  for (let row = Math.max(Math.ceil(top - 0.5), 0); row <= last; row++) {
    const at = row + 0.5;
    let [left, right] = [Infinity, -Infinity];
    for (let i = 0; i < 4; i++) {
      const next = (i + 1) & 3;
      if (ys[i] <= at === ys[next] <= at) continue;
      const x = xs[i] + ((at - ys[i]) / (ys[next] - ys[i])) * (xs[next] - xs[i]);
      if (x < left) left = x;
      if (x > right) right = x;
    }
    const [from, to] = [Math.max(Math.ceil(left - 0.5), 0), Math.min(Math.floor(right - 0.5), width - 1)];
    if (to >= from) cells.fill(cell, row * width + from, row * width + to + 1);
  }
  const x = Math.floor((xs[0] + xs[1] + xs[2] + xs[3]) / 4);
  const y = Math.floor((ys[0] + ys[1] + ys[2] + ys[3]) / 4);
  if (x >= 0 && y >= 0 && x < width && y < height) cells[y * width + x] = cell;
}
