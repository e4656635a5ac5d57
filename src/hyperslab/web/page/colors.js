// Colour maps, their limits and their legend. Perceptually uniform ones from the tables of matplotlib (CC0), 64 stops each.

import { fitText } from "./drawing.js";
import { CanvasPen } from "./pen.js";
import { logTicks, measureOf, niceTicks } from "./scale.js";

const STOPS = {
  viridis:
    "44015446075a470d6047136548186b481e6f482374482878472d7c46327f453782433c844241864046883e4a893c4f8a" +
    "3a538b38578c365c8d34608d32648e31688e2f6c8e2d708e2c748e2a778e297b8e277f8e26838e24878e238a8d218e8d" +
    "20928c1f968b1f9a8a1f9d891fa18721a58623a98426ac812ab07f2fb47c35b7793bbb7542be714ac26d52c5695ac864" +
    "63cb5f6cce5976d05480d34d8ad54794d8419fda3aa9dc33b4dd2cbfdf25cae01fd4e21adfe318e9e41af3e61efde725",
  cividis:
    "00224e00255400285b002b63002e6a0030700633701236701b386f223b6e283e6e2d416d32446d37476c3c496c404c6c" +
    "444f6c48526c4c556c50576c545a6d575d6d5b606e5f636f62666f666870696b716d6e727071737474757777767a7a78" +
    "7e7d788280788683798986788d8978918c78958f779992779d9576a19875a59c74a99f73ada272b2a570b6a96fbaac6d" +
    "beaf6bc2b369c7b667cbba64cfbd62d4c15fd8c45cddc859e1cc55e5cf51ead34defd748f3db42f8df3cfde234fee838",
  magma:
    "00000402010a04031206051a0a08220f0b2b130d34180f3e1d114823115129115b30116437106c3e0f72450f764b117a" +
    "52137c58157e5f187f651a806b1d81721f817822817e24828526818b2981922b81982d809f2f7fa5317eac337cb3357a" +
    "b93878c03a76c63d74cd3f71d3436ed9466bdf4a68e44f65e95462ed5a5ff1605df4675cf66e5cf8765cfa7e5efb8560" +
    "fc8d63fd9567fd9c6bfea470feab75feb37afeba80fec286fec98dfed193fed89afddfa1fde7a8fceeb0fcf5b7fcfdbf",
  inferno:
    "00000402010a04031307051b0b072410092e150b381b0c41220c4b280b54300a5b3709613e0966450a694b0c6b520e6d" +
    "58106e5f136e65156e6c186e721a6e781c6d7f1e6c85216b8c23699225689928659f2a63a52d60ac2f5db2325ab83557" +
    "be3853c43c4fc9404bcf4446d44842d94d3ddd5239e25734e65d2fea632aed6925f06f20f3761bf57d15f78410f98b0b" +
    "fa9207fb9a06fca108fca90efcb115fbb91efac127f9c931f7d13cf6d948f4e055f2e864f1ef74f3f585f6fa96fcffa4",
  grey: "101010f4f4f4",
  // For differences: as dark on either side, and light in the middle.
  difference: "16336b2f5da04f86c07fadd6b3cfe6dde7eff6f5f3f2e2d8e8bfa9d99478c467529f382c6b1616",
};

/** All maps, then all of them turned around, as matplotlib calls these. */
export const COLOR_MAPS = ["", "_r"].flatMap((end) => Object.keys(STOPS).map((name) => name + end));
const tables = new Map();

/** Return the 256 colours of a map, each as the four bytes of a pixel. @returns {Uint32Array} */
export function colorTable(name) {
  if (!tables.has(name)) {
    const table = makeTable(STOPS[name.replace(/_r$/, "")] ?? STOPS.viridis);
    tables.set(name, name.endsWith("_r") ? table.reverse() : table);
  }
  return tables.get(name);
}

function makeTable(text) {
  const stops = text.match(/.{6}/g).map((stop) => stop.match(/../g).map((part) => parseInt(part, 16)));
  const bytes = new Uint8ClampedArray(256 * 4);
  for (let color = 0; color < 256; color++) {
    const at = (color / 255) * (stops.length - 1);
    const stop = Math.min(Math.floor(at), stops.length - 2);
    for (let part = 0; part < 3; part++) {
      bytes[4 * color + part] = stops[stop][part] + (at - stop) * (stops[stop + 1][part] - stops[stop][part]);
    }
    bytes[4 * color + 3] = 255;
  }
  return new Uint32Array(bytes.buffer);
}

/** Return a colour of a map as CSS has it; `part` is from 0 to 1. */
export function colorAt(name, part) {
  const bytes = new Uint8Array(colorTable(name).buffer, 4 * Math.min(Math.floor(part * 256), 255), 3);
  return `rgb(${bytes.join(" ")})`;
}

/**
 * Return the limits of colours: what the user has set, else the least and the greatest cell, or flag; around 0 for differences.
 * @param {{minimum: number|null, maximum: number|null, flags?: {value: number, word: string}[]|null}} head
 */
export function limitsOf(head, limits, isAroundZero) {
  if (limits) return limits;
  if (head.flags?.length > 1) {
    const values = head.flags.map(({ value }) => value);
    return [Math.min(...values), Math.max(...values)];
  }
  if (head.minimum === null) return [0, 1];
  let [low, high] = [head.minimum, head.maximum];
  if (isAroundZero) {
    high = Math.max(Math.abs(low), Math.abs(high));
    low = -high;
  }
  return low < high ? [low, high] : [low - (Math.abs(low) || 1) / 2, low + (Math.abs(low) || 1) / 2];
}

/** Return True for a map of differences, whose middle is 0. @param {string|null} name */
export function isCentred(name) {
  return name === "difference" || name === "difference_r";
}

/** Return limits whose logarithms are numbers: what is not above 0 has no colour. @param {[number, number]} limits */
export function aboveZero([low, high]) {
  if (!(high > 0)) return [1, 10];
  return low > 0 ? [low, high] : [high / 1000, high];
}

/** Write the colours of cells, missing ones as nothing; `offset` is to be added to each cell. */
export function paintCells(cells, offset, [low, high], name, isLog, pixels) {
  const table = colorTable(name);
  if (isLog) {
    const [first, steps] = [Math.log(low), 256 / (Math.log(high) - Math.log(low))];
    for (let i = 0; i < pixels.length; i++) {
      const cell = cells[i] + offset;
      const color = Math.floor((Math.log(cell) - first) * steps);
      pixels[i] = cell > 0 ? table[color < 0 ? 0 : color > 255 ? 255 : color] : 0;
    }
    return;
  }
  const factor = 256 / (high - low);
  const base = (offset - low) * factor;
  for (let i = 0; i < pixels.length; i++) {
    const color = Math.floor(cells[i] * factor + base);
    pixels[i] = Number.isNaN(color) ? 0 : table[color < 0 ? 0 : color > 255 ? 255 : color];
  }
}

// Height of a legend of numbers; of a row of words, and how many of these there are at the most.
const [HEIGHT, ROW, MOST_ROWS] = [38, 17, 6];
const TEXT = { size: 11, baseline: "middle" };

/** What colours mean: numbers along a bar, or words beside their colours. */
export class Legend {
  /**
   * @param {any} pen @param {number} room width of the whole picture
   * @param {{name: string, limits: [number, number], isLog: boolean, head: any}} what a map of colours, its limits, True where it is logarithmic, and the
   *   head of the view
   */
  constructor(pen, room, { name, limits, isLog, head }) {
    Object.assign(this, { name, limits, isLog, measure: measureOf(head), room });
    this.rows = head.flags ? layOutWords(pen, head.flags, Math.max(room - 90, 80)) : null;
    /** Pixels below the title of the horizontal axis. */
    this.height = this.rows ? Math.max(this.rows.length * ROW + 6, HEIGHT) : HEIGHT;
  }

  /** Draw it below a box. @param {any} pen @param {any} theme @param {import("./drawing.js").Box} box */
  paint(pen, theme, box) {
    const [x, y] = [box.left, box.top + box.height + 42];
    if (this.rows) this.paintWords(pen, theme, x, y);
    else this.paintNumbers(pen, theme, x, y, Math.max(Math.min(420, this.room - x - 130), 80));
  }

  paintWords(pen, theme, x, y) {
    const [low, high] = this.limits;
    this.rows.forEach((row, number) => {
      for (const { at, text, value } of row) {
        const top = y + number * ROW;
        if (value !== null) {
          const fill = colorAt(this.name, Math.min(Math.max((value - low) / (high - low), 0), 1));
          pen.rect(x + at, top, 12, 12, { fill, stroke: theme.line });
        }
        pen.text(x + at + (value === null ? 0 : 17), top + 6.5, text, { ...TEXT, color: theme.fg });
      }
    });
  }

  paintNumbers(pen, theme, x, y, width) {
    const [low, high] = this.limits;
    const steps = Math.min(Math.round(width), 256);
    for (let step = 0; step < steps; step++) {
      const [from, to] = [Math.round((step * width) / steps), Math.round(((step + 1) * width) / steps)];
      pen.rect(x + from, y, to - from, 10, { fill: colorAt(this.name, (step + 0.5) / steps) });
    }
    const most = Math.max(Math.floor(width / 60), 4);
    let free = -Infinity;
    const part = this.isLog ? (at) => Math.log(at / low) / Math.log(high / low) : (at) => (at - low) / (high - low);
    for (const { at, text } of this.isLog ? logTicks(low, high, most) : niceTicks(low, high, most)) {
      const place = x + part(at) * width;
      pen.path([place, y + 10, place, y + 14], { stroke: theme.muted });
      const half = pen.measure(text, 11) / 2;
      if (place - half < free) continue;
      free = place + half + 6;
      pen.text(place, y + 16, text, { anchor: "center", baseline: "top", size: 11, color: theme.fg });
    }
    const room = this.room - x - width - 12;
    const style = { baseline: "middle", size: 11, color: theme.fg };
    if (this.measure) pen.text(x + width + 10, y + 5, fitText(pen, this.measure, room, 11), style);
  }
}

/** Return how much higher the legend of words is than one of numbers, in a picture so wide. @param {number} room @param {any[]|null} flags */
export function extraHeight(room, flags) {
  if (!flags) return 0;
  const pen = new CanvasPen(document.createElement("canvas").getContext("2d"));
  return new Legend(pen, room, { name: "", limits: [0, 1], isLog: false, head: { flags } }).height - HEIGHT;
}

/** Return the words of flags in rows of a width, with where each begins; the last one tells how many there is no room for. */
function layOutWords(pen, flags, width) {
  const rows = [[]];
  let at = 0;
  for (const [number, { value, word }] of flags.entries()) {
    const text = fitText(pen, word.replaceAll("_", " "), width - 17, TEXT.size);
    const wide = pen.measure(text, TEXT.size) + 17;
    if (at + wide > width && rows.at(-1).length) {
      if (rows.length === MOST_ROWS) {
        rows.push([{ at: 0, text: `and ${flags.length - number} more`, value: null }]);
        break;
      }
      rows.push([]);
      at = 0;
    }
    rows.at(-1).push({ at, text, value });
    at += wide + 14;
  }
  return rows;
}
