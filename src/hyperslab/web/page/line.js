// Lines: cells along one dimension, drawn by uPlot on the screen (zoom, pointer, selection). In files and thumbnails the
// pen draws them, for uPlot draws on a canvas of its own alone and writes no SVG.

import { Projection, boxOf, drawFrame, drawGaps, drawX, drawY, fitRange, fitText } from "./drawing.js";
import { BaseFrame, ZOOM } from "./frame.js";
import { CanvasPen, FONT } from "./pen.js";
import { measureOf, niceTicks, titleOf } from "./scale.js";
import { visible } from "./texts.js";

let uPlotIsThere = null;

/** Load uPlot, once. It is a script that makes a global name. */
export function loadLines() {
  uPlotIsThere ??= new Promise((resolve, reject) => {
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet" });
    style.href = new URL("./vendor/uPlot.min.css", import.meta.url).href;
    const script = document.createElement("script");
    script.src = new URL("./vendor/uPlot.iife.min.js", import.meta.url).href;
    script.addEventListener("load", () => resolve());
    script.addEventListener("error", () => {
      uPlotIsThere = null;
      reject(new Error("uPlot could not be loaded"));
    });
    document.head.append(style, script);
  });
  return uPlotIsThere;
}

/** The cells of a line: as they are, or the least, the mean and the greatest of each block. */
export class LineDrawing {
  constructor({ picture, limits, window }) {
    Object.assign(this, { picture, limits, window: { x: window.x, y: null } });
    this.bounds = { x: [0, picture.x.facts.size], y: null };
    this.least = 1;
    this.isTurned = false;
    this.isUpward = true;
    const { numbers } = picture.x;
    this.hasNumbers = numbers !== null && numbers.length > 1;
    this.falls = this.hasNumbers && numbers[numbers.length - 1] < numbers[0];
  }

  /** The positions that are seen. */
  get seen() {
    return this.window.x;
  }

  /** Return where a position stands along the axis: its number, or itself. */
  placeOf(position) {
    return this.hasNumbers ? this.picture.x.numberAt(position) : position;
  }

  /** Return the position at a place along the axis. */
  positionOf(place) {
    return this.hasNumbers ? this.picture.x.positionOf(place) : place;
  }

  /** Return the ends of the axis, the lower one first. */
  range() {
    const ends = this.seen.map((position) => this.placeOf(position));
    return ends[0] < ends[1] ? ends : ends.reverse();
  }

  /** Return the ends of the vertical axis. */
  heights() {
    if (this.limits) return this.limits;
    const { head } = this.picture;
    if (head.minimum === null) return [0, 1];
    const room = (head.maximum - head.minimum) * 0.06 || Math.abs(head.minimum) * 0.1 || 1;
    return [head.minimum - room, head.maximum + room];
  }

  ticks(width) {
    const { x } = this.picture;
    const found = x.ticks(...this.seen, Math.max(Math.floor(width / (x.isTime ? 90 : 70)), 2));
    return found.map(({ at, text }) => ({ at: this.placeOf(at), text }));
  }

  title() {
    const { head } = this.picture;
    return titleOf(head.path.slice(head.path.lastIndexOf("/") + 1), measureOf(head));
  }

  /** Return places and layers as uPlot has them: places rise, null is missing. */
  data() {
    const { picture, falls } = this;
    const places = Array.from({ length: picture.columns }, (_, cell) => this.placeOf(picture.x.middleOf(cell)));
    const layers = picture.head.layers.length === 3 ? ["mean", "minimum", "maximum"] : [null];
    const value = (cell) => (Number.isNaN(cell) ? null : cell + picture.offset);
    const rows = layers.map((name) => Array.from(picture.layer(name), value));
    const all = [places, ...rows];
    return falls ? all.map((row) => row.reverse()) : all;
  }

  paint(pen, size, theme) {
    const heights = niceTicks(...this.heights(), Math.max(Math.floor((size.height - 60) / 45), 2));
    const box = boxOf(pen, size, heights);
    const projection = this.projectionIn(box);
    pen.rect(box.left, box.top, box.width, box.height, { fill: theme.panel });
    for (const { at } of heights) {
      pen.path([box.left, projection.y(at), box.left + box.width, projection.y(at)], { stroke: theme.line });
    }
    this.paintLine(pen, projection, theme);
    drawFrame(pen, theme, box);
    drawX(pen, theme, box, this.ticks(box.width).map(({ at, text }) => ({ at: projection.x(at), text })), this.picture.x.title);
    drawY(pen, theme, box, heights.map(({ at, text }) => ({ at: projection.y(at), text })), this.title());
    return projection;
  }

  /** Return how places and numbers lie in a box. @param {import("./drawing.js").Box} box */
  projectionIn(box) {
    return new Projection(box, { x: this.range(), y: this.heights() }, { isUpward: true });
  }

  /** Draw the line, what lies between its least and its greatest cells, and its gaps. */
  paintLine(pen, projection, theme) {
    const { box } = projection;
    const [places, mean, least, greatest] = this.data();
    const point = (place, value) => [projection.x(place), value === null ? NaN : projection.y(value)];
    const points = (row) => row.flatMap((value, i) => point(places[i], value));
    pen.clip(box.left, box.top, box.width, box.height);
    const areas = least ? outlines(places, least, greatest, point) : [];
    for (const area of areas) pen.path(area, { fill: theme.accent, opacity: 0.25 });
    for (const row of least ? [least, greatest] : []) pen.path(points(row), { stroke: theme.accent, opacity: 0.5 });
    pen.path(points(mean), { stroke: theme.accent, width: 1.5 });
    pen.unclip();
    drawGaps(pen, theme, this.gapProjection(box), this.picture.head.gaps);
  }

  /** Return how positions lie in a box, for gaps. */
  gapProjection(box) {
    const [from, to] = this.range();
    const x = (position) => box.left + ((this.placeOf(position) - from) / (to - from)) * box.width;
    return { box, window: this.window, x };
  }
}

/** Return the outlines of what lies between two rows of numbers, of which `point` says where each is drawn. */
export function outlines(places, least, greatest, point) {
  const found = [];
  let [upper, lower] = [[], []];
  for (let i = 0; i <= places.length; i++) {
    if (i < places.length && least[i] !== null) {
      upper.push(...point(places[i], greatest[i]));
      lower.unshift(...point(places[i], least[i]));
    } else if (upper.length) {
      found.push([...upper, ...lower]);
      [upper, lower] = [[], []];
    }
  }
  return found;
}

/** Shows one line: the pointer reads, a drag or the wheel zooms. */
export class LineFrame extends BaseFrame {
  /** @param {HTMLElement} element @param {any} options as those of `BaseFrame` */
  constructor(element, options) {
    super(element, options, { ArrowLeft: [-1, 0], ArrowRight: [1, 0] });
    this.chart = null;
  }

  repaint() {
    if (!this.drawing) return;
    const data = this.drawing.data();
    this.chart?.destroy();
    this.chart = new globalThis.uPlot(this.options(data.length - 1), data, this.element);
    const { over } = this.chart;
    over.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    over.addEventListener("dblclick", () => this.showAll());
    over.addEventListener("pointerleave", () => this.point(null));
    this.placeMark();
  }

  /** Return what uPlot is told. */
  options(layers) {
    const { drawing } = this;
    const theme = this.theme();
    const size = this.size();
    const [low, high] = drawing.heights();
    const ticks = drawing.ticks(size.width - 80);
    const heights = niceTicks(low, high, Math.max(Math.floor((size.height - 60) / 45), 2));
    const pen = new CanvasPen(document.createElement("canvas").getContext("2d"));
    const widest = Math.max(...heights.map(({ text }) => pen.measure(text, 11)), 8);
    const style = { stroke: theme.fg, grid: { stroke: theme.line, width: 1 }, ticks: { stroke: theme.muted, width: 1, size: 4 } };
    const font = { font: `11px ${FONT}`, labelFont: `12px ${FONT}`, labelSize: 18, gap: 3 };
    const fixedTicks = (list) => ({ splits: () => list.map(({ at }) => at), values: () => list.map(({ text }) => text) });
    const words = (title, room) => fitText(pen, visible(title), room, 12);
    const axes = [
      { ...style, ...font, ...fixedTicks(ticks), label: words(drawing.picture.x.title, size.width - widest - 50), size: 24 },
      { ...style, ...font, ...fixedTicks(heights), label: words(drawing.title(), size.height - 60), size: Math.ceil(widest) + 10 },
    ];
    const line = { stroke: theme.accent, width: 1.5, spanGaps: false };
    // Of a block that is no wider than a pixel the edges are all that is seen: without them no spike would be.
    const edge = { stroke: `color-mix(in srgb, ${theme.accent} 50%, transparent)`, width: 1, points: { show: false } };
    return {
      ...size,
      legend: { show: false },
      padding: [8, 14, 0, 0],
      scales: { x: { time: false, range: () => drawing.range() }, y: { range: () => [low, high] } },
      axes,
      series: [{}, line, ...Array(layers - 1).fill(edge)],
      bands: layers === 3 ? [{ series: [3, 2], fill: `color-mix(in srgb, ${theme.accent} 25%, transparent)` }] : [],
      cursor: { drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => null }, y: false, points: { size: 7 } },
      hooks: {
        setCursor: [(chart) => this.onCursor(chart)],
        setSelect: [(chart) => this.onSelect(chart)],
        draw: [(chart) => this.onDraw(chart, theme)],
      },
    };
  }

  onDraw(chart, theme) {
    const scale = globalThis.devicePixelRatio || 1;
    const { ctx, bbox } = chart;
    const box = { left: bbox.left / scale, top: bbox.top / scale, width: bbox.width / scale, height: bbox.height / scale };
    const y = this.drawing.heights();
    this.element.dataset.box = JSON.stringify({ ...box, x: this.drawing.range(), y: [y[1], y[0]] });
    ctx.save();
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    drawGaps(new CanvasPen(ctx), theme, this.drawing.gapProjection(box), this.drawing.picture.head.gaps);
    ctx.restore();
  }

  onCursor(chart) {
    const { left } = chart.cursor;
    if (left === undefined || left < 0 || this.isPlacing) return;
    const position = Math.floor(this.drawing.positionOf(chart.posToVal(left, "x")));
    const [from, to] = this.drawing.bounds.x;
    if (position < from || position >= to) return;
    this.at = { x: position, y: 0 };
    this.onPoint(this.at);
  }

  onSelect(chart) {
    const { left, width } = chart.select;
    if (width < 4) return;
    const ends = [left, left + width].map((at) => this.drawing.positionOf(chart.posToVal(at, "x"))).sort((a, b) => a - b);
    chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.setWindow(ends);
  }

  onWheel(event) {
    event.preventDefault();
    const left = event.clientX - this.chart.over.getBoundingClientRect().left;
    this.zoom(event.deltaY > 0 ? ZOOM : 1 / ZOOM, this.drawing.positionOf(this.chart.posToVal(left, "x")));
  }

  step(right) {
    const { window, bounds, picture, falls } = this.drawing;
    const next = (falls ? -right : right) * picture.x.span;
    const x = this.at ? this.at.x + next : Math.floor((window.x[0] + window.x[1]) / 2);
    if (x >= bounds.x[0] && x < bounds.x[1]) this.point({ x, y: 0 });
  }

  placeMark() {
    if (!this.chart) return;
    this.isPlacing = true;
    const left = this.at ? this.chart.valToPos(this.drawing.placeOf(this.at.x + 0.5), "x") : -10;
    this.chart.setCursor({ left, top: left < 0 ? -10 : this.chart.over.clientHeight / 2 }, true);
    this.isPlacing = false;
  }

  zoomBy(factor) {
    const { window } = this.drawing;
    this.zoom(factor, this.at ? this.at.x + 0.5 : (window.x[0] + window.x[1]) / 2);
  }

  zoom(factor, at) {
    this.setWindow(this.drawing.window.x.map((end) => at + (end - at) * factor));
  }

  /** Move by a part of what is seen. */
  pan(right) {
    const { window, falls } = this.drawing;
    const [from, to] = window.x;
    const shift = (falls ? -right : right) * (to - from);
    this.setWindow([from + shift, to + shift]);
  }

  showAll() {
    this.setWindow(this.drawing.bounds.x);
  }

  setWindow(range) {
    const { drawing } = this;
    drawing.window = { x: fitRange(range, drawing.bounds.x, drawing.least), y: null };
    this.repaint();
    this.onWindow(drawing.window);
  }
}
