// Histograms: how many of the cells that are shown lie in each of some ranges of values.

import { Projection, boxOf, drawFrame, drawX, drawY } from "./drawing.js";
import { formatNumber, measureOf, niceTicks, titleOf, withUnits } from "./scale.js";

/** Bars from each edge to the next. */
export class HistogramDrawing {
  /** @param {{facts: any}} what the answer of /api/histogram */
  constructor({ facts }) {
    this.facts = facts;
    this.window = { x: [0, 1], y: null };
    this.bounds = this.window;
    this.least = 1;
  }

  paint(pen, size, theme) {
    const { edges, counts, path } = this.facts;
    const most = Math.max(...counts, 1);
    const heights = niceTicks(0, most * 1.05, Math.max(Math.floor((size.height - 60) / 45), 2));
    const box = boxOf(pen, size, heights);
    const [low, high] = edges.length ? [edges[0], edges[edges.length - 1]] : [0, 1];
    const projection = new Projection(box, { x: [low, high], y: [0, most * 1.05] }, { isUpward: true });
    pen.rect(box.left, box.top, box.width, box.height, { fill: theme.panel });
    for (const { at } of heights) {
      pen.path([box.left, projection.y(at), box.left + box.width, projection.y(at)], { stroke: theme.line });
    }
    counts.forEach((count, bin) => {
      const [left, right, top] = [projection.x(edges[bin]), projection.x(edges[bin + 1]), projection.y(count)];
      const gap = right - left > 4 ? 1 : 0;
      pen.rect(left, top, right - left - gap, box.top + box.height - top, { fill: theme.accent });
    });
    drawFrame(pen, theme, box);
    const columns = niceTicks(low, high, Math.max(Math.floor(box.width / 70), 2));
    const title = titleOf(path.slice(path.lastIndexOf("/") + 1), measureOf(this.facts));
    drawX(pen, theme, box, columns.map(({ at, text }) => ({ at: projection.x(at), text })), title);
    drawY(pen, theme, box, heights.map(({ at, text }) => ({ at: projection.y(at), text })), "cells");
    return projection;
  }

  /** Return the bar under a point. */
  positionAt({ x }) {
    const { edges, counts } = this.facts;
    const bin = edges.findLastIndex((edge) => edge <= x);
    return bin >= 0 && bin < counts.length ? { bin } : null;
  }

  pointOf({ bin }) {
    const { edges, counts } = this.facts;
    return { x: (edges[bin] + edges[bin + 1]) / 2, y: counts[bin] };
  }

  neighbour({ bin }, right) {
    const next = bin + right;
    return next >= 0 && next < this.facts.counts.length ? { bin: next } : null;
  }

  /** Return in words what a bar tells. */
  textOf({ bin }) {
    const { edges, counts, units } = this.facts;
    const isLast = bin === counts.length - 1;
    const range = `${formatNumber(edges[bin])} ≤ value ${isLast ? "≤" : "<"} ${formatNumber(edges[bin + 1])}`;
    return { value: `${counts[bin].toLocaleString("en")} cells`, labels: withUnits(range, units) };
  }
}
