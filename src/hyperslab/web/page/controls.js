// Controls: what is drawn, along which dimensions, in which colours; zoom, a second array, files.

import { fetchJson } from "./api.js";
import { COLOR_MAPS } from "./colors.js";
import { COMPLEX_PARTS, isComplex, isEarth, isLogOffered, kindsOf, same } from "./settings.js";
import { make, makeButton, visible } from "./texts.js";

const COLORED = ["image", "map"];
const COMPARED = ["image", "map", "line"];

/** The row of controls above a plot. `act(name, value)` tells what the user wants. */
export class Controls {
  /** @param {HTMLElement} element @param {string} place @param {(name: string, value: any) => void} act */
  constructor(element, place, act) {
    Object.assign(this, { element, place, act });
    this.kind = this.makeSelect("Plot", "kind");
    this.x = this.makeSelect("x", "x");
    this.y = this.makeSelect("y", "y");
    this.part = this.makeSelect("Part", "part");
    this.colors = this.makeSelect("Colours", "colors");
    this.log = this.makeCheck("log", "log");
    this.limits = this.makeLimits();
    this.gain = this.makeGroup([
      "Height ",
      this.makeButton("Smaller", "−", () => act("gain", 1 / 1.5)),
      this.makeButton("Larger", "+", () => act("gain", 1.5)),
    ]);
    this.bins = this.makeSelect("Bins", "bins", Number);
    this.decoded = this.makeCheck("decoded", "decoded");
    this.coast = this.makeCheck("coastlines", "coast");
    this.pane = this.makeSelect("Compare with", "pane");
    this.operation = this.makeSelect("as", "operation");
    this.zoom = this.makeGroup([
      "Zoom ",
      this.makeButton("Zoom in", "+", () => act("zoom", 1 / 1.5)),
      this.makeButton("Zoom out", "−", () => act("zoom", 1.5)),
      this.makeButton("Show all", "all", () => act("zoom", 0)),
    ]);
    const files = ["PNG", "SVG"].map((type) => this.makeButton(`Download as ${type}`, type, () => act("file", type)));
    for (const button of files) button.dataset.testid = `download-${button.textContent.toLowerCase()}`;
    this.files = this.makeGroup(files);
    this.pane.select.addEventListener("focus", () => this.listOthers());
    this.pane.select.addEventListener("pointerdown", () => this.listOthers());
  }

  /** Show settings of an array. */
  show(details, settings) {
    if (details !== this.details) this.others = null;
    Object.assign(this, { details, settings });
    const { kind } = settings;
    const dims = details.coordinates.map(({ dim }) => dim);
    setOptions(this.kind, kindsOf(details), kind);
    setOptions(this.x, dims, settings.x);
    setOptions(this.y, dims.filter((dim) => dim !== settings.x || kind === "image"), settings.y);
    setOptions(this.part, COMPLEX_PARTS, settings.part, { imag: "imaginary" });
    setOptions(this.colors, COLOR_MAPS, settings.colors ?? "viridis");
    setOptions(this.bins, ["16", "32", "64", "128", "256"].concat(String(settings.bins)), String(settings.bins));
    setOptions(this.operation, ["difference", "beside"], settings.pane?.operation ?? "difference");
    this.showOthers();
    this.log.box.checked = settings.log;
    this.decoded.box.checked = settings.decoded;
    this.coast.box.checked = settings.coast;
    const isPlane = kind !== "map" && dims.length > 1;
    hide(this.x, !isPlane);
    hide(this.y, !isPlane || settings.y === null);
    hide(this.coast, !isEarth(details, settings));
    hide(this.part, !isComplex(details));
    hide(this.colors, !COLORED.includes(kind));
    hide(this.log, !isLogOffered(details, settings));
    hide({ row: this.limits }, ![...COLORED, "line"].includes(kind));
    hide({ row: this.gain }, kind !== "traces");
    hide(this.bins, kind !== "histogram");
    hide(this.pane, !COMPARED.includes(kind));
    hide(this.operation, !settings.pane || !COMPARED.includes(kind));
    hide({ row: this.zoom }, kind === "histogram");
  }

  /** Show the limits that are in use. @param {number} frames of how many that were played, 0 for those of this picture */
  showLimits([low, high], isSet, frames) {
    this.played.textContent = frames && !isSet ? `of ${frames} frames` : "";
    const [first, last, auto] = this.limits.querySelectorAll("input, button");
    for (const [box, value] of [[first, low], [last, high]]) {
      if (document.activeElement === box) continue;
      const short = Number(value.toPrecision(6));
      const isPlain = !short || (Math.abs(short) >= 1e-4 && Math.abs(short) < 1e7); // else the box has no room for it
      box.value = isPlain ? String(short) : short.toExponential();
      box.removeAttribute("aria-invalid");
    }
    auto.setAttribute("aria-pressed", String(!isSet));
  }

  // -- a second array --------------------------------------------------------------------------------------------

  /** List the arrays that have the same shape. */
  async listOthers() {
    if (this.others || this.isListing) return;
    this.isListing = true;
    const { details } = this;
    try {
      const { nodes } = await fetchJson("browse", this.place, { node: "/" });
      const isLike = ({ kind, path, shape, dims }) =>
        kind === "array" && path !== details.path && same(shape, details.shape) && same(dims, details.dims);
      if (details === this.details) this.others = nodes.filter(isLike).map(({ path }) => path);
    } catch {
      this.others = null; // the list is asked for again at the next look
    }
    this.isListing = false;
    this.showOthers();
  }

  showOthers() {
    const chosen = this.settings.pane?.node ?? "";
    const paths = [...new Set([...(chosen ? [chosen] : []), ...(this.others ?? [])])];
    setOptions(this.pane, ["", ...paths], chosen, { "": this.others && !paths.length ? "no array of this shape" : "nothing" });
  }

  // -- elements --------------------------------------------------------------------------------------------------

  makeSelect(name, act, convert = String) {
    const select = make("select", { "data-testid": `plot-${act}` });
    const row = make("label", { class: "plot-control" }, `${name} `, select);
    select.addEventListener("change", () => this.act(act, convert(select.value)));
    this.element.append(row);
    return { row, select };
  }

  makeCheck(name, act) {
    const box = make("input", { type: "checkbox", "data-testid": `plot-${act}` });
    const row = make("label", { class: "plot-control" }, box, ` ${name}`);
    box.addEventListener("change", () => this.act(act, box.checked));
    this.element.append(row);
    return { row, box };
  }

  makeLimits() {
    const row = this.makeGroup(["Limits "]);
    const boxes = ["Lowest value", "Highest value"].map((name) => {
      const testid = `plot-${name.split(" ")[0].toLowerCase()}`;
      return make("input", { type: "number", step: "any", class: "plot-number plot-limit", "aria-label": name, "data-testid": testid });
    });
    const change = () => {
      const [low, high] = boxes.map((box) => Number.parseFloat(box.value));
      for (const box of boxes) box.setAttribute("aria-invalid", String(!(low < high)));
      if (low < high) this.act("limits", [low, high]);
    };
    for (const box of boxes) box.addEventListener("change", change);
    const auto = this.makeButton("auto: limits of the cells that are shown", "auto", () => this.act("limits", null));
    auto.dataset.testid = "plot-auto";
    const title = "The scale stays the same for all frames that are played; auto takes the limits of this one.";
    this.played = make("span", { "data-testid": "plot-played", title });
    row.append(boxes[0], " to ", boxes[1], auto, this.played);
    return row;
  }

  makeGroup(children) {
    const row = make("span", { class: "plot-control" }, ...children);
    this.element.append(row);
    return row;
  }

  makeButton(name, sign, onClick) {
    return makeButton(sign, onClick, { class: "plot-button", title: name, "aria-label": name });
  }
}

function setOptions({ select }, values, chosen, names = {}) {
  const wanted = [...new Set(values)];
  const key = JSON.stringify([wanted, names]);
  if (select.dataset.key !== key) {
    select.dataset.key = key;
    select.replaceChildren(...wanted.map((value) => new Option(visible(names[value] ?? value), value)));
  }
  select.value = chosen ?? "";
}

function hide({ row }, isHidden) {
  row.hidden = isHidden;
}
