// Maps: coastlines, and cells at their own longitudes and latitudes.

const RADIAN = Math.PI / 180;
// Degrees over which coastlines are drawn, which are 5,000 points for each turn around the earth.
const MOST_DEGREES = 3 * 360;
let coast = null;

/** Return the coastlines: lines of longitude, latitude, longitude … in degrees. Loaded once. */
export function loadCoast() {
  coast ??= fetch(new URL("./vendor/coastlines.json", import.meta.url))
    .then((answer) => answer.json())
    .then(({ unit, lines }) => lines.map((steps) => addUp(steps, unit)))
    .catch((error) => {
      coast = null;
      throw error;
    });
  return coast;
}

function addUp(steps, unit) {
  const line = new Float64Array(steps.length);
  let [x, y] = [0, 0];
  for (let i = 0; i < steps.length; i += 2) {
    x += steps[i];
    y += steps[i + 1];
    line[i] = x * unit;
    line[i + 1] = y * unit;
  }
  return line;
}

/** Draw the coastlines between two longitudes, as often as these go around the earth; none where that is many times. */
export function drawCoast(pen, lines, x, y, [west, east]) {
  if (!(east - west <= MOST_DEGREES)) return;
  const points = [];
  for (let turn = Math.floor((west + 180) / 360); turn <= Math.floor((east + 180) / 360); turn++) {
    for (const line of lines) {
      for (let i = 0; i < line.length; i += 2) points.push(x(line[i] + 360 * turn), y(line[i + 1]));
      points.push(NaN, NaN);
    }
  }
  // Dark within light, to be seen on any colour.
  pen.path(points, { stroke: "rgb(255 255 255 / 0.75)", width: 2 });
  pen.path(points, { stroke: "rgb(20 20 20)", width: 0.9 });
}

/** Longitudes and latitudes of the cells of a picture: where the cells of a grid have their corners. */
export class Places {
  /** @param {{head: any, cells: Float32Array}} answer of a view with `positions=1` */
  constructor({ head, cells }) {
    this.rows = head.y?.count ?? 1;
    this.columns = head.x.count;
    this.isGrid = head.y !== null;
    this.head = head;
    const size = this.rows * this.columns;
    this.east = cells.subarray(0, size);
    this.north = cells.subarray(size, 2 * size);
    this.bounds = boundsOf(this.east, this.north);
    /** True where at least one cell lies anywhere. */
    this.isSomewhere = this.east.some(Number.isFinite);
  }

  /** Return the corners of all cells, as longitudes and latitudes, four of each per cell. */
  corners() {
    this.found ??= cornersOf(this);
    return this.found;
  }

  /** Return which positions of the array have cells in a window: ranges along x and y, null for all of them. */
  rangesIn(window) {
    const [west, east] = window.x;
    let [left, right, top, bottom] = [Infinity, -1, Infinity, -1];
    for (let cell = 0; cell < this.east.length; cell++) {
      const longitude = this.east[cell] + 360 * Math.ceil((west - this.east[cell]) / 360);
      if (!(longitude <= east && this.north[cell] >= window.y[0] && this.north[cell] <= window.y[1])) continue;
      const [row, column] = [Math.floor(cell / this.columns), cell % this.columns];
      [left, right] = [Math.min(left, column), Math.max(right, column)];
      [top, bottom] = [Math.min(top, row), Math.max(bottom, row)];
    }
    if (right < 0) return { x: null, y: null };
    return { x: widenRange(this.head.x, left, right), y: this.isGrid ? widenRange(this.head.y, top, bottom) : null };
  }
}

/** Return the positions of some cells of a picture and of their neighbours; null where these are all. */
function widenRange({ start, step, block, size }, first, last) {
  const span = step * block;
  const range = [Math.max(start + (first - 1) * span, 0), Math.min(start + (last + 2) * span, size)];
  return range[0] === 0 && range[1] === size ? null : range;
}

/** Return the part of the earth that holds all places. */
function boundsOf(east, north) {
  const known = Array.from(east).filter(Number.isFinite);
  const around = known.map((longitude) => ((longitude % 360) + 360) % 360).sort((a, b) => a - b);
  const heights = north.filter(Number.isFinite);
  if (!around.length || !heights.length) return { x: [-180, 180], y: [-90, 90] };
  let [gap, first] = [around[0] + 360 - around[around.length - 1], around[0]];
  for (let i = 1; i < around.length; i++) {
    if (around[i] - around[i - 1] > gap) [gap, first] = [around[i] - around[i - 1], around[i]];
  }
  let [low, high] = [90, -90];
  for (const height of heights) [low, high] = [Math.min(low, height), Math.max(high, height)];
  const room = Math.max((high - low) * 0.03, 0.01);
  const y = [Math.max(low - room, -90), Math.min(high + room, 90)];
  if (gap < 20) return { x: [-180, 180], y };
  const side = Math.max((360 - gap) * 0.03, 0.01);
  const west = first - side - 360 * Math.floor((first + (360 - gap) / 2 + 180) / 360);
  return { x: [west, west + 360 - gap + 2 * side], y };
}

/** Return the corners of the cells of a grid: half way to the neighbours, on the globe. */
function cornersOf({ rows, columns, east, north }) {
  const wide = columns + 2;
  const globe = globeOf(rows, columns, east, north);
  const [lons, lats] = [new Float32Array((rows + 1) * (columns + 1)), new Float32Array((rows + 1) * (columns + 1))];
  const sum = [0, 0, 0];
  for (let row = 0, corner = 0; row <= rows; row++) {
    for (let column = 0; column <= columns; column++, corner++) {
      const [upper, lower] = [3 * (row * wide + column), 3 * ((row + 1) * wide + column)];
      for (let part = 0; part < 3; part++) {
        sum[part] = globe[upper + part] + globe[upper + 3 + part] + globe[lower + part] + globe[lower + 3 + part];
      }
      lons[corner] = Math.atan2(sum[1], sum[0]) / RADIAN;
      lats[corner] = Math.atan2(sum[2], Math.hypot(sum[0], sum[1])) / RADIAN;
    }
  }
  return { lons, lats };
}

/** Return the cells of a grid as points of the unit sphere, three numbers each, with one cell more on every side. */
function globeOf(rows, columns, east, north) {
  const [height, wide] = [rows + 2, columns + 2];
  const globe = new Float32Array(3 * height * wide);
  for (let row = 0, cell = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, cell++) {
      const [lon, lat] = [east[cell] * RADIAN, north[cell] * RADIAN];
      const at = 3 * ((row + 1) * wide + column + 1);
      globe[at] = Math.cos(lat) * Math.cos(lon);
      globe[at + 1] = Math.cos(lat) * Math.sin(lon);
      globe[at + 2] = Math.sin(lat);
    }
  }
  const goOn = (target, near, far) => {
    for (let part = 0; part < 3; part++) globe[3 * target + part] = 2 * globe[3 * near + part] - globe[3 * far + part];
  };
  for (let row = 1; row <= rows; row++) {
    const [first, last] = [row * wide + 1, row * wide + columns];
    goOn(first - 1, first, Math.min(first + 1, last));
    goOn(last + 1, last, Math.max(last - 1, first));
  }
  for (let column = 0; column < wide; column++) {
    const [first, last] = [wide + column, rows * wide + column];
    goOn(column, first, Math.min(first + wide, last));
    goOn(last + wide, last, Math.max(last - wide, first));
  }
  return globe;
}
