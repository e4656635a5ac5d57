// Settings: the whole state of a plot, what of it makes sense for an array, and the part that an address has to hold.

import { COLOR_MAPS, isCentred } from "./colors.js";
import { FIRST_CHANNELS } from "./traces.js";

/**
 * @typedef {object} Settings
 * @property {"line"|"image"|"map"|"traces"|"histogram"} kind
 * @property {string} x dimension along the horizontal axis
 * @property {string|null} y dimension along the vertical axis
 * @property {Record<string, number>} at positions of the other dimensions
 * @property {[number, number]|null} x_range positions that are seen, null for all
 * @property {[number, number]|null} y_range
 * @property {[number, number, number, number]|null} extent of a map: west, south, east, north
 * @property {string|null} colors
 * @property {[number, number]|null} limits of the colours or of the vertical axis; null for those of the cells
 * @property {boolean} log colours by the logarithms of cells
 * @property {boolean} decoded
 * @property {boolean} coast
 * @property {number} gain of traces
 * @property {number} bins of a histogram
 * @property {{node: string, operation: "difference"|"beside"}|null} pane a second array
 * @property {string|null} field
 * @property {string} part of complex numbers that is drawn
 */

const NUMBERS = /^[<>=|]?(u?int|float|bfloat|bool|complex|datetime64|timedelta64|[iufbMmc]\d)/;
/** What of complex numbers can be drawn, the first one at first. */
export const COMPLEX_PARTS = ["magnitude", "real", "imag", "phase"];
export const MOST_BINS = 512;
// Red, green, blue and opacity.
const MOST_BANDS = 4;

/** Return True where an array can be drawn: numbers, times and booleans along a dimension of several cells. */
export function canPlot(details) {
  const dims = details.coordinates ?? [];
  return details.kind === "array" && !details.problem && NUMBERS.test(details.dtype) && isWide(dims);
}

/** Return True where the cells of an array are complex numbers. */
export function isComplex({ dtype }) {
  return /^[<>=|]?(complex|c\d)/.test(dtype);
}

function isWide(dims) {
  return dims.some(({ size }) => size > 1) && dims.every(({ size }) => size > 0);
}

/** Return the kinds of plot that an array has. */
export function kindsOf(details) {
  const long = details.coordinates.filter(({ size }) => size > 1);
  const kinds = ["line"];
  if (long.length > 1) kinds.unshift("image");
  if (details.map) kinds.unshift("map");
  if (long.length > 1) kinds.push("traces");
  return [...kinds, "histogram"];
}

/** Return the settings that nobody has changed. @returns {Settings} */
export function defaultsOf(details) {
  const dims = details.coordinates;
  const long = dims.filter(({ size }) => size > 1);
  const made = {
    kind: "line",
    x: long[long.length - 1].dim,
    y: null,
    at: Object.fromEntries(dims.map(({ dim }) => [dim, 0])),
    x_range: null,
    y_range: null,
    extent: null,
    colors: null,
    limits: null,
    log: false,
    decoded: true,
    coast: true,
    gain: 1,
    bins: 64,
    pane: null,
    field: null,
    part: COMPLEX_PARTS[0],
  };
  return { ...made, ...axesFor(details, firstKind(details, long)) };
}

function firstKind(details, long) {
  if (details.map && (details.map.kind === "grid" || details.map.is_way || !coordinateOf(details, details.map.dims[0])?.coordinate)) return "map";
  if (long.length < 2) return "line";
  const isSeries = details.coordinates[0].role === "series" && details.coordinates.length === 2;
  return isSeries && details.coordinates[1].size <= 4096 ? "traces" : "image";
}

/** Return True where the last dimension is that of the few colours of a picture, which no axis is. */
function isBand({ coordinates }) {
  const last = coordinates[coordinates.length - 1];
  return coordinates.filter(({ size }) => size > 1).length > 2 && last.size > 1 && last.size <= MOST_BANDS && !last.role;
}

/** Return a kind with the dimensions that it is drawn along at first. */
export function axesFor(details, kind) {
  const dims = details.coordinates;
  const long = dims.filter(({ size }) => size > 1).map(({ dim }) => dim);
  const role = (name) => dims.find((each) => each.role === name && each.size > 1)?.dim;
  const plane = isBand(details) ? long.slice(0, -1) : long;
  const last = [plane[plane.length - 1], plane[plane.length - 2] ?? null];
  if (kind === "map") {
    const [row, column] = details.map.dims;
    return details.map.kind === "grid" ? { kind, x: column, y: row } : { kind, x: row, y: null };
  }
  if (kind === "traces") return { kind, x: long[0], y: long[1] };
  if (kind === "line") return { kind, x: role("time") ?? role("series") ?? last[0], y: null };
  const [x, y] = [role("longitude") ?? role("x"), role("latitude") ?? role("y")];
  if (x && y) return { kind, x, y };
  const isUpright = isVertical(details, last[0]) && !isVertical(details, last[1]);
  return { kind, x: last[isUpright ? 1 : 0], y: last[isUpright ? 0 : 1] };
}

/** Return True where a line is drawn along a vertical axis. */
export function isProfile(details, { kind, x }) {
  return kind === "line" && isVertical(details, x);
}

/** Return True where a dimension goes up or down in the world, as heights, depths and pressures do. */
function isVertical(details, dim) {
  return ["up", "down"].includes(coordinateOf(details, dim)?.role);
}

/** Return the facts of a dimension. */
export function coordinateOf(details, dim) {
  return details.coordinates.find((each) => each.dim === dim);
}

/** Return settings with what makes sense of a view from an address. @returns {Settings} */
export function settingsOf(details, view) {
  const defaults = defaultsOf(details);
  if (!view || typeof view !== "object") return defaults;
  const kinds = kindsOf(details);
  const kind = kinds.includes(view.kind) ? view.kind : defaults.kind;
  const made = { ...defaults, ...(kind === defaults.kind ? {} : axesFor(details, kind)) };
  const names = new Map(details.coordinates.map(({ dim, size }) => [dim, size]));
  if (kind !== "map") {
    if (names.has(view.x)) made.x = view.x;
    if (names.has(view.y) && view.y !== made.x && kind !== "line") made.y = view.y;
    if (made.y === made.x) made.y = details.coordinates.find(({ dim }) => dim !== made.x)?.dim ?? null;
  }
  for (const [dim, index] of Object.entries(view.at && typeof view.at === "object" ? view.at : {})) {
    if (names.has(dim) && isIndex(index, names.get(dim))) made.at[dim] = index;
  }
  made.x_range = rangeOf(view.x_range, names.get(made.x));
  made.y_range = made.y === null ? null : rangeOf(view.y_range, names.get(made.y));
  const [west, south, east, north] = isNumbers(view.extent, 4) ? view.extent : [];
  made.extent = west < east && south < north && north - south <= 180 && east - west <= 720 ? view.extent : null;
  made.colors = COLOR_MAPS.includes(view.colors) ? view.colors : null;
  made.limits = isNumbers(view.limits, 2) && view.limits[0] < view.limits[1] ? view.limits : null;
  made.log = view.log === true;
  made.decoded = view.decoded !== false;
  made.coast = view.coast !== false;
  if (typeof view.gain === "number" && view.gain > 1e-6 && view.gain < 1e6) made.gain = view.gain;
  if (isIndex(view.bins, MOST_BINS + 1) && view.bins > 0) made.bins = view.bins;
  if (typeof view.field === "string") made.field = view.field;
  if (COMPLEX_PARTS.includes(view.part)) made.part = view.part;
  const { pane } = view;
  if (pane && typeof pane.node === "string") {
    made.pane = { node: pane.node, operation: pane.operation === "beside" ? "beside" : "difference" };
  }
  return made;
}

/** Return what of the settings an address has to hold: the dimensions, and what is not as at first. */
export function viewOf(details, settings) {
  const defaults = defaultsOf(details);
  const view = { x: settings.x, ...(settings.y === null ? {} : { y: settings.y }) };
  for (const [name, value] of Object.entries(settings)) {
    if (name in view || name === "at" || same(value, defaults[name])) continue;
    if (name !== "y") view[name] = value;
  }
  const isShown = (dim) => dim === settings.x || dim === settings.y;
  const at = Object.entries(settings.at).filter(([dim, index]) => index !== 0 && !isShown(dim));
  if (at.length) view.at = Object.fromEntries(at);
  const isCut = settings.kind === "traces" && settings.y_range === null && coordinateOf(details, settings.y).size > FIRST_CHANNELS;
  if (isCut) view.y_range = windowOf(details, settings).y;
  return view;
}

/** Return the positions that are seen: of traces the first channels, else all. */
export function windowOf(details, settings) {
  const all = (dim) => [0, coordinateOf(details, dim).size];
  const y = () => {
    const [from, to] = all(settings.y);
    return settings.kind === "traces" ? [from, Math.min(to, FIRST_CHANNELS)] : [from, to];
  };
  return { x: settings.x_range ?? all(settings.x), y: settings.y === null ? null : (settings.y_range ?? y()) };
}

/** Return True where longitudes and latitudes are drawn, so that coastlines can be. */
export function isEarth(details, { kind, x, y }) {
  if (kind !== "image") return kind === "map";
  return coordinateOf(details, x).role === "longitude" && coordinateOf(details, y)?.role === "latitude";
}

/** Return the words that the legend of cells will have, before any cell is there; null where it has numbers. */
export function flagsOf(details, { decoded }) {
  return decoded ? (details.flags ?? null) : null;
}

/** Return True where colours can stand for logarithms: of numbers, not around 0. */
export function isLogOffered(details, settings) {
  const isColored = settings.kind === "image" || settings.kind === "map";
  return isColored && !flagsOf(details, settings) && !isCentred(settings.colors);
}

/** Return width by height of a plot as far as the facts of an array tell, before any cell is there; null for any. */
export function aspectOf(details, { kind, x, y }) {
  if (kind === "map") return 2;
  if (kind !== "image") return null;
  const [columns, rows] = [coordinateOf(details, x), coordinateOf(details, y)];
  const length = ({ ends, size }) => (Math.abs(ends[ends.length - 1] - ends[0]) * size) / (size - 1);
  const isPlane = ["longitude latitude", "x y"].includes(`${columns.role} ${rows.role}`);
  if (isPlane) return boundedAspect(length(columns) / length(rows));
  return columns.coordinate || rows.coordinate ? null : boundedAspect(columns.size / rows.size);
}

/** Return width by height that is not too narrow or too flat to be seen; null for others. */
export function boundedAspect(aspect) {
  return aspect >= 0.2 && aspect <= 6 ? aspect : null;
}

/** Return True where two values of settings, or of facts, are the same. */
export function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

function rangeOf(range, size) {
  const isRange = Array.isArray(range) && range.length === 2 && isIndex(range[0], size) && isIndex(range[1] - 1, size);
  return isRange && range[0] < range[1] ? [range[0], range[1]] : null;
}

function isIndex(number, size) {
  return Number.isSafeInteger(number) && number >= 0 && number < size;
}

function isNumbers(list, length) {
  return Array.isArray(list) && list.length === length && list.every(Number.isFinite);
}
