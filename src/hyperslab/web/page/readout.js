// The readout: the value of the cell under the pointer, its labels, and what the picture shows there.

import { errorText, make, visible } from "./texts.js";
import { fetchJson } from "./api.js";
import { formatNumber, labelText, shortTime, withUnits } from "./scale.js";

// Milliseconds that the pointer rests before the cell is read.
const REST = 90;

/** Tells of one cell at a time. */
export class Readout {
  /** @param {HTMLElement} element @param {string} place */
  constructor(element, place) {
    this.place = place;
    const part = (name) => make("span", { class: `plot-${name}`, "data-testid": `readout-${name}` });
    [this.value, this.labels, this.shown] = ["value", "labels", "shown"].map(part);
    this.element = element;
    element.append(this.value, " ", this.labels, " ", this.shown);
    this.abort = null;
    this.clear();
  }

  clear() {
    this.stop();
    this.value.textContent = "";
    this.labels.textContent = "Point at a cell for its value; click at it for a plot along other dimensions there.";
    this.shown.textContent = "";
    delete this.element.dataset.index;
  }

  stop() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
  }

  /** Tell texts that are there. @param {{value: string, labels: string}} texts */
  write({ value, labels }) {
    this.clear();
    this.value.textContent = value;
    this.labels.textContent = visible(labels);
  }

  /**
   * Tell of a cell: at once what the picture shows, then what is stored there. The text of a cell that is told of again,
   * of another picture, stays until the new one has come, so that nothing flickers while the pictures play.
   * @param {{node: string, index: number[], reduced: string, gap: any, isDecoded: boolean, isAgain: boolean}} cell
   */
  tell(cell) {
    this.stop();
    this.shown.textContent = visible(cell.reduced);
    if (cell.isAgain && !cell.gap) return this.read(cell);
    this.value.textContent = cell.gap ? visible(errorText(cell.gap.error)) : "…";
    if (cell.gap) {
      this.labels.textContent = "";
      this.element.dataset.index = cell.index.join(",");
      return;
    }
    this.timer = setTimeout(() => this.read(cell), REST);
  }

  async read(cell) {
    const abort = new AbortController();
    this.abort = abort;
    try {
      const query = { node: cell.node, index: cell.index.join(",") };
      const facts = await fetchJson("cell", this.place, query, abort.signal);
      if (abort.signal.aborted) return;
      const [value, units] = cell.isDecoded ? [facts.value, facts.units] : [facts.stored, facts.stored_units];
      const text = numberText(value, units) ?? shortTime(value);
      const words = cell.isDecoded && facts.words.length ? `${facts.words.join(", ")} (${text})` : text;
      this.value.textContent = value === null ? "missing" : visible(words);
      const labels = [...facts.labels, ...facts.places];
      this.labels.textContent = visible(labels.map((label, axis) => placeText(label, cell.index[axis])).join(" · "));
      this.element.dataset.index = cell.index.join(",");
    } catch (error) {
      if (error.name === "AbortError") return;
      this.value.textContent = visible(errorText(error));
      this.labels.textContent = visible(error.remedy ?? "");
      this.element.dataset.index = cell.index.join(",");
    }
  }
}

/** Return a real number, or a complex one with its magnitude, as text with its units; null for all else. */
function numberText(value, units) {
  if (typeof value === "number") return withUnits(formatNumber(value, 9), units);
  if (!Array.isArray(value) || value.length !== 2 || value.some((part) => part !== null && typeof part !== "number")) return null;
  const [real, imaginary] = value.map((part) => part ?? NaN);
  const text = `${formatNumber(real, 9)} ${imaginary < 0 ? "−" : "+"} ${formatNumber(Math.abs(imaginary), 9)}i`;
  return `${withUnits(text, units)}, magnitude ${formatNumber(Math.hypot(real, imaginary), 9)}`;
}

function placeText({ dim, label, units }, position) {
  if (label === null || label === undefined) return `${dim} [${position}]`;
  return withUnits(`${dim} ${labelText(label)}`, typeof label === "number" ? units : null);
}
