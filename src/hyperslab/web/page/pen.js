// Pens: the same drawing on a canvas, and as SVG. Lengths are CSS pixels.

import { visible } from "./texts.js";

/** @typedef {{anchor?: string, baseline?: string, size?: number, color?: string, weight?: string, turn?: boolean}} TextStyle */

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const BASELINES = { top: "text-before-edge", middle: "central", alphabetic: "alphabetic" };
const ANCHORS = { left: "start", center: "middle", right: "end" };

/** Draws on a canvas. */
export class CanvasPen {
  /** @param {CanvasRenderingContext2D} context */
  constructor(context) {
    this.context = context;
  }

  rect(x, y, width, height, { fill, stroke } = {}) {
    if (fill) {
      this.context.fillStyle = fill;
      this.context.fillRect(x, y, width, height);
    }
    if (stroke) {
      this.context.strokeStyle = stroke;
      this.context.lineWidth = 1;
      this.context.lineJoin = "miter";
      this.context.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1, 0), Math.max(height - 1, 0));
    }
  }

  /** Draw a line through points, flat: x, y, x, y …; NaN lifts the pen. `fill` fills what it goes around. */
  path(points, { stroke, width = 1, fill, opacity = 1 } = {}) {
    const context = this.context;
    context.beginPath();
    let isDown = false;
    for (let i = 0; i < points.length; i += 2) {
      const isPoint = !Number.isNaN(points[i]) && !Number.isNaN(points[i + 1]);
      if (isPoint && isDown) context.lineTo(points[i], points[i + 1]);
      else if (isPoint) context.moveTo(points[i], points[i + 1]);
      isDown = isPoint;
    }
    context.globalAlpha = opacity;
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.lineJoin = "round";
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  /** @param {TextStyle} style */
  text(x, y, words, { anchor = "left", baseline = "alphabetic", size = 12, color = "black", weight = "", turn } = {}) {
    const context = this.context;
    context.save();
    context.font = `${weight} ${size}px ${FONT}`.trim();
    context.fillStyle = color;
    context.textAlign = anchor;
    context.textBaseline = baseline;
    context.translate(x, y);
    if (turn) context.rotate(-Math.PI / 2);
    context.fillText(visible(words), 0, 0);
    context.restore();
  }

  /** Draw a canvas with hard pixels. */
  image(canvas, x, y, width, height) {
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(canvas, x, y, width, height);
  }

  /** Draw only inside a rectangle until `unclip`. */
  clip(x, y, width, height) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
  }

  unclip() {
    this.context.restore();
  }

  measure(words, size = 12) {
    this.context.font = `${size}px ${FONT}`;
    return this.context.measureText(words).width;
  }
}

/** Writes SVG. */
export class SvgPen {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.parts = [];
    this.clips = 0;
    this.ruler = new CanvasPen(document.createElement("canvas").getContext("2d"));
  }

  rect(x, y, width, height, { fill = "none", stroke = "none" } = {}) {
    this.parts.push(`<rect ${places({ x, y, width, height })} fill="${escape(fill)}" stroke="${escape(stroke)}"/>`);
  }

  path(points, { stroke = "none", width = 1, fill = "none", opacity = 1 } = {}) {
    let steps = "";
    let isDown = false;
    for (let i = 0; i < points.length; i += 2) {
      const isPoint = !Number.isNaN(points[i]) && !Number.isNaN(points[i + 1]);
      if (isPoint) steps += `${isDown ? "L" : "M"}${round(points[i])} ${round(points[i + 1])}`;
      isDown = isPoint;
    }
    const inside = `fill="${escape(fill)}"${opacity < 1 ? ` opacity="${opacity}"` : ""}`;
    this.parts.push(`<path d="${steps}" ${inside} stroke="${escape(stroke)}" stroke-width="${round(width)}"/>`);
  }

  text(x, y, words, { anchor = "left", baseline = "alphabetic", size = 12, color = "black", weight = "", turn } = {}) {
    const turned = turn ? ` transform="rotate(-90 ${round(x)} ${round(y)})"` : "";
    const font = `font-family="${escape(FONT)}" font-size="${size}"${weight ? ` font-weight="${weight}"` : ""}`;
    const set = `text-anchor="${ANCHORS[anchor]}" dominant-baseline="${BASELINES[baseline]}"`;
    this.parts.push(`<text ${places({ x, y })} ${font} ${set} fill="${escape(color)}"${turned}>${escape(visible(words))}</text>`);
  }

  image(canvas, x, y, width, height) {
    const box = places({ x, y, width, height });
    const link = canvas.toDataURL("image/png");
    this.parts.push(`<image ${box} preserveAspectRatio="none" style="image-rendering:pixelated" href="${link}"/>`);
  }

  clip(x, y, width, height) {
    const name = `clip${this.clips++}`;
    this.parts.push(`<clipPath id="${name}"><rect ${places({ x, y, width, height })}/></clipPath>`);
    this.parts.push(`<g clip-path="url(#${name})">`);
  }

  unclip() {
    this.parts.push("</g>");
  }

  measure(words, size = 12) {
    return this.ruler.measure(words, size);
  }

  /** Put what follows at another place, until `endGroup`. */
  startGroup(x, y) {
    this.parts.push(`<g transform="translate(${round(x)} ${round(y)})">`);
  }

  endGroup() {
    this.parts.push("</g>");
  }

  /** Return the document. */
  toString() {
    const { width, height } = this;
    const head = `<svg xmlns="http://www.w3.org/2000/svg" ${places({ width, height })} viewBox="0 0 ${width} ${height}">`;
    return `${head}\n${this.parts.join("\n")}\n</svg>\n`;
  }
}

/** Fill a rectangle with slanted lines, `gap` pixels between them. */
export function hatch(pen, x, y, width, height, color, { gap = 6, thickness = 1, opacity = 1 } = {}) {
  if (width <= 0 || height <= 0) return;
  const lines = [];
  for (let start = x - height - (((x - height) % gap) + gap) % gap; start < x + width; start += gap) {
    lines.push(start, y + height, start + height, y, NaN, NaN);
  }
  pen.clip(x, y, width, height);
  pen.path(lines, { stroke: color, width: thickness, opacity });
  pen.unclip();
}

function round(number) {
  return Math.round(number * 100) / 100;
}

function places(numbers) {
  return Object.entries(numbers)
    .map(([name, number]) => `${name}="${round(number)}"`)
    .join(" ");
}

function escape(text) {
  // Control characters are not allowed in XML at all.
  const plain = String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  return plain.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}
