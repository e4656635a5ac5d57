/** One node in full: how it is stored, its dimensions with their coordinates, its links and attributes. */

import { formatNumber } from "./scale.js";
import { formatBytes, formatCount, formatShape, make, makeButton, visible } from "./texts.js";

// Letters and lines of an attribute that are shown before "more" is pressed.
const MOST_LETTERS = 240;
const MOST_LINES = 4;
let count = 0;

/**
 * Show a node.
 * @param {HTMLElement} element
 * @param {any} facts the answer of /api/node
 * @param {(node: string) => string} linkTo the address of another node of the dataset
 */
export function showDetails(element, facts, linkTo) {
  element.replaceChildren(
    make("h2", {}, "Details"),
    storageList(facts, linkTo),
    ...(facts.coordinates?.length ? [make("h3", {}, "Dimensions"), dimensionTable(facts, linkTo)] : []),
    make("h3", {}, "Attributes"),
    attributeTable(facts, linkTo),
  );
}

// -- storage ------------------------------------------------------------------------------------------------------------

/** @param {any} facts @param {(node: string) => string} linkTo */
function storageList(facts, linkTo) {
  const rows = [
    ["Path", facts.path],
    ["Link to", linkText(facts.link, linkTo)],
    ["Kind", [facts.kind, facts.type].filter(Boolean).join(", ")],
    ["Type", facts.dtype],
    ["Shape", facts.shape && formatShape(facts.shape)],
    ["Units", facts.units],
    ["Rows", facts.kind === "array" ? null : facts.rows],
    ["Chunks", chunkText(facts.chunks)],
    ["Shards", chunkText(facts.shards)],
    ["Codec", facts.codec],
    ["Fill value", facts.kind === "array" ? valueText(facts.fill_value) : null],
    ["Size", sizeText(facts)],
    ["Problem", facts.problem],
    ...Object.entries(facts.storage ?? {}).map(([name, value]) => [name, valueText(value)]),
    ["Format", facts.format],
    ["Dataset", facts.url],
  ];
  const list = make("dl", { class: "facts-list" });
  for (const [name, value] of rows) {
    if (value === null || value === undefined || value === "") continue;
    list.append(make("dt", {}, visible(name)), make("dd", {}, value instanceof Node ? value : visible(value)));
  }
  return list;
}

/** @param {any} link @param {(node: string) => string} linkTo */
function linkText(link, linkTo) {
  if (!link) return null;
  if (link.source && link.source !== ".") return `${link.source} ${link.target}`;
  return make("a", { href: linkTo(link.leads_to) }, visible(link.leads_to));
}

/** @param {(number|{count: number, least: number, most: number})[]|null|undefined} chunks */
function chunkText(chunks) {
  if (!chunks?.length) return null;
  return chunks
    .map((cut) => (typeof cut === "object" ? `${cut.count} of ${cut.least} to ${cut.most}` : formatCount(cut)))
    .join(" x ");
}

/** @param {any} facts */
function sizeText({ nbytes, nbytes_stored: stored }) {
  if (nbytes === null || nbytes === undefined) return null;
  const whole = formatBytes(Number(nbytes));
  if (stored === null || stored === undefined) return whole;
  const ratio = stored > 0 ? `, ${((100 * stored) / nbytes).toPrecision(2)} %` : "";
  return `${whole}, stored as ${formatBytes(Number(stored))}${nbytes > 0 && stored < nbytes ? ratio : ""}`;
}

// -- dimensions ---------------------------------------------------------------------------------------------------------

/** @param {any} facts @param {(node: string) => string} linkTo */
function dimensionTable(facts, linkTo) {
  const rows = facts.coordinates.map((dimension) => {
    const ends = dimension.ends.map((end) => (typeof end === "number" ? formatNumber(end) : valueText(end)));
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, visible(dimension.dim)),
      make("td", { class: "number" }, formatCount(dimension.size)),
      make("td", {}, dimension.problem ? visible(dimension.problem) : visible(ends.join(" … "))),
      make("td", {}, visible([dimension.units, dimension.calendar].filter(Boolean).join(", "))),
      make("td", { class: "path" }, dimension.coordinate && make("a", { href: linkTo(dimension.coordinate) }, visible(dimension.coordinate))),
    );
  });
  const head = ["Name", "Size", "Labels", "Units", "Coordinate"].map((name) => make("th", { scope: "col" }, name));
  return scrollBox("Dimensions", make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
}

// -- attributes ---------------------------------------------------------------------------------------------------------

/** @param {any} facts @param {(node: string) => string} linkTo */
function attributeTable(facts, linkTo) {
  if (!facts.attributes?.length) return make("p", { class: "muted" }, "none");
  const rows = facts.attributes.flatMap(({ name, value, cut }) => {
    const content = attributeValue(name, value, cut, linkTo);
    if (!isNested(value))
      return [make("tr", {}, make("th", { scope: "row" }, visible(name)), make("td", {}, ...content))];
    return [
      make("tr", { class: "above" }, make("th", { scope: "row", colspan: 2 }, visible(name))),
      make("tr", {}, make("td", { colspan: 2 }, ...content)),
    ];
  });
  if (!facts.attributes_are_all) {
    rows.push(make("tr", {}, make("td", { colspan: 2, class: "muted" }, `the first ${facts.attributes.length} attributes`)));
  }
  return make("table", { class: "attributes" }, make("tbody", {}, ...rows));
}

/** @param {string} name @param {unknown} value @param {string|undefined} cut @param {(node: string) => string} linkTo */
function attributeValue(name, value, cut, linkTo) {
  if (isReference(value)) return [referenceLink(value, linkTo)];
  const note = cut ? make("span", { class: "muted note" }, visible(cut)) : null;
  if (isNested(value)) return [scrollBox(name, nestedTable(value, linkTo, name)), note].filter(Boolean);
  const text = visible(valueText(value), true);
  const short = beginning(text);
  if (short === text) return [make("span", { class: "value" }, text), note].filter(Boolean);
  count += 1;
  const shown = make("span", { class: "value", id: `attribute-${count}` }, short);
  const button = makeButton(
    "more",
    () => {
      const isWhole = button.getAttribute("aria-expanded") === "true";
      shown.textContent = isWhole ? short : text;
      button.textContent = isWhole ? "more" : "less";
      button.setAttribute("aria-expanded", String(!isWhole));
    },
    { class: "small", "aria-expanded": "false", "aria-controls": shown.id, "aria-label": `more of ${name}` },
  );
  return [shown, " ", button, note].filter(Boolean);
}

/** @param {string} text */
function beginning(text) {
  const lines = text.split("\n");
  const some = lines.slice(0, MOST_LINES).join("\n").slice(0, MOST_LETTERS);
  return some.length < text.length ? `${some.toWellFormed()}…` : text;
}

// -- mappings and lists of them, as the schema of a collection ----------------------------------------------------------

/** @param {unknown} value */
function isMapping(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !isReference(value);
}

/** @param {unknown} value */
function isNested(value) {
  if (Array.isArray(value)) return value.length > 0 && value.every((item) => isMapping(item) && Object.keys(item).length > 0);
  return isMapping(value) && Object.keys(value).length > 0;
}

/**
 * Return a mapping as a table of its names, a list of mappings as one with a column for each name.
 * @param {any} value @param {(node: string) => string} linkTo @param {string} label for who does not see it
 */
function nestedTable(value, linkTo, label) {
  const cell = (item, name) => {
    if (isReference(item)) return make("td", {}, referenceLink(item, linkTo));
    if (Array.isArray(value) && isMapping(item) && !Object.values(item).some((each) => typeof each === "object" && each))
      return make("td", {}, visible(flatText(item)));
    if (isNested(item)) return make("td", {}, nestedTable(item, linkTo, name));
    return make("td", {}, item === undefined ? null : visible(valueText(item), true));
  };
  const caption = make("caption", { class: "unseen" }, visible(label));
  if (!Array.isArray(value)) {
    const rows = Object.entries(value).map(([name, item]) =>
      make("tr", {}, make("th", { scope: "row" }, visible(name)), cell(item, name)),
    );
    return make("table", { class: "nested" }, caption, make("tbody", {}, ...rows));
  }
  const names = [...new Set(value.flatMap((item) => Object.keys(item)))];
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, visible(name))));
  const rows = value.map((item) => make("tr", {}, ...names.map((name) => cell(item[name], name))));
  return make("table", { class: "nested" }, caption, make("thead", {}, head), make("tbody", {}, ...rows));
}

/** Return a mapping of plain values in a line, without those that are none. @param {any} mapping */
function flatText(mapping) {
  const known = Object.entries(mapping).filter(([, value]) => value !== null);
  return known.length ? known.map(([name, value]) => `${name} ${valueText(value)}`).join(", ") : "—";
}

// -- values -------------------------------------------------------------------------------------------------------------

/** Return a value as people read it: texts as they are, a dash for nothing, all else as JSON. @param {unknown} value */
export function valueText(value) {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return "—";
  if (Array.isArray(value)) return `[${value.map(valueText).join(", ")}]`;
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

/** @param {unknown} value */
export function isReference(value) {
  return (
    value !== null && typeof value === "object" && typeof value.path === "string" && "source" in value && "object_id" in value
  );
}

/** Return a link to what a reference leads to. @param {any} reference @param {(node: string) => string} linkTo */
export function referenceLink(reference, linkTo) {
  const region = reference.region ? ` ${regionText(reference.region)}` : "";
  if (reference.source && reference.source !== ".")
    return make("span", {}, visible(`${reference.source} ${reference.path}${region}`));
  return make("a", { href: linkTo(reference.path) }, visible(`${reference.path}${region}`));
}

/** @param {any} region */
function regionText(region) {
  if (!region.axes) return region.type === "all" ? "" : `(${region.type})`;
  const axes = region.axes.map((axis) => (axis.index ? axis.index.join(",") : `${axis.start}:${axis.stop}`));
  return `[${axes.join(", ")}]`;
}

/** Put a wide table into a box that scrolls, by keys too. @param {string} label @param {HTMLElement} table */
export function scrollBox(label, table) {
  return make("div", { class: "scrolled", tabindex: 0, role: "region", "aria-label": label }, table);
}
