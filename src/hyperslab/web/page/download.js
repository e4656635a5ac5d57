// What is shown as a file: PNG, or SVG with axes and lines as paths.

import { CanvasPen, SvgPen } from "./pen.js";
import { labelText } from "./scale.js";
import { saveFile } from "./texts.js";

// Pixels of a PNG per pixel of the page.
const SCALE = 2;
const [TITLE, NOTE] = [26, 22];

/** Save the panes of a plot. @param {"PNG"|"SVG"} type @param {import("./plot.js").Plot} plot */
export async function saveAs(type, plot) {
  const sizes = plot.panes.map(({ frame }) => frame.size());
  const width = sizes.reduce((sum, size) => sum + size.width, 0);
  const height = Math.max(...sizes.map((size) => size.height)) + TITLE + NOTE;
  const blob = type === "SVG" ? makeSvg(plot, sizes, width, height) : await makePng(plot, sizes, width, height);
  saveFile(blob, `${plot.details.path.split("/").pop() || "plot"}.${type.toLowerCase()}`);
}

function makeSvg(plot, sizes, width, height) {
  const pen = new SvgPen(width, height);
  paintAll(pen, plot, sizes, width, height, (x, y, paint) => {
    pen.startGroup(x, y);
    paint();
    pen.endGroup();
  });
  return new Blob([pen.toString()], { type: "image/svg+xml" });
}

async function makePng(plot, sizes, width, height) {
  const canvas = Object.assign(document.createElement("canvas"), { width: width * SCALE, height: height * SCALE });
  const context = canvas.getContext("2d");
  context.scale(SCALE, SCALE);
  paintAll(new CanvasPen(context), plot, sizes, width, height, (x, y, paint) => {
    context.save();
    context.translate(x, y);
    paint();
    context.restore();
  });
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Draw all panes side by side, each below its title, and below all what was done to the cells. */
function paintAll(pen, plot, sizes, width, height, place) {
  const theme = plot.panes[0].frame.theme();
  pen.rect(0, 0, width, height, { fill: theme.bg });
  let x = 0;
  plot.panes.forEach(({ frame, title }, i) => {
    pen.text(x + 10, 18, title, { size: 13, weight: "600", color: theme.fg });
    place(x, TITLE, () => frame.drawing.paint(pen, sizes[i], theme));
    x += sizes[i].width;
  });
  pen.text(10, height - 8, noteOf(plot), { size: 11, color: theme.muted });
}

function noteOf({ pictures, parts }) {
  const at = pictures[0].head.at ?? [];
  const places = at.map(({ dim, index, label }) => `${dim} ${label === null ? `[${index}]` : labelText(label)}`);
  return [...places, parts.reduction.textContent].join(" · ");
}
