// The plot of an array: fetches what is seen, coarse at first where it is much, and draws it.

import { fetchJson, fetchView } from "./api.js";
import { aboveZero, extraHeight, isCentred, limitsOf } from "./colors.js";
import { Controls } from "./controls.js";
import { saveAs } from "./download.js";
import { themeOf } from "./drawing.js";
import { Frame } from "./frame.js";
import { HistogramDrawing } from "./histogram.js";
import { ImageDrawing } from "./image.js";
import { LineDrawing, LineFrame, loadLines } from "./line.js";
import { Places, loadCoast } from "./map.js";
import { NOT_ALIKE, Picture, subtract } from "./picture.js";
import { ProfileDrawing } from "./profile.js";
import { Readout } from "./readout.js";
import { formatNumber, withUnits } from "./scale.js";
import { MapDrawing } from "./scatter.js";
import { aspectOf, axesFor, canPlot, coordinateOf, flagsOf, isComplex, isEarth, isLogOffered, isProfile, same, settingsOf, viewOf, windowOf } from "./settings.js";
import { Sliders } from "./sliders.js";
import { errorText, formatCount, make, visible } from "./texts.js";
import { TraceDrawing } from "./traces.js";

// Milliseconds that the window, or a slider, rests before cells are fetched.
const REST = { window: 120, slider: 25 };
// Cells in a window from which on a coarse picture comes first, and pixels that a view may have.
const [MANY_CELLS, MOST_PIXELS, MOST_SIDE] = [1 << 22, 1 << 20, 4096];
const GAPS = 3;
// Changes after which what was played keeps its scale.
const KEEP_SCALE = new Set(["at", "x_range", "y_range", "extent"]);
// Pixels above and below the cells of an image: ticks, titles and the legend.
const AROUND = 10 + 36 + 42;
const COLORED = ["image", "map"];
const PARTS = ["controls", "panes", "readout", "reduction", "gaps", "sliders"];

// The module is there once its sheet is: what is shown lies where it stays.
await new Promise((resolve) => {
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet" });
  link.href = new URL("./plot.css", import.meta.url).href;
  link.addEventListener("load", resolve);
  link.addEventListener("error", resolve);
  document.head.append(link);
});

/** Shows one array at a time in an element. */
export class Plot {
  static canPlot = canPlot;

  /** @param {HTMLElement} element @param {{place: string, onChange: (view: object) => void}} options */
  constructor(element, { place, onChange }) {
    Object.assign(this, { element, place, onChange });
    const part = (name) => [name, make("div", { class: `plot-${name}` })];
    this.parts = Object.fromEntries(PARTS.map(part));
    const { controls, panes, readout, reduction, gaps, sliders } = this.parts;
    readout.dataset.testid = "readout";
    reduction.dataset.testid = "reduction";
    gaps.dataset.testid = "gaps";
    gaps.setAttribute("role", "status");
    element.classList.add("plot");
    element.replaceChildren(controls, panes, readout, reduction, gaps, sliders);
    this.controls = new Controls(controls, place, (name, value) => this.act(name, value));
    this.readout = new Readout(readout, place);
    this.sliders = new Sliders(sliders, (dim, index) => this.change({ at: { ...this.settings.at, [dim]: index } }, REST.slider));
    this.panes = [];
    /** @type {{pane: any, position: any}|null} The cell that the readout tells of. */
    this.pointed = null;
    /**
     * The frames that were played with one scale, and the least and the greatest cells of all of them (of the arrays, and of
     * their difference); null where each picture has limits of its own.
     * @type {{frames: Set<string>, ends: any[]}|null}
     */
    this.played = null;
    this.theme = null;
    this.watch();
  }

  /** Draw anew where the page changes its size or its colours. */
  watch() {
    this.recolor = () => {
      this.theme = null;
      this.repaint();
    };
    window.addEventListener("themechange", this.recolor);
    this.sizes = new ResizeObserver(() => {
      this.setHeight();
      this.repaint();
      if (this.settings && this.width && Math.abs(this.parts.panes.clientWidth / this.width - 1) > 0.2) this.load(REST.window);
    });
    this.sizes.observe(this.parts.panes);
  }

  destroy() {
    this.stop();
    this.sliders.stop();
    this.readout.stop();
    this.sizes.disconnect();
    window.removeEventListener("themechange", this.recolor);
    this.panes = [];
    this.element.replaceChildren();
    delete this.element.dataset.state;
  }

  /** Return the state of the plot, for an address. */
  get view() {
    if (!this.settings) return null;
    return viewOf(this.details, { ...this.settings, limits: this.settings.limits ?? this.playedLimits() });
  }

  /** Return the same with the positions of the cells that a part of a map shows, once it is known where they lie. */
  get part() {
    const isPart = this.settings?.kind === "map" && this.settings.extent && this.whole;
    if (!isPart) return this.view;
    const { x, y } = this.ranges();
    return { ...this.view, x_range: x, y_range: y };
  }

  /** Show an array. @param {any} details the answer of /api/node @param {object|null} view its state */
  show(details, view) {
    const settings = settingsOf(details, view);
    const isSame = this.details && this.details.path === details.path && same(this.details.shape, details.shape);
    if (isSame && same(this.view, viewOf(details, settings))) return;
    if (!isSame) {
      this.sliders.stop();
      this.pictures = null;
      this.whole = null;
      this.played = null;
    }
    Object.assign(this, { details, settings });
    this.showSettings();
    if (!isSame) this.makePanes(); // with their height, so that nothing below moves when the cells come
    this.load(0);
  }

  // -- what the user does ----------------------------------------------------------------------------------------

  /** Change settings, tell of it, and fetch what is needed. */
  change(changes, rest = 0) {
    if (Object.keys(changes).some((name) => !KEEP_SCALE.has(name))) this.played = null;
    Object.assign(this.settings, changes);
    this.showSettings();
    this.onChange(this.view);
    this.load(rest);
  }

  /** Change how the same cells are drawn. */
  redraw(changes) {
    if ("limits" in changes || "log" in changes) this.played = null;
    Object.assign(this.settings, changes);
    this.showSettings();
    this.onChange(this.view);
    this.redrawNow();
  }

  act(name, value) {
    const { settings, details } = this;
    const whole = { x_range: null, y_range: null, extent: null };
    switch (name) {
      case "kind":
        return this.change({ ...whole, limits: null, ...axesFor(details, value) });
      case "x":
        return this.change({ ...whole, x: value, y: settings.y === value ? settings.x : settings.y });
      case "y":
        return this.change({ ...whole, y: value, x: settings.x === value ? settings.y : settings.x });
      case "pane":
        return this.change({ pane: value ? { node: value, operation: settings.pane?.operation ?? "difference" } : null });
      case "operation":
        return this.change({ pane: { ...settings.pane, operation: value } });
      case "decoded":
      case "part":
        return this.change({ [name]: value, limits: null });
      case "bins":
        return this.change({ bins: value });
      case "gain":
        return this.redraw({ gain: settings.gain * value });
      case "zoom":
        return value ? this.panes[0]?.frame.zoomBy(value) : this.panes[0]?.frame.showAll();
      case "file":
        return saveAs(value, this);
      default:
        return this.redraw({ [name]: value });
    }
  }

  /** Look at another part of the dimensions that are drawn. */
  onWindow(window) {
    const { settings } = this;
    if (settings.kind === "histogram") return;
    if (settings.kind === "map") {
      const extent = [window.x[0], window.y[0], window.x[1], window.y[1]].map((degrees) => Number(degrees.toFixed(3)));
      const { x, y } = this.whole.bounds;
      this.change({ extent: same(extent, roundAll([x[0], y[0], x[1], y[1]])) ? null : extent }, REST.window);
      return;
    }
    const range = (ends, dim) => {
      const [from, to] = [Math.floor(ends[0] + 1e-6), Math.ceil(ends[1] - 1e-6)];
      const isWhole = from === 0 && to === coordinateOf(this.details, dim).size;
      return isWhole && !(settings.kind === "traces" && dim === settings.y) ? null : [from, to];
    };
    const [x, y] = isProfile(this.details, settings) ? [window.y, null] : [window.x, window.y];
    const changes = { x_range: range(x, settings.x), y_range: y ? range(y, settings.y) : null };
    this.change(changes, REST.window);
  }

  /** Return the limits that all that was played has in common, null where nothing was: an address has to hold them. */
  playedLimits() {
    const { kind } = this.settings;
    if (!this.played || !this.pictures) return null;
    const ends = { ...commonHead(this.pictures, COLORED.includes(kind), this.isLog()), ...this.played.ends[0] };
    if (COLORED.includes(kind)) return ends.flags ? null : this.colorLimits(ends);
    return kind === "line" ? this.lineLimits(ends) : null;
  }

  /** Keep the cell that was clicked at: a plot along other dimensions is one at its position. */
  onChoose(position) {
    const { settings } = this;
    if (settings.kind === "histogram") return;
    settings.at = { ...settings.at, [settings.x]: position.x, ...(settings.y === null ? {} : { [settings.y]: position.y }) };
  }

  /** Tell of what is under the pointer of one pane, and mark it in all; of no cell nothing. */
  onPoint(pane, position, isInside) {
    for (const each of this.panes) if (each !== pane) each.frame.setMark(position);
    if (!position && isInside) {
      this.pointed = null;
      this.readout.clear();
    }
    if (!position) return;
    this.pointed = { pane, position };
    this.tellCell(false);
  }

  /** Tell of the cell that was pointed at last; `isAgain` where the picture is another, and the cell has stayed. */
  tellCell(isAgain) {
    const { pane, position } = this.pointed;
    if (this.settings.kind === "histogram") return this.readout.write(pane.frame.drawing.textOf(position));
    const { details, settings } = this;
    const place = { ...settings.at, [settings.x]: position.x, ...(settings.y === null ? {} : { [settings.y]: position.y }) };
    const isSecond = pane === this.panes[1] && settings.pane !== null;
    const picture = this.pictures[isSecond ? 1 : 0];
    const isAlone = this.panes.length === 1;
    const shown = this.panes.map((each) => shownText(each.picture, position, isAlone ? "" : each.name));
    this.readout.tell({
      node: isSecond ? settings.pane.node : details.path,
      index: details.coordinates.map(({ dim }) => place[dim]),
      reduced: shown.filter(Boolean).join(" · "),
      gap: picture.gapAt(position.x, picture.y ? position.y : null),
      isDecoded: settings.decoded,
      isAgain,
    });
  }

  showSettings() {
    const { details, settings } = this;
    this.controls.show(details, settings);
    const dims = details.coordinates.filter(({ dim, size }) => dim !== settings.x && dim !== settings.y && size > 1);
    this.sliders.show(dims.map(({ dim, size }) => ({ dim, size, index: settings.at[dim] })));
  }

  // -- fetching --------------------------------------------------------------------------------------------------

  stop() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
  }

  /** Fetch and draw what the settings ask for, after a rest; what was being fetched is given up. */
  load(rest) {
    this.stop();
    this.element.dataset.state = "loading";
    const abort = new AbortController();
    this.abort = abort;
    this.timer = setTimeout(async () => {
      try {
        await this.fetchAll(abort.signal);
        if (abort.signal.aborted) return;
        this.element.dataset.state = "done";
        this.sliders.frameIsDrawn();
      } catch (error) {
        if (!abort.signal.aborted && error.name !== "AbortError") this.showError(error);
      }
    }, rest);
  }

  async fetchAll(signal) {
    const { settings } = this;
    if (settings.kind === "line" && !isProfile(this.details, settings)) await loadLines();
    if (signal.aborted) return;
    this.makePanes();
    this.width = this.parts.panes.clientWidth;
    if (settings.kind === "histogram") {
      const facts = await fetchJson("histogram", this.place, { ...this.query(this.details.path), bins: settings.bins }, signal);
      if (!signal.aborted) this.take([{ head: facts }], null, false);
      return;
    }
    if (settings.kind === "map") await this.fetchWhole(signal);
    if (signal.aborted) return;
    if (settings.kind === "map" && !this.whole.isSomewhere) {
      Object.assign(settings, axesFor(this.details, settings.y === null ? "line" : "image"));
      this.showSettings();
      return this.fetchAll(signal);
    }
    const passes = this.isLarge() && this.sliders.playing === null ? [true, false] : [false];
    for (const isCoarse of passes) {
      const nodes = [this.details.path, ...(settings.pane ? [settings.pane.node] : [])];
      const fetches = nodes.map((node) => fetchView(this.place, this.query(node, isCoarse), signal));
      const ranges = this.ranges();
      const isPart = settings.kind === "map" && (isCoarse || ranges.x || ranges.y);
      const places = isPart ? this.fetchPlaces(ranges, signal, isCoarse) : this.whole;
      const answers = await Promise.all([places, ...fetches]);
      if (signal.aborted) return;
      this.take(answers.slice(1).map((answer) => new Picture(answer)), answers[0], isCoarse);
    }
  }

  /** Return True where so much is seen that a coarse picture is worth its while. */
  isLarge() {
    const { x, y } = windowOf(this.details, this.settings);
    return (x[1] - x[0]) * (y ? y[1] - y[0] : 1) > MANY_CELLS;
  }

  /** Return the positions that are seen along both axes, null for all. */
  ranges() {
    const { settings } = this;
    if (settings.kind === "map") {
      const [west, south, east, north] = settings.extent ?? [];
      return settings.extent ? this.whole.rangesIn({ x: [west, east], y: [south, north] }) : { x: null, y: null };
    }
    const { y } = windowOf(this.details, settings);
    return { x: settings.x_range, y: settings.kind === "traces" ? y : settings.y_range };
  }

  /** Fetch where all cells lie, which says what of them is seen in a part of the map. */
  async fetchWhole(signal) {
    const size = this.pixels();
    if (this.whole && same(this.whole.size, size)) return;
    const whole = await this.fetchPlaces({ x: null, y: null }, signal);
    this.whole = Object.assign(whole, { size });
    if (this.settings.extent) this.onChange(this.view);
  }

  fetchPlaces(ranges, signal, isCoarse = false) {
    const query = { ...this.query(this.details.path, isCoarse, ranges), positions: 1 };
    return fetchView(this.place, query, signal).then((answer) => new Places(answer));
  }

  /** Return what is asked of the server for a node. */
  query(node, isCoarse = false, ranges = this.ranges()) {
    const { settings, details } = this;
    const shown = [settings.x, settings.y];
    const at = details.coordinates.filter(({ dim }) => !shown.includes(dim)).map(({ dim }) => `${dim}:${settings.at[dim]}`);
    const size = this.pixels();
    const part = (length) => (isCoarse ? Math.max(Math.ceil(length / 8), 16) : length);
    return {
      node,
      x: settings.x,
      y: settings.y,
      at,
      x_range: ranges.x?.join(":"),
      y_range: ranges.y?.join(":"),
      width: part(size.width),
      height: settings.kind === "traces" ? size.height : part(size.height),
      decoded: settings.decoded ? null : 0,
      field: settings.field,
      part: isComplex(details) ? settings.part : null,
      envelope: settings.kind === "traces" ? 1 : null,
      quick: isCoarse ? 1 : null,
    };
  }

  /** Return as many pixels as there is room for. */
  pixels() {
    const { settings } = this;
    const frame = this.panes[0]?.frame.size() ?? { width: 600, height: 400 };
    const width = Math.min(Math.max(Math.round(frame.width) - 40, 64), MOST_SIDE);
    if (settings.kind === "map" && settings.y === null) return { width: MOST_SIDE, height: 1 };
    if (settings.kind !== "traces") {
      const most = MOST_PIXELS / (settings.kind === "map" ? 2 : 1); // longitudes and latitudes are two layers
      return { width, height: Math.min(Math.max(Math.round(frame.height) - 40, 64), Math.floor(most / width)) };
    }
    const { y } = windowOf(this.details, settings);
    const height = Math.min(y[1] - y[0], 256);
    return { width: Math.min(width, Math.floor(MOST_PIXELS / 3 / height)), height };
  }

  // -- drawing ---------------------------------------------------------------------------------------------------

  /** Take what was fetched, and draw it. */
  take(pictures, places, isCoarse) {
    Object.assign(this, { pictures, places });
    this.draw();
    const heads = pictures.map(({ head }) => head);
    this.parts.reduction.textContent = visible(reductionText(heads, isCoarse));
    this.showGaps(heads.flatMap((head) => head.gaps), heads.reduce((sum, head) => sum + head.gap_count, 0));
    if (heads[0].at) this.sliders.setLabels(heads[0].at);
    if (this.pointed) this.tellCell(true);
    if (this.played) this.onChange(this.view);
    if (isCoarse) this.element.dataset.state = "coarse";
  }

  /** Draw the pictures that are there, with the settings that are there now. */
  redrawNow() {
    try {
      this.draw();
    } catch (error) {
      this.showError(error);
    }
  }

  draw() {
    const { settings, pictures } = this;
    if (!pictures || pictures.length > this.panes.length) return;
    let shown = pictures;
    if (this.panes.length === 3) shown = [...pictures, subtract(pictures[0], pictures[1])];
    const coast = this.coastOf(pictures[0]);
    const isHistogram = settings.kind === "histogram";
    const ends = isHistogram ? [] : this.holdEnds([commonHead(pictures, COLORED.includes(settings.kind), this.isLog()), shown[2]?.head]);
    shown.forEach((picture, i) => {
      const pane = this.panes[i];
      pane.picture = picture;
      pane.frame.show(this.drawingOf(picture, i === 2, ends, coast));
    });
    if (isHistogram) return;
    const frames = this.played?.frames.size ?? 0;
    this.controls.showLimits(this.colorLimits(ends[0]), settings.limits !== null, frames);
  }

  /** Return the least and the greatest cells, of all frames that are played where they are. @param {any[]} ends of this one */
  holdEnds(ends) {
    const frame = JSON.stringify(this.settings.at);
    if (this.sliders.playing !== null) {
      this.played ??= { frames: new Set([this.last?.frame ?? frame]), ends: this.last?.ends ?? ends };
      this.played.frames.add(frame);
      this.played.ends = ends.map((each, i) => each && joinEnds(each, this.played.ends[i] ?? each));
    }
    this.last = { frame, ends };
    return this.played ? ends.map((each, i) => each && { ...each, ...this.played.ends[i] }) : ends;
  }

  drawingOf(picture, isDifference, [common, difference], coast) {
    const { settings, details } = this;
    if (settings.kind === "histogram") return new HistogramDrawing({ facts: picture.head });
    const window = windowOf(details, settings);
    if (settings.kind === "traces") return new TraceDrawing({ picture, window, gain: settings.gain });
    const Line = isProfile(details, settings) ? ProfileDrawing : LineDrawing;
    if (settings.kind === "line") return new Line({ picture, limits: isDifference ? null : this.lineLimits(common), window });
    const colors = isDifference ? "difference" : (settings.colors ?? "viridis");
    const ends = isDifference ? difference : common;
    const limits = isDifference ? limitsOf(ends, null, true) : this.colorLimits(ends);
    const isLog = !isDifference && this.isLog();
    if (settings.kind === "image") return new ImageDrawing({ picture, colors, limits, isLog, window, coast });
    if (picture.columns !== this.places.columns || picture.rows !== this.places.rows) throw new Error(NOT_ALIKE);
    const { bounds } = this.whole;
    const [west, south, east, north] = settings.extent ?? [];
    const extent = settings.extent ? { x: [west, east], y: [south, north] } : bounds;
    return new MapDrawing({ picture, places: this.places, bounds, colors, limits, isLog, window: extent, coast });
  }

  /** Return True where colours stand for logarithms. */
  isLog() {
    return this.settings.log && isLogOffered(this.details, this.settings);
  }

  /** Return the limits of colours. @param {any} ends the least and the greatest cells */
  colorLimits(ends) {
    const { limits, colors } = this.settings;
    const found = limitsOf(ends, limits, isCentred(colors));
    return this.isLog() ? aboveZero(found) : found;
  }

  /** Return limits that two lines, or all that are played, have in common. */
  lineLimits(common) {
    const { settings, pictures } = this;
    const isAlone = pictures.length === 1 && !this.played;
    if (settings.limits || isAlone || common.minimum === null) return settings.limits;
    const room = (common.maximum - common.minimum) * 0.06 || 1;
    return [common.minimum - room, common.maximum + room];
  }

  /** Return the coastlines where they are wanted and there; they are drawn once they have come. */
  coastOf(picture) {
    const { settings } = this;
    const hasNumbers = settings.kind === "map" || (picture.x?.numbers && picture.y?.numbers);
    if (!settings.coast || !isEarth(this.details, settings) || !hasNumbers) return null;
    if (!this.coast) loadCoast().then((lines) => ((this.coast = lines), this.redrawNow()), () => null);
    return this.coast ?? null;
  }

  repaint() {
    for (const { frame } of this.panes) frame.repaint();
  }

  /** Make as many panes as are needed: one, or two, or two and their difference. */
  makePanes() {
    const { settings, details } = this;
    const isLine = settings.kind === "line" && !isProfile(details, settings);
    const isCompared = settings.pane && ["image", "map", "line"].includes(settings.kind);
    const second = isCompared ? settings.pane.node : null;
    const names = [details.path];
    if (second) names.push(second);
    if (second && settings.pane.operation === "difference") names.push("difference");
    const axes = JSON.stringify([settings.kind, settings.x, settings.y, settings.bins]);
    const key = JSON.stringify([isLine, names]);
    if (axes !== this.axes || key !== this.paneKey) {
      this.axes = axes;
      this.pointed = null;
      this.readout.clear();
      for (const { frame } of this.panes) frame.setMark(null);
    }
    if (key === this.paneKey && this.panes.length) return this.setHeight();
    this.paneKey = key;
    this.pictures = null;
    const titles = names.map((name, i) => (i === 2 ? `${names[0]} − ${names[1]}` : name));
    this.panes = titles.map((title, i) => this.makePane(title, i, names.length > 1, isLine));
    this.parts.panes.replaceChildren(...this.panes.map(({ figure }) => figure));
    this.parts.panes.dataset.count = String(names.length);
    this.setHeight();
  }

  /** Make the plot no higher than its shape needs, before any cell is there: nothing moves when they come. */
  setHeight() {
    const stage = this.panes[0]?.frame.element;
    const aspect = this.settings && aspectOf(this.details, this.settings);
    const words = stage ? extraHeight(stage.clientWidth, flagsOf(this.details, this.settings)) : 0;
    const height = aspect && stage ? Math.round((stage.clientWidth - 70) / aspect + AROUND + words) : null;
    this.parts.panes.style.setProperty("--plot-height", height ? `${height}px` : "100vh");
  }

  makePane(title, number, hasTitle, isLine) {
    const stage = make("div", { "data-testid": `pane-${number}` });
    const figure = make("figure", { class: "plot-pane" }, make("figcaption", { hidden: !hasTitle }, visible(title)), stage);
    const pane = { figure, title, name: number === 2 ? "difference" : title, picture: null, frame: null };
    const Kind = isLine ? LineFrame : Frame;
    pane.frame = new Kind(stage, {
      label: `Plot of ${title}`,
      onWindow: (window) => this.onWindow(window),
      onPoint: (position, isInside) => this.onPoint(pane, position, isInside),
      onChoose: (position) => this.onChoose(position),
      theme: () => (this.theme ??= themeOf(this.element)),
    });
    return pane;
  }

  // -- texts -----------------------------------------------------------------------------------------------------

  showError(error) {
    this.element.dataset.state = "error";
    this.sliders.stop();
    this.parts.gaps.replaceChildren(make("p", {}, visible(`${errorText(error)}${error.remedy ? `; ${error.remedy}` : ""}`)));
  }

  /** Tell which cells could not be read, and why. */
  showGaps(gaps, count) {
    const range = (dim, ends) => (ends ? `${dim} ${ends[0]} to ${ends[1] - 1}` : "");
    const { x, y } = this.settings;
    const lines = gaps.slice(0, GAPS).map((gap) => {
      const place = [range(x, gap.x), range(y, gap.y)].filter(Boolean).join(", ");
      return make("p", {}, visible(`Not read: ${place}. ${errorText(gap.error)}`));
    });
    if (count > GAPS) lines.push(make("p", {}, `and ${formatCount(count - GAPS)} more parts`));
    this.parts.gaps.replaceChildren(...lines);
  }
}

/** Return what a picture shows at a position. */
function shownText(picture, { x, y }, name) {
  const column = picture.x.cellOf(x);
  const row = picture.y ? picture.y.cellOf(y) : 0;
  if (column < 0 || row < 0) return "";
  const { layers, units } = picture.head;
  const isReduced = layers.includes("mean") || picture.x.facts.step > 1;
  if (!isReduced && !name) return "";
  const value = withUnits(formatNumber(picture.valueAt(column, row)), units);
  return [name, isReduced ? `${picture.head.reduction}:` : "", value].filter(Boolean).join(" ");
}

function reductionText(heads, isCoarse) {
  const texts = [...new Set(heads.map((head) => head.reduction + (head.is_exact ? "" : " (other cells were not read)")))];
  return `${isCoarse ? "coarse: " : ""}${texts.join(" and ")}`;
}

/** Return the least and the greatest cell of several pictures (of logarithms: above 0), and the flags where these have colours. */
function commonHead(pictures, isColored, isLog) {
  const ends = pictures.map((picture) => (isLog ? picture.endsAboveZero() : endsOf(picture)));
  return { ...ends.reduce(joinEnds), flags: isColored ? pictures[0].head.flags : null };
}

function endsOf({ head: { minimum, maximum } }) {
  return { minimum, maximum };
}

/** Return the lesser and the greater ends of two pictures, null where all cells of both are missing. */
function joinEnds(one, other) {
  const known = [one, other].filter(({ minimum }) => minimum !== null);
  const ends = known.flatMap(({ minimum, maximum }) => [minimum, maximum]);
  return ends.length ? { minimum: Math.min(...ends), maximum: Math.max(...ends) } : { minimum: null, maximum: null };
}

function roundAll(numbers) {
  return numbers.map((number) => Number(number.toFixed(3)));
}
