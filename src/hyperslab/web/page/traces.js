// Traces: many lines above each other, one per channel, as spikes and other signals are looked at.

import { PlaneDrawing, Projection, boxOf, drawFrame, drawGaps, drawX, drawY } from "./drawing.js";
import { formatNumber, measureOf } from "./scale.js";

// Channels that are shown at first, and how many lines fit between one channel and the next for the usual one.
export const FIRST_CHANNELS = 32;
const HEIGHT = 1.2;

/** Channels as rows: of each the least and the greatest cell of every block, less its mean. */
export class TraceDrawing extends PlaneDrawing {
  constructor({ picture, window, gain = 1 }) {
    super();
    Object.assign(this, { picture, window, gain });
    this.bounds = { x: [0, picture.x.facts.size], y: [0, picture.y.facts.size] };
    this.least = 1;
    this.isTurned = false;
    this.isUpward = false;
    this.channels = Array.from({ length: picture.rows }, (_, row) => this.channelOf(row));
    const sizes = this.channels.map(({ size }) => size).filter((size) => size > 0).sort((a, b) => a - b);
    /** What the distance from one channel to the next is worth, before the gain. */
    this.step = (sizes[sizes.length >> 1] ?? 1) / HEIGHT;
  }

  /** Return the least and greatest cells of a channel, their middle, and how far they go. */
  channelOf(row) {
    const { picture } = this;
    const part = (name) => picture.layer(name)?.subarray(row * picture.columns, (row + 1) * picture.columns);
    const mean = part(null);
    const [least, greatest] = [part("minimum") ?? mean, part("maximum") ?? mean];
    let [sum, count, low, high] = [0, 0, Infinity, -Infinity];
    for (let i = 0; i < mean.length; i++) {
      if (Number.isNaN(mean[i])) continue;
      sum += mean[i];
      count++;
      if (least[i] < low) low = least[i];
      if (greatest[i] > high) high = greatest[i];
    }
    return { least, greatest, isBlock: least !== greatest, middle: count ? sum / count : 0, size: count ? high - low : 0 };
  }

  paint(pen, size, theme) {
    const { picture, window } = this;
    const { x, y } = picture;
    const rows = y.ticks(...window.y, Math.max(Math.floor((size.height - 60) / 26), 2));
    const box = boxOf(pen, { ...size, width: size.width - 60 }, rows);
    const projection = new Projection(box, window);
    pen.rect(box.left, box.top, box.width, box.height, { fill: theme.panel });
    pen.clip(box.left, box.top, box.width, box.height);
    const height = projection.y(1) - projection.y(0);
    const factor = (height * y.span * this.gain) / this.step;
    for (let row = 0; row < picture.rows; row++) {
      const middle = projection.y(y.start + (row + 0.5) * y.span);
      pen.path(this.lineOf(this.channels[row], middle, factor, projection), { stroke: theme.accent, width: 1 });
    }
    pen.unclip();
    drawGaps(pen, theme, projection, picture.head.gaps);
    drawFrame(pen, theme, box);
    const columns = x.ticks(...window.x, Math.max(Math.floor(box.width / 80), 2));
    drawX(pen, theme, box, columns.map(({ at, text }) => ({ at: projection.x(at), text })), x.title);
    drawY(pen, theme, box, rows.map(({ at, text }) => ({ at: projection.y(at), text })), y.title);
    this.paintRuler(pen, theme, box, height * y.span);
    return projection;
  }

  /** Return the line of a channel: down to the least and up to the greatest cell of each block. */
  lineOf({ least, greatest, isBlock, middle }, at, factor, projection) {
    const points = [];
    const { x } = this.picture;
    const half = isBlock ? x.span / 2 : 0.5;
    for (let i = 0; i < least.length; i++) {
      const place = projection.x(x.start + i * x.span + half);
      points.push(place, at - (least[i] - middle) * factor);
      if (isBlock) points.push(place, at - (greatest[i] - middle) * factor);
    }
    return points;
  }

  /** Draw how much the distance between two channels is. */
  paintRuler(pen, theme, box, height) {
    const worth = this.step / this.gain;
    const round = Number(worth.toPrecision(1));
    const length = Math.min((round / worth) * height, box.height);
    const [left, bottom] = [box.left + box.width + 8, box.top + box.height];
    pen.path([left, bottom - length, left, bottom], { stroke: theme.fg, width: 2 });
    const style = { baseline: "middle", size: 11, color: theme.fg };
    pen.text(left + 5, bottom - length / 2, formatNumber(round), style);
    const units = measureOf(this.picture.head);
    if (units) pen.text(left + 5, bottom - length / 2 + 13, units.length > 9 ? `${units.slice(0, 8)}…` : units, style);
  }
}
