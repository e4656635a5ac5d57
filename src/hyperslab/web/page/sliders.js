// Sliders: a position for each dimension that is not drawn, with its label, and a way to play along one.

import { labelText, withUnits } from "./scale.js";
import { make, makeButton, visible } from "./texts.js";

// Milliseconds from one frame to the next, where the server is quicker.
const PACE = 150;

/** A slider per dimension; `onMove(dim, index)` tells of each move. */
export class Sliders {
  /** @param {HTMLElement} element @param {(dim: string, index: number) => void} onMove */
  constructor(element, onMove) {
    this.element = element;
    this.onMove = onMove;
    this.rows = new Map();
    this.playing = null;
  }

  /** Show sliders for dimensions. @param {{dim: string, size: number, index: number}[]} dims */
  show(dims) {
    const names = dims.map(({ dim, size }) => `${dim}\n${size}`).join("\n");
    if (names !== this.names) {
      this.stop();
      this.names = names;
      this.rows.clear();
      this.element.replaceChildren(...dims.map((each) => this.makeRow(each)));
    }
    for (const { dim, index } of dims) this.set(dim, index);
  }

  /** Show the labels of the positions. @param {any[]} at `head.at` */
  setLabels(at) {
    for (const { dim, label, units } of at) {
      const row = this.rows.get(dim);
      if (!row) continue;
      const text = label === null ? "" : withUnits(labelText(label), typeof label === "number" ? units : null);
      row.label.textContent = visible(text);
      row.range.setAttribute("aria-valuetext", row.label.textContent || `position ${row.range.value}`);
    }
  }

  makeRow({ dim, size }) {
    const id = `plot-slider-${this.rows.size}`;
    const name = make("label", { class: "plot-slider-name", for: id, title: dim }, visible(dim));
    const positions = { min: 0, max: size - 1, step: 1, value: 0 };
    const range = make("input", { ...positions, type: "range", id, "data-testid": `slider-${dim}` });
    const words = `position along ${dim}, 0 to ${size - 1}`;
    const number = make("input", { ...positions, type: "number", class: "plot-number", "aria-label": words });
    const play = makeButton("▶", () => (this.playing === dim ? this.stop() : this.play(dim)), {
      class: "plot-button plot-play",
      "aria-label": `Play along ${dim}`,
      "aria-pressed": "false",
      "data-testid": `play-${dim}`,
    });
    const label = make("output", { class: "plot-slider-label" });
    this.rows.set(dim, { range, number, play, label, size });
    range.addEventListener("input", () => this.move(dim, Number(range.value)));
    number.addEventListener("change", () => this.move(dim, Number(number.value)));
    return make("div", { class: "plot-slider" }, name, play, range, number, label);
  }

  set(dim, index) {
    const row = this.rows.get(dim);
    row.range.value = row.number.value = String(index);
  }

  /** Go to a position by the user's hand: what plays along another dimension goes on. */
  move(dim, index) {
    if (this.playing === dim) this.stop();
    this.go(dim, index);
  }

  go(dim, index) {
    const { size } = this.rows.get(dim);
    const whole = Math.min(Math.max(Math.round(index) || 0, 0), size - 1);
    this.set(dim, whole);
    this.onMove(dim, whole);
  }

  play(dim) {
    this.stop();
    this.playing = dim;
    this.markPlay(dim, true);
    this.last = performance.now();
    this.step();
  }

  stop() {
    clearTimeout(this.timer);
    if (this.playing !== null) this.markPlay(this.playing, false);
    this.playing = null;
  }

  markPlay(dim, isPlaying) {
    const play = this.rows.get(dim)?.play;
    if (!play) return;
    play.textContent = isPlaying ? "❚❚" : "▶";
    play.setAttribute("aria-pressed", String(isPlaying));
  }

  step() {
    const row = this.rows.get(this.playing);
    this.last = performance.now();
    this.isDue = true;
    this.go(this.playing, (Number(row.range.value) + 1) % row.size);
  }

  /** Go on with what plays: the last frame is drawn. */
  frameIsDrawn() {
    if (this.playing === null || !this.isDue) return;
    this.isDue = false;
    this.timer = setTimeout(() => this.playing !== null && this.step(), Math.max(PACE - (performance.now() - this.last), 0));
  }
}
