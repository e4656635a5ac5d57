// Frames: an element with a drawing, and what mouse, fingers and keys do to it: zoom, move, point.

import { fitRange } from "./drawing.js";
import { CanvasPen } from "./pen.js";
import { visible } from "./texts.js";

/** How much closer one turn of the wheel, or one key, looks. */
export const ZOOM = 1.3;
// Pixels that a pointer moves before it drags.
const SLACK = 4;

/** What all frames have: an element that shows one drawing, a position that is marked, and keys. */
export class BaseFrame {
  /**
   * @param {HTMLElement} element
   * @param {{label: string, onWindow: (window: any) => void, onPoint: (position: any, isInside: boolean) => void,
   *   onChoose: (position: any) => void, theme: () => any}} options
   * @param {Record<string, number[]>} arrows what keys move: right and down
   */
  constructor(element, { label, onWindow, onPoint, onChoose, theme }, arrows) {
    Object.assign(this, { element, onWindow, onPoint, onChoose, theme, arrows });
    element.classList.add("plot-frame");
    element.tabIndex = 0;
    element.setAttribute("role", "application");
    const keys = arrows.ArrowUp ? "arrows" : "left and right";
    element.setAttribute("aria-label", visible(`${label}: ${keys} move the pointer, + and - zoom, 0 shows all`));
    element.addEventListener("keydown", (event) => this.onKey(event));
    this.drawing = null;
    this.at = null;
  }

  /** Show a drawing. */
  show(drawing) {
    this.drawing = drawing;
    this.repaint();
  }

  size() {
    return { width: Math.max(this.element.clientWidth, 80), height: Math.max(this.element.clientHeight, 80) };
  }

  /** Put the mark at a position, none for null. */
  setMark(position) {
    this.at = position;
    this.placeMark();
  }

  /** Tell of a position; of none, also where the pointer is within the picture, but at no cell (`isInside`). */
  point(position, isInside = false) {
    this.setMark(position);
    this.onPoint(position, isInside);
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.drawing) return;
    const step = this.arrows[event.key];
    if (step && event.shiftKey) this.pan(step[0] * 0.2, step[1] * 0.2);
    else if (step) this.step(...step);
    else if (event.key === "+" || event.key === "=") this.zoomBy(1 / ZOOM);
    else if (event.key === "-" || event.key === "_") this.zoomBy(ZOOM);
    else if (event.key === "0" || event.key === "Home") this.showAll();
    else if (event.key === "Enter" && this.at) this.onChoose(this.at);
    else if (event.key === "Escape") this.point(null);
    else return;
    event.preventDefault();
  }
}

/** Shows a drawing on a canvas. */
export class Frame extends BaseFrame {
  /** @param {HTMLElement} element @param {any} options as those of `BaseFrame` */
  constructor(element, options) {
    super(element, options, { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] });
    this.canvas = document.createElement("canvas");
    this.canvas.className = "plot-canvas";
    this.mark = document.createElement("div");
    this.mark.className = "plot-mark";
    this.mark.hidden = true;
    element.replaceChildren(this.canvas, this.mark);
    this.projection = null;
    this.drag = null;
    this.listen();
  }

  listen() {
    const { element } = this;
    element.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    element.addEventListener("pointerdown", (event) => this.onDown(event));
    element.addEventListener("pointermove", (event) => this.onMove(event));
    element.addEventListener("pointerup", (event) => this.onUp(event));
    element.addEventListener("pointercancel", (event) => this.onUp(event));
    element.addEventListener("pointerleave", () => !this.drag && this.point(null));
    element.addEventListener("dblclick", () => this.showAll());
  }

  repaint() {
    if (!this.drawing) return;
    const size = this.size();
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(size.width * scale), Math.round(size.height * scale)];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    this.projection = this.drawing.paint(new CanvasPen(context), size, this.theme());
    const { box, a, b, c, d } = this.projection;
    this.element.dataset.box = JSON.stringify({ ...box, x: [a, b], y: [c, d] }); // for who looks at pixels
    this.placeMark();
  }

  placeMark() {
    const middle = this.at && this.drawing?.pointOf(this.at);
    const { projection } = this;
    const [x, y] = middle && projection ? [projection.x(middle.x), projection.y(middle.y)] : [NaN, NaN];
    this.mark.hidden = !projection || !projection.back(x, y);
    if (!this.mark.hidden) this.mark.style.transform = `translate(${x}px, ${y}px)`;
  }

  // -- pointer ---------------------------------------------------------------------------------------------------

  placeOf(event) {
    const box = this.element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  onWheel(event) {
    const { x, y } = this.placeOf(event);
    const point = this.projection?.back(x, y);
    if (!point) return;
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? ZOOM : 1 / ZOOM, point);
  }

  onDown(event) {
    const { x, y } = this.placeOf(event);
    if (event.button !== 0 || !this.projection?.back(x, y)) return;
    this.drag = { x, y, window: this.drawing.window, moved: false };
    this.element.setPointerCapture(event.pointerId);
  }

  onMove(event) {
    const { x, y } = this.placeOf(event);
    const { drag, projection } = this;
    if (!drag) {
      const point = projection?.back(x, y);
      this.point(point ? this.drawing.positionAt(point, { x, y }) : null, Boolean(point));
      return;
    }
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < SLACK) return;
    drag.moved = true;
    const { box } = projection;
    const shift = {
      x: ((drag.x - x) / box.width) * (projection.b - projection.a),
      y: ((drag.y - y) / box.height) * (projection.d - projection.c),
    };
    this.move(drag.window, shift, true);
  }

  onUp(event) {
    const { drag } = this;
    this.drag = null;
    if (drag?.moved) this.onWindow(this.drawing.window);
    else if (drag) {
      const point = this.projection.back(drag.x, drag.y);
      this.point(point ? this.drawing.positionAt(point, drag) : null, Boolean(point));
      if (this.at) this.onChoose(this.at);
    }
    if (this.element.hasPointerCapture(event.pointerId)) this.element.releasePointerCapture(event.pointerId);
  }

  // -- keys ------------------------------------------------------------------------------------------------------

  /** Move the mark by one cell of the picture, as it lies on the screen. */
  step(right, down) {
    const { drawing, projection } = this;
    if (!projection) return;
    if (this.at) {
      const next = drawing.neighbour(this.at, right, down);
      if (next) this.point(next);
      return;
    }
    const { left, top, width, height } = projection.box;
    const middle = { x: left + width / 2, y: top + height / 2 };
    const first = drawing.positionAt(projection.back(middle.x, middle.y), middle);
    if (first) this.point(first);
  }

  // -- windows ---------------------------------------------------------------------------------------------------

  zoomBy(factor) {
    const { window } = this.drawing;
    const middle = (range) => (range ? (range[0] + range[1]) / 2 : 0);
    const at = this.at && this.drawing.pointOf(this.at);
    this.zoom(factor, at ?? { x: middle(window.x), y: middle(window.y) });
  }

  zoom(factor, point) {
    const scaled = (range, at) => range && range.map((end) => at + (end - at) * factor);
    const { window } = this.drawing;
    this.setWindow({ x: scaled(window.x, point.x), y: scaled(window.y, point.y) });
  }

  /** Move by parts of what is seen. */
  pan(right, down) {
    const { projection, drawing } = this;
    const shift = { x: right * (projection.b - projection.a), y: down * (projection.d - projection.c) };
    this.move(drawing.window, shift, false);
  }

  move(from, shift, isPassing) {
    const moved = (range, by) => range && range.map((end) => end + by);
    this.setWindow({ x: moved(from.x, shift.x), y: moved(from.y, shift.y) }, isPassing);
  }

  showAll() {
    if (this.drawing) this.setWindow(this.drawing.bounds);
  }

  setWindow(window, isPassing = false) {
    const { drawing } = this;
    const fitted = (axis) => window[axis] && fitRange(window[axis], drawing.bounds[axis], drawing.least);
    drawing.window = { x: fitted("x"), y: fitted("y") };
    this.repaint();
    if (!isPassing) this.onWindow(drawing.window);
  }
}
