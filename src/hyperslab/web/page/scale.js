// Scales: which positions an axis of a picture shows, with labels and ticks; and numbers as text.

/** @typedef {{at: number, text: string}} Tick */

const DEGREES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 45, 60, 90];
const DATE = /^([+-]?\d+)-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d(?:\.\d+)?))?)?/;

/** An axis of a view, as its head tells of it. Positions are real numbers: cell `i` of the array is from `i` to `i + 1`. */
export class Scale {
  /** @param {any} facts `head.x` or `head.y` */
  constructor(facts) {
    this.facts = facts;
    this.start = facts.start;
    this.stop = facts.stop;
    /** Positions that one cell of the picture shows. */
    this.span = facts.step * facts.block;
    this.count = facts.count;
    this.role = facts.role ?? null;
    const labels = facts.labels ?? null;
    const values = facts.values ?? (labels && labels.every((label) => typeof label === "number") ? labels : null);
    const numbers = values && this.role === "longitude" ? goAround(values) : values;
    /** Numbers of the cells where these rise or fall all along. */
    this.numbers = numbers && isMonotonic(numbers) ? numbers : null;
    const isText = typeof labels?.[0] === "string";
    this.isTime = isText && Boolean(facts.values || DATE.test(labels[0]));
    this.labels = labels;
  }

  /** Return `lon (degrees_east)`; of times the calendar unless it is the usual one. */
  get title() {
    const { dim, units, calendar } = this.facts;
    const usual = [null, undefined, "standard", "gregorian", "proleptic_gregorian"];
    const remark = this.isTime ? (usual.includes(calendar) ? null : `${calendar} calendar`) : units;
    const title = titleOf(dim, remark);
    return title !== dim || this.labels ? title : `${dim} (position)`;
  }

  /** True where greater numbers stand higher by custom: all but depths, pressures, and rows without labels. */
  get isUpward() {
    return this.numbers !== null && this.role !== "down";
  }

  /** Return the cell of the picture that shows a position, -1 where none does. */
  cellOf(position) {
    const cell = Math.floor((position - this.start) / this.span);
    return position < this.stop && cell >= 0 && cell < this.count ? cell : -1;
  }

  /** Return where the label of a cell of the picture belongs: the middle of the first cell of the array in it. */
  middleOf(cell) {
    return this.start + cell * this.span + 0.5;
  }

  /** Return the label of a cell of the picture as text; its first position where it has none. */
  labelOf(cell) {
    const label = this.labels?.[cell];
    if (label === undefined || label === null) return String(this.start + cell * this.span);
    return labelText(label);
  }

  /** Return the number at a position, between labels in proportion. Only where there are numbers. */
  numberAt(position) {
    const { numbers } = this;
    if (numbers.length === 1) return numbers[0];
    const cell = Math.min(Math.max(Math.floor((position - this.middleOf(0)) / this.span), 0), numbers.length - 2);
    return numbers[cell] + ((position - this.middleOf(cell)) / this.span) * (numbers[cell + 1] - numbers[cell]);
  }

  /** Return the position of a number, beyond the ends in proportion. Only where there are numbers. */
  positionOf(number) {
    const { numbers } = this;
    if (numbers.length === 1) return this.middleOf(0);
    const rises = numbers[numbers.length - 1] > numbers[0];
    let [low, high] = [0, numbers.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (numbers[middle] <= number === rises) low = middle;
      else high = middle;
    }
    const part = (number - numbers[low]) / (numbers[high] - numbers[low]);
    return this.middleOf(low) + part * this.span;
  }

  /** Return at most about `most` ticks between two positions. @returns {Tick[]} */
  ticks(from, to, most) {
    if (this.isTime) return this.timeTicks(from, to, most);
    if (this.numbers && this.numbers.length > 1) {
      const [low, high] = [this.numberAt(from), this.numberAt(to)].sort((a, b) => a - b);
      const isDegree = this.role === "longitude" || this.role === "latitude";
      const limit = this.role === "latitude" ? 90 : Infinity;
      return niceTicks(low, high, most, isDegree ? DEGREES : null)
        .filter((tick) => Math.abs(tick.at) <= limit)
        .map(({ at, text }) => ({ at: this.positionOf(at), text }))
        .filter(({ at }) => at >= from && at <= to);
    }
    if (!this.labels) {
      const found = niceTicks(from - 0.5, to - 0.5, Math.min(most, to - from));
      return found.filter(({ at }) => at + 0.5 >= from && at + 0.5 <= to).map(({ at, text }) => ({ at: at + 0.5, text }));
    }
    const cells = this.cellsBetween(from, to);
    const every = Math.max(Math.ceil(cells.length / most), 1);
    const some = cells.filter((cell) => cell % every === 0);
    return some.map((cell) => ({ at: this.middleOf(cell), text: shorten(this.labelOf(cell)) }));
  }

  /** Return ticks where a year, a month, a day … begins: the finest of these that there is room for. */
  timeTicks(from, to, most) {
    const cells = this.cellsBetween(from, to);
    const dates = cells.map((cell) => DATE.exec(this.labels[cell] ?? ""));
    let found = [];
    let level = 0;
    for (let each = 1; each <= 6; each++) {
      const begins = cells.filter((_, i) => i > 0 && dates[i] && headOf(dates[i], each) !== headOf(dates[i - 1], each));
      if (begins.length > most && found.length >= Math.max(most / 3, 2)) break;
      [found, level] = [begins, each];
      if (begins.length > most) break;
    }
    if (found.length < 2) [found, level] = [cells, 6];
    const every = Math.max(Math.ceil(found.length / most), 1);
    const isMonth = level === 2 && every > 1 && roundMonths(found, this.labels, most);
    const isFirst = new Set(found.slice(0, 1));
    return found
      .filter(level === 1 && every > 1 ? roundYears(found, this.labels, most) : isMonth || ((_, i) => i % every === 0))
      .map((cell) => ({ at: this.middleOf(cell), text: dateText(this.labels[cell] ?? "", level, isFirst.has(cell)) }));
  }

  cellsBetween(from, to) {
    const cells = [];
    for (let cell = 0; cell < this.count; cell++) {
      if (this.middleOf(cell) >= from && this.middleOf(cell) <= to) cells.push(cell);
    }
    return cells;
  }
}

function headOf(date, level) {
  return date ? date.slice(1, level + 1).join("-") : "";
}

/** Return a filter for cells whose years are round numbers. */
function roundYears(cells, labels, most) {
  const years = new Map(cells.map((cell) => [cell, Number(DATE.exec(labels[cell])[1])]));
  const span = Math.abs(years.get(cells[cells.length - 1]) - years.get(cells[0]));
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = Math.max([1, 2, 5, 10].find((unit) => unit * power * most >= span) * power, 1);
  return (cell) => years.get(cell) % step === 0;
}

/** Return a filter for cells of January and every second, third … month from there. */
function roundMonths(cells, labels, most) {
  const step = [2, 3, 4, 6].find((months) => cells.length / months <= most) ?? 12;
  return (cell) => (Number(DATE.exec(labels[cell])[2]) - 1) % step === 0;
}

/** Return as much of a time as its tick tells: `2013`, `2013-02`, `2013-02-01`, `12:00`. */
function dateText(label, level, isFirst) {
  const date = DATE.exec(label);
  if (!date) return shorten(label);
  if (level <= 3) return date.slice(1, level + 1).join("-");
  const clock = `${date[4] ?? "00"}:${date[5] ?? "00"}${level === 6 && date[6] ? `:${date[6]}` : ""}`;
  const day = date.slice(1, 4).join("-");
  if (clock === "00:00") return day;
  return isFirst ? `${day} ${clock}` : clock;
}

/** Return a time without a clock that stands at midnight. */
export function shortTime(label) {
  return String(label).replace(/[T ]00:00:00(\.0+)?$/, "");
}

/** Return a label as text. @param {unknown} label */
export function labelText(label) {
  return typeof label === "number" ? formatNumber(label) : shortTime(label);
}

/** Return a number as text with its units, of which "1" is none. @param {string} text @param {string|null} units */
export function withUnits(text, units) {
  return units && units !== "1" ? `${text} ${units}` : text;
}

/** Return a name with units behind it, as axes have them. @param {string} name @param {string|null} units */
export function titleOf(name, units) {
  return units && units !== "1" ? `${name} (${units})` : name;
}

/** Return what the numbers of a view are: their units, and of complex numbers which part. @param {any} head */
export function measureOf({ part, units }) {
  if (!part) return units;
  return titleOf(part === "imag" ? "imaginary part" : part === "real" ? "real part" : part, units);
}

function shorten(text) {
  return text.length > 16 ? `${text.slice(0, 15)}…` : text;
}

/** Return longitudes that go on beyond 360 where the next one is nearer that way: 350, 0 becomes 350, 360. */
function goAround(degrees) {
  if (degrees.every((number, i) => i === 0 || Math.abs(number - degrees[i - 1]) <= 180)) return degrees;
  const found = [degrees[0]];
  for (const number of degrees.slice(1)) {
    const last = found[found.length - 1];
    found.push(number + 360 * Math.round((last - number) / 360));
  }
  return found;
}

function isMonotonic(numbers) {
  if (!numbers.length || !numbers.every(Number.isFinite)) return false;
  const sign = Math.sign(numbers[numbers.length - 1] - numbers[0]);
  return numbers.length === 1 || numbers.every((number, i) => i === 0 || Math.sign(number - numbers[i - 1]) === sign);
}

/** Return ticks at round numbers, about `most` of them. @returns {Tick[]} */
export function niceTicks(low, high, most, steps = null) {
  if (!(high > low && high - low < Infinity)) return Number.isFinite(low) ? [{ at: low, text: formatNumber(low) }] : [];
  const rough = (high - low) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = steps?.find((each) => each >= rough) ?? [1, 2, 5, 10].find((unit) => unit * power >= rough * 0.999) * power;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const isLong = Math.max(Math.abs(low), Math.abs(high)) >= 1e6 || step < 1e-4;
  const significant = Math.max(Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / step)) + 1, 1);
  const ticks = [];
  for (let number = Math.ceil(low / step - 1e-9); number * step <= high + step * 1e-9 && ticks.length < 100; number++) {
    const at = number * step;
    const isPower = isLong && number !== 0;
    const text = isPower ? shortPower(at.toExponential(Math.min(significant - 1, 15))) : at.toFixed(Math.min(digits, 20));
    ticks.push({ at: Number(at.toPrecision(15)), text: number === 0 ? "0" : text });
  }
  return ticks;
}

/** Return ticks of a logarithmic axis: powers of ten where there are two or more of them, with 2 and 5 of each where there is room. */
export function logTicks(low, high, most) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const decades = Math.log10(high / low);
  if (!(decades >= 1.5)) return niceTicks(low, high, most);
  const units = decades * 3 <= most ? [1, 2, 5] : [1];
  const every = Math.max(Math.ceil(decades / most), 1);
  const ticks = [];
  for (let power = first; power <= last; power += every) {
    for (const unit of units) {
      const at = Number(`${unit}e${power}`);
      const isLong = Math.abs(power) > 4;
      if (at >= low && at <= high) ticks.push({ at, text: isLong ? `${unit}e${power}` : String(at) });
    }
  }
  return ticks;
}

function shortPower(text) {
  return text.replace(/(\.\d*?)0+e/, "$1e").replace(/\.e/, "e").replace("e+", "e");
}

/** Return a number with as many digits as a reader wants. */
export function formatNumber(number, digits = 7) {
  if (typeof number !== "number") return String(number);
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "missing" : number > 0 ? "∞" : "-∞";
  const size = Math.abs(number);
  if (Number.isInteger(number) && size < 1e15) return String(number);
  if (size >= 1e7 || size < 1e-4) return shortPower(number.toExponential(digits - 1));
  return String(Number(number.toPrecision(digits)));
}
