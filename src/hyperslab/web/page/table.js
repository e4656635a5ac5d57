/** Rows of a node as a table, page by page: arrays, structures, tables of HDMF, collections with conditions. */

import { fetchJson } from "./api.js";
import { download } from "./code.js";
import { isReference, referenceLink, scrollBox, valueText } from "./details.js";
import { formatCount, make, makeButton, say, visible } from "./texts.js";
import { Thumbnails } from "./thumbnails.js";

const PAGE = 50;
// Columns of a 2-D array that are drawn; the rows of the answer have no more.
const MOST_SPREAD = 50;
// Letters of a list in a cell: a row of spike times would fill the screen.
const MOST_LETTERS = 120;

/**
 * @typedef {object} TablePlace
 * @property {string} place
 * @property {any} facts the answer of /api/node
 * @property {number} start first row
 * @property {any} view of an array what its plot shows: the rows are those of its vertical dimension; null for the first one
 * @property {string|null} filter
 * @property {string|null} order
 */

export class Table {
  /**
   * @param {HTMLElement} element
   * @param {{
   *   linkTo: (node: string) => string,
   *   linkToObject: (name: string) => string,
   *   onChange: (change: {rows: number, filter?: string|null, order?: string|null}) => void,
   * }} calls
   */
  constructor(element, { linkTo, linkToObject, onChange }) {
    this.element = element;
    this.linkTo = linkTo;
    this.linkToObject = linkToObject;
    this.onChange = onChange;
    this.abort = new AbortController();
    this.thumbnails = new Thumbnails();
    /** @type {string[]|null} The conditions of the filter, as the server told them apart. */
    this.conditions = null;
    /** @type {string|null} The call in Python that finds the same rows. */
    this.query = null;
    /** @type {{start: number, stop: number}|null} The rows that are shown. */
    this.range = null;
    /** @type {TablePlace|null} */
    this.shown = null;
    this.rows = make("div", { class: "rows" });
    this.bar = make("div", { class: "bar" });
  }

  /** Fetch and show rows. @param {TablePlace} wanted */
  async show(wanted) {
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const isNew = this.shown?.place !== wanted.place || this.shown.facts.path !== wanted.facts.path;
    this.shown = wanted;
    if (isNew) this.#layOut();
    if (this.filter) this.filter.value = wanted.filter ?? "";
    this.conditions = null;
    this.query = null;
    this.range = null;
    this.element.dataset.state = "loading";
    this.rows.setAttribute("aria-busy", "true");
    try {
      const { start, filter, order } = wanted;
      const { x, y, x_range, at, field } = wanted.view ?? {};
      const places = Object.entries(at ?? {}).map(([dim, index]) => `${dim}:${index}`);
      const plane = { x, y, x_range: x_range?.join(":"), at: places, field };
      const query = { node: wanted.facts.path, start, count: PAGE, filter, order, ...(x ? plane : {}) };
      const answer = await fetchJson("rows", wanted.place, query, signal);
      this.conditions = answer.conditions;
      this.query = answer.python ?? null;
      this.#fill(answer);
      this.element.dataset.state = "done";
      say(this.place.textContent);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.rows.replaceChildren(
        make("p", { class: "problem" }, visible([error.message, error.remedy].filter(Boolean).join("; "))),
      );
      this.element.dataset.state = "error";
      this.place.textContent = "";
      for (const button of [this.first, this.before, this.after, this.last]) button.disabled = true;
    }
    this.rows.removeAttribute("aria-busy");
  }

  /** Forget what is shown. */
  clear() {
    this.abort.abort();
    this.thumbnails.clear();
    this.shown = null;
    this.element.replaceChildren();
    delete this.element.dataset.state;
  }

  // -- parts ----------------------------------------------------------------------------------------------------------

  #layOut() {
    const { facts } = this.shown;
    const title = { collection: "Arrays", database: "Objects" }[facts.kind];
    this.rows.classList.toggle("with-thumbnails", Boolean(title));
    this.filter = null;
    this.place = make("span", { class: "muted", "data-testid": "row-range" });
    const step = (text, label, act) => makeButton(text, act, { "aria-label": label, class: "small" });
    this.first = step("«", "First rows", () => this.#go(0));
    this.before = step("‹", "Rows before", () => this.#go(Math.max(this.shown.start - PAGE, 0)));
    this.after = step("›", "Rows after", () => this.#go(this.next));
    this.last = step("»", "Last rows", () => this.#go(Math.floor((this.total - 1) / PAGE) * PAGE));
    this.number = make("input", { type: "text", inputmode: "numeric", size: 8, "aria-label": "Go to row" });
    this.number.addEventListener("change", () => this.#go(Number.parseInt(this.number.value, 10) || 0));
    this.bar.replaceChildren(this.first, this.before, this.after, this.last, this.number, this.place);
    this.rows.replaceChildren();
    this.rows.style.setProperty("--count", String(Math.min(PAGE, Number(facts.rows ?? PAGE))));
    this.element.replaceChildren(
      make("div", { class: "bar" }, make("h2", {}, title ?? "Rows"), ...this.#makeDownload()),
      ...(title ? [this.#filterBox(facts.kind)] : []),
      this.bar,
      this.rows,
    );
  }

  /** @param {string} kind */
  #filterBox(kind) {
    const hint = kind === "database" ? "name=run 1" : "depth>=2 and name^=n1";
    this.filter = make("input", { type: "search", id: "filter", placeholder: hint, size: 40 });
    const form = make(
      "form",
      { class: "bar", role: "search" },
      make("label", { for: "filter" }, "Where"),
      this.filter,
      make("button", { type: "submit" }, "Filter"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.onChange({ rows: 0, filter: this.filter.value.trim() || null });
    });
    return form;
  }

  /** Return a condition that the first row meets, as an example. @param {any} answer the answer of /api/rows */
  #hint({ columns, rows }) {
    const place = columns.findIndex(({ order }, column) => order && rows[0][column] !== null && isShort(rows[0][column]));
    return place < 0 ? "" : visible(`${columns[place].order}=${valueText(rows[0][place])}`);
  }

  /** Make what saves all rows as CSV: of tables, collections and databases. Of arrays there is more below their code. */
  #makeDownload() {
    const { place, facts } = this.shown;
    if (facts.kind === "array") return [];
    const note = make("span", { class: "muted", role: "status", "data-testid": "table-note" });
    const name = (facts.path ?? "").split("/").at(-1) || place.split("/").at(-1) || "table";
    const save = () => {
      const { filter, order } = this.shown;
      download(button, note, place, { node: facts.path, filter, order, format: "csv" }, `${name}.csv`);
    };
    const button = makeButton("CSV", save, { class: "small", "aria-label": "Download all rows as CSV", "data-testid": "table-csv" });
    return [button, note];
  }

  /** @param {number} start */
  #go(start) {
    const most = this.total === null ? Infinity : Math.max(this.total - 1, 0);
    const wanted = Math.min(Math.max(start, 0), most);
    if (wanted !== this.shown.start) this.onChange({ rows: wanted });
  }

  /** @param {any} answer the answer of /api/rows */
  #fill(answer) {
    this.total = answer.total;
    this.next = answer.next ?? this.shown.start;
    const stop = answer.start + answer.rows.length;
    this.range = answer.rows.length ? { start: answer.start, stop } : null;
    const total = answer.total === null ? ", and more" : ` of ${formatCount(answer.total)}`;
    const spread = spreadColumns(answer);
    const columns = answer.plane
      ? planeText(answer.plane, this.shown)
      : spread && spread.length < answer.columns[0].shape[0]
        ? `, columns 0 to ${spread.length - 1} of ${formatCount(answer.columns[0].shape[0])}`
        : answer.more_columns
          ? `, the first ${formatCount(answer.columns.length)} columns (${formatCount(answer.more_columns)} more are not shown)`
          : "";
    this.place.textContent = answer.rows.length ? `rows ${answer.start} to ${stop - 1}${total}${columns}` : `no rows${total}`;
    for (const button of [this.first, this.before]) button.disabled = answer.start === 0;
    this.after.disabled = answer.next === null;
    this.last.disabled = answer.next === null || answer.total === null;
    this.number.value = String(answer.start);
    if (this.shown.facts.kind === "collection" && answer.rows.length) this.filter.placeholder = this.#hint(answer);
    const heads = spread ?? answer.columns;
    this.thumbnails.clear();
    const rows = answer.rows.map((row, place) => this.#row(answer, spread ? itemsOf(row[0]) : row, place, heads));
    const labelled = make(
      "th",
      { scope: "col" },
      visible(planeHead(answer.plane) ?? (answer.labels ? (this.shown.facts.coordinates?.[0]?.dim ?? "label") : "row")),
    );
    const pictured = this.#hasThumbnails() ? make("th", { scope: "col" }, "picture") : null;
    const head = make("tr", {}, labelled, pictured, ...heads.map((each) => this.#headCell(each)));
    const caption = make("caption", { class: "unseen" }, visible(`Rows of ${this.shown.facts.path ?? this.shown.place}`));
    const table = make("table", { class: "cells" }, caption, make("thead", {}, head), make("tbody", {}, ...rows));
    const box = this.rows.querySelector(".scrolled");
    if (box) {
      box.replaceChildren(table);
      box.scrollTop = 0;
    } else {
      this.rows.replaceChildren(this.#box(table));
    }
  }

  /** @param {HTMLElement} table */
  #box(table) {
    const box = scrollBox("Rows", table);
    box.addEventListener("keydown", (event) => {
      const isAtEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 1;
      if (event.key === "PageDown" && isAtEnd && !this.after.disabled) this.after.click();
      else if (event.key === "PageUp" && box.scrollTop === 0 && !this.before.disabled) this.before.click();
      else return;
      event.preventDefault();
    });
    return box;
  }

  /** Make the head of a column; those with an order sort the rows. @param {any} head */
  #headCell(head) {
    const cut = head.shape?.length ? `(${head.shape.join(", ")})` : null;
    const kind = [head.units, head.dtype, cut].filter(Boolean).join(" · ");
    const title = [head.description, head.problem].filter(Boolean).join("; ");
    return make(
      "th",
      { scope: "col", title: title ? visible(title) : null, "aria-sort": head.order ? this.#sortOf(head.order) : null },
      head.order ? this.#sortButton(head) : visible(head.name),
      kind ? make("span", { class: "kind" }, visible(kind)) : null,
      head.problem ? make("span", { class: "problem" }, visible(head.problem)) : null,
    );
  }

  /** @param {string} order */
  #sortOf(order) {
    return { [order]: "ascending", [`-${order}`]: "descending" }[this.shown.order] ?? null;
  }

  /** Make the button that sorts up, then down, then no more. @param {{name: string, order: string}} head */
  #sortButton({ name, order }) {
    const sort = this.#sortOf(order);
    const sign = { ascending: " ↑", descending: " ↓" }[sort] ?? "";
    const next = sort === null ? order : sort === "ascending" ? `-${order}` : null;
    return makeButton(`${visible(name)}${sign}`, () => this.onChange({ rows: 0, order: next }), { class: "sort" });
  }

  /** @param {any} answer @param {any[]} row @param {number} place @param {any[]} heads */
  #row(answer, row, place, heads) {
    const label = answer.labels?.[place];
    const number = answer.start + place;
    const name = label === undefined || label === null ? String(number) : valueText(label);
    const cells = heads.map((head, column) => this.#cell(row[column], head));
    const picture = this.#hasThumbnails() ? make("td", { class: "picture" }, this.#thumbnail(row, heads)) : null;
    return make("tr", {}, make("th", { scope: "row", title: `row ${number}` }, visible(name)), picture, ...cells);
  }

  /** Return True where each row is an array, or a dataset, of which there is a picture. */
  #hasThumbnails() {
    return ["collection", "database"].includes(this.shown.facts.kind);
  }

  /** @param {any[]} row @param {any[]} heads */
  #thumbnail(row, heads) {
    const { place, facts } = this.shown;
    const [id, name] = ["id", "name"].map((title) => row[heads.findIndex((head) => head.name === title)]);
    if (facts.kind === "database") return this.thumbnails.make(`${place}/${name}`, null, name);
    return this.thumbnails.make(place, `${facts.path}/${id}`, typeof name === "string" ? name : id);
  }

  /** @param {any} cell @param {any} head */
  #cell(cell, head) {
    const isPart = cell !== null && typeof cell === "object" && cell.cut === true && "value" in cell;
    const whole = shortFloats(isPart ? cell.value : cell, head.dtype);
    const value = beginningOf(whole);
    const isCut = isPart || value !== whole;
    const isId = this.shown.facts.kind === "collection" && head.name === "id";
    const isNumber = typeof value === "number" || (value === null && /^(u?int|float)/.test(head.dtype ?? ""));
    return make(
      "td",
      { class: isNumber ? "number" : isId ? "id" : null, title: isId ? visible(valueText(value)) : null },
      ...this.#parts(value, head),
      isCut ? make("span", { class: "muted", title: "this is the beginning" }, " …") : null,
    );
  }

  /** @param {any} value @param {any} head */
  #parts(value, head) {
    if (isReference(value)) return [referenceLink(value, this.linkTo)];
    if (Array.isArray(value) && value.some(isReference)) {
      return value.flatMap((each, place) => [
        place ? ", " : "",
        isReference(each) ? referenceLink(each, this.linkTo) : valueText(each),
      ]);
    }
    const { kind, path } = this.shown.facts;
    if (kind === "collection" && head.name === "id")
      return [make("a", { href: this.linkTo(`${path}/${value}`) }, visible(value))];
    if (kind === "database" && head.name === "name") return [make("a", { href: this.linkToObject(value) }, visible(value))];
    return [visible(valueText(value), true)];
  }
}

/** Return what the rows and the columns of a part of an array are; null for other tables. */
function planeHead(plane) {
  if (!plane) return null;
  return plane.column === null ? plane.row : `${plane.row} ↓ ${plane.column} →`;
}

/** Return which columns are shown, and at what positions of the other dimensions. */
function planeText({ row, column, start, stop, size }, { facts, view }) {
  const others = facts.coordinates.filter((each) => each.dim !== row && each.dim !== column && each.size > 1);
  const places = others.map(({ dim }) => `, ${dim} ${view.at?.[dim] ?? 0}`).join("");
  const columns = column === null || (start === 0 && stop === size) ? "" : `, columns ${start} to ${stop - 1} of ${formatCount(size)}`;
  return visible(`${columns}${places}`);
}

/** @param {unknown} value */
function isShort(value) {
  return valueText(value).length <= 30;
}

/** Return a list of as many items as there is room for; anything else as it is. @param {any} value */
function beginningOf(value) {
  if (!Array.isArray(value)) return value;
  let left = MOST_LETTERS;
  const count = value.findIndex((item) => (left -= valueText(item).length + 2) < 0);
  if (count < 0) return value;
  return count ? value.slice(0, count) : [beginningOf(value[0])];
}

/** Return 32-bit floats with the digits that tell them apart, as Python writes them. @param {any} value @param {string} dtype */
function shortFloats(value, dtype) {
  if (!/float32$|f4$/.test(dtype ?? "")) return value;
  if (Array.isArray(value)) return value.map((item) => shortFloats(item, dtype));
  if (typeof value !== "number") return value;
  const digits = [6, 7, 8].find((count) => Math.fround(Number(value.toPrecision(count))) === value) ?? 9;
  return Number(value.toPrecision(digits));
}

/** Return a column for each item of a row of a 2-D array; null for what is no such array. @param {any} answer */
function spreadColumns({ columns, rows }) {
  const [head] = columns;
  if (columns.length !== 1 || head.is_ragged || head.shape?.length !== 1 || !rows.length) return null;
  const shown = Math.min(head.shown?.[0] ?? head.shape[0], MOST_SPREAD);
  return Array.from({ length: shown }, (_, place) => ({ name: String(place), dtype: head.dtype }));
}

/** @param {any} cell */
function itemsOf(cell) {
  return Array.isArray(cell) ? cell : (cell?.value ?? []);
}
