// Cells at their own longitudes and latitudes: those of curved grids as quadrilaterals, those of no grid as squares.

import { LEGEND, drawLegend, paintCells } from "./colors.js";
import { Projection, boxOf, drawFrame, drawX, drawY } from "./drawing.js";
import { hatchVisible, legendWidth } from "./image.js";
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
    const box = boxOf(pen, size, rows, { below: LEGEND, aspect: Math.min(Math.max(aspect, 0.4), 4) });
    const projection = new Projection(box, window, this);
    pen.rect(box.left, box.top, box.width, box.height, { fill: theme.panel });
    hatchVisible(pen, box, box.left, box.top, box.left + box.width, box.top + box.height, theme.gap);
    this.box = box;
    this.raster = this.makeRaster(projection);
    pen.image(this.raster.canvas, box.left, box.top, box.width, box.height);
    pen.clip(box.left, box.top, box.width, box.height);
    if (this.coast) drawCoast(pen, this.coast, (lon) => projection.x(lon), (lat) => projection.y(lat), window.x);
    pen.unclip();
    drawFrame(pen, theme, box);
    const columns = niceTicks(...window.x, Math.max(Math.floor(box.width / 60), 2), DEGREES);
    drawX(pen, theme, box, columns.map(({ at, text }) => ({ at: projection.x(at), text })), "longitude (degrees east)");
    drawY(pen, theme, box, rows.map(({ at, text }) => ({ at: projection.y(at), text })), "latitude (degrees north)");
    const legend = { name: this.colors, limits: this.limits, units: picture.head.units };
    drawLegend(pen, theme, box.left, box.top + box.height + 42, legendWidth(size, box), legend);
    return projection;
  }

  /** Return the cells as an image, and which cell each of its pixels shows (-1 for none). */
  makeRaster(projection) {
    const [width, height] = [projection.box.width, projection.box.height].map(Math.round);
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    const data = context.createImageData(width, height);
    const { picture, places } = this;
    const colors = new Uint32Array(places.east.length);
    paintCells(picture.layer(), picture.offset, this.limits, this.colors, colors);
    const [pixels, cells] = [new Uint32Array(data.data.buffer), new Int32Array(width * height).fill(-1)];
    const raster = { canvas, width, height, colors, pixels, cells };
    const scale = { x: width / (this.window.x[1] - this.window.x[0]), y: height / (this.window.y[1] - this.window.y[0]) };
    if (places.isGrid) this.paintGrid(raster, scale);
    else this.paintPoints(raster, scale);
    context.putImageData(data, 0, 0);
    return raster;
  }

  paintGrid(raster, scale) {
    const { places } = this;
    const { lons, lats } = places.corners();
    const [west, east] = this.window.x;
    const north = this.window.y[1];
    const wide = places.columns + 1;
    const [xs, ys] = [new Float64Array(4), new Float64Array(4)];
    for (let cell = 0; cell < places.east.length; cell++) {
      const middle = places.east[cell];
      if (Number.isNaN(middle) || Number.isNaN(places.north[cell])) continue;
      const corner = Math.floor(cell / places.columns) * wide + (cell % places.columns);
      const around = [corner, corner + 1, corner + wide + 1, corner + wide];
      let reach = 0;
      for (let i = 0; i < 4; i++) {
        const turn = wrap(lons[around[i]] - middle);
        reach = Math.max(reach, Math.abs(turn));
        xs[i] = turn;
        ys[i] = (north - lats[around[i]]) * scale.y;
      }
      if (reach > 90) continue; // a cell around a pole
      for (let turn = Math.ceil((west - middle - reach) / 360); middle + 360 * turn - reach <= east; turn++) {
        const at = middle + 360 * turn - west;
        paintQuad(raster, cell, xs.map((x) => (x + at) * scale.x), ys);
      }
    }
  }

  paintPoints(raster, scale) {
    const { places } = this;
    const [west, east] = this.window.x;
    const side = Math.min(Math.max(Math.sqrt((raster.width * raster.height) / places.east.length) * 0.8, 2), 12);
    for (let cell = 0; cell < places.east.length; cell++) {
      const middle = places.east[cell];
      const y = (this.window.y[1] - places.north[cell]) * scale.y;
      if (Number.isNaN(middle + y)) continue;
      for (let turn = Math.ceil((west - middle) / 360); middle + 360 * turn <= east; turn++) {
        const x = (middle + 360 * turn - west) * scale.x;
        const half = side / 2;
        paintQuad(raster, cell, [x - half, x + half, x + half, x - half], [y - half, y - half, y + half, y + half]);
      }
    }
  }

  /** Return the position of the cell under a pixel. */
  positionAt(_, { x, y }) {
    const { raster, box } = this;
    const column = Math.floor(((x - box.left) / box.width) * raster.width);
    const row = Math.floor(((y - box.top) / box.height) * raster.height);
    const cell = raster.cells[row * raster.width + column] ?? -1;
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

function wrap(degrees) {
  return degrees - 360 * Math.round(degrees / 360);
}

/** Paint the pixels whose middles lie in a quadrilateral, and the one in its middle, however small it is. */
function paintQuad({ width, height, colors, pixels, cells }, cell, xs, ys) {
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
  if (!(right >= 0 && left < width && bottom >= 0 && top < height)) return;
  const color = colors[cell];
  const put = (x, y) => {
    pixels[y * width + x] = color;
    cells[y * width + x] = cell;
  };
  const [x0, x1] = [Math.max(Math.floor(left), 0), Math.min(Math.ceil(right), width - 1)];
  const [y0, y1] = [Math.max(Math.floor(top), 0), Math.min(Math.ceil(bottom), height - 1)];
  for (let y = y0; y <= y1; y++) {
    for (let x = x0; x <= x1; x++) if (isInside(x + 0.5, y + 0.5, xs, ys)) put(x, y);
  }
  const [x, y] = [Math.floor((left + right) / 2), Math.floor((top + bottom) / 2)];
  if (x >= 0 && y >= 0 && x < width && y < height) put(x, y);
}

function isInside(x, y, xs, ys) {
  let sides = 0;
  for (let i = 0; i < 4; i++) {
    const next = (i + 1) & 3;
    sides += (xs[next] - xs[i]) * (y - ys[i]) - (ys[next] - ys[i]) * (x - xs[i]) >= 0 ? 1 : -1;
  }
  return sides === 4 || sides === -4;
}
