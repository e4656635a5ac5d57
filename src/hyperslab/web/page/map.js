// Maps: coastlines, and cells at their own longitudes and latitudes.

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

/** Draw the coastlines that lie between two longitudes, however often these go around the earth. */
export function drawCoast(pen, lines, x, y, [west, east]) {
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
    return { x: widened(this.head.x, left, right), y: this.isGrid ? widened(this.head.y, top, bottom) : null };
  }
}

/** Return the positions of some cells of a picture and of their neighbours; null where these are all. */
function widened({ start, step, block, size }, first, last) {
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
  const [height, width] = [rows + 2, columns + 2];
  const globe = new Float32Array(height * width * 3);
  const put = (row, column, x, y, z) => globe.set([x, y, z], 3 * (row * width + column));
  const get = (row, column) => globe.subarray(3 * (row * width + column), 3 * (row * width + column) + 3);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const [lon, lat] = [east, north].map((degrees) => (degrees[row * columns + column] * Math.PI) / 180);
      put(row + 1, column + 1, Math.cos(lat) * Math.cos(lon), Math.cos(lat) * Math.sin(lon), Math.sin(lat));
    }
  }
  const beyond = (row, column, from, to) => {
    const [a, b] = [get(...from), get(...to)];
    put(row, column, 2 * a[0] - b[0], 2 * a[1] - b[1], 2 * a[2] - b[2]);
  };
  for (let row = 1; row <= rows; row++) {
    beyond(row, 0, [row, 1], [row, Math.min(2, columns)]);
    beyond(row, width - 1, [row, columns], [row, Math.max(columns - 1, 1)]);
  }
  for (let column = 0; column < width; column++) {
    beyond(0, column, [1, column], [Math.min(2, rows), column]);
    beyond(height - 1, column, [rows, column], [Math.max(rows - 1, 1), column]);
  }
  const [lons, lats] = [new Float32Array((rows + 1) * (columns + 1)), new Float32Array((rows + 1) * (columns + 1))];
  for (let row = 0; row <= rows; row++) {
    for (let column = 0; column <= columns; column++) {
      const four = [get(row, column), get(row, column + 1), get(row + 1, column), get(row + 1, column + 1)];
      const [x, y, z] = [0, 1, 2].map((part) => four[0][part] + four[1][part] + four[2][part] + four[3][part]);
      lons[row * (columns + 1) + column] = (Math.atan2(y, x) * 180) / Math.PI;
      lats[row * (columns + 1) + column] = (Math.atan2(z, Math.hypot(x, y)) * 180) / Math.PI;
    }
  }
  return { lons, lats };
}
