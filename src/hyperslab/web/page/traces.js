// Traces: many lines above each other, one per channel, as spikes and other signals are looked at.

import { PlaneDrawing, Projection, boxOf, drawFrame, drawGaps, drawX, drawY } from "./drawing.js";
import { formatNumber, measureOf } from "./scale.js";

// Channels that are shown at first, and how many lines fit between one channel and the next for the usual one.
export const FIRST_CHANNELS = 32;
const HEIGHT = 1.2;
// Room above and below the channels for traces that reach beyond the first and the last one, as a part of the channels'
// height; and how much lower traces are drawn at most so that all fit: one faulty channel must not flatten the others.
const MOST_ROOM = 0.25;
const MOST_LOWER = 3;
// So much higher than they are, traces are taken to be for that room: they end before the edge of the plot.
const SLACK = 1.1;

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
    const sizes = this.channels.map(({ up, down }) => up + down).filter((size) => size > 0).sort((a, b) => a - b);
    const usual = (sizes[sizes.length >> 1] ?? 1) / HEIGHT;
    /** What the distance from one channel to the next is worth, before the gain. */
    this.step = usual;
    const fitting = this.fittingStep();
    if (fitting > usual && fitting <= usual * MOST_LOWER) this.step = fitting;
  }

  /** Return the channels that are seen: how far their traces go up and down, and the rows from there to the ends. */
  seenChannels() {
    const { window, picture } = this;
    const [first, last] = window.y;
    const { start, span } = picture.y;
    const placed = this.channels.map(({ up, down }, row) => {
      const middle = start + (row + 0.5) * span;
      return { up: up * span * SLACK, down: down * span * SLACK, above: middle - first, below: last - middle };
    });
    return placed.filter(({ above, below }) => above >= 0 && below >= 0);
  }

  /** Return the rows that there may be above, and below, the channels. */
  get mostRoom() {
    return (this.window.y[1] - this.window.y[0]) * MOST_ROOM;
  }

  /** Return the least step by which no trace runs over the edge of the plot. */
  fittingStep() {
    const room = this.mostRoom;
    return Math.max(0, ...this.seenChannels().flatMap(({ up, down, above, below }) => [up / (above + room), down / (below + room)]));
  }

  /** Return the window with the rows that traces need above and below the channels. */
  roomyWindow() {
    const worth = this.step / this.gain;
    const seen = this.seenChannels();
    const above = Math.max(0, ...seen.map((channel) => channel.up / worth - channel.above));
    const below = Math.max(0, ...seen.map((channel) => channel.down / worth - channel.below));
    const [{ x, y }, room] = [this.window, this.mostRoom];
    return { x, y: [y[0] - Math.min(above, room), y[1] + Math.min(below, room)] };
  }

  /** Return the position of a point: above and below the channels that of the nearest one, whose trace reaches there. */
  positionAt({ x, y }) {
    const [first, last] = this.window.y;
    return super.positionAt({ x, y: Math.min(Math.max(Math.floor(y), Math.floor(first)), Math.ceil(last) - 1) });
  }

  /** Return the least and greatest cells of a channel, their middle, and how far they go up and down from there. */
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
    const middle = count ? sum / count : 0;
    const [up, down] = count ? [high - middle, middle - low] : [0, 0];
    return { least, greatest, isBlock: least !== greatest, middle, up, down };
  }

  paint(pen, size, theme) {
    const { picture, window } = this;
    const { x, y } = picture;
    const rows = y.ticks(...window.y, Math.max(Math.floor((size.height - 60) / 26), 2));
    const box = boxOf(pen, { ...size, width: size.width - 60 }, rows);
    const projection = new Projection(box, this.roomyWindow());
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
