// Pictures: the cells of a view with its axes, and the difference of two.

import { Scale } from "./scale.js";

export const NOT_ALIKE = "the two were not reduced alike; zoom in to compare them";

/** The answer to a view. A line has one row. */
export class Picture {
  /** @param {{head: any, cells: Float32Array|Float64Array}} answer */
  constructor({ head, cells }) {
    this.head = head;
    /** Numbers of 64 bits where those that were sent are so many times too large or too small. */
    this.cells = head.factor === 1 ? cells : Float64Array.from(cells, (cell) => cell * head.factor);
    this.x = new Scale(head.x);
    this.y = head.y ? new Scale(head.y) : null;
    this.columns = this.x.count;
    this.rows = this.y?.count ?? 1;
    this.offset = head.offset;
  }

  /** Return the cells of a layer, row by row; of the mean, or the cells themselves, without a name. */
  layer(name = null) {
    const { layers } = this.head;
    const known = name === null ? (layers.includes("mean") ? "mean" : layers[0]) : name;
    const place = layers.indexOf(known);
    const size = this.columns * this.rows;
    return place < 0 ? null : this.cells.subarray(place * size, (place + 1) * size);
  }

  /** Return the number that stands at a cell of the picture, NaN for a missing one. */
  valueAt(column, row = 0) {
    return this.layer()[row * this.columns + column] + this.offset;
  }

  /** Return the least and the greatest of the numbers above 0, null where there are none: nothing else has a logarithm. */
  endsAboveZero() {
    const { minimum, maximum } = this.head;
    if (maximum === null || !(maximum > 0)) return { minimum: null, maximum: null };
    if (minimum > 0) return { minimum, maximum };
    let least = maximum;
    for (const stored of this.layer()) {
      const cell = stored + this.offset;
      if (cell > 0 && cell < least) least = cell;
    }
    return { minimum: least, maximum };
  }

  /** Return the gap that a position lies in, if any. */
  gapAt(x, y) {
    const isIn = (position, range) => !range || (position >= range[0] && position < range[1]);
    return this.head.gaps.find((gap) => isIn(x, gap.x) && (y === null || isIn(y, gap.y))) ?? null;
  }
}

/** Return the first picture less the second, cell by cell. Error where their cells are not the same positions. */
export function subtract(first, second) {
  for (const axis of ["x", "y"]) {
    const [one, other] = [first.head[axis], second.head[axis]];
    for (const fact of ["start", "stop", "step", "block"]) {
      if (one?.[fact] !== other?.[fact]) throw new Error(NOT_ALIKE);
    }
  }
  const [a, b] = [first.layer(), second.layer()];
  const shift = first.offset - second.offset;
  const cells = new Float64Array(a.length); // one of the two may have numbers that 32 bits have not
  let [minimum, maximum] = [Infinity, -Infinity];
  for (let i = 0; i < a.length; i++) {
    const cell = a[i] - b[i] + shift;
    cells[i] = cell;
    if (cell < minimum && cell > -Infinity) minimum = cell;
    if (cell > maximum && cell < Infinity) maximum = cell;
  }
  const isEmpty = minimum === Infinity;
  return new Picture({
    head: {
      ...first.head,
      layers: ["cells"],
      offset: 0,
      factor: 1,
      flags: null,
      minimum: isEmpty ? null : minimum,
      maximum: isEmpty ? null : maximum,
      gaps: [...first.head.gaps, ...second.head.gaps],
      units: first.head.units === second.head.units ? first.head.units : null,
    },
    cells,
  });
}
