/** Small pictures of the arrays in a table: each is fetched once its row is seen, few of them at a time. */

import { fetchView } from "./api.js";
import { limitsOf } from "./colors.js";
import { Projection, drawGaps, themeOf } from "./drawing.js";
import { ImageDrawing } from "./image.js";
import { LineDrawing } from "./line.js";
import { CanvasPen, hatch } from "./pen.js";
import { Picture } from "./picture.js";
import { formatNumber, withUnits } from "./scale.js";
import { errorText, make, visible } from "./texts.js";

// CSS pixels of a picture, as `.thumbnail` has them.
const [WIDTH, HEIGHT] = [72, 40];
// A browser has six connections to a server of HTTP/1.1: three are left for the rows, the tree and what is clicked.
const MOST_REQUESTS = 3;
// Milliseconds that a row is seen before its picture is fetched: rows that a scroll only passes are not.
const REST = 80;

/**
 * One picture: of which array, and what came of it.
 * @typedef {{place: string, node: string|null, name: string, canvas: HTMLCanvasElement, picture: Picture|null,
 *   error: Error|null, timer: number|undefined}} Thumbnail
 */

export class Thumbnails {
  constructor() {
    /** @type {Map<Element, Thumbnail>} */
    this.all = new Map();
    /** @type {Thumbnail[]} */
    this.waiting = [];
    this.running = 0;
    this.abort = new AbortController();
    this.observer = new IntersectionObserver((entries) => entries.forEach((entry) => this.#look(entry)));
    window.addEventListener("themechange", () => this.all.forEach((each) => each.canvas.dataset.state && paint(each)));
  }

  /**
   * Return the element of a picture, which is empty until it is seen.
   * @param {string} place @param {string|null} node null for the main array of the dataset @param {string} name for who hears it
   */
  make(place, node, name) {
    const canvas = make("canvas", { class: "thumbnail", role: "img", "aria-label": `Picture of ${name}` });
    this.all.set(canvas, { place, node, name, canvas, picture: null, error: null, timer: undefined });
    this.observer.observe(canvas);
    return canvas;
  }

  /** Forget all pictures, and give up those on their way. */
  clear() {
    this.abort.abort();
    this.abort = new AbortController();
    this.observer.disconnect();
    this.all.forEach(({ timer }) => clearTimeout(timer));
    this.all.clear();
    this.waiting = [];
    this.running = 0;
  }

  /** @param {IntersectionObserverEntry} entry */
  #look({ target, isIntersecting }) {
    const thumbnail = this.all.get(target);
    if (!thumbnail) return;
    clearTimeout(thumbnail.timer);
    this.waiting = this.waiting.filter((each) => each !== thumbnail);
    if (!isIntersecting) return;
    thumbnail.timer = setTimeout(() => {
      this.waiting.push(thumbnail);
      this.#fetchNext();
    }, REST);
  }

  async #fetchNext() {
    if (this.running >= MOST_REQUESTS || !this.waiting.length) return;
    const thumbnail = this.waiting.shift();
    const { signal } = this.abort;
    this.observer.unobserve(thumbnail.canvas);
    this.running += 1;
    try {
      const query = { node: thumbnail.node, width: WIDTH, height: HEIGHT, thumbnail: 1 };
      thumbnail.picture = new Picture(await fetchView(thumbnail.place, query, signal));
    } catch (error) {
      if (signal.aborted) return;
      thumbnail.error = error;
    }
    if (signal.aborted) return;
    paint(thumbnail);
    this.running -= 1;
    this.#fetchNext();
  }
}

/** Draw what came, and say it in words. @param {Thumbnail} thumbnail */
function paint({ canvas, picture, error, name }) {
  const scale = window.devicePixelRatio || 1;
  Object.assign(canvas, { width: Math.round(WIDTH * scale), height: Math.round(HEIGHT * scale) });
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const pen = new CanvasPen(context);
  const theme = themeOf(canvas);
  const problem = error ?? picture.head.gaps[0]?.error;
  if (picture) paintPicture(pen, picture, theme);
  // What cannot be drawn at all, such as words, is no damage: its box stays empty.
  else if (error.errorClass !== "Invalid") hatch(pen, 0, 0, WIDTH, HEIGHT, theme.error, { gap: 7, thickness: 1.5 });
  canvas.title = problem ? visible(errorText(problem)) : "";
  const words = problem ? `not read, ${problem.message}` : rangeOf(picture.head);
  canvas.setAttribute("aria-label", visible(`Picture of ${name}: ${words}`));
  canvas.dataset.state = problem ? "error" : "done";
}

/** @param {CanvasPen} pen @param {Picture} picture @param {Record<string, string>} theme */
function paintPicture(pen, picture, theme) {
  const { head, x, y } = picture;
  const window = { x: [0, x.facts.size], y: y && [0, y.facts.size] };
  const box = { left: 0, top: 0, width: WIDTH, height: HEIGHT };
  if (!y) {
    const line = new LineDrawing({ picture, limits: null, window });
    line.paintLine(pen, line.projectionIn(box), theme);
    return;
  }
  const drawing = new ImageDrawing({ picture, colors: "viridis", limits: limitsOf(head, null, false), window });
  pen.image(drawing.cellImage(), 0, 0, WIDTH, HEIGHT);
  drawGaps(pen, theme, new Projection(box, window, drawing), head.gaps);
}

/** @param {any} head */
function rangeOf({ minimum, maximum, units }) {
  if (minimum === null) return "all cells are missing";
  const numbers = minimum === maximum ? formatNumber(minimum) : `${formatNumber(minimum)} to ${formatNumber(maximum)}`;
  return withUnits(numbers, units);
}
